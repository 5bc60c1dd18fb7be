// What is read in parts of different sizes is computed part by part, with its columns of the weights; for inference each is a parameter.
//
// RUN: colossal-opt %s --colossal-split-fused-contractions -split-input-file | FileCheck %s
// RUN: colossal-opt %s "--colossal-split-fused-contractions=reads-parts=true" -split-input-file | FileCheck %s --check-prefix=PARTS

// CHECK-LABEL: func.func @unequal
// CHECK-DAG: %[[W:.*]] = colossal.parameter "w"
// CHECK-DAG: %[[B:.*]] = colossal.parameter "b"
// CHECK: %[[WQ:.*]] = colossal.slice %[[W]] [0, 0] by [1, 1] : tensor<16x16xf32> -> tensor<16x8xf32>
// CHECK: %[[YQ:.*]] = colossal.contract %arg0 [0, 1, 2], %[[WQ]] [2, 3] -> [0, 1, 3]
// CHECK: %[[BQ:.*]] = colossal.slice %[[B]] [0] by [1] : tensor<16xf32> -> tensor<8xf32>
// CHECK: %[[Q:.*]] = colossal.elementwise add(%[[YQ]], %[[BQ]])
// CHECK: colossal.slice %[[W]] [0, 8] by [1, 1] : tensor<16x16xf32> -> tensor<16x4xf32>
// CHECK: colossal.slice %[[W]] [0, 12] by [1, 1] : tensor<16x16xf32> -> tensor<16x4xf32>
// CHECK: return %[[Q]],
// PARTS-LABEL: func.func @unequal
// PARTS-NOT: colossal.slice
// PARTS: %[[WQ:.*]] = colossal.parameter "w[:,0:8]"
// PARTS-SAME: dist.part_of = {name = "w", shape = array<i64: 16, 16>, starts = array<i64: 0, 0>}
// PARTS-SAME: tensor<16x8xf32>
// PARTS: colossal.parameter "w[:,8:12]" {{.*}}starts = array<i64: 0, 8>{{.*}} tensor<16x4xf32>
// PARTS: colossal.parameter "b[8:12]"
// PARTS: colossal.contract %arg0 [0, 1, 2], %[[WQ]]
func.func @unequal(%x: tensor<2x4x16xf32>) -> (tensor<2x4x8xf32>, tensor<2x4x4xf32>, tensor<2x4x4xf32>) {
  %w = colossal.parameter "w" {file = "", offset = 0 : i64, bytes = 1024 : i64} : tensor<16x16xf32>
  %b = colossal.parameter "b" {file = "", offset = 1024 : i64, bytes = 64 : i64} : tensor<16xf32>
  %y = colossal.contract %x [0, 1, 2], %w [2, 3] -> [0, 1, 3] : (tensor<2x4x16xf32>, tensor<16x16xf32>) -> tensor<2x4x16xf32>
  %z = colossal.elementwise add(%y, %b) : (tensor<2x4x16xf32>, tensor<16xf32>) -> tensor<2x4x16xf32>
  %q = colossal.slice %z [0, 0, 0] by [1, 1, 1] : tensor<2x4x16xf32> -> tensor<2x4x8xf32>
  %k = colossal.slice %z [0, 0, 8] by [1, 1, 1] : tensor<2x4x16xf32> -> tensor<2x4x4xf32>
  %v = colossal.slice %z [0, 0, 12] by [1, 1, 1] : tensor<2x4x16xf32> -> tensor<2x4x4xf32>
  return %q, %k, %v : tensor<2x4x8xf32>, tensor<2x4x4xf32>, tensor<2x4x4xf32>
}

// -----

