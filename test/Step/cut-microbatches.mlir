// Stages of a program whose batch is cut into microbatches: arguments say where the batch stands in them, also in what is received,
// where a stage does not show that 24 rows are 6 of a batch with 4 each. Axes have the numbers of the stage's mesh.
//
// RUN: colossal-opt %s --colossal-propagate-batch --colossal-cut-stages --colossal-verify-phase=phase=step | FileCheck %s
// RUN: colossal-opt %s --colossal-propagate-batch --colossal-cut-stages --colossal-search-layouts --colossal-partition --colossal-plan-transfers | FileCheck %s --check-prefix=PLANNED
// RUN: colossal-opt %s --colossal-propagate-batch --colossal-cut-stages --colossal-search-layouts --colossal-partition --colossal-plan-transfers=sends-wait | FileCheck %s --check-prefix=ORDERED

// CHECK: module attributes {dist.mesh = #dist.mesh<["stage" = 2, "microbatch" = 3 loop]>}
// CHECK: module @stage0 attributes {dist.mesh = #dist.mesh<["x" = 1, "microbatch" = 3 loop]>
// CHECK: func.func @main(%{{.*}}: tensor<6x4x16xf32> {colossal.name = "x", dist.loop_place = array<i64: 0, 1, 6>, dist.place = 0 : i64, dist.sharding = #dist.sharding<[6:(1)], [4], [16]>})
// CHECK-SAME: -> (tensor<24x16xf32> {colossal.name = "send.h", dist.cuts = [array<i64: 4>, array<i64>], dist.sends = 0 : i64, dist.sharding = #dist.sharding<[6:(1), 4], [16]>})
// CHECK: module @stage1
// CHECK: func.func @main(%{{.*}}: tensor<24x16xf32> {colossal.name = "recv.h", dist.cuts = [array<i64: 4>, array<i64>], dist.loop_place = array<i64: 0, 1, 6>, dist.receives = 0 : i64, dist.sharding = #dist.sharding<[6:(1), 4], [16]>})
// CHECK: colossal.contract {{.*}} {dist.assignment = [array<i64: 1>, array<i64>

// A turn sends and receives two of the six: 8 of the 24 rows.
// PLANNED: module @stage0
// PLANNED: func.func @main(%{{.*}}: tensor<2x4x16xf32>
// PLANNED-SAME: dist.messages = [{peers = array<i64: 1>, pieces = [{offset = 0 : i64, sizes = array<i64: 8, 16>
// PLANNED: module @stage1
// PLANNED: func.func @main(%{{.*}}: tensor<8x16xf32>
// PLANNED-SAME: dist.messages = [{peers = array<i64: 0>

// Where sends wait, it is sent behind the turn that makes it and received two turns before that which needs it has ended.
// ORDERED: module @stage0
// ORDERED: dist.messages = [{order = 0 : i64, passes = 0 : i64, peers = array<i64: 1>
// ORDERED: module @stage1
// ORDERED: dist.messages = [{order = 0 : i64, passes = 2 : i64, peers = array<i64: 0>
module attributes {dist.mesh = #dist.mesh<["stage" = 2, "microbatch" = 3 loop]>} {
  func.func @main(%x: tensor<6x4x16xf32> {colossal.name = "x"}) -> (tensor<24x16xf32> {colossal.name = "y"}) {
    %w0 = colossal.parameter "w0" {file = "", offset = 0 : i64, bytes = 1024 : i64} : tensor<16x16xf32>
    %w1 = colossal.parameter "w1" {file = "", offset = 1024 : i64, bytes = 1024 : i64} : tensor<16x16xf32>
    %f = colossal.reshape %x : tensor<6x4x16xf32> -> tensor<24x16xf32> loc("flat")
    %h = colossal.contract %f [0, 1], %w0 [1, 2] -> [0, 2] : (tensor<24x16xf32>, tensor<16x16xf32>) -> tensor<24x16xf32> loc("fc0"("h"))
    %y = colossal.contract %h [0, 1], %w1 [1, 2] -> [0, 2] : (tensor<24x16xf32>, tensor<16x16xf32>) -> tensor<24x16xf32> loc("fc1"("y"))
    return %y : tensor<24x16xf32>
  }
}
