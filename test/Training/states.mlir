// A state is one thing in all functions: it lies alike, at one place, which the load program fills, and is written over where
// nobody reads the old value any more.
// RUN: colossal-opt %s --colossal-search-layouts=pin=whole=replicated > %t
// RUN: FileCheck %s --check-prefix=LAYOUT < %t
// RUN: colossal-opt %t --colossal-partition --colossal-schedule=target-cpu=x86-64 -colossal-verify-phase=phase=schedule | FileCheck %s

// LAYOUT: func.func @step
// LAYOUT-SAME: colossal.replicated_over = array<i64: 0>, colossal.state = "w"
// LAYOUT-SAME: dist.sharding = #dist.sharding<[64], [32]>
// LAYOUT-SAME: colossal.state = "w#exp_avg"
// LAYOUT-SAME: dist.sharding = #dist.sharding<[[SPLIT:\[(64:\(0\)\], \[32|64\], \[32:\(0\))\]]]>
// LAYOUT-SAME: -> (tensor<64x32xf32> {colossal.state = "w", dist.sharding = #dist.sharding<[64], [32]>}, tensor<64x32xf32> {colossal.state = "w#exp_avg", dist.sharding = #dist.sharding<[[SPLIT]]>}
// LAYOUT: func.func @evaluate
// LAYOUT-SAME: colossal.state = "w"
// LAYOUT-SAME: dist.sharding = #dist.sharding<[64], [32]>

// CHECK: plan.program @load load {
// CHECK-NEXT: plan.load_parameter @p0 {{.*}} -> <@states[0, 8192]>
// CHECK-NEXT: }
// CHECK: plan.program @step step {
// What is made element by element is written over the old value, by the kernel of a contraction, too.
// CHECK: plan.launch @contract_add
// CHECK-SAME: <@states[8192, 4096]>, #plan.buffer<@states[8192, 4096]>] writes 1 {{.*}}also_written = array<i64: 2>
// CHECK-NEXT: plan.collective all_gather() {{.*}} <@states[8192, 4096]> -> <@activations
// CHECK: plan.launch @sub
// CHECK-SAME: [#plan.buffer<@states[0, 8192]>, #plan.buffer<@activations[{{[0-9]+}}, 8192]>, #plan.buffer<@states[0, 8192]>] writes 1 tiles 1 {also_written = array<i64: 0>
// CHECK-NOT: plan.copy
// CHECK: plan.program @evaluate infer {
// CHECK: plan.launch
// CHECK-SAME: <@states[0, 8192]>
// CHECK: plan.state parameter "w" of "w" tied ["v"]
// CHECK: plan.state slot "w#exp_avg" of "w" slot "exp_avg"
// CHECK: plan.program @save save {
// CHECK-NEXT: plan.output "w" : tensor<64x32xf32> {{.*}} <@states[0, 8192]>
// CHECK-NEXT: plan.output "w#exp_avg" : tensor<64x32xf32> {{.*}} <@states[8192, 4096]>
// CHECK: plan.program @restore restore {
// CHECK-NEXT: plan.input "w"
module attributes {dist.mesh = #dist.mesh<["data" = 2]>} {
  func.func @step(%x: tensor<16x64xf32> {colossal.name = "x"}, %g: tensor<16x32xf32> {colossal.name = "g"},
      %w: tensor<64x32xf32> {colossal.state = "w", colossal.replicated_over = array<i64: 0>, colossal.state_info = {kind = "parameter", parameter = "w", tied = ["v"], source = {name = "w", file = "", offset = 0 : i64, bytes = 8192 : i64}}},
      %m: tensor<64x32xf32> {colossal.state = "w#exp_avg", colossal.stored_over = array<i64: 0>, colossal.state_info = {kind = "slot", parameter = "w", slot = "exp_avg"}})
      -> (tensor<64x32xf32> {colossal.state = "w"}, tensor<64x32xf32> {colossal.state = "w#exp_avg"}) attributes {colossal.role = "step"} {
    %d = colossal.contract %x [0, 1], %g [0, 2] -> [1, 2] : (tensor<16x64xf32>, tensor<16x32xf32>) -> tensor<64x32xf32>
    %n = colossal.elementwise add(%m, %d) : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
    %v = colossal.elementwise sub(%w, %n) : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32> loc("whole")
    return %v, %n : tensor<64x32xf32>, tensor<64x32xf32>
  }
  func.func @evaluate(%x: tensor<16x64xf32> {colossal.name = "x"},
      %w: tensor<64x32xf32> {colossal.state = "w", colossal.replicated_over = array<i64: 0>, colossal.state_info = {kind = "parameter", parameter = "w", tied = ["v"], source = {name = "w", file = "", offset = 0 : i64, bytes = 8192 : i64}}})
      -> (tensor<16x32xf32> {colossal.name = "y"}) {
    %y = colossal.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
    return %y : tensor<16x32xf32>
  }
}
