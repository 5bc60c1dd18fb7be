// What is read and written in 16 bits, what stays in f32, and where casts stand.
// RUN: colossal-opt %s --colossal-set-precision=precision=bf16 | FileCheck %s
// RUN: colossal-opt %s --colossal-set-precision="precision=bf16 training=true" | FileCheck %s --check-prefix=TRAIN
// RUN: colossal-opt %s --colossal-set-precision=precision=f32 | FileCheck %s --check-prefix=F32
// RUN: colossal-opt %s --colossal-set-precision=precision=tf32 | FileCheck %s --check-prefix=TF32
// RUN: not colossal-opt %s --colossal-set-precision=precision=f8 2>&1 | FileCheck %s --check-prefix=NAME

// NAME: colossal-set-precision: 'f8' is not f32, tf32, bf16 or f16

// TF32: module attributes {colossal.tf32}

// Arguments and results keep their types. Weights are narrowed for each reader; products give the narrow type;
// what computes each element follows where all that it reads is narrow.
// CHECK-LABEL: func.func @layer
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>) -> tensor<4x16xf32>
// CHECK-DAG: %[[NX:.*]] = colossal.elementwise cast(%[[X]]) : (tensor<4x8xf32>) -> tensor<4x8xbf16>
// CHECK-DAG: %[[NW:.*]] = colossal.elementwise cast(%{{.*}}) : (tensor<8x16xf32>) -> tensor<8x16xbf16>
// CHECK: %[[P:.*]] = colossal.contract %[[NX]] [0, 1], %[[NW]] [1, 2] -> [0, 2] : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xbf16>
// CHECK: %[[NB:.*]] = colossal.elementwise cast(%{{.*}}) : (tensor<16xf32>) -> tensor<16xbf16>
// CHECK: %[[S:.*]] = colossal.elementwise add(%[[P]], %[[NB]]) : (tensor<4x16xbf16>, tensor<16xbf16>) -> tensor<4x16xbf16>
// CHECK: %[[G:.*]] = colossal.elementwise gelu(%[[S]]) : (tensor<4x16xbf16>) -> tensor<4x16xbf16>
// CHECK: %[[R:.*]] = colossal.elementwise cast(%[[G]]) : (tensor<4x16xbf16>) -> tensor<4x16xf32>
// CHECK: return %[[R]]
// What is differentiated computes in f32, and is narrowed after each op that its gradient reads.
// TRAIN-LABEL: func.func @layer
// TRAIN: %[[P:.*]] = colossal.contract {{.*}} -> tensor<4x16xbf16>
// TRAIN: %[[W:.*]] = colossal.elementwise cast(%[[P]]) : (tensor<4x16xbf16>) -> tensor<4x16xf32>
// TRAIN: %[[S:.*]] = colossal.elementwise add(%[[W]], %{{.*}}) : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
// TRAIN: %[[N:.*]] = colossal.elementwise cast(%[[S]]) : (tensor<4x16xf32>) -> tensor<4x16xbf16>
// TRAIN: %[[V:.*]] = colossal.elementwise cast(%[[N]]) : (tensor<4x16xbf16>) -> tensor<4x16xf32>
// TRAIN: colossal.elementwise gelu(%[[V]]) : (tensor<4x16xf32>) -> tensor<4x16xf32>
// F32-LABEL: func.func @layer
// F32-NOT: cast
func.func @layer(%x: tensor<4x8xf32>) -> tensor<4x16xf32> {
  %w = colossal.parameter "w" {bytes = 512 : i64, file = "", offset = 0 : i64} : tensor<8x16xf32>
  %b = colossal.parameter "b" {bytes = 64 : i64, file = "", offset = 512 : i64} : tensor<16xf32>
  %p = colossal.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %s = colossal.elementwise add(%p, %b) : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
  %g = colossal.elementwise gelu(%s) : (tensor<4x16xf32>) -> tensor<4x16xf32>
  return %g : tensor<4x16xf32>
}

