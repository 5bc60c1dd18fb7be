// A state that is updated in parts is brought together where it lies, in another shape of the same order, too; not while its old value is read.
// RUN: colossal-opt %s --colossal-schedule=target-cpu=x86-64 -colossal-verify-phase=phase=schedule | FileCheck %s
module attributes {dist.mesh = #dist.mesh<["data" = 2]>} {
  shard.grid @mesh(shape = 2)
  // CHECK: plan.program @step step
  // CHECK: plan.collective all_gather() [0] <@activations[{{[0-9]+}}, 512]> -> <@states[0, 1024]>
  // CHECK: plan.collective all_gather() [0] <@activations[{{[0-9]+}}, 512]> -> <@states[1024, 1024]>
  // CHECK: plan.collective all_gather() [0] <@activations[{{[0-9]+}}, 512]> -> <@activations[[[LATE:[0-9]+]], 1024]>
  // CHECK: plan.launch @tanh{{.*}}<@states[2048, 1024]>
  // CHECK-NEXT: plan.copy <@activations[[[LATE]], 1024]> -> <@states[2048, 1024]>
  // CHECK-NEXT: }
  func.func @step(%g: tensor<8x16xf32> {colossal.name = "g", dist.sharding = #dist.sharding<[8], [32:(0)]>},
      %a: tensor<8x32xf32> {colossal.state = "a", colossal.state_info = {kind = "parameter", parameter = "a"}, dist.sharding = #dist.sharding<[8], [32]>},
      %b: tensor<4x64xf32> {colossal.state = "b", colossal.state_info = {kind = "parameter", parameter = "b"}, dist.sharding = #dist.sharding<[4], [64]>},
      %c: tensor<8x32xf32> {colossal.state = "c", colossal.state_info = {kind = "parameter", parameter = "c"}, dist.sharding = #dist.sharding<[8], [32]>})
      -> (tensor<8x32xf32> {colossal.state = "a", dist.sharding = #dist.sharding<[8], [32]>},
          tensor<4x64xf32> {colossal.state = "b", dist.sharding = #dist.sharding<[4], [64]>},
          tensor<8x32xf32> {colossal.state = "c", dist.sharding = #dist.sharding<[8], [32]>},
          tensor<8x32xf32> {colossal.name = "y", dist.sharding = #dist.sharding<[8], [32]>}) attributes {colossal.role = "step"} {
    %a0 = shard.all_slice %a on @mesh grid_axes = [0] slice_axis = 1 : tensor<8x32xf32> -> tensor<8x16xf32>
    %a1 = colossal.elementwise sub(%a0, %g) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %a2 = shard.all_gather %a1 on @mesh grid_axes = [0] gather_axis = 1 : tensor<8x16xf32> -> tensor<8x32xf32>
    %b8 = colossal.reshape %b : tensor<4x64xf32> -> tensor<8x32xf32>
    %b0 = shard.all_slice %b8 on @mesh grid_axes = [0] slice_axis = 1 : tensor<8x32xf32> -> tensor<8x16xf32>
    %b1 = colossal.elementwise add(%b0, %g) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %b2 = shard.all_gather %b1 on @mesh grid_axes = [0] gather_axis = 1 : tensor<8x16xf32> -> tensor<8x32xf32>
    %b3 = colossal.reshape %b2 : tensor<8x32xf32> -> tensor<4x64xf32>
    %c0 = shard.all_slice %c on @mesh grid_axes = [0] slice_axis = 1 : tensor<8x32xf32> -> tensor<8x16xf32>
    %c1 = colossal.elementwise mul(%c0, %g) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %c2 = shard.all_gather %c1 on @mesh grid_axes = [0] gather_axis = 1 : tensor<8x16xf32> -> tensor<8x32xf32>
    %y = colossal.elementwise tanh(%c) : (tensor<8x32xf32>) -> tensor<8x32xf32>
    return %a2, %b3, %c2, %y : tensor<8x32xf32>, tensor<4x64xf32>, tensor<8x32xf32>, tensor<8x32xf32>
  }
}
