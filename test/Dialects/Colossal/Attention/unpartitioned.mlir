// The gradient of attention has no kernel: who schedules it as it is, is told what makes it of other ops.
// RUN: not colossal-opt %s --colossal-schedule=target-cpu=x86-64 2>&1 | FileCheck %s
// RUN: not colossal-opt %s -colossal-verify-phase=phase=partition 2>&1 | FileCheck %s --check-prefix=VERIFY
module attributes {dist.mesh = #dist.mesh<["x" = 1]>} {
  // CHECK: 'colossal.attention_gradient' op has no kernel: run colossal-partition, which makes it of other ops
  // VERIFY: has no kernel: partitioning should have made it of other ops
  func.func @main(%q: tensor<1x2x3x4xf32> {dist.sharding = #dist.sharding<[1], [2], [3], [4]>}) -> (tensor<1x2x3x4xf32> {dist.sharding = #dist.sharding<[1], [2], [3], [4]>}) {
    %r:3 = colossal.attention_gradient(%q, %q, %q, %q, %q) {scale = 1.0 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>
    return %r#0 : tensor<1x2x3x4xf32>
  }
}
