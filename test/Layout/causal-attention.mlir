// Under a causal mask the last of the ranks that split the queries sees nearly all keys, and the others wait for it: with
// two ranks it has 3/2 of the average. So has the first of those that split the keys, at which all queries look. Heads are all
// alike.
//
// RUN: colossal-opt %s "--colossal-search-layouts=explain=true machine=h100 pin=^a$=sequence:x" -o /dev/null > %t.queries 2>&1
// RUN: colossal-opt %s "--colossal-search-layouts=explain=true machine=h100 pin=^a$=heads:x" -o /dev/null > %t.heads 2>&1
// RUN: %python %S/Inputs/ratio.py "attention 'a'.* ([0-9.]+) (us|ms)" %t.queries %t.heads 1.45 1.55
// RUN: colossal-opt %s "--colossal-search-layouts=explain=true machine=h100 pin=^a$=keys:x" -o /dev/null > %t.keys 2>&1
// RUN: %python %S/Inputs/ratio.py "attention 'a'.* ([0-9.]+) (us|ms)" %t.keys %t.heads 1.45 1.6
// RUN: sed 's/, causal = true//' %s > %t.mlir
// RUN: colossal-opt %t.mlir "--colossal-search-layouts=explain=true machine=h100 pin=^a$=sequence:x" -o /dev/null > %t.queries 2>&1
// RUN: colossal-opt %t.mlir "--colossal-search-layouts=explain=true machine=h100 pin=^a$=heads:x" -o /dev/null > %t.heads 2>&1
// RUN: %python %S/Inputs/ratio.py "attention 'a'.* ([0-9.]+) (us|ms)" %t.queries %t.heads 0.95 1.1
// RUN: colossal-opt %t.mlir "--colossal-search-layouts=explain=true machine=h100 pin=^a$=keys:x" -o /dev/null > %t.keys 2>&1
// RUN: %python %S/Inputs/ratio.py "attention 'a'.* ([0-9.]+) (us|ms)" %t.keys %t.heads 0.95 1.1
module attributes {dist.mesh = #dist.mesh<["x" = 2]>} {
  func.func @main(%q: tensor<1x8x65536x64xbf16> {colossal.name = "q"}, %k: tensor<1x8x65536x64xbf16> {colossal.name = "k"}, %v: tensor<1x8x65536x64xbf16> {colossal.name = "v"}) -> (tensor<1x8x65536x64xbf16> {colossal.name = "y"}) {
    %a = colossal.attention(%q, %k, %v) {scale = 1.25e-1 : f64, causal = true} : (tensor<1x8x65536x64xbf16>, tensor<1x8x65536x64xbf16>, tensor<1x8x65536x64xbf16>) -> tensor<1x8x65536x64xbf16> loc("a")
    return %a : tensor<1x8x65536x64xbf16>
  }
}
