// RUN: colossal-opt %s --split-input-file --colossal-partition | FileCheck %s

// Column-then-row: the first contraction splits n, the second k; one all-reduce at the end.
module attributes {dist.mesh = #dist.mesh<["model" = 4]>} {
  // CHECK: shard.grid @mesh(shape = 4)
  // CHECK-LABEL: func.func @mlp(
  // CHECK-SAME: %[[X:.*]]: tensor<8x16xf32> {dist.sharding = #dist.sharding<[8], [16]>}
  func.func @mlp(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
    // CHECK: %[[W1:.*]] = colossal.parameter "w1" {{.*}}dist.sharding = #dist.sharding<[16], [64:(0)]>{{.*}} : tensor<16x16xf32>
    %w1 = colossal.parameter "w1" {file = "", offset = 0 : i64, bytes = 4096 : i64, dist.assignment = [array<i64>, array<i64: 0>]} : tensor<16x64xf32>
    %w2 = colossal.parameter "w2" {file = "", offset = 0 : i64, bytes = 4096 : i64, dist.assignment = [array<i64: 0>, array<i64>]} : tensor<64x16xf32>
    // CHECK: %[[H:.*]] = colossal.contract %[[X]] [0, 1], %[[W1]] [1, 2] -> [0, 2] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
    %h = colossal.contract %x [0, 1], %w1 [1, 2] -> [0, 2] {dist.assignment = [array<i64>, array<i64>, array<i64: 0>]} : (tensor<8x16xf32>, tensor<16x64xf32>) -> tensor<8x64xf32>
    // CHECK: %[[G:.*]] = colossal.elementwise gelu(%[[H]])
    %g = colossal.elementwise gelu(%h) {dist.assignment = [array<i64>, array<i64: 0>]} : (tensor<8x64xf32>) -> tensor<8x64xf32>
    // CHECK: %[[Y:.*]] = colossal.contract %[[G]]
    %y = colossal.contract %g [0, 1], %w2 [1, 2] -> [0, 2] {dist.assignment = [array<i64>, array<i64: 0>, array<i64>]} : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
    // CHECK: %[[R:.*]] = shard.all_reduce %[[Y]] on @mesh grid_axes = [0] {{.*}}: tensor<8x16xf32> -> tensor<8x16xf32>
    // CHECK: return %[[R]]
    return %y : tensor<8x16xf32>
  }
}

// -----

// Without a mesh and layouts nothing changes but the attributes.
// CHECK-LABEL: func.func @trivial(
// CHECK: colossal.reshape
func.func @trivial(%x: tensor<8x16xf32>) -> tensor<128xf32> {
  %y = colossal.reshape %x : tensor<8x16xf32> -> tensor<128xf32>
  return %y : tensor<128xf32>
}

// -----