// A transposed weight in another type, as a precision leaves it: the part is taken where it is stored. A weight that something else reads
// stays one.
//
// PARTS-LABEL: func.func @prepared
// PARTS: %[[P:.*]] = colossal.parameter "w[4:16]"
// PARTS-NOT: colossal.parameter "b[
// PARTS: %[[C:.*]] = colossal.elementwise cast(%[[P]]) : (tensor<12x16xf32>) -> tensor<12x16xbf16>
// PARTS: %[[T:.*]] = colossal.transpose %[[C]] [1, 0] : tensor<12x16xbf16> -> tensor<16x12xbf16>
// PARTS: colossal.contract %arg0 [0, 1], %[[T]] [1, 2] -> [0, 2]
// PARTS: colossal.slice %{{.*}} [4] by [1] : tensor<16xbf16> -> tensor<12xbf16>
func.func @prepared(%x: tensor<4x16xbf16>) -> (tensor<4x4xbf16>, tensor<4x12xbf16>, tensor<4x16xbf16>) {
  %w = colossal.parameter "w" {file = "", offset = 0 : i64, bytes = 1024 : i64} : tensor<16x16xf32>
  %b = colossal.parameter "b" {file = "", offset = 1024 : i64, bytes = 32 : i64} : tensor<16xbf16>
  %n = colossal.elementwise cast(%w) : (tensor<16x16xf32>) -> tensor<16x16xbf16>
  %t = colossal.transpose %n [1, 0] : tensor<16x16xbf16> -> tensor<16x16xbf16>
  %y = colossal.contract %x [0, 1], %t [1, 2] -> [0, 2] : (tensor<4x16xbf16>, tensor<16x16xbf16>) -> tensor<4x16xbf16>
  %z = colossal.elementwise mul(%y, %b) : (tensor<4x16xbf16>, tensor<16xbf16>) -> tensor<4x16xbf16>
  %k = colossal.slice %z [0, 0] by [1, 1] : tensor<4x16xbf16> -> tensor<4x4xbf16>
  %q = colossal.slice %z [0, 4] by [1, 1] : tensor<4x16xbf16> -> tensor<4x12xbf16>
  %o = colossal.elementwise mul(%x, %b) : (tensor<4x16xbf16>, tensor<16xbf16>) -> tensor<4x16xbf16>
  return %k, %q, %o : tensor<4x4xbf16>, tensor<4x12xbf16>, tensor<4x16xbf16>
}

// -----

// Equal parts are one more factor; what something else reads whole, overlapping parts, parts of rows, and what is no contraction with
// weights stay.
//
// CHECK-LABEL: func.func @others
// CHECK-COUNT-5: colossal.contract {{.*}} -> tensor<4x16xf32>
// CHECK-NOT: colossal.contract
// PARTS-LABEL: func.func @others
// PARTS-NOT: dist.part_of
func.func @others(%x: tensor<4x16xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x4xf32>, tensor<4x12xf32>, tensor<4x8xf32>, tensor<4x12xf32>, tensor<1x16xf32>, tensor<3x16xf32>, tensor<4x4xf32>, tensor<4x12xf32>) {
  %w = colossal.parameter "w" {file = "", offset = 0 : i64, bytes = 1024 : i64} : tensor<16x16xf32>
  %a = colossal.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  %a1 = colossal.slice %a [0, 0] by [1, 1] : tensor<4x16xf32> -> tensor<4x8xf32>
  %a2 = colossal.slice %a [0, 8] by [1, 1] : tensor<4x16xf32> -> tensor<4x8xf32>
  %b = colossal.contract %a [0, 1], %w [1, 2] -> [0, 2] : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  %b1 = colossal.slice %b [0, 0] by [1, 1] : tensor<4x16xf32> -> tensor<4x4xf32>
  %b2 = colossal.slice %b [0, 4] by [1, 1] : tensor<4x16xf32> -> tensor<4x12xf32>
  %c = colossal.contract %b [0, 1], %w [1, 2] -> [0, 2] : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  %c1 = colossal.slice %c [0, 0] by [1, 1] : tensor<4x16xf32> -> tensor<4x8xf32>
  %c2 = colossal.slice %c [0, 4] by [1, 1] : tensor<4x16xf32> -> tensor<4x12xf32>
  %d = colossal.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  %d1 = colossal.slice %d [0, 0] by [1, 1] : tensor<4x16xf32> -> tensor<1x16xf32>
  %d2 = colossal.slice %d [1, 0] by [1, 1] : tensor<4x16xf32> -> tensor<3x16xf32>
  %t = colossal.transpose %x [1, 0] : tensor<4x16xf32> -> tensor<16x4xf32>
  %s = colossal.contract %x [0, 1], %t [1, 2] -> [0, 2] : (tensor<4x16xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %e = colossal.contract %s [0, 1], %x [1, 2] -> [0, 2] : (tensor<4x4xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %e1 = colossal.slice %e [0, 0] by [1, 1] : tensor<4x16xf32> -> tensor<4x4xf32>
  %e2 = colossal.slice %e [0, 4] by [1, 1] : tensor<4x16xf32> -> tensor<4x12xf32>
  return %a1, %a2, %b, %b1, %b2, %c1, %c2, %d1, %d2, %e1, %e2 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x4xf32>, tensor<4x12xf32>, tensor<4x8xf32>, tensor<4x12xf32>, tensor<1x16xf32>, tensor<3x16xf32>, tensor<4x4xf32>, tensor<4x12xf32>
}
