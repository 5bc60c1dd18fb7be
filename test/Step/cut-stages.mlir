// A function becomes a function in each of as many modules as the mesh has stages; pins say which op stands where.
//
// RUN: colossal-opt %s --colossal-cut-stages | FileCheck %s
// RUN: colossal-opt %s --pass-pipeline='builtin.module(colossal-cut-stages{pin={fc1=stage:1}})' | FileCheck %s --check-prefix=PIN
// RUN: not colossal-opt %s --pass-pipeline='builtin.module(colossal-cut-stages{pin={fc0=stage:1} pin={fc.=stage:0} pin={act0=stage:1}})' 2>&1 | FileCheck %s --check-prefix=AGAINST
// RUN: not colossal-opt %s --pass-pipeline='builtin.module(colossal-cut-stages{pin={fc0=stage:2}})' 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not colossal-opt %s --pass-pipeline='builtin.module(colossal-cut-stages{pin={nothing=stage:0}})' 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not colossal-opt %s --pass-pipeline='builtin.module(colossal-cut-stages{pin={.*=stage:0}})' 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: colossal-opt %s --colossal-cut-stages --colossal-cut-stages --colossal-verify-phase=phase=step | FileCheck %s
// RUN: colossal-opt %s --colossal-cut-stages --colossal-search-layouts --colossal-partition --colossal-plan-transfers | FileCheck %s --check-prefix=PLANNED

// What parameters and the mask's input make is computed in either stage; the value between them is numbered; inputs
// and outputs keep their places.
// CHECK: module attributes {dist.mesh = #dist.mesh<["stage" = 2, "model" = 2]>}
// CHECK: module @stage0 attributes {dist.mesh = #dist.mesh<["model" = 2]>, dist.stage = 0 : i64}
// CHECK: func.func @main(%{{.*}}: tensor<64x64xf32> {colossal.name = "x", dist.place = 0 : i64}, %[[MASK:.*]]: tensor<64xi64> {colossal.name = "mask", dist.place = 1 : i64})
// CHECK-SAME: -> (tensor<64x64xf32> {colossal.name = "send.h1", dist.sends = 0 : i64})
// CHECK: colossal.elementwise cast(%[[MASK]])
// CHECK-COUNT-2: colossal.contract
// CHECK: module @stage1 attributes {dist.mesh = #dist.mesh<["model" = 2]>, dist.stage = 1 : i64}
// CHECK: func.func @main(%[[MASK:.*]]: tensor<64xi64> {colossal.name = "mask", dist.place = 1 : i64}, %[[X:.*]]: tensor<64x64xf32> {colossal.name = "recv.h1", dist.receives = 0 : i64})
// CHECK-SAME: -> (tensor<64x64xf32> {colossal.name = "y", dist.place = 0 : i64})
// CHECK: colossal.elementwise cast(%[[MASK]])
// CHECK: colossal.contract %[[X]]
// CHECK: colossal.contract
// CHECK-NOT: func.func

// PIN: module @stage0
// PIN-COUNT-1: colossal.contract
// PIN: module @stage1
// PIN-COUNT-3: colossal.contract

// AGAINST: pin 'act0=stage:1' puts 'act0' into stage 1, but 'fc1', which needs what it computes, is put into stage 0 by pin 'fc.=stage:0': data flows from stage to stage in their order
// NUMBER: error: pin 'fc0=stage:2': the mesh has 2 stages, which are numbered from 0 to 1
// NOTHING: error: pin 'nothing=stage:0' matches no operator
// EMPTY: error: the pins leave one of the 2 stages without any operator

// Each rank sends to the one in its place.
// PLANNED: module @stage0
// PLANNED: dist.messages = [{peers = array<i64: 2, 3>, pieces = [{offset = 0 : i64
// PLANNED: module @stage1
// PLANNED: dist.messages = [{peers = array<i64: 0, 1>, pieces = [{offset = 0 : i64
module attributes {dist.mesh = #dist.mesh<["stage" = 2, "model" = 2]>} {
  func.func @main(%x: tensor<64x64xf32> {colossal.name = "x"}, %mask: tensor<64xi64> {colossal.name = "mask"}) -> (tensor<64x64xf32> {colossal.name = "y"}) {
    %w0 = colossal.parameter "w0" {file = "", offset = 0 : i64, bytes = 16384 : i64} : tensor<64x64xf32>
    %w1 = colossal.parameter "w1" {file = "", offset = 16384 : i64, bytes = 16384 : i64} : tensor<64x64xf32>
    %w2 = colossal.parameter "w2" {file = "", offset = 32768 : i64, bytes = 16384 : i64} : tensor<64x64xf32>
    %w3 = colossal.parameter "w3" {file = "", offset = 49152 : i64, bytes = 16384 : i64} : tensor<64x64xf32>
    %m = colossal.elementwise cast(%mask) : (tensor<64xi64>) -> tensor<64xf32> loc("mask")
    %h0 = colossal.contract %x [0, 1], %w0 [1, 2] -> [0, 2] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("fc0"("h0"))
    %g0 = colossal.elementwise mul(%h0, %m) : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64x64xf32> loc("act0"("g0"))
    %h1 = colossal.contract %g0 [0, 1], %w1 [1, 2] -> [0, 2] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("fc1"("h1"))
    %h2 = colossal.contract %h1 [0, 1], %w2 [1, 2] -> [0, 2] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("fc2"("h2"))
    %g2 = colossal.elementwise mul(%h2, %m) : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64x64xf32> loc("act2"("g2"))
    %y = colossal.contract %g2 [0, 1], %w3 [1, 2] -> [0, 2] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("fc3"("y"))
    return %y : tensor<64x64xf32>
  }
}
