// A normalization between two contractions, as in the head of a masked language model, multiplies no activations with others: ulysses leaves it its
// places.
// RUN: colossal-opt %s "--colossal-search-layouts=machine=h100 layout=ulysses" | FileCheck %s

// CHECK: colossal.normalize layer({{.*}}dist.assignment = [array<i64>, array<i64: 0>, array<i64>]
// CHECK: colossal.contract {{.*}}dist.assignment = [array<i64>, array<i64: 0>, array<i64>, array<i64>]
module attributes {dist.mesh = #dist.mesh<["x" = 4]>} {
func.func @head(%x: tensor<2x16x64xf32>) -> tensor<2x16x96xf32> {
  %w = colossal.parameter "w" {file = "", offset = 0 : i64, bytes = 16384 : i64} : tensor<64x64xf32> loc("w")
  %g = colossal.parameter "g" {file = "", offset = 16384 : i64, bytes = 256 : i64} : tensor<64xf32> loc("g")
  %o = colossal.parameter "o" {file = "", offset = 16640 : i64, bytes = 24576 : i64} : tensor<64x96xf32> loc("o")
  %y = colossal.contract %x [0, 1, 2], %w [2, 3] -> [0, 1, 3] : (tensor<2x16x64xf32>, tensor<64x64xf32>) -> tensor<2x16x64xf32> loc("in")
  %n = colossal.normalize layer(%y, scale %g) {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x16x64xf32>, tensor<64xf32>) -> tensor<2x16x64xf32> loc("norm")
  %z = colossal.contract %n [0, 1, 2], %o [2, 3] -> [0, 1, 3] : (tensor<2x16x64xf32>, tensor<64x96xf32>) -> tensor<2x16x96xf32> loc("out")
  return %z : tensor<2x16x96xf32>
}
}
