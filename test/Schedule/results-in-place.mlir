// A kernel with two results writes one of them over an input that it reads at its own places, as the last: here a product that is made again
// for a gradient, with the gradient over its ReLU behind it.
// RUN: colossal-opt %s --colossal-partition --colossal-schedule=target-cpu=x86-64 -colossal-verify-phase=phase=schedule | FileCheck %s
module attributes {dist.mesh = #dist.mesh<["x" = 1]>} {
  // CHECK: plan.program @over infer
  // CHECK: plan.launch @contract{{.*}}<@activations[[[G:[0-9]+]], 131072]>] writes 1
  // CHECK-NEXT: plan.launch @contract_select{{.*}}#plan.buffer<@activations[[[G]], 131072]>{{.*}}#plan.buffer<@activations[[[G]], 131072]>{{.*}} writes 2 {{.*}}also_written = array<i64: 2>
  func.func @over(%a: tensor<64x256xf32>, %b: tensor<256x512xf32>, %d: tensor<64x32xf32>, %c: tensor<512x32xf32>) -> (tensor<512x32xf32>, tensor<64x256xf32>) {
    %zero = colossal.constant dense<0.0> : tensor<1x1xf32> : tensor<1x1xf32>
    %g = colossal.contract %d [0, 2], %c [1, 2] -> [0, 1] : (tensor<64x32xf32>, tensor<512x32xf32>) -> tensor<64x512xf32>
    %x = colossal.contract %a [0, 1], %b [1, 2] -> [0, 2] : (tensor<64x256xf32>, tensor<256x512xf32>) -> tensor<64x512xf32>
    %r = colossal.elementwise relu(%x) : (tensor<64x512xf32>) -> tensor<64x512xf32>
    %i = colossal.elementwise greater(%r, %zero) : (tensor<64x512xf32>, tensor<1x1xf32>) -> tensor<64x512xi1>
    %s = colossal.elementwise select(%i, %g, %zero) : (tensor<64x512xi1>, tensor<64x512xf32>, tensor<1x1xf32>) -> tensor<64x512xf32>
    %w = colossal.contract %r [0, 1], %d [0, 2] -> [1, 2] : (tensor<64x512xf32>, tensor<64x32xf32>) -> tensor<512x32xf32>
    %y = colossal.contract %s [0, 1], %b [2, 1] -> [0, 2] : (tensor<64x512xf32>, tensor<256x512xf32>) -> tensor<64x256xf32>
    return %w, %y : tensor<512x32xf32>, tensor<64x256xf32>
  }
}
