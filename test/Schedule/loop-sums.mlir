// What keeps memory through a loop. A part of a sum over its turns is added up where it is made, before what comes after it in a turn, so that its
// operands are not kept; what only the update behind the loop reads of states is made there, not before it.
// RUN: colossal-opt %s --colossal-propagate-batch --colossal-search-layouts --colossal-partition --colossal-schedule=target-cpu=x86-64 -colossal-verify-phase=phase=schedule | FileCheck %s
module attributes {dist.mesh = #dist.mesh<["microbatch" = 4 loop]>, colossal.training = {}} {
  // CHECK: plan.program @main infer
  // CHECK-NOT: plan.launch @tanh
  // CHECK: plan.repeat 4 {
  // CHECK: plan.launch @exp
  // CHECK-NEXT: plan.launch @contract_add
  // CHECK: plan.launch @sin
  // CHECK: }
  // CHECK: plan.launch @tanh
  func.func @main(%x: tensor<64x16xf32> {colossal.name = "x", colossal.batch = 0 : i64}, %w: tensor<16x16xf32> {colossal.name = "w"}) -> (tensor<16x16xf32> {colossal.name = "sum"}, tensor<64x16xf32> {colossal.name = "y"}) {
    %decay = colossal.elementwise tanh(%w) : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %e = colossal.elementwise exp(%x) : (tensor<64x16xf32>) -> tensor<64x16xf32>
    %s = colossal.contract %e [1, 0], %x [1, 2] -> [0, 2] : (tensor<64x16xf32>, tensor<64x16xf32>) -> tensor<16x16xf32>
    %y = colossal.elementwise sin(%x) : (tensor<64x16xf32>) -> tensor<64x16xf32>
    %r = colossal.contract %s [0, 1], %decay [1, 2] -> [0, 2] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    return %r, %y : tensor<16x16xf32>, tensor<64x16xf32>
  }
}
