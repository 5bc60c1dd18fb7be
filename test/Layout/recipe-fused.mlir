// Queries, keys and values of one projection, of which keys have fewer heads: each rank reads its heads' columns of the weights, and none sends any.
// Over more ranks than there are heads of keys, each that reads a head makes it.
//
// RUN: colossal-opt %s "--colossal-split-fused-contractions=reads-parts=true" "--colossal-search-layouts=explain=true machine=h100 layout=1d" -o /dev/null 2>&1 | FileCheck %s --implicit-check-not=all-gather --implicit-check-not=all-to-all --implicit-check-not=warning
// RUN: colossal-opt %s "--colossal-split-fused-contractions=reads-parts=true" "--colossal-search-layouts=machine=h100 layout=1d" --colossal-partition | FileCheck %s --check-prefix=LOCAL

// CHECK: contract 'qkv': n.0:x,n.1:y,
// CHECK: contract 'qkv#2': n.0:x,
// CHECK: contract 'qkv#3': n.0:x,
// CHECK: attention 'a': heads:x,group:y
// CHECK: parameter 'w[:,0:64]': [64,2:x*4:y*8]
// CHECK: parameter 'w[:,64:80]': [64,2:x*8]
// CHECK: bytes sent per rank: all-reduce 12.0 KiB in 1;
// LOCAL: colossal.parameter "w[:,64:80]" {{.*}}dist.part_of = {{.*}} tensor<64x8xf32>
module attributes {dist.mesh = #dist.mesh<["x" = 2, "y" = 2]>} {
func.func @attention(%x: tensor<2x16x64xf32>) -> tensor<2x16x64xf32> {
  %w = colossal.parameter "w" {file = "", offset = 0 : i64, bytes = 24576 : i64} : tensor<64x96xf32> loc("w")
  %wo = colossal.parameter "wo" {file = "", offset = 24576 : i64, bytes = 16384 : i64} : tensor<64x64xf32> loc("wo")
  %y = colossal.contract %x [0, 1, 2], %w [2, 3] -> [0, 1, 3] : (tensor<2x16x64xf32>, tensor<64x96xf32>) -> tensor<2x16x96xf32> loc("qkv")
  %q0 = colossal.slice %y [0, 0, 0] by [1, 1, 1] : tensor<2x16x96xf32> -> tensor<2x16x64xf32> loc("q0")
  %q1 = colossal.reshape %q0 : tensor<2x16x64xf32> -> tensor<2x16x8x8xf32> loc("q1")
  %q2 = colossal.transpose %q1 [0, 2, 1, 3] : tensor<2x16x8x8xf32> -> tensor<2x8x16x8xf32> loc("q2")
  %k0 = colossal.slice %y [0, 0, 64] by [1, 1, 1] : tensor<2x16x96xf32> -> tensor<2x16x16xf32> loc("k0")
  %k1 = colossal.reshape %k0 : tensor<2x16x16xf32> -> tensor<2x16x2x8xf32> loc("k1")
  %k2 = colossal.transpose %k1 [0, 2, 1, 3] : tensor<2x16x2x8xf32> -> tensor<2x2x16x8xf32> loc("k2")
  %v0 = colossal.slice %y [0, 0, 80] by [1, 1, 1] : tensor<2x16x96xf32> -> tensor<2x16x16xf32> loc("v0")
  %v1 = colossal.reshape %v0 : tensor<2x16x16xf32> -> tensor<2x16x2x8xf32> loc("v1")
  %v2 = colossal.transpose %v1 [0, 2, 1, 3] : tensor<2x16x2x8xf32> -> tensor<2x2x16x8xf32> loc("v2")
  %a = colossal.attention(%q2, %k2, %v2) {scale = 0.5 : f64, causal = true} : (tensor<2x8x16x8xf32>, tensor<2x2x16x8xf32>, tensor<2x2x16x8xf32>) -> tensor<2x8x16x8xf32> loc("a")
  %s = colossal.transpose %a [0, 2, 1, 3] : tensor<2x8x16x8xf32> -> tensor<2x16x8x8xf32> loc("s")
  %r = colossal.reshape %s : tensor<2x16x8x8xf32> -> tensor<2x16x64xf32> loc("r")
  %z = colossal.contract %r [0, 1, 2], %wo [2, 3] -> [0, 1, 3] : (tensor<2x16x64xf32>, tensor<64x64xf32>) -> tensor<2x16x64xf32> loc("out")
  return %z : tensor<2x16x64xf32>
}
}
