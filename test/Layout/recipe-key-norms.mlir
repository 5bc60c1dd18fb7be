// Keys of fewer heads than there are ranks are made on all ranks that read them, normalized ones, too: nothing is gathered.
// RUN: colossal-opt %s "--colossal-search-layouts=machine=h100 layout=1d" --colossal-partition | FileCheck %s

// CHECK-NOT: shard.all_gather
// CHECK: shard.all_reduce
// CHECK-NOT: shard.all_gather
module attributes {dist.mesh = #dist.mesh<["x" = 2, "y" = 2]>} {
func.func @attention(%x: tensor<2x16x64xf32>) -> tensor<2x16x64xf32> {
  %q = colossal.parameter "q" {file = "", offset = 0 : i64, bytes = 16384 : i64} : tensor<64x64xf32> loc("q")
  %k = colossal.parameter "k" {file = "", offset = 16384 : i64, bytes = 8192 : i64} : tensor<64x32xf32> loc("k")
  %v = colossal.parameter "v" {file = "", offset = 24576 : i64, bytes = 8192 : i64} : tensor<64x32xf32> loc("v")
  %o = colossal.parameter "o" {file = "", offset = 32768 : i64, bytes = 16384 : i64} : tensor<64x64xf32> loc("o")
  %g = colossal.parameter "g" {file = "", offset = 49152 : i64, bytes = 64 : i64} : tensor<16xf32> loc("g")
  %q0 = colossal.contract %x [0, 1, 2], %q [2, 3] -> [0, 1, 3] : (tensor<2x16x64xf32>, tensor<64x64xf32>) -> tensor<2x16x64xf32> loc("queries")
  %k0 = colossal.contract %x [0, 1, 2], %k [2, 3] -> [0, 1, 3] : (tensor<2x16x64xf32>, tensor<64x32xf32>) -> tensor<2x16x32xf32> loc("keys")
  %v0 = colossal.contract %x [0, 1, 2], %v [2, 3] -> [0, 1, 3] : (tensor<2x16x64xf32>, tensor<64x32xf32>) -> tensor<2x16x32xf32> loc("values")
  %q1 = colossal.reshape %q0 : tensor<2x16x64xf32> -> tensor<2x16x4x16xf32> loc("q1")
  %k1 = colossal.reshape %k0 : tensor<2x16x32xf32> -> tensor<2x16x2x16xf32> loc("k1")
  %v1 = colossal.reshape %v0 : tensor<2x16x32xf32> -> tensor<2x16x2x16xf32> loc("v1")
  %k2 = colossal.normalize rms(%k1, scale %g) {axis = 3 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x16x2x16xf32>, tensor<16xf32>) -> tensor<2x16x2x16xf32> loc("norm")
  %q3 = colossal.transpose %q1 [0, 2, 1, 3] : tensor<2x16x4x16xf32> -> tensor<2x4x16x16xf32> loc("q3")
  %k3 = colossal.transpose %k2 [0, 2, 1, 3] : tensor<2x16x2x16xf32> -> tensor<2x2x16x16xf32> loc("k3")
  %v3 = colossal.transpose %v1 [0, 2, 1, 3] : tensor<2x16x2x16xf32> -> tensor<2x2x16x16xf32> loc("v3")
  %a = colossal.attention(%q3, %k3, %v3) {scale = 0.25 : f64, causal = true} : (tensor<2x4x16x16xf32>, tensor<2x2x16x16xf32>, tensor<2x2x16x16xf32>) -> tensor<2x4x16x16xf32> loc("a")
  %s = colossal.transpose %a [0, 2, 1, 3] : tensor<2x4x16x16xf32> -> tensor<2x16x4x16xf32> loc("s")
  %r = colossal.reshape %s : tensor<2x16x4x16xf32> -> tensor<2x16x64xf32> loc("r")
  %z = colossal.contract %r [0, 1, 2], %o [2, 3] -> [0, 1, 3] : (tensor<2x16x64xf32>, tensor<64x64xf32>) -> tensor<2x16x64xf32> loc("out")
  return %z : tensor<2x16x64xf32>
}
}
