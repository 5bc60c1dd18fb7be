// Axes that share a factor stand in either order, and may be idle. A sum over x of rows that are split over y is
// scattered into rows over y and x, in this order, and gathered again: in the mesh's own order it could not be.
//
// (Braces keep a pin's commas together.)
// RUN: colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{machine=h100 pin={{fc=m:y,k:x}} pin={{proj=m:y,n:x}} explain=true})' -o /dev/null 2>&1 | FileCheck %s

// CHECK: contract 'fc': m:y,k:x
// CHECK: softmax 'act': d0:y+x, {{.*}} us, reduce-scatter 64.0 MiB
// CHECK: contract 'proj': m:y,n:x, {{.*}} ms, all-gather 64.0 MiB
module attributes {dist.mesh = #dist.mesh<["x" = 2, "y" = 2]>} {
  func.func @main(%x: tensor<8192x8192xf32> {colossal.name = "x"}) -> (tensor<8192x8192xf32> {colossal.name = "y"}) {
    %w1 = colossal.parameter "w1" {file = "", offset = 0 : i64, bytes = 268435456 : i64} : tensor<8192x8192xf32>
    %w2 = colossal.parameter "w2" {file = "", offset = 268435456 : i64, bytes = 268435456 : i64} : tensor<8192x8192xf32>
    %h = colossal.contract %x [0, 1], %w1 [1, 2] -> [0, 2] : (tensor<8192x8192xf32>, tensor<8192x8192xf32>) -> tensor<8192x8192xf32> loc("fc")
    %g = colossal.softmax %h {axis = 1 : i64} : tensor<8192x8192xf32> loc("act")
    %y = colossal.contract %g [0, 1], %w2 [1, 2] -> [0, 2] : (tensor<8192x8192xf32>, tensor<8192x8192xf32>) -> tensor<8192x8192xf32> loc("proj")
    return %y : tensor<8192x8192xf32>
  }
}
