// RUN: colossal-opt %s --split-input-file --colossal-propagate-batch -verify-diagnostics | FileCheck %s

// The batch goes through a contraction, a fused reshape and what works row by row. What all turns share stays: the mask, and
// the bias that it is added to.
module attributes {dist.mesh = #dist.mesh<["model" = 2, "microbatch" = 4 loop]>} {
  // CHECK-LABEL: func.func @rows(
  // CHECK-SAME: %{{.*}}: tensor<8x4x16xf32> {colossal.batch = 0 : i64, dist.sharding = #dist.sharding<[8:(1)], [4], [16]>}
  // CHECK-SAME: %{{.*}}: tensor<1x16xf32>)
  // CHECK-SAME: -> (tensor<32x16xf32> {dist.sharding = #dist.sharding<[8:(1), 4], [16]>}, tensor<1x16xf32>)
  func.func @rows(%x: tensor<8x4x16xf32> {colossal.batch = 0 : i64}, %mask: tensor<1x16xf32>) -> (tensor<32x16xf32>, tensor<1x16xf32>) {
    %w = colossal.parameter "w" {file = "", offset = 0 : i64, bytes = 1024 : i64} : tensor<16x16xf32>
    %b = colossal.parameter "b" {file = "", offset = 0 : i64, bytes = 64 : i64} : tensor<16xf32>
    // CHECK: colossal.elementwise add(%{{.*}}, %{{.*}}) :
    %shared = colossal.elementwise add(%mask, %b) : (tensor<1x16xf32>, tensor<16xf32>) -> tensor<1x16xf32>
    // CHECK: colossal.reshape {{.*}} {dist.assignment = [array<i64: 1>, array<i64>, array<i64>, array<i64>]}
    %flat = colossal.reshape %x : tensor<8x4x16xf32> -> tensor<32x16xf32>
    // CHECK: colossal.contract {{.*}} {dist.assignment = [array<i64: 1>, array<i64>, array<i64>, array<i64>]}
    %y = colossal.contract %flat [0, 1], %w [1, 2] -> [0, 2] : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
    // CHECK: colossal.elementwise add({{.*}}) {dist.assignment = [array<i64: 1>, array<i64>, array<i64>
    %z = colossal.elementwise add(%y, %shared) : (tensor<32x16xf32>, tensor<1x16xf32>) -> tensor<32x16xf32>
    return %z, %shared : tensor<32x16xf32>, tensor<1x16xf32>
  }
}

// -----

// Without marks, the first dimension of all inputs; the batch may move. 7 rows in 4 parts are 2, 2, 2 and 1.
module attributes {dist.mesh = #dist.mesh<["microbatch" = 4 loop]>} {
  // CHECK-LABEL: func.func @turned(
  // CHECK-SAME: tensor<7x3xf32> {dist.sharding = #dist.sharding<[7:(0)], [3]>}
  // CHECK-SAME: -> (tensor<3x7xf32> {dist.sharding = #dist.sharding<[3], [7:(0)]>})
  func.func @turned(%x: tensor<7x3xf32>) -> tensor<3x7xf32> {
    // CHECK: colossal.transpose {{.*}}dist.assignment = [array<i64: 0>, array<i64>, array<i64>]
    %0 = colossal.transpose %x [1, 0] : tensor<7x3xf32> -> tensor<3x7xf32>
    return %0 : tensor<3x7xf32>
  }
}

// -----

// Five rows fill three parts of two.
// CHECK: dist.mesh = #dist.mesh<["microbatch" = 3 loop]>
// expected-warning@+1 {{4 equal microbatches would leave 1 of them without rows: the batch is cut into 3}}
module attributes {dist.mesh = #dist.mesh<["microbatch" = 4 loop]>} {
  func.func @filled(%x: tensor<5x3xf32>) -> tensor<5x3xf32> {
    %0 = colossal.elementwise relu(%x) : (tensor<5x3xf32>) -> tensor<5x3xf32>
    return %0 : tensor<5x3xf32>
  }
}

// -----

// All that depend on other rows are named, but not what depends on them.
module attributes {dist.mesh = #dist.mesh<["microbatch" = 2 loop]>} {
  func.func @dependent(%x: tensor<8x3xf32>) -> (tensor<1x3xf32>, tensor<8x3xf32>, tensor<8x8xf32>) {
    // expected-error@+1 {{combines the rows of the batch (sum): microbatches would change what it computes}}
    %sum = colossal.reduce sum %x over [0] {keepdims = true} : tensor<8x3xf32> -> tensor<1x3xf32>
    %use = colossal.elementwise relu(%sum) : (tensor<1x3xf32>) -> tensor<1x3xf32>
    // expected-error@+1 {{takes statistics over the rows of the batch: microbatches would change what it computes}}
    %soft = colossal.softmax %x {axis = 0 : i64} : tensor<8x3xf32>
    // expected-error@+1 {{takes the batches of its operands for different dimensions: microbatches would change what it computes}}
    %gram = colossal.contract %x [0, 1], %x [2, 1] -> [0, 2] : (tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<8x8xf32>
    return %use, %soft, %gram : tensor<1x3xf32>, tensor<8x3xf32>, tensor<8x8xf32>
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<["microbatch" = 9 loop]>} {
  // expected-error@+1 {{program 'few' has a batch of 8, which cannot be cut into 9 microbatches}}
  func.func @few(%x: tensor<8x3xf32>) -> tensor<8x3xf32> {
    return %x : tensor<8x3xf32>
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<["microbatch" = 2 loop]>} {
  // expected-error@+2 {{an input has 4 rows and another 8: which dimension is the batch? Name it with --batch-dim}}
  // expected-note@+1 {{the other one}}
  func.func @disagree(%x: tensor<8x3xf32>, %y: tensor<4x3xf32>) -> tensor<8x3xf32> {
    return %x : tensor<8x3xf32>
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<["microbatch" = 2 loop]>} {
  // expected-error@+1 {{program 'none' has no input with a batch, which could be cut into microbatches}}
  func.func @none(%x: tensor<f32>) -> tensor<f32> {
    return %x : tensor<f32>
  }
}