// A fused QKV contraction keeps head boundaries: n is seen as 3 x 12 x 64, and the middle is split.
module attributes {dist.mesh = #dist.mesh<["data" = 2, "model" = 4]>} {
  // CHECK-LABEL: func.func @qkv(
  func.func @qkv(%x: tensor<4x128x768xf32> {dist.sharding = #dist.sharding<[4:(0)], [128], [768]>}) -> (tensor<4x128x12x64xf32> {dist.sharding = #dist.sharding<[4:(0)], [128], [12:(1)], [64]>}) {
    // CHECK: colossal.parameter {{.*}}#dist.sharding<[768], [3, 12:(1), 64]>{{.*}} : tensor<768x576xf32>
    %w = colossal.parameter "w" {file = "", offset = 0 : i64, bytes = 4096 : i64, dist.assignment = [array<i64>, array<i64>, array<i64: 1>, array<i64>]} : tensor<768x2304xf32>
    // CHECK: colossal.contract {{.*}} -> tensor<2x128x576xf32>
    %y = colossal.contract %x [0, 1, 2], %w [2, 3] -> [0, 1, 3] {dist.assignment = [array<i64: 0>, array<i64>, array<i64>, array<i64>, array<i64: 1>, array<i64>]} : (tensor<4x128x768xf32>, tensor<768x2304xf32>) -> tensor<4x128x2304xf32>
    // CHECK: colossal.slice {{.*}} [0, 0, 192] by [1, 1, 1] : tensor<2x128x576xf32> -> tensor<2x128x192xf32>
    %k = colossal.slice %y [0, 0, 768] by [1, 1, 1] {dist.assignment = [array<i64: 0>, array<i64>, array<i64>, array<i64: 1>, array<i64>, array<i64>]} : tensor<4x128x2304xf32> -> tensor<4x128x768xf32>
    // CHECK: colossal.reshape {{.*}} : tensor<2x128x192xf32> -> tensor<2x128x3x64xf32>
    // CHECK-NEXT: return
    %r = colossal.reshape %k {dist.assignment = [array<i64: 0>, array<i64>, array<i64: 1>, array<i64>, array<i64>]} : tensor<4x128x768xf32> -> tensor<4x128x12x64xf32>
    return %r : tensor<4x128x12x64xf32>
  }
}

// -----

// Uneven: 10 over 4 ranks is 3 each; sums need zeros in the padding.
module attributes {dist.mesh = #dist.mesh<["x" = 4]>} {
  // CHECK-LABEL: func.func @uneven(
  func.func @uneven(%x: tensor<10x8xf32> {dist.sharding = #dist.sharding<[10:(0)], [8]>}) -> tensor<8xf32> {
    // CHECK: dist.mask_padding {{.*}}extents = array<i64: 3, 8>{{.*}}masked = array<i64: 0>
    // CHECK: colossal.reduce sum {{.*}} tensor<3x8xf32> -> tensor<8xf32>
    // CHECK: shard.all_reduce
    %y = colossal.reduce sum %x over [0] {dist.assignment = [array<i64: 0>, array<i64>]} : tensor<10x8xf32> -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}

// -----

// Vocabulary parallel lookup, reduce-scattered to a split sequence.
module attributes {dist.mesh = #dist.mesh<["x" = 2]>} {
  // CHECK-LABEL: func.func @lookup(
  func.func @lookup(%i: tensor<6xi64>) -> (tensor<6x4xf32> {dist.sharding = #dist.sharding<[6:(0)], [4]>}) {
    %w = colossal.parameter "w" {file = "", offset = 0 : i64, bytes = 4096 : i64, dist.assignment = [array<i64: 0>, array<i64>]} : tensor<100x4xf32>
    // CHECK: %[[C:.*]] = dist.coordinate 0
    // CHECK: %[[O:.*]] = arith.muli %[[C]]
    // CHECK: colossal.gather {{.*}} offset %[[O]] {axis = 0 : i64, extent = 100 : i64} : tensor<50x4xf32>, tensor<6xi64> -> tensor<6x4xf32>
    %y = colossal.gather %w[%i] {axis = 0 : i64, dist.assignment = [array<i64>, array<i64: 0>, array<i64>]} : tensor<100x4xf32>, tensor<6xi64> -> tensor<6x4xf32>
    // CHECK: shard.reduce_scatter {{.*}} scatter_axis = 0 : tensor<6x4xf32> -> tensor<3x4xf32>
    return %y : tensor<6x4xf32>
  }
}

// -----

// Height split with a halo.
module attributes {dist.mesh = #dist.mesh<["x" = 2]>} {
  // CHECK-LABEL: func.func @halo(
  func.func @halo(%x: tensor<1x3x8x8xf32> {dist.sharding = #dist.sharding<[1], [3], [8:(0)], [8]>}) -> (tensor<1x4x8x8xf32> {dist.sharding = #dist.sharding<[1], [4], [8:(0)], [8]>}) {
    %w = colossal.parameter "w" {file = "", offset = 0 : i64, bytes = 432 : i64} : tensor<4x3x3x3xf32>
    // CHECK: dist.exchange {{.*}}dim = 2{{.*}} : tensor<1x3x4x8xf32> -> tensor<1x3x6x8xf32>
    // CHECK: colossal.conv{{.*}}pads = array<i64: 0, 1, 0, 1>
    %y = colossal.conv(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, group = 1 : i64, dist.assignment = [array<i64>, array<i64>, array<i64>, array<i64>, array<i64: 0>, array<i64>, array<i64>, array<i64>]} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x8x8xf32>
    return %y : tensor<1x4x8x8xf32>
  }
}
