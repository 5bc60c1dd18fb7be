// Where no factor of an attention takes an axis that a recipe puts on heads, a warning says which there are.
//
// RUN: colossal-opt %s "--colossal-search-layouts=machine=h100 layout=1d" -o /dev/null 2>&1 | FileCheck %s

// CHECK: warning: {{.*}}'a' cannot be laid out as '1d' asks: an axis stands on one of 'heads' (2), and some axis fits none of them
module attributes {dist.mesh = #dist.mesh<["x" = 4]>} {
func.func @attention(%x: tensor<2x16x64xf32>) -> tensor<2x16x64xf32> {
  %w = colossal.parameter "w" {file = "", offset = 0 : i64, bytes = 16384 : i64} : tensor<64x64xf32> loc("w")
  %o = colossal.parameter "o" {file = "", offset = 16384 : i64, bytes = 16384 : i64} : tensor<64x64xf32> loc("o")
  %y = colossal.contract %x [0, 1, 2], %w [2, 3] -> [0, 1, 3] : (tensor<2x16x64xf32>, tensor<64x64xf32>) -> tensor<2x16x64xf32> loc("in")
  %r = colossal.reshape %y : tensor<2x16x64xf32> -> tensor<2x16x2x32xf32> loc("r")
  %t = colossal.transpose %r [0, 2, 1, 3] : tensor<2x16x2x32xf32> -> tensor<2x2x16x32xf32> loc("t")
  %a = colossal.attention(%t, %t, %t) {scale = 0.125 : f64, causal = true} : (tensor<2x2x16x32xf32>, tensor<2x2x16x32xf32>, tensor<2x2x16x32xf32>) -> tensor<2x2x16x32xf32> loc("a")
  %s = colossal.transpose %a [0, 2, 1, 3] : tensor<2x2x16x32xf32> -> tensor<2x16x2x32xf32> loc("s")
  %v = colossal.reshape %s : tensor<2x16x2x32xf32> -> tensor<2x16x64xf32> loc("v")
  %z = colossal.contract %v [0, 1, 2], %o [2, 3] -> [0, 1, 3] : (tensor<2x16x64xf32>, tensor<64x64xf32>) -> tensor<2x16x64xf32> loc("out")
  return %z : tensor<2x16x64xf32>
}
}
