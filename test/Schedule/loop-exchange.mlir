// What ranks exchange of a turn's parts of sums: each as soon as it is made, and it is added up when the second part behind it has been made,
// not at the turn's end with all others. What is the same in all turns is made once, though a backward pass makes it again.
// RUN: colossal-opt %s --pass-pipeline='builtin.module(colossal-propagate-batch,colossal-search-layouts{pin={y=m:data} pin={z=m:data} pin={d.=k:data}},colossal-partition,colossal-schedule{target-cpu=x86-64},colossal-verify-phase{phase=schedule})' | FileCheck %s
// CHECK: plan.program @step step
// CHECK: plan.launch @tanh
// CHECK-NOT: plan.launch @tanh
// CHECK: plan.repeat 4 {
// CHECK: plan.collective{{ +}}reduce_scatter
// CHECK: plan.launch @contract
// CHECK: plan.collective{{ +}}reduce_scatter
// CHECK: plan.launch @contract
// CHECK-NEXT: plan.launch @add
// CHECK-NEXT: plan.collective{{ +}}reduce_scatter
// CHECK: }
module attributes {dist.mesh = #dist.mesh<["data" = 2, "microbatch" = 4 loop]>, colossal.training = {batch_axis = "data", scatters_in_turns}} {
  func.func @step(%x: tensor<16x16xf32> {colossal.name = "x", colossal.batch = 0 : i64},
      %w: tensor<16x32xf32> {colossal.state = "w", colossal.stored_over = array<i64: 0>,
                             colossal.state_info = {kind = "parameter", parameter = "w", source = {name = "w", file = "", offset = 0 : i64, bytes = 2048 : i64}}},
      %v: tensor<16x32xf32> {colossal.state = "v", colossal.stored_over = array<i64: 0>,
                             colossal.state_info = {kind = "parameter", parameter = "v", source = {name = "v", file = "", offset = 2048 : i64, bytes = 2048 : i64}}},
      %u: tensor<16x32xf32> {colossal.state = "u", colossal.stored_over = array<i64: 0>,
                             colossal.state_info = {kind = "parameter", parameter = "u", source = {name = "u", file = "", offset = 4096 : i64, bytes = 2048 : i64}}},
      %c: tensor<16x32xf32> {colossal.state = "c", colossal.state_info = {kind = "constant", source = {name = "c", file = "", offset = 6144 : i64, bytes = 2048 : i64}}})
      -> (tensor<16x32xf32> {colossal.state = "w"}, tensor<16x32xf32> {colossal.state = "v"}, tensor<16x32xf32> {colossal.state = "u"}) attributes {colossal.role = "step"} {
    %t = colossal.elementwise tanh(%c) : (tensor<16x32xf32>) -> tensor<16x32xf32>
    %y = colossal.contract %x [0, 1], %t [1, 2] -> [0, 2] : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32> loc("y")
    %again = colossal.elementwise tanh(%c) : (tensor<16x32xf32>) -> tensor<16x32xf32>
    %z = colossal.contract %y [0, 2], %again [1, 2] -> [0, 1] : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x16xf32> loc("z")
    %dw = colossal.contract %z [0, 1], %y [0, 2] -> [1, 2] : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32> loc("dw")
    %e = colossal.elementwise exp(%z) : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %dv = colossal.contract %e [0, 1], %y [0, 2] -> [1, 2] : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32> loc("dv")
    %s = colossal.elementwise sin(%e) : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %du = colossal.contract %s [0, 1], %y [0, 2] -> [1, 2] : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32> loc("du")
    %nw = colossal.elementwise sub(%w, %dw) {colossal.stored_over = array<i64: 0>} : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    %nv = colossal.elementwise sub(%v, %dv) {colossal.stored_over = array<i64: 0>} : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    %nu = colossal.elementwise sub(%u, %du) {colossal.stored_over = array<i64: 0>} : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    return %nw, %nv, %nu : tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>
  }
}
