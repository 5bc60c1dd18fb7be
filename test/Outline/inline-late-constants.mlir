// A constant of the caller that stands behind a call serves the body, too: it goes to the function's top.
//
// RUN: colossal-opt %s --colossal-inline-blocks | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[TWO:.*]] = colossal.constant dense<2.0
// CHECK-NEXT: %[[A:.*]] = colossal.elementwise add(%{{.*}}, %[[TWO]])
// CHECK-NEXT: %[[B:.*]] = colossal.elementwise add(%[[A]], %[[TWO]])
// CHECK-NEXT: colossal.elementwise mul(%[[B]], %[[TWO]])
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @block(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @block(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %two = colossal.constant dense<2.0> : tensor<f32> : tensor<f32>
  %2 = colossal.elementwise mul(%1, %two) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
func.func private @block(%x: tensor<4xf32>) -> tensor<4xf32> {
  %two = colossal.constant dense<2.0> : tensor<f32> : tensor<f32>
  %a = colossal.elementwise add(%x, %two) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %a : tensor<4xf32>
}
