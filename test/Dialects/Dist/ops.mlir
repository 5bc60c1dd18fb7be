// Every op and attribute of the Dist dialect survives printing and parsing, in both forms.
// RUN: colossal-opt %s -split-input-file | colossal-opt -split-input-file | FileCheck %s
// RUN: colossal-opt %s -split-input-file --mlir-print-op-generic | colossal-opt -split-input-file | FileCheck %s
// CHECK: dist.mesh = #dist.mesh<["data" = 2, "model" = 4]>
module attributes {dist.mesh = #dist.mesh<["data" = 2, "model" = 4]>} {
  // CHECK: %arg0: tensor<8x2304xf32> {dist.sharding = #dist.sharding<[8:(0)], [3, 12:(1), 64]>}
  func.func @main(%x: tensor<8x2304xf32> {dist.sharding = #dist.sharding<[8:(0)], [3, 12:(1), 64]>}) -> tensor<8x2304xf32> {
    // CHECK: %[[C:.*]] = dist.coordinate 1
    %c = dist.coordinate 1
    // CHECK: dist.mask_padding %arg0[%[[C]], %[[C]]] {extents = array<i64: 8, 3, 12, 64>, fill = 0xFFF0000000000000 : f64, masked = array<i64: 0, 2>} : tensor<8x2304xf32>
    %0 = dist.mask_padding %x[%c, %c] {extents = array<i64: 8, 3, 12, 64>, masked = array<i64: 0, 2>, fill = 0xFFF0000000000000 : f64} : tensor<8x2304xf32>
    // CHECK: dist.exchange %{{.*}}, from %[[C]] valid %[[C]] to %[[C]] {axes = array<i64: 0>, dim = 0 : i64, fill = 0.000000e+00 : f64} : tensor<8x2304xf32> -> tensor<6x2304xf32>
    %1 = dist.exchange %0, from %c valid %c to %c {dim = 0 : i64, axes = array<i64: 0>, fill = 0.0 : f64} : tensor<8x2304xf32> -> tensor<6x2304xf32>
    // CHECK: dist.permute %arg0 from %[[C]] {axes = array<i64: 1, 0>} : tensor<8x2304xf32>
    %2 = dist.permute %x from %c {axes = array<i64: 1, 0>} : tensor<8x2304xf32>
    return %2 : tensor<8x2304xf32>
  }
}

// -----
// A loop over four parts of a tensor.
// CHECK: dist.mesh = #dist.mesh<["model" = 2, "microbatch" = 4 loop]>
module attributes {dist.mesh = #dist.mesh<["model" = 2, "microbatch" = 4 loop]>} {
  func.func @main(%x: tensor<8x16xf32>) -> tensor<2x16xf32> {
    // CHECK: dist.loop_slice %arg0 {axis = 1 : i64, dim = 0 : i64} : tensor<8x16xf32> -> tensor<2x16xf32>
    %0 = dist.loop_slice %x {axis = 1 : i64, dim = 0 : i64} : tensor<8x16xf32> -> tensor<2x16xf32>
    return %0 : tensor<2x16xf32>
  }
}
