// What becomes a call of the GPU's library, what of the ops behind it goes along, and what the library lacks.
// RUN: colossal-opt %s --split-input-file --colossal-schedule="target=cuda:sm_90 compile-kernels=false" | FileCheck %s

// Bias and activation are the library's; nothing else is launched. The weight's layout is read as it lies.
// CHECK-LABEL: plan.program @main infer
// CHECK: plan.contraction
// CHECK-SAME: : f32 -> f32 {a_strides = array<i64: 0, 8, 1>, activation = "gelu_tanh", b_strides = array<i64: 0, 1, 8>, bias = true, c_strides = array<i64: 0, 6, 1>, compute = "f32", sizes = array<i64: 1, 4, 6, 8>}
// CHECK-NOT: plan.launch
module attributes {dist.mesh = #dist.mesh<["x" = 1]>} {
  func.func @main(%x: tensor<4x8xf32> {colossal.name = "x", dist.sharding = #dist.sharding<[4], [8]>}, %w: tensor<6x8xf32> {colossal.name = "w", dist.sharding = #dist.sharding<[6], [8]>}, %b: tensor<6xf32> {colossal.name = "b", dist.sharding = #dist.sharding<[6]>})
      -> (tensor<4x6xf32> {colossal.name = "y", dist.sharding = #dist.sharding<[4], [6]>}) {
    %0 = colossal.contract %x [0, 1], %w [2, 1] -> [0, 2] : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<4x6xf32>
    %1 = colossal.elementwise add(%b, %0) : (tensor<6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %2 = colossal.elementwise gelu_tanh(%1) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    return %2 : tensor<4x6xf32>
  }
}

// -----

// GELU by erf, and a residual, are not: they are computed together behind the call.
// CHECK-LABEL: plan.program @main infer
// CHECK: plan.contraction
// CHECK-SAME: activation = "", {{.*}} bias = false
// CHECK: plan.launch
// CHECK-NOT: plan.launch
module attributes {dist.mesh = #dist.mesh<["x" = 1]>} {
  func.func @main(%x: tensor<4x8xf32> {colossal.name = "x", dist.sharding = #dist.sharding<[4], [8]>}, %w: tensor<8x6xf32> {colossal.name = "w", dist.sharding = #dist.sharding<[8], [6]>}, %b: tensor<6xf32> {colossal.name = "b", dist.sharding = #dist.sharding<[6]>}, %r: tensor<4x6xf32> {colossal.name = "r", dist.sharding = #dist.sharding<[4], [6]>})
      -> (tensor<4x6xf32> {colossal.name = "y", dist.sharding = #dist.sharding<[4], [6]>}) {
    %0 = colossal.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
    %1 = colossal.elementwise add(%0, %b) : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
    %2 = colossal.elementwise gelu(%1) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %3 = colossal.elementwise add(%2, %r) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    return %3 : tensor<4x6xf32>
  }
}

// -----

// Scores of heads that lie inside of their rows: the heads are the batch, at strides of their own; the sequences are two calls.
// CHECK-LABEL: plan.program @main infer
// CHECK-COUNT-2: plan.contraction {{.*}}a_strides = array<i64: 16, 48, 1>, activation = "", b_strides = array<i64: 16, 1, 48>, bias = false, c_strides = array<i64: 25, 5, 1>, compute = "f32", sizes = array<i64: 3, 5, 5, 16>
// CHECK-NOT: plan.contraction
// CHECK-NOT: plan.launch
module attributes {dist.mesh = #dist.mesh<["x" = 1]>} {
  func.func @main(%q: tensor<2x5x3x16xf32> {colossal.name = "q", dist.sharding = #dist.sharding<[2], [5], [3], [16]>}, %k: tensor<2x5x3x16xf32> {colossal.name = "k", dist.sharding = #dist.sharding<[2], [5], [3], [16]>})
      -> (tensor<2x3x5x5xf32> {colossal.name = "y", dist.sharding = #dist.sharding<[2], [3], [5], [5]>}) {
    %0 = colossal.contract %q [0, 1, 2, 3], %k [0, 4, 2, 3] -> [0, 2, 1, 4] : (tensor<2x5x3x16xf32>, tensor<2x5x3x16xf32>) -> tensor<2x3x5x5xf32>
    return %0 : tensor<2x3x5x5xf32>
  }
}

// -----

// Integers, and sums over dimensions that lie apart, are our own kernel's.
// CHECK-LABEL: plan.program @main infer
// CHECK-NOT: plan.contraction
// CHECK: plan.launch @contract
// CHECK: plan.launch @contract
// CHECK-NOT: plan.contraction
module attributes {dist.mesh = #dist.mesh<["x" = 1]>} {
  func.func @main(%x: tensor<4x8xi32> {colossal.name = "x", dist.sharding = #dist.sharding<[4], [8]>}, %w: tensor<8x6xi32> {colossal.name = "w", dist.sharding = #dist.sharding<[8], [6]>}, %a: tensor<4x3x5xf32> {colossal.name = "a", dist.sharding = #dist.sharding<[4], [3], [5]>}, %b: tensor<5x3x6xf32> {colossal.name = "b", dist.sharding = #dist.sharding<[5], [3], [6]>})
      -> (tensor<4x6xi32> {colossal.name = "y", dist.sharding = #dist.sharding<[4], [6]>}, tensor<4x6xf32> {colossal.name = "z", dist.sharding = #dist.sharding<[4], [6]>}) {
    %0 = colossal.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<4x8xi32>, tensor<8x6xi32>) -> tensor<4x6xi32>
    %1 = colossal.contract %a [0, 1, 2], %b [2, 1, 3] -> [0, 3] : (tensor<4x3x5xf32>, tensor<5x3x6xf32>) -> tensor<4x6xf32>
    return %0, %1 : tensor<4x6xi32>, tensor<4x6xf32>
  }
}

// -----

// Doubles have no epilogue.
// CHECK-LABEL: plan.program @main infer
// CHECK: plan.contraction {{.*}} : f64 -> f64
// CHECK-SAME: bias = false{{.*}}compute = "f64"
// CHECK: plan.launch
module attributes {dist.mesh = #dist.mesh<["x" = 1]>} {
  func.func @main(%x: tensor<4x8xf64> {colossal.name = "x", dist.sharding = #dist.sharding<[4], [8]>}, %w: tensor<8x6xf64> {colossal.name = "w", dist.sharding = #dist.sharding<[8], [6]>}, %b: tensor<6xf64> {colossal.name = "b", dist.sharding = #dist.sharding<[6]>})
      -> (tensor<4x6xf64> {colossal.name = "y", dist.sharding = #dist.sharding<[4], [6]>}) {
    %0 = colossal.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<4x8xf64>, tensor<8x6xf64>) -> tensor<4x6xf64>
    %1 = colossal.elementwise add(%0, %b) : (tensor<4x6xf64>, tensor<6xf64>) -> tensor<4x6xf64>
    return %1 : tensor<4x6xf64>
  }
}
