// What cuDNN takes is its call where a target says so: convolutions with bias and ReLU in one, of groups too, and attention of 16 bits; the
// others are kernels, and a remark says why. Windows of one element stay products.
// RUN: colossal-opt %s --split-input-file --colossal-schedule="target=cuda:sm_90+cudnn-all compile-kernels=false" 2> %t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file %t.txt
// RUN: colossal-opt %s --split-input-file --colossal-schedule="target=cuda:sm_90 compile-kernels=false" 2>&1 | FileCheck %s --check-prefix=OFF
// WHY: is not left to cuDNN, but computed by a kernel of our own: its heads have multiples of 8 elements, at most 256
// OFF-NOT: plan.convolution
// OFF-NOT: plan.fused_attention

// CHECK-LABEL: plan.program @main infer
// CHECK: plan.convolution
// CHECK-SAME: activation = "relu"
// CHECK-SAME: compute = "f32"
// CHECK-SAME: pads_begin = array<i64: 1, 1>, pads_end = array<i64: 0, 0>
// CHECK-NOT: plan.launch
module attributes {dist.mesh = #dist.mesh<["x" = 1]>} {
  func.func @main(%x: tensor<2x4x8x8xf32> {colossal.name = "x", dist.sharding = #dist.sharding<[2], [4], [8], [8]>}, %w: tensor<6x2x3x3xf32> {colossal.name = "w", dist.sharding = #dist.sharding<[6], [2], [3], [3]>}, %b: tensor<6xf32> {colossal.name = "b", dist.sharding = #dist.sharding<[6]>})
      -> (tensor<2x6x4x4xf32> {colossal.name = "y", dist.sharding = #dist.sharding<[2], [6], [4], [4]>}) {
    %0 = colossal.conv(%x, %w, %b) {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 0, 0>, group = 2 : i64} : (tensor<2x4x8x8xf32>, tensor<6x2x3x3xf32>, tensor<6xf32>) -> tensor<2x6x4x4xf32>
    %1 = colossal.elementwise relu(%0) : (tensor<2x6x4x4xf32>) -> tensor<2x6x4x4xf32>
    return %1 : tensor<2x6x4x4xf32>
  }
}

// -----

// ReLU without a bias is a kernel's; a window of one element a product.
// CHECK-LABEL: plan.program @main infer
// CHECK: plan.convolution
// CHECK-SAME: activation = ""
// CHECK: plan.launch @relu
// CHECK: plan.contraction
module attributes {dist.mesh = #dist.mesh<["x" = 1]>} {
  func.func @main(%x: tensor<2x4x8xf32> {colossal.name = "x", dist.sharding = #dist.sharding<[2], [4], [8]>}, %w: tensor<4x4x3xf32> {colossal.name = "w", dist.sharding = #dist.sharding<[4], [4], [3]>}, %p: tensor<4x4x1xf32> {colossal.name = "p", dist.sharding = #dist.sharding<[4], [4], [1]>})
      -> (tensor<2x4x8xf32> {colossal.name = "y", dist.sharding = #dist.sharding<[2], [4], [8]>}) {
    %0 = colossal.conv(%x, %w) {strides = array<i64: 1>, dilations = array<i64: 1>, pads = array<i64: 1, 1>, group = 1 : i64} : (tensor<2x4x8xf32>, tensor<4x4x3xf32>) -> tensor<2x4x8xf32>
    %1 = colossal.elementwise relu(%0) : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    %2 = colossal.conv(%1, %p) {strides = array<i64: 1>, dilations = array<i64: 1>, pads = array<i64: 0, 0>, group = 1 : i64} : (tensor<2x4x8xf32>, tensor<4x4x1xf32>) -> tensor<2x4x8xf32>
    return %2 : tensor<2x4x8xf32>
  }
}

// -----

// CHECK-LABEL: plan.program @main infer
// CHECK: plan.fused_attention
// CHECK-SAME: causal = true
// CHECK-NOT: plan.launch
module attributes {dist.mesh = #dist.mesh<["x" = 1]>} {
  func.func @main(%q: tensor<1x4x6x8xf16> {colossal.name = "q", dist.sharding = #dist.sharding<[1], [4], [6], [8]>}, %k: tensor<1x2x6x8xf16> {colossal.name = "k", dist.sharding = #dist.sharding<[1], [2], [6], [8]>})
      -> (tensor<1x4x6x8xf16> {colossal.name = "y", dist.sharding = #dist.sharding<[1], [4], [6], [8]>}) {
    %0 = colossal.attention(%q, %k, %k) {scale = 0.5 : f64, causal = true} : (tensor<1x4x6x8xf16>, tensor<1x2x6x8xf16>, tensor<1x2x6x8xf16>) -> tensor<1x4x6x8xf16>
    return %0 : tensor<1x4x6x8xf16>
  }
}

// -----

// CHECK-LABEL: plan.program @main infer
// CHECK: plan.launch @attention
module attributes {dist.mesh = #dist.mesh<["x" = 1]>} {
  func.func @main(%q: tensor<1x4x6x12xf16> {colossal.name = "q", dist.sharding = #dist.sharding<[1], [4], [6], [12]>}, %k: tensor<1x2x6x12xf16> {colossal.name = "k", dist.sharding = #dist.sharding<[1], [2], [6], [12]>})
      -> (tensor<1x4x6x12xf16> {colossal.name = "y", dist.sharding = #dist.sharding<[1], [4], [6], [12]>}) {
    %0 = colossal.attention(%q, %k, %k) {scale = 0.5 : f64} : (tensor<1x4x6x12xf16>, tensor<1x2x6x12xf16>, tensor<1x2x6x12xf16>) -> tensor<1x4x6x12xf16>
    return %0 : tensor<1x4x6x12xf16>
  }
}
