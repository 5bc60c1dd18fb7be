// Four heads of keys for eight of queries over a mesh of 2 x 4: only the larger axis divides the heads of keys, so the smaller takes the queries of a head.
//
// RUN: colossal-opt %s "--colossal-search-layouts=explain=true machine=h100 layout=1d" -o /dev/null 2>&1 | FileCheck %s --implicit-check-not=all-gather --implicit-check-not=warning

// CHECK: contract 'k': n.0:y,
// CHECK: contract 'v': n.0:y,
// CHECK: attention 'a': heads:y,group:x
// CHECK: parameter 'wk': [64,4:y*8]
module attributes {dist.mesh = #dist.mesh<["x" = 2, "y" = 4]>} {
func.func @attention(%x: tensor<2x16x64xf32>) -> tensor<2x16x64xf32> {
  %wq = colossal.parameter "wq" {file = "", offset = 0 : i64, bytes = 16384 : i64} : tensor<64x64xf32> loc("wq")
  %wk = colossal.parameter "wk" {file = "", offset = 16384 : i64, bytes = 8192 : i64} : tensor<64x32xf32> loc("wk")
  %wv = colossal.parameter "wv" {file = "", offset = 24576 : i64, bytes = 8192 : i64} : tensor<64x32xf32> loc("wv")
  %wo = colossal.parameter "wo" {file = "", offset = 32768 : i64, bytes = 16384 : i64} : tensor<64x64xf32> loc("wo")
  %q0 = colossal.contract %x [0, 1, 2], %wq [2, 3] -> [0, 1, 3] : (tensor<2x16x64xf32>, tensor<64x64xf32>) -> tensor<2x16x64xf32> loc("q")
  %q1 = colossal.reshape %q0 : tensor<2x16x64xf32> -> tensor<2x16x8x8xf32> loc("q1")
  %q2 = colossal.transpose %q1 [0, 2, 1, 3] : tensor<2x16x8x8xf32> -> tensor<2x8x16x8xf32> loc("q2")
  %k0 = colossal.contract %x [0, 1, 2], %wk [2, 3] -> [0, 1, 3] : (tensor<2x16x64xf32>, tensor<64x32xf32>) -> tensor<2x16x32xf32> loc("k")
  %k1 = colossal.reshape %k0 : tensor<2x16x32xf32> -> tensor<2x16x4x8xf32> loc("k1")
  %k2 = colossal.transpose %k1 [0, 2, 1, 3] : tensor<2x16x4x8xf32> -> tensor<2x4x16x8xf32> loc("k2")
  %v0 = colossal.contract %x [0, 1, 2], %wv [2, 3] -> [0, 1, 3] : (tensor<2x16x64xf32>, tensor<64x32xf32>) -> tensor<2x16x32xf32> loc("v")
  %v1 = colossal.reshape %v0 : tensor<2x16x32xf32> -> tensor<2x16x4x8xf32> loc("v1")
  %v2 = colossal.transpose %v1 [0, 2, 1, 3] : tensor<2x16x4x8xf32> -> tensor<2x4x16x8xf32> loc("v2")
  %a = colossal.attention(%q2, %k2, %v2) {scale = 0.5 : f64, causal = true} : (tensor<2x8x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x8x16x8xf32> loc("a")
  %s = colossal.transpose %a [0, 2, 1, 3] : tensor<2x8x16x8xf32> -> tensor<2x16x8x8xf32> loc("s")
  %r = colossal.reshape %s : tensor<2x16x8x8xf32> -> tensor<2x16x64xf32> loc("r")
  %z = colossal.contract %r [0, 1, 2], %wo [2, 3] -> [0, 1, 3] : (tensor<2x16x64xf32>, tensor<64x64xf32>) -> tensor<2x16x64xf32> loc("out")
  return %z : tensor<2x16x64xf32>
}
}
