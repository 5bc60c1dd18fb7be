// What depends on inputs only stands in the stage that first reads it, wherever it is written: it is not sent on.
//
// RUN: colossal-opt %s --pass-pipeline='builtin.module(colossal-cut-stages{pin={fc0=stage:0} pin={fc1=stage:1} pin={fc2=stage:2}})' | FileCheck %s

// CHECK: module @stage0
// CHECK-COUNT-1: colossal.contract
// CHECK: module @stage1
// CHECK-COUNT-1: colossal.contract
// CHECK: module @stage2
// CHECK-SAME: dist.stage = 2
// CHECK: func.func @main(%[[LABELS:.*]]: tensor<64x64xf32> {colossal.name = "labels", dist.place = 1 : i64}, %{{.*}}: tensor<64x64xf32> {colossal.name = "recv.h1"
// CHECK: %[[CLASSES:.*]] = colossal.contract %[[LABELS]]
// CHECK: colossal.elementwise tanh(%[[CLASSES]])
module attributes {dist.mesh = #dist.mesh<["stage" = 3]>} {
  func.func @main(%x: tensor<64x64xf32> {colossal.name = "x"}, %labels: tensor<64x64xf32> {colossal.name = "labels"}) -> (tensor<64x64xf32> {colossal.name = "y"}) {
    %w0 = colossal.parameter "w0" {file = "", offset = 0 : i64, bytes = 16384 : i64} : tensor<64x64xf32>
    %w1 = colossal.parameter "w1" {file = "", offset = 16384 : i64, bytes = 16384 : i64} : tensor<64x64xf32>
    %w2 = colossal.parameter "w2" {file = "", offset = 32768 : i64, bytes = 16384 : i64} : tensor<64x64xf32>
    %c = colossal.contract %labels [0, 1], %labels [1, 2] -> [0, 2] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("classes")
    %t = colossal.elementwise tanh(%c) : (tensor<64x64xf32>) -> tensor<64x64xf32> loc("smooth")
    %h0 = colossal.contract %x [0, 1], %w0 [1, 2] -> [0, 2] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("fc0"("h0"))
    %h1 = colossal.contract %h0 [0, 1], %w1 [1, 2] -> [0, 2] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("fc1"("h1"))
    %h2 = colossal.contract %h1 [0, 1], %w2 [1, 2] -> [0, 2] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("fc2"("h2"))
    %y = colossal.elementwise add(%h2, %t) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("loss"("y"))
    return %y : tensor<64x64xf32>
  }
}
