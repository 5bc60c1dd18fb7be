// Bodies go back to where they are called: each op with the location that its call says, equal constants as one.
//
// RUN: colossal-opt %s --colossal-inline-blocks -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s

// The constant that the caller has is the block's too; the one that only the block has is made once, at the top.
// CHECK-LABEL: func.func @main
// CHECK-DAG: %[[TWO:.*]] = colossal.constant dense<2.0{{.*}} loc("two")
// CHECK-DAG: %[[HALF:.*]] = colossal.constant dense<5.0{{.*}} loc("half")
// CHECK-NOT: colossal.constant
// CHECK: %[[A0:.*]] = colossal.elementwise mul(%{{.*}}, %[[HALF]]) {{.*}} loc("layer.0"("a"))
// CHECK-NEXT: %[[B0:.*]] = colossal.elementwise add(%[[A0]], %[[TWO]]) {{.*}} loc("layer.0"("b"))
// CHECK-NEXT: %[[A1:.*]] = colossal.elementwise mul(%[[B0]], %[[HALF]]) {{.*}} loc("layer.1"("a"))
// CHECK-NEXT: %[[B1:.*]] = colossal.elementwise add(%[[A1]], %[[TWO]]) {{.*}} loc("layer.1"("b"))
// A call that says nothing leaves the locations of the body.
// CHECK-NEXT: %[[A2:.*]] = colossal.elementwise mul(%[[B1]], %[[HALF]]) {{.*}} loc("layer.0"("a"))
// CHECK-NEXT: %[[B2:.*]] = colossal.elementwise add(%[[A2]], %[[TWO]]) {{.*}} loc("layer.0"("b"))
// CHECK-NEXT: %[[LAST:.*]] = colossal.elementwise mul(%[[B2]], %[[A1]])
// CHECK-NEXT: return %[[LAST]]
// CHECK-NOT: func.func
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %two = colossal.constant dense<2.0> : tensor<f32> : tensor<f32> loc("two")
  %0:2 = call @block(%x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %1:2 = call @block(%0#0) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    loc(fused<[loc("unused"), loc("unused"), loc("layer.1"("a")), loc("layer.1"("b"))]>["layer.1"])
  %2:2 = call @block(%1#0) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) loc("layer.2")
  %3 = colossal.elementwise mul(%2#0, %1#1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
func.func private @block(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %half = colossal.constant dense<0.5> : tensor<f32> : tensor<f32> loc("half")
  %two = colossal.constant dense<2.0> : tensor<f32> : tensor<f32> loc("other")
  %a = colossal.elementwise mul(%x, %half) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32> loc("layer.0"("a"))
  %b = colossal.elementwise add(%a, %two) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32> loc("layer.0"("b"))
  return %b, %a : tensor<4xf32>, tensor<4xf32>
}
