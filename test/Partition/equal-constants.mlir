// A constant whose elements are all equal is made in the layout in which it is read: ranks exchange nothing of it.
// RUN: colossal-opt %s --colossal-partition | FileCheck %s
// CHECK-LABEL: func.func @main
// CHECK-NOT: shard.
// CHECK: colossal.constant dense<1.000000e+00> : tensor<4x4xf32>
// CHECK-NOT: shard.
// CHECK: return
module attributes {dist.mesh = #dist.mesh<["data" = 2]>} {
  func.func @main(%x: tensor<8x4xf32> {dist.sharding = #dist.sharding<[8:(0)], [4]>}) -> (tensor<8x4xf32> {dist.sharding = #dist.sharding<[8:(0)], [4]>}) {
    %c = colossal.constant {dist.assignment = [array<i64>, array<i64: 0>]} dense<1.0> : tensor<8x4xf32> : tensor<8x4xf32>
    %y = colossal.elementwise add(%x, %c) {dist.assignment = [array<i64: 0>, array<i64>, array<i64>]} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    return %y : tensor<8x4xf32>
  }
}
