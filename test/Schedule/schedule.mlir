// Local tensors and collectives become programs: parameters are loaded once, values lie in arenas, a fusion group is one launch,
// and a collective stands between what it needs and what needs it.
// RUN: colossal-opt %s --colossal-partition --colossal-schedule=target-cpu=x86-64 -colossal-verify-phase=phase=schedule | FileCheck %s
module attributes {dist.mesh = #dist.mesh<["x" = 2]>} {
  // CHECK-DAG: plan.parameter @{{.*}} "w" : tensor<8x6xf32>
  // CHECK-DAG: plan.arena @weights device weights
  // CHECK-DAG: plan.arena @activations device activations
  // CHECK-DAG: plan.arena @io device io
  // CHECK-DAG: plan.kernel @[[CONTRACT:contract.*]] buffers
  // CHECK-DAG: plan.kernel @[[AFTER:sqrt.*]] buffers
  // CHECK: plan.program @load load
  // CHECK: plan.load_parameter
  // CHECK: plan.program @main infer
  // CHECK: plan.input "x" : tensor<4x8xf32> <[4], [8:(0)]>
  // CHECK: plan.output "y" : tensor<4x6xf32>
  // CHECK: plan.launch @[[CONTRACT]]()
  // CHECK: plan.collective all_reduce() [0]
  // CHECK: plan.launch @[[AFTER]]()
  // CHECK-NOT: func.func
  func.func @main(%x: tensor<4x8xf32> {colossal.name = "x", dist.sharding = #dist.sharding<[4], [8:(0)]>})
      -> (tensor<4x6xf32> {colossal.name = "y", dist.sharding = #dist.sharding<[4], [6]>}) {
    %w = colossal.parameter "w" {file = "", offset = 0 : i64, bytes = 192 : i64, dist.assignment = [array<i64: 0>, array<i64>]} : tensor<8x6xf32>
    %0 = colossal.contract %x [0, 1], %w [1, 2] -> [0, 2] {dist.assignment = [array<i64>, array<i64: 0>, array<i64>]} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
    %1 = colossal.elementwise sqrt(%0) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    return %1 : tensor<4x6xf32>
  }
}
