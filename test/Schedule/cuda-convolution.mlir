// Convolutions for GPUs: windows of one element are the library's, others the contraction's kernel's, over an input with room for
// the padding; groups of few channels have kernels of their own, with what follows, but for three spatial dimensions.
// RUN: colossal-opt %s --split-input-file --colossal-schedule="target=cuda:sm_90 compile-kernels=false" | FileCheck %s

// The channels of each place are a row of the library's matrix; the bias is added behind, with what follows.
// CHECK-LABEL: plan.program @main infer
// CHECK: plan.contraction
// CHECK-SAME: sizes = array<i64: 2, 6, 20, 4>
// CHECK: plan.launch @add_relu
// CHECK-NOT: plan.launch
module attributes {dist.mesh = #dist.mesh<["x" = 1]>} {
  func.func @main(%x: tensor<2x4x4x5xf32> {colossal.name = "x", dist.sharding = #dist.sharding<[2], [4], [4], [5]>}, %w: tensor<6x4x1x1xf32> {colossal.name = "w", dist.sharding = #dist.sharding<[6], [4], [1], [1]>}, %b: tensor<6xf32> {colossal.name = "b", dist.sharding = #dist.sharding<[6]>})
      -> (tensor<2x6x4x5xf32> {colossal.name = "y", dist.sharding = #dist.sharding<[2], [6], [4], [5]>}) {
    %0 = colossal.conv(%x, %w, %b) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, group = 1 : i64} : (tensor<2x4x4x5xf32>, tensor<6x4x1x1xf32>, tensor<6xf32>) -> tensor<2x6x4x5xf32>
    %1 = colossal.elementwise relu(%0) : (tensor<2x6x4x5xf32>) -> tensor<2x6x4x5xf32>
    return %1 : tensor<2x6x4x5xf32>
  }
}

// -----

// CHECK-LABEL: plan.program @main infer
// CHECK-NOT: plan.contraction
// CHECK: plan.launch @convolve
// CHECK-NOT: plan.contraction
module attributes {dist.mesh = #dist.mesh<["x" = 1]>} {
  func.func @main(%x: tensor<2x4x7x7xf32> {colossal.name = "x", dist.sharding = #dist.sharding<[2], [4], [7], [7]>}, %w: tensor<6x4x3x3xf32> {colossal.name = "w", dist.sharding = #dist.sharding<[6], [4], [3], [3]>})
      -> (tensor<2x6x4x4xf32> {colossal.name = "y", dist.sharding = #dist.sharding<[2], [6], [4], [4]>}) {
    %0 = colossal.conv(%x, %w) {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, group = 1 : i64} : (tensor<2x4x7x7xf32>, tensor<6x4x3x3xf32>) -> tensor<2x6x4x4xf32>
    return %0 : tensor<2x6x4x4xf32>
  }
}

// -----

// Depthwise: bias, padding and what follows in one launch.
// CHECK-LABEL: plan.program @main infer
// CHECK-NOT: plan.fill
// CHECK: plan.launch @convolve_groups_relu
// CHECK-NOT: plan.launch
module attributes {dist.mesh = #dist.mesh<["x" = 1]>} {
  func.func @main(%x: tensor<2x4x7x7xf32> {colossal.name = "x", dist.sharding = #dist.sharding<[2], [4], [7], [7]>}, %w: tensor<8x1x3x3xf32> {colossal.name = "w", dist.sharding = #dist.sharding<[8], [1], [3], [3]>}, %b: tensor<8xf32> {colossal.name = "b", dist.sharding = #dist.sharding<[8]>}, %r: tensor<2x8x7x7xf32> {colossal.name = "r", dist.sharding = #dist.sharding<[2], [8], [7], [7]>})
      -> (tensor<2x8x7x7xf32> {colossal.name = "y", dist.sharding = #dist.sharding<[2], [8], [7], [7]>}) {
    %0 = colossal.conv(%x, %w, %b) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, group = 4 : i64} : (tensor<2x4x7x7xf32>, tensor<8x1x3x3xf32>, tensor<8xf32>) -> tensor<2x8x7x7xf32>
    %1 = colossal.elementwise add(%0, %r) : (tensor<2x8x7x7xf32>, tensor<2x8x7x7xf32>) -> tensor<2x8x7x7xf32>
    %2 = colossal.elementwise relu(%1) : (tensor<2x8x7x7xf32>) -> tensor<2x8x7x7xf32>
    return %2 : tensor<2x8x7x7xf32>
  }
}

// -----

// Transposed: one kernel for each remainder of the result's places by the strides.
// CHECK-LABEL: plan.program @main infer
// CHECK-COUNT-4: plan.launch @convolve_groups
// CHECK-NOT: plan.launch @convolve
module attributes {dist.mesh = #dist.mesh<["x" = 1]>} {
  func.func @main(%x: tensor<2x4x7x7xf32> {colossal.name = "x", dist.sharding = #dist.sharding<[2], [4], [7], [7]>}, %w: tensor<4x1x3x3xf32> {colossal.name = "w", dist.sharding = #dist.sharding<[4], [1], [3], [3]>})
      -> (tensor<2x4x15x15xf32> {colossal.name = "y", dist.sharding = #dist.sharding<[2], [4], [15], [15]>}) {
    %0 = colossal.conv_transpose(%x, %w) {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, group = 4 : i64} : (tensor<2x4x7x7xf32>, tensor<4x1x3x3xf32>) -> tensor<2x4x15x15xf32>
    return %0 : tensor<2x4x15x15xf32>
  }
}

// -----

// As in the gradient of a depthwise convolution's weight: nine places, a window for each image.
// CHECK-LABEL: plan.program @main infer
// CHECK: plan.launch @convolve_windows
// CHECK-NOT: plan.launch
module attributes {dist.mesh = #dist.mesh<["x" = 1]>} {
  func.func @main(%x: tensor<1x8x28x28xf32> {colossal.name = "x", dist.sharding = #dist.sharding<[1], [8], [28], [28]>}, %w: tensor<4x2x28x28xf32> {colossal.name = "w", dist.sharding = #dist.sharding<[4], [2], [28], [28]>})
      -> (tensor<1x4x3x3xf32> {colossal.name = "y", dist.sharding = #dist.sharding<[1], [4], [3], [3]>}) {
    %0 = colossal.conv(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, group = 4 : i64} : (tensor<1x8x28x28xf32>, tensor<4x2x28x28xf32>) -> tensor<1x4x3x3xf32>
    return %0 : tensor<1x4x3x3xf32>
  }
}

// -----

// CHECK-LABEL: plan.program @main infer
// CHECK-NOT: plan.launch @convolve
// CHECK: plan.launch @conv_
// CHECK-NOT: plan.launch @convolve
module attributes {dist.mesh = #dist.mesh<["x" = 1]>} {
  func.func @main(%x: tensor<2x4x7x7x5xf32> {colossal.name = "x", dist.sharding = #dist.sharding<[2], [4], [7], [7], [5]>}, %w: tensor<4x1x3x3x3xf32> {colossal.name = "w", dist.sharding = #dist.sharding<[4], [1], [3], [3], [3]>})
      -> (tensor<2x4x5x5x3xf32> {colossal.name = "y", dist.sharding = #dist.sharding<[2], [4], [5], [5], [3]>}) {
    %0 = colossal.conv(%x, %w) {strides = array<i64: 1, 1, 1>, dilations = array<i64: 1, 1, 1>, pads = array<i64: 0, 0, 0, 0, 0, 0>, group = 4 : i64} : (tensor<2x4x7x7x5xf32>, tensor<4x1x3x3x3xf32>) -> tensor<2x4x5x5x3xf32>
    return %0 : tensor<2x4x5x5x3xf32>
  }
}
