// A table that is the head, too, lies as the head takes it, though it is cheaper here to gather the table than to sum so many rows.
//
// RUN: colossal-opt %s "--colossal-search-layouts=explain=true machine=h100 layout=1d" -o /dev/null 2>&1 | FileCheck %s --check-prefix=ONE
// RUN: colossal-opt %s "--colossal-search-layouts=explain=true machine=h100 layout=ulysses" -o /dev/null 2>&1 | FileCheck %s --check-prefix=ULYSSES

// ONE: gather 'lookup': vocabulary:x
// ONE: contract 'head': n:x
// ONE: parameter 'table': [512:x,64]
// ULYSSES: parameter 'table': [512,64]
module attributes {dist.mesh = #dist.mesh<["x" = 4]>} {
func.func @tied(%ids: tensor<64x128xi64>) -> tensor<64x128x512xf32> {
  %table = colossal.parameter "table" {file = "", offset = 0 : i64, bytes = 131072 : i64} : tensor<512x64xf32> loc("table")
  %rows = colossal.gather %table[%ids] {axis = 0 : i64} : tensor<512x64xf32>, tensor<64x128xi64> -> tensor<64x128x64xf32> loc("lookup")
  %y = colossal.contract %rows [0, 1, 2], %table [3, 2] -> [0, 1, 3] : (tensor<64x128x64xf32>, tensor<512x64xf32>) -> tensor<64x128x512xf32> loc("head")
  return %y : tensor<64x128x512xf32>
}
}
