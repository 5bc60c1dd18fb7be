// Stages 2 and 3 of ZeRO in microbatches: each turn brings a stored parameter together for each pass, and reduces its gradient
// to the piece that the rank adds up. Nothing whole outlives a turn.
// RUN: colossal-opt %s --colossal-propagate-batch --colossal-cut-stages --colossal-search-layouts --colossal-partition > %t
// RUN: FileCheck %s --check-prefix=LOCAL < %t
// RUN: colossal-opt %t --colossal-schedule=target-cpu=x86-64 -colossal-verify-phase=phase=schedule | FileCheck %s

// LOCAL: %[[W1:.*]] = shard.all_gather %{{.*}} {dist.each_turn} : tensor<16x16xf32> -> tensor<16x32xf32>
// LOCAL: colossal.contract %{{.*}}, %[[W1]]
// LOCAL: %[[W2:.*]] = shard.all_gather %{{.*}} {dist.each_turn} : tensor<16x16xf32> -> tensor<16x32xf32>
// LOCAL: colossal.contract %{{.*}}, %[[W2]]
// LOCAL: %[[PIECE:.*]] = shard.reduce_scatter %{{.*}} on @mesh grid_axes = [0]
// LOCAL: shard.all_reduce %[[PIECE]] on @mesh grid_axes = [1] : tensor<16x16xf32>
// CHECK: plan.program @step step {
// CHECK-NOT: plan.collective
// CHECK: plan.launch @fill{{.*}}<@activations[{{[0-9]+}}, 1024]>
// CHECK-NOT: plan.collective
// CHECK: plan.repeat 4 {
// CHECK: plan.collective{{ +}}all_gather
// CHECK-SAME: -> <@activations[[[WHOLE:[0-9]+]], 2048]>
// CHECK: plan.collective{{ +}}all_gather
// CHECK-SAME: -> <@activations[[[WHOLE]], 2048]>
// CHECK: plan.collective{{ +}}reduce_scatter
// CHECK: plan.launch @add
// CHECK: }
// CHECK-NOT: plan.collective
module attributes {dist.mesh = #dist.mesh<["data" = 2, "microbatch" = 4 loop]>, colossal.training = {batch_axis = "data", scatters_in_turns}} {
  func.func @step(%x: tensor<16x16xf32> {colossal.name = "x", colossal.batch = 0 : i64},
      %w: tensor<16x32xf32> {colossal.state = "w", colossal.stored_over = array<i64: 0>,
                             colossal.state_info = {kind = "parameter", parameter = "w", source = {name = "w", file = "", offset = 0 : i64, bytes = 2048 : i64}}})
      -> (tensor<16x32xf32> {colossal.state = "w"}) attributes {colossal.role = "step"} {
    %forward = colossal.reshape %w {colossal.stored_over = array<i64: 0>, dist.each_turn} : tensor<16x32xf32> -> tensor<16x32xf32>
    %y = colossal.contract %x [0, 1], %forward [1, 2] -> [0, 2] : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    %backward = colossal.reshape %w {colossal.stored_over = array<i64: 0>, dist.each_turn} : tensor<16x32xf32> -> tensor<16x32xf32>
    %dx = colossal.contract %y [0, 2], %backward [1, 2] -> [0, 1] : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x16xf32>
    %z = colossal.elementwise mul(%dx, %x) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %d = colossal.contract %z [0, 1], %y [0, 2] -> [1, 2] : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    %v = colossal.elementwise sub(%w, %d) {colossal.stored_over = array<i64: 0>} : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    return %v : tensor<16x32xf32>
  }
}
