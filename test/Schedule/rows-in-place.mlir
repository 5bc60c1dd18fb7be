// A kernel that goes row by row writes over what it reads at its own places alone, and is the last to read: statistics are read before the row is
// written. What is read once more later keeps its place.
// RUN: colossal-opt %s --colossal-partition --colossal-schedule=target-cpu=x86-64 -colossal-verify-phase=phase=schedule | FileCheck %s
module attributes {dist.mesh = #dist.mesh<["x" = 1]>} {
  // CHECK: plan.program @over infer
  // CHECK: plan.launch @contract{{.*}}<@activations[[[X:[0-9]+]], 131072]>] writes 1
  // CHECK-NEXT: plan.launch @exp_sub{{.*}}[#plan.buffer<@activations[[[X]], 131072]>, #plan.buffer<@activations[[[X]], 131072]>] writes 1 {{.*}}also_written = array<i64: 0>
  func.func @over(%a: tensor<64x256xf32>, %b: tensor<256x512xf32>, %c: tensor<512x32xf32>) -> tensor<64x32xf32> {
    %x = colossal.contract %a [0, 1], %b [1, 2] -> [0, 2] : (tensor<64x256xf32>, tensor<256x512xf32>) -> tensor<64x512xf32>
    %e = colossal.elementwise exp(%x) : (tensor<64x512xf32>) -> tensor<64x512xf32>
    %s = colossal.reduce sum %e over [1] {keepdims = true} : tensor<64x512xf32> -> tensor<64x1xf32>
    %t = colossal.elementwise sub(%x, %s) : (tensor<64x512xf32>, tensor<64x1xf32>) -> tensor<64x512xf32>
    %y = colossal.contract %t [0, 1], %c [1, 2] -> [0, 2] : (tensor<64x512xf32>, tensor<512x32xf32>) -> tensor<64x32xf32>
    return %y : tensor<64x32xf32>
  }
  // CHECK: plan.program @beside infer
  // CHECK: plan.launch @exp_sub
  // CHECK-NOT: also_written
  // CHECK: plan.launch @contract
  func.func @beside(%a: tensor<64x256xf32>, %b: tensor<256x512xf32>, %c: tensor<512x32xf32>) -> (tensor<64x32xf32>, tensor<64x32xf32>) {
    %x = colossal.contract %a [0, 1], %b [1, 2] -> [0, 2] : (tensor<64x256xf32>, tensor<256x512xf32>) -> tensor<64x512xf32>
    %e = colossal.elementwise exp(%x) : (tensor<64x512xf32>) -> tensor<64x512xf32>
    %s = colossal.reduce sum %e over [1] {keepdims = true} : tensor<64x512xf32> -> tensor<64x1xf32>
    %t = colossal.elementwise sub(%x, %s) : (tensor<64x512xf32>, tensor<64x1xf32>) -> tensor<64x512xf32>
    %y = colossal.contract %t [0, 1], %c [1, 2] -> [0, 2] : (tensor<64x512xf32>, tensor<512x32xf32>) -> tensor<64x32xf32>
    %z = colossal.contract %x [0, 1], %c [1, 2] -> [0, 2] : (tensor<64x512xf32>, tensor<512x32xf32>) -> tensor<64x32xf32>
    return %y, %z : tensor<64x32xf32>, tensor<64x32xf32>
  }
}
