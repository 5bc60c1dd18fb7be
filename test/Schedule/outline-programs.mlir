// RUN: colossal-opt %s --colossal-outline-programs=least=1 -split-input-file | FileCheck %s
// RUN: colossal-opt %s --colossal-outline-programs -split-input-file | FileCheck %s --check-prefix=LEAST

// Layers whose weights lie at equal distances and come from every second parameter: one argument tells them apart,
// whatever moves by it. Here the values of a layer lie in one place or another, and are an argument of their own.

// LEAST-NOT: plan.function
// CHECK-LABEL: plan.kernel @k
// CHECK: plan.function @load_block0 {
// CHECK-NEXT: ^bb0(%{{.*}}: index):
// CHECK-NEXT:   plan.load_parameter @p0 <[16]> -> <@weights[0, 64] by[128]>
// CHECK-SAME:     colossal.names = ["h.{0}.w"]
// CHECK-SAME:     strides = array<i64: 2>
// CHECK-NEXT:   plan.load_parameter @p1 <[8]> -> <@weights[64, 32] by[128]>
// CHECK-NEXT:   plan.copy <@weights[64, 32] by[128]> -> <@weights[96, 32] by[128]>
// CHECK-NEXT: }
// CHECK: plan.program @load load {
// CHECK-DAG:    %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG:    %[[C1:.*]] = arith.constant 1 : index
// CHECK-DAG:    %[[C2:.*]] = arith.constant 2 : index
// CHECK:        plan.call @load_block0(%[[C0]]) names ["0"]
// CHECK-NEXT:   plan.call @load_block0(%[[C1]]) names ["1"]
// CHECK-NEXT:   plan.call @load_block0(%[[C2]]) names ["2"]
// CHECK-NEXT: }
// CHECK: plan.function @main_block0 {
// CHECK-NEXT: ^bb0(%{{.*}}: index, %{{.*}}: index):
// CHECK:        %[[RANK:.*]] = dist.coordinate 0
// CHECK-NEXT:   plan.launch @k(%[[RANK]]) [#plan.buffer<@weights[0, 64] by[128]>, #plan.buffer<@activations[0, 64] by[0, 64]>]
// CHECK-SAME:     colossal.names = ["/h.{0}/MatMul", "/h.{0}/MatMul_output"], colossal.operators = ["/h.{0}/MatMul"]
// CHECK-NEXT:   plan.launch @k(%[[RANK]]) [#plan.buffer<@weights[64, 64] by[128]>, #plan.buffer<@activations[64, 64] by[0, -64]>]
// CHECK-NEXT:   plan.copy <@activations[0, 64] by[0, 64]> -> <@activations[128, 64]>
// CHECK: plan.program @main infer {
// CHECK:        plan.copy <@activations[128, 32]> -> <@activations[0, 32]>
// CHECK-NEXT:   plan.call @main_block0(%[[C0:.*]], %[[C0]]) names ["0"]
// CHECK-NEXT:   plan.call @main_block0(%[[C1:.*]], %[[C1]]) names ["1"]
// CHECK-NEXT:   plan.call @main_block0(%{{.*}}, %[[C0]]) names ["2"]
// CHECK-NEXT:   plan.copy <@activations[128, 32]> -> <@activations[64, 32]>
module attributes {dist.mesh = #dist.mesh<["x" = 2]>} {
  plan.arena @weights device weights 4096
  plan.arena @activations device activations 4096
  plan.parameter @p0 "h.0.w" : tensor<16xf32> {file = "", offset = 0 : i64, bytes = 64 : i64}
  plan.parameter @p1 "h.0.b" : tensor<8xf32> {file = "", offset = 64 : i64, bytes = 32 : i64}
  plan.parameter @p2 "h.1.w" : tensor<16xf32> {file = "", offset = 96 : i64, bytes = 64 : i64}
  plan.parameter @p3 "h.1.b" : tensor<8xf32> {file = "", offset = 160 : i64, bytes = 32 : i64}
  plan.parameter @p4 "h.2.w" : tensor<16xf32> {file = "", offset = 192 : i64, bytes = 64 : i64}
  plan.parameter @p5 "h.2.b" : tensor<8xf32> {file = "", offset = 256 : i64, bytes = 32 : i64}
  plan.kernel @k buffers 2 params 1
  plan.program @load load {
    plan.load_parameter @p0 <[16]> -> <@weights[0, 64]> loc("h.0.w")
    plan.load_parameter @p1 <[8]> -> <@weights[64, 32]> loc("h.0.b")
    plan.copy <@weights[64, 32]> -> <@weights[96, 32]>
    plan.load_parameter @p2 <[16]> -> <@weights[128, 64]> loc("h.1.w")
    plan.load_parameter @p3 <[8]> -> <@weights[192, 32]> loc("h.1.b")
    plan.copy <@weights[192, 32]> -> <@weights[224, 32]>
    plan.load_parameter @p4 <[16]> -> <@weights[256, 64]> loc("h.2.w")
    plan.load_parameter @p5 <[8]> -> <@weights[320, 32]> loc("h.2.b")
    plan.copy <@weights[320, 32]> -> <@weights[352, 32]>
  }
  plan.program @main infer {
    %x = dist.coordinate 0
    plan.copy <@activations[128, 32]> -> <@activations[0, 32]>
    plan.launch @k(%x) [#plan.buffer<@weights[0, 64]>, #plan.buffer<@activations[0, 64]>] writes 1 tiles 1 loc("/h.0/MatMul"("/h.0/MatMul_output"))
    plan.launch @k(%x) [#plan.buffer<@weights[64, 64]>, #plan.buffer<@activations[64, 64]>] writes 1 tiles 1
    plan.copy <@activations[0, 64]> -> <@activations[128, 64]>
    plan.launch @k(%x) [#plan.buffer<@weights[128, 64]>, #plan.buffer<@activations[64, 64]>] writes 1 tiles 1 loc("/h.1/MatMul"("/h.1/MatMul_output"))
    plan.launch @k(%x) [#plan.buffer<@weights[192, 64]>, #plan.buffer<@activations[0, 64]>] writes 1 tiles 1
    plan.copy <@activations[64, 64]> -> <@activations[128, 64]>
    plan.launch @k(%x) [#plan.buffer<@weights[256, 64]>, #plan.buffer<@activations[0, 64]>] writes 1 tiles 1 loc("/h.2/MatMul"("/h.2/MatMul_output"))
    plan.launch @k(%x) [#plan.buffer<@weights[320, 64]>, #plan.buffer<@activations[64, 64]>] writes 1 tiles 1
    plan.copy <@activations[0, 64]> -> <@activations[128, 64]>
    plan.copy <@activations[128, 32]> -> <@activations[64, 32]>
  }
}

// -----

// What is otherwise than a place is another instruction; what has events stays; in a loop, what a function sees of it
// is its first argument.

// CHECK-LABEL: module attributes {dist.mesh = #dist.mesh<["y" = 2]>}
// CHECK: plan.function @main_block0 {
// CHECK-NEXT: ^bb0(%[[TURN:.*]]: index, %{{.*}}: index):
// CHECK-NEXT:   plan.copy <@a[0, 64] by[256]> -> <@a[1024, 64]>
// CHECK-NEXT:   plan.launch @k(%[[TURN]]) [#plan.buffer<@a[2048, 64] by[0, 64]>]
// CHECK-NEXT:   plan.copy <@a[1024, 64]> -> <@a[0, 64] by[256]>
// CHECK: plan.program @main infer {
// CHECK:        plan.copy <@a[0, 32]> -> <@a[64, 32]>
// CHECK-NEXT:   plan.copy <@a[0, 48]> -> <@a[64, 48]>
// CHECK-NEXT:   plan.copy <@a[0, 32]> -> <@a[64, 32]> {signals = 1 : i64}
// CHECK-NEXT:   plan.copy <@a[0, 48]> -> <@a[64, 48]>
// CHECK-NEXT:   plan.repeat 4
// CHECK-NEXT:   ^bb0(%[[COUNTER:.*]]: index):
// CHECK:          plan.call @main_block0(%[[COUNTER]], %{{.*}})
// CHECK-NEXT:     plan.call @main_block0(%[[COUNTER]], %{{.*}})
// CHECK-NEXT:     plan.call @main_block0(%[[COUNTER]], %{{.*}})
// CHECK-NEXT:   }
module attributes {dist.mesh = #dist.mesh<["y" = 2]>} {
  plan.arena @a device activations 4096
  plan.kernel @k buffers 1 params 1
  plan.program @main infer {
    plan.copy <@a[0, 32]> -> <@a[64, 32]>
    plan.copy <@a[0, 48]> -> <@a[64, 48]>
    plan.copy <@a[0, 32]> -> <@a[64, 32]> {signals = 1 : i64}
    plan.copy <@a[0, 48]> -> <@a[64, 48]>
    plan.repeat 4 {
    ^bb0(%turn: index):
      plan.copy <@a[0, 64] by [256]> -> <@a[1024, 64]>
      plan.launch @k(%turn) [#plan.buffer<@a[2048, 64]>] writes 1 tiles 1
      plan.copy <@a[1024, 64]> -> <@a[0, 64] by [256]>
      plan.copy <@a[0, 64] by [256]> -> <@a[1024, 64]>
      plan.launch @k(%turn) [#plan.buffer<@a[2112, 64]>] writes 1 tiles 1
      plan.copy <@a[1024, 64]> -> <@a[0, 64] by [256]>
      plan.copy <@a[0, 64] by [256]> -> <@a[1024, 64]>
      plan.launch @k(%turn) [#plan.buffer<@a[2176, 64]>] writes 1 tiles 1
      plan.copy <@a[1024, 64]> -> <@a[0, 64] by [256]>
    }
  }
}
