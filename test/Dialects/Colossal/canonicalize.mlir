// Movements that move nothing fold away, and others stay. So do equal constants and parameters, once.
// RUN: colossal-opt %s -canonicalize -cse | FileCheck %s

// CHECK-LABEL: func.func @nothing_moves
// CHECK-SAME: (%[[X:.*]]: tensor<4x6xf32>)
func.func @nothing_moves(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // CHECK-NEXT: return %[[X]]
  %0 = colossal.reshape %x : tensor<4x6xf32> -> tensor<4x6xf32>
  %1 = colossal.transpose %0 [0, 1] : tensor<4x6xf32> -> tensor<4x6xf32>
  %2 = colossal.broadcast %1 : tensor<4x6xf32> -> tensor<4x6xf32>
  %3 = colossal.slice %2 [0, 0] by [1, 1] : tensor<4x6xf32> -> tensor<4x6xf32>
  return %3 : tensor<4x6xf32>
}

// CHECK-LABEL: func.func @something_moves
func.func @something_moves(%x: tensor<6x6xf32>) -> (tensor<36xf32>, tensor<6x6xf32>, tensor<2x6x6xf32>, tensor<6x6xf32>) {
  // CHECK: colossal.reshape
  %0 = colossal.reshape %x : tensor<6x6xf32> -> tensor<36xf32>
  // CHECK: colossal.transpose
  %1 = colossal.transpose %x [1, 0] : tensor<6x6xf32> -> tensor<6x6xf32>
  // CHECK: colossal.broadcast
  %2 = colossal.broadcast %x : tensor<6x6xf32> -> tensor<2x6x6xf32>
  // Of the same shape, but backwards.
  // CHECK: colossal.slice
  %3 = colossal.slice %x [5, 0] by [-1, 1] : tensor<6x6xf32> -> tensor<6x6xf32>
  return %0, %1, %2, %3 : tensor<36xf32>, tensor<6x6xf32>, tensor<2x6x6xf32>, tensor<6x6xf32>
}

// CHECK-LABEL: func.func @dead_and_equal
// CHECK-SAME: (%[[X:.*]]: tensor<4x6xf32>)
func.func @dead_and_equal(%x: tensor<4x6xf32>) -> (tensor<6x4xf32>, tensor<6x4xf32>) {
  // CHECK-NEXT: %[[T:.*]] = colossal.transpose %[[X]] [1, 0]
  // CHECK-NEXT: return %[[T]], %[[T]]
  %0 = colossal.transpose %x [1, 0] : tensor<4x6xf32> -> tensor<6x4xf32>
  %1 = colossal.transpose %x [1, 0] : tensor<4x6xf32> -> tensor<6x4xf32>
  %unused = colossal.reshape %x : tensor<4x6xf32> -> tensor<24xf32>
  return %0, %1 : tensor<6x4xf32>, tensor<6x4xf32>
}