// Squares, means and reciprocals stay in f32; what two ops read is narrowed after it, if it is in range. A number that
// bf16 would round makes the op stay in f32, one that it has does not.
// CHECK-LABEL: func.func @rms
// F32-LABEL: func.func @rms
// CHECK: colossal.elementwise mul(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK: colossal.reduce mean {{.*}} -> tensor<4x1xf32>
// CHECK: colossal.elementwise reciprocal(%{{.*}}) : (tensor<4x1xf32>) -> tensor<4x1xf32>
// CHECK: %[[Y:.*]] = colossal.elementwise mul(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
// CHECK: %[[N:.*]] = colossal.elementwise cast(%[[Y]]) : (tensor<4x8xf32>) -> tensor<4x8xbf16>
// CHECK: %[[HALF:.*]] = colossal.constant dense<5.000000e-01> : tensor<1xbf16>
// CHECK: colossal.elementwise mul(%[[N]], %[[HALF]]) : (tensor<4x8xbf16>, tensor<1xbf16>) -> tensor<4x8xbf16>
// CHECK: colossal.elementwise mul(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<1xf32>) -> tensor<4x8xf32>
func.func @rms(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %half = colossal.constant dense<5.000000e-01> : tensor<1xf32> : tensor<1xf32>
  %tenth = colossal.constant dense<1.000000e-01> : tensor<1xf32> : tensor<1xf32>
  %q = colossal.elementwise mul(%x, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %m = colossal.reduce mean %q over [1] {keepdims = true} : tensor<4x8xf32> -> tensor<4x1xf32>
  %r = colossal.elementwise reciprocal(%m) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %y = colossal.elementwise mul(%x, %r) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %a = colossal.elementwise mul(%y, %half) : (tensor<4x8xf32>, tensor<1xf32>) -> tensor<4x8xf32>
  %b = colossal.elementwise mul(%y, %tenth) : (tensor<4x8xf32>, tensor<1xf32>) -> tensor<4x8xf32>
  return %a, %b : tensor<4x8xf32>, tensor<4x8xf32>
}

// Angles are computed in f32, products of frequencies and positions as well; looked-up rows are narrow.
// CHECK-LABEL: func.func @positions
// CHECK: colossal.contract {{.*}} -> tensor<6x4xf32>
// CHECK: colossal.elementwise cos(%{{.*}}) : (tensor<6x4xf32>) -> tensor<6x4xf32>
// CHECK: colossal.gather {{.*}} tensor<10x4xbf16>, tensor<6xi64> -> tensor<6x4xbf16>
func.func @positions(%ids: tensor<6xi64>) -> tensor<6x4xf32> {
  %f = colossal.parameter "f" {bytes = 16 : i64, file = "", offset = 0 : i64} : tensor<4xf32>
  %e = colossal.parameter "e" {bytes = 160 : i64, file = "", offset = 16 : i64} : tensor<10x4xf32>
  %p = colossal.elementwise cast(%ids) : (tensor<6xi64>) -> tensor<6xf32>
  %t = colossal.contract %p [0], %f [1] -> [0, 1] : (tensor<6xf32>, tensor<4xf32>) -> tensor<6x4xf32>
  %c = colossal.elementwise cos(%t) : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %x = colossal.gather %e[%ids] {axis = 0 : i64} : tensor<10x4xf32>, tensor<6xi64> -> tensor<6x4xf32>
  %y = colossal.elementwise mul(%x, %c) : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  return %y : tensor<6x4xf32>
}

// A file of 16 bits is widened, but for its arguments and results; f64 and integers stay.
// F32-LABEL: func.func @halves
// F32-SAME: (%[[X:.*]]: tensor<4xf16>, %{{.*}}: tensor<4xf64>) -> (tensor<4xf16>, tensor<4xf64>)
// F32: %[[W:.*]] = colossal.elementwise cast(%[[X]]) : (tensor<4xf16>) -> tensor<4xf32>
// F32: colossal.elementwise exp(%[[W]]) : (tensor<4xf32>) -> tensor<4xf32>
// F32: colossal.elementwise cast(%{{.*}}) : (tensor<4xf32>) -> tensor<4xf16>
func.func @halves(%x: tensor<4xf16>, %d: tensor<4xf64>) -> (tensor<4xf16>, tensor<4xf64>) {
  %e = colossal.elementwise exp(%x) : (tensor<4xf16>) -> tensor<4xf16>
  %z = colossal.elementwise exp(%d) : (tensor<4xf64>) -> tensor<4xf64>
  return %e, %z : tensor<4xf16>, tensor<4xf64>
}
