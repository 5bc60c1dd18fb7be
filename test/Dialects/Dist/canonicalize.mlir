// What moves or marks data without being used goes, and equal coordinates are one: all ranks run the same code, so that
// none of them waits for a collective that others left out.
// RUN: colossal-opt %s -canonicalize -cse | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[C:.*]] = dist.coordinate 0
// CHECK-NEXT: %[[P:.*]] = dist.permute %arg0 from %[[C]]
// CHECK-NEXT: return %[[P]], %[[P]]
func.func @main(%x: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  %c0 = dist.coordinate 0
  %c1 = dist.coordinate 0
  %dead = dist.mask_padding %x[%c0] {extents = array<i64: 4, 6>, masked = array<i64: 0>, fill = 0.0 : f64} : tensor<4x6xf32>
  %0 = dist.permute %x from %c0 {axes = array<i64: 0>} : tensor<4x6xf32>
  %1 = dist.permute %x from %c1 {axes = array<i64: 0>} : tensor<4x6xf32>
  return %0, %1 : tensor<4x6xf32>, tensor<4x6xf32>
}
