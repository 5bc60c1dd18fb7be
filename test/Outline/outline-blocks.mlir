// Repeated subgraphs become functions, whatever their ops are called.
//
// RUN: colossal-opt %s --split-input-file --colossal-outline-blocks | FileCheck %s
// RUN: colossal-opt %s --split-input-file --colossal-outline-blocks --colossal-inline-blocks -mlir-print-debuginfo \
// RUN:   -mlir-print-local-scope | FileCheck %s --check-prefix=BACK

// Three layers, of which the first computes the mask that all share. The block begins at a layer, where only the stream
// crosses, not at the first add, which is like those of the layers. The constant that all have moves in.
// CHECK-LABEL: func.func @layers
// CHECK-DAG: %[[MASK:.*]] = colossal.iota
// CHECK-DAG: %[[X0:.*]] = colossal.elementwise add(%arg0, %arg0)
// CHECK: %[[X1:.*]] = call @block0(%[[X0]], %[[W0:.*]], %[[MASK]])
// CHECK-NEXT: %[[X2:.*]] = call @block0(%[[X1]], %[[W1:.*]], %[[MASK]])
// CHECK-NEXT: %[[X3:.*]] = call @block0(%[[X2]], %[[W2:.*]], %[[MASK]])
// CHECK-NEXT: return %[[X3]]
// CHECK: func.func private @block0(%[[X:.*]]: tensor<8x16xf32>, %[[W:.*]]: tensor<16x16xf32>, %[[M:.*]]: tensor<8x16xf32>) -> tensor<8x16xf32>
// CHECK-NEXT: %[[C:.*]] = colossal.constant
// CHECK-NEXT: colossal.contract %[[X]] [0, 1], %[[W]] [1, 2]
// CHECK-NEXT: colossal.elementwise mul(%{{.*}}, %[[M]])
// CHECK-NEXT: colossal.elementwise mul(%{{.*}}, %[[C]])
// CHECK-NEXT: colossal.elementwise add(%[[X]],
//
// BACK-LABEL: func.func @layers
// BACK-COUNT-3: colossal.parameter
// BACK: colossal.contract {{.*}} loc("layer.0"("h0"))
// BACK: colossal.contract {{.*}} loc("layer.1"("h1"))
// BACK: colossal.contract {{.*}} loc("layer.2"("h2"))
// BACK-NOT: func.func private
func.func @layers(%input: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %c = colossal.constant dense<5.000000e-01> : tensor<f32> : tensor<f32>
  %w0 = colossal.parameter "w0" {file = "", offset = 0 : i64, bytes = 1024 : i64} : tensor<16x16xf32>
  %w1 = colossal.parameter "w1" {file = "", offset = 1024 : i64, bytes = 1024 : i64} : tensor<16x16xf32>
  %w2 = colossal.parameter "w2" {file = "", offset = 2048 : i64, bytes = 1024 : i64} : tensor<16x16xf32>
  %x = colossal.elementwise add(%input, %input) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %h0 = colossal.contract %x [0, 1], %w0 [1, 2] -> [0, 2] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32> loc("layer.0"("h0"))
  %mask = colossal.iota {axis = 1 : i64, start = 0.0 : f64, step = 1.0 : f64} : tensor<8x16xf32>
  %m0 = colossal.elementwise mul(%h0, %mask) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %s0 = colossal.elementwise mul(%m0, %c) : (tensor<8x16xf32>, tensor<f32>) -> tensor<8x16xf32>
  %x0 = colossal.elementwise add(%x, %s0) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %h1 = colossal.contract %x0 [0, 1], %w1 [1, 2] -> [0, 2] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32> loc("layer.1"("h1"))
  %m1 = colossal.elementwise mul(%h1, %mask) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %s1 = colossal.elementwise mul(%m1, %c) : (tensor<8x16xf32>, tensor<f32>) -> tensor<8x16xf32>
  %x1 = colossal.elementwise add(%x0, %s1) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %h2 = colossal.contract %x1 [0, 1], %w2 [1, 2] -> [0, 2] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32> loc("layer.2"("h2"))
  %m2 = colossal.elementwise mul(%h2, %mask) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %s2 = colossal.elementwise mul(%m2, %c) : (tensor<8x16xf32>, tensor<f32>) -> tensor<8x16xf32>
  %x2 = colossal.elementwise add(%x1, %s2) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  return %x2 : tensor<8x16xf32>
}

// -----

// A result that only one repetition gives to others is a result of all; repetitions need not give to each other.
// CHECK-LABEL: func.func @branches
// CHECK: %[[A:.*]]:2 = call @block0(%arg0
// CHECK: %[[B:.*]]:2 = call @block0(%arg0
// CHECK: %[[C:.*]]:2 = call @block0(%arg0
// CHECK: return %[[A]]#1, %[[B]]#1, %[[C]]#0, %[[C]]#1
func.func @branches(%x: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>) {
  %w0 = colossal.parameter "w0" {file = "", offset = 0 : i64, bytes = 1024 : i64} : tensor<16x16xf32>
  %w1 = colossal.parameter "w1" {file = "", offset = 1024 : i64, bytes = 1024 : i64} : tensor<16x16xf32>
  %w2 = colossal.parameter "w2" {file = "", offset = 2048 : i64, bytes = 1024 : i64} : tensor<16x16xf32>
  %h0 = colossal.contract %x [0, 1], %w0 [1, 2] -> [0, 2] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  %r0 = colossal.elementwise relu(%h0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %h1 = colossal.contract %x [0, 1], %w1 [1, 2] -> [0, 2] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  %r1 = colossal.elementwise relu(%h1) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %h2 = colossal.contract %x [0, 1], %w2 [1, 2] -> [0, 2] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  %r2 = colossal.elementwise relu(%h2) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %r0, %r1, %h2, %r2 : tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>
}

// -----

// Alike op by op, but the third run multiplies other values, and one pair of runs saves too little.
// CHECK-LABEL: func.func @different
// CHECK-NOT: call
// CHECK-NOT: func.func private
func.func @different(%x: tensor<16x16xf32>, %y: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %h0 = colossal.contract %x [0, 1], %y [1, 2] -> [0, 2] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %r0 = colossal.elementwise relu(%h0) : (tensor<16x16xf32>) -> tensor<16x16xf32>
  %h1 = colossal.contract %r0 [0, 1], %y [1, 2] -> [0, 2] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %r1 = colossal.elementwise relu(%h1) : (tensor<16x16xf32>) -> tensor<16x16xf32>
  %h2 = colossal.contract %r1 [0, 1], %r1 [1, 2] -> [0, 2] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %r2 = colossal.elementwise relu(%h2) : (tensor<16x16xf32>) -> tensor<16x16xf32>
  return %r2 : tensor<16x16xf32>
}
