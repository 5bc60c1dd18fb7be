// A sum over the rows of a batch is added up by the turns of the loop; what reads it stands behind the loop.
// RUN: colossal-opt %s --colossal-propagate-batch --colossal-search-layouts --colossal-partition > %t
// RUN: FileCheck %s --check-prefix=LOCAL < %t
// RUN: colossal-opt %t --colossal-schedule=target-cpu=x86-64 -colossal-verify-phase=phase=schedule | FileCheck %s
// RUN: not colossal-opt %S/Inputs/sums-in-the-loop.mlir --colossal-propagate-batch -o /dev/null 2>&1 | FileCheck %s --check-prefix=NEEDS
// NEEDS: works on the rows of the batch with a sum over all of them: microbatches would change what it computes

// LOCAL: colossal.contract {{.*}} -> tensor<16x32xf32>
// LOCAL: shard.all_reduce {{.*}} on @mesh grid_axes = [0]
// CHECK: plan.program @step step {
// CHECK: plan.launch @fill{{.*}}<@activations[[[SUM:[0-9]+]], 2048]>
// CHECK: plan.repeat 4 {
// CHECK: plan.launch @contract
// CHECK-NOT: plan.collective
// CHECK: }
// CHECK: plan.launch @sub
// CHECK-SAME: <@states[
module attributes {dist.mesh = #dist.mesh<["microbatch" = 4 loop]>, colossal.training = {}} {
  func.func @step(%x: tensor<16x16xf32> {colossal.name = "x", colossal.batch = 0 : i64},
      %g: tensor<16x32xf32> {colossal.name = "g", colossal.batch = 0 : i64},
      %w: tensor<16x32xf32> {colossal.state = "w", colossal.state_info = {kind = "parameter", parameter = "w", source = {name = "w", file = "", offset = 0 : i64, bytes = 2048 : i64}}})
      -> (tensor<16x32xf32> {colossal.state = "w"}) attributes {colossal.role = "step"} {
    %d = colossal.contract %x [0, 1], %g [0, 2] -> [1, 2] : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    %v = colossal.elementwise sub(%w, %d) : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    return %v : tensor<16x32xf32>
  }
}
