// What hangs on a large product is done for some rows at a time, where each row is used for itself until products read
// it again, and only there.
// REQUIRES: compiler
// RUN: colossal-opt %s --colossal-loss-parts | FileCheck %s

// Rows of gradients are put together, sums over rows are added; what compares labels with classes is made in parts, too.
// CHECK-LABEL: func.func @cut
// CHECK-NOT:     contract {{.*}}tensor<2048x16384xf32>
// CHECK:         %[[FIRST:.*]] = colossal.contract {{.*}} -> tensor<1024x16384xf32>
// CHECK:         colossal.elementwise equal{{.*}} -> tensor<1024x16384xi1>
// CHECK:         %[[ROWS0:.*]] = colossal.contract {{.*}} -> tensor<1024x64xf32>
// CHECK:         %[[SUM0:.*]] = colossal.contract {{.*}} -> tensor<16384x64xf32>
// CHECK:         colossal.contract {{.*}} -> tensor<1024x16384xf32>
// CHECK:         %[[ROWS1:.*]] = colossal.contract {{.*}} -> tensor<1024x64xf32>
// CHECK:         %[[SUM1:.*]] = colossal.contract {{.*}} -> tensor<16384x64xf32>
// CHECK:         %[[SUM:.*]] = colossal.elementwise add(%[[SUM0]], %[[SUM1]])
// CHECK:         %[[ROWS:.*]] = colossal.concat %[[ROWS0]], %[[ROWS1]]
// CHECK:         return %[[ROWS]], %[[SUM]]
func.func @cut(%x: tensor<2048x64xf32>, %w: tensor<16384x64xf32>, %labels: tensor<2048x1xi32>) -> (tensor<2048x64xf32>, tensor<16384x64xf32>) attributes {colossal.role = "step"} {
  %classes = colossal.iota {axis = 1 : i64, start = 0.0 : f64, step = 1.0 : f64} : tensor<1x16384xi32>
  %zero = colossal.constant dense<0.0> : tensor<1x1xf32> : tensor<1x1xf32>
  %0 = colossal.contract %x [0, 1], %w [2, 1] -> [0, 2] : (tensor<2048x64xf32>, tensor<16384x64xf32>) -> tensor<2048x16384xf32>
  %1 = colossal.elementwise equal(%labels, %classes) : (tensor<2048x1xi32>, tensor<1x16384xi32>) -> tensor<2048x16384xi1>
  %2 = colossal.elementwise select(%1, %0, %zero) : (tensor<2048x16384xi1>, tensor<2048x16384xf32>, tensor<1x1xf32>) -> tensor<2048x16384xf32>
  %3 = colossal.contract %2 [0, 2], %w [2, 1] -> [0, 1] : (tensor<2048x16384xf32>, tensor<16384x64xf32>) -> tensor<2048x64xf32>
  %4 = colossal.contract %x [0, 1], %2 [0, 2] -> [2, 1] : (tensor<2048x64xf32>, tensor<2048x16384xf32>) -> tensor<16384x64xf32>
  return %3, %4 : tensor<2048x64xf32>, tensor<16384x64xf32>
}

// The program gives the logits.
// CHECK-LABEL: func.func @given
// CHECK:         colossal.contract {{.*}} -> tensor<2048x16384xf32>
// CHECK-NOT:     tensor<1024x
func.func @given(%x: tensor<2048x64xf32>, %w: tensor<16384x64xf32>) -> (tensor<2048x16384xf32>, tensor<2048x64xf32>) attributes {colossal.role = "step"} {
  %0 = colossal.contract %x [0, 1], %w [2, 1] -> [0, 2] : (tensor<2048x64xf32>, tensor<16384x64xf32>) -> tensor<2048x16384xf32>
  %1 = colossal.contract %0 [0, 2], %w [2, 1] -> [0, 1] : (tensor<2048x16384xf32>, tensor<16384x64xf32>) -> tensor<2048x64xf32>
  return %0, %1 : tensor<2048x16384xf32>, tensor<2048x64xf32>
}

// A row needs the others.
// CHECK-LABEL: func.func @mixed
// CHECK:         colossal.contract {{.*}} -> tensor<2048x16384xf32>
// CHECK-NOT:     tensor<1024x
func.func @mixed(%x: tensor<2048x64xf32>, %w: tensor<16384x64xf32>) -> tensor<2048x64xf32> attributes {colossal.role = "step"} {
  %0 = colossal.contract %x [0, 1], %w [2, 1] -> [0, 2] : (tensor<2048x64xf32>, tensor<16384x64xf32>) -> tensor<2048x16384xf32>
  %1 = colossal.softmax %0 {axis = 0 : i64, log = false} : tensor<2048x16384xf32>
  %2 = colossal.contract %1 [0, 2], %w [2, 1] -> [0, 1] : (tensor<2048x16384xf32>, tensor<16384x64xf32>) -> tensor<2048x64xf32>
  return %2 : tensor<2048x64xf32>
}

// What its gradient is multiplied by is a sum over all rows, as with a loss whose mean is divided before.
// CHECK-LABEL: func.func @circle
// CHECK:         colossal.contract {{.*}} -> tensor<2048x16384xf32>
// CHECK-NOT:     tensor<1024x
func.func @circle(%x: tensor<2048x64xf32>, %w: tensor<16384x64xf32>) -> tensor<2048x64xf32> attributes {colossal.role = "step"} {
  %0 = colossal.contract %x [0, 1], %w [2, 1] -> [0, 2] : (tensor<2048x64xf32>, tensor<16384x64xf32>) -> tensor<2048x16384xf32>
  %1 = colossal.reduce sum %0 over [0, 1] {keepdims = true} : tensor<2048x16384xf32> -> tensor<1x1xf32>
  %2 = colossal.elementwise mul(%0, %1) : (tensor<2048x16384xf32>, tensor<1x1xf32>) -> tensor<2048x16384xf32>
  %3 = colossal.contract %2 [0, 2], %w [2, 1] -> [0, 1] : (tensor<2048x16384xf32>, tensor<16384x64xf32>) -> tensor<2048x64xf32>
  return %3 : tensor<2048x64xf32>
}

// Programs that do not train have no gradients to save memory for.
// CHECK-LABEL: func.func @inference
// CHECK-NOT:     tensor<1024x
func.func @inference(%x: tensor<2048x64xf32>, %w: tensor<16384x64xf32>) -> tensor<2048x64xf32> {
  %0 = colossal.contract %x [0, 1], %w [2, 1] -> [0, 2] : (tensor<2048x64xf32>, tensor<16384x64xf32>) -> tensor<2048x16384xf32>
  %1 = colossal.contract %0 [0, 2], %w [2, 1] -> [0, 1] : (tensor<2048x16384xf32>, tensor<16384x64xf32>) -> tensor<2048x64xf32>
  return %1 : tensor<2048x64xf32>
}
