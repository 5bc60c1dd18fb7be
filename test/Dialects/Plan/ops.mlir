// Every op of the Plan dialect survives printing and parsing, in both forms.
// RUN: colossal-opt %s | colossal-opt | FileCheck %s
// RUN: colossal-opt %s --mlir-print-op-generic | colossal-opt | FileCheck %s
module attributes {dist.mesh = #dist.mesh<["x" = 2, "y" = 2]>} {
  // CHECK: plan.arena @weights device weights 4096
  plan.arena @weights device weights 4096
  // CHECK: plan.arena @activations device activations 4096 {alignment = 128 : i64}
  plan.arena @activations device activations 4096 {alignment = 128 : i64}
  plan.arena @io device io 4096
  // CHECK: plan.parameter @w "layer.weight" : tensor<4x8xf32> {bytes = 128 : i64, file = "", offset = 64 : i64}
  plan.parameter @w "layer.weight" : tensor<4x8xf32> {file = "", offset = 64 : i64, bytes = 128 : i64}
  // CHECK: plan.kernel @add buffers 3 params 1
  plan.kernel @add buffers 3 params 1
  // CHECK: plan.function @layer {
  // CHECK-NEXT: ^bb0(%{{.*}}: index, %{{.*}}: index):
  plan.function @layer {
  ^bb0(%layer: index, %place: index):
    // CHECK-NEXT: plan.load_parameter @w <[4], [8]> -> <@weights[0, 128] by[128]> {strides = array<i64: 1>}
    plan.load_parameter @w <[4], [8]> -> <@weights[0, 128] by [128]> {strides = array<i64: 1>}
    // CHECK-NEXT: plan.repeat 2 {
    plan.repeat 2 {
    ^bb0(%turn: index):
      // CHECK: plan.copy <@activations[0, 64] by[0, 64, 128]> -> <@io[64, 64]>
      plan.copy <@activations[0, 64] by [0, 64, 128]> -> <@io[64, 64]>
    }
  }
  // CHECK: plan.program @load load
  plan.program @load load {
    // CHECK: plan.load_parameter @w <[4:(0)], [8]> -> <@weights[0, 64]>
    plan.load_parameter @w <[4:(0)], [8]> -> <@weights[0, 64]>
    // CHECK: plan.load_parameter @w <[4], [2:(0)]> -> <@weights[0, 16]> {starts = array<i64: 0, 6>}
    plan.load_parameter @w <[4], [2:(0)]> -> <@weights[0, 16]> {starts = array<i64: 0, 6>}
    // CHECK: plan.load_data dense<1.000000e+00> : tensor<4xf32> -> <@weights[64, 16]>
    plan.load_data dense<1.0> : tensor<4xf32> -> <@weights[64, 16]>
  }
  // CHECK: plan.program @main infer attributes {dimensions = {batch = 4 : i64}, predicted_seconds = 1.000000e-03 : f64}
  plan.program @main infer attributes {dimensions = {batch = 4 : i64}, predicted_seconds = 1.0e-3 : f64} {
    // CHECK: plan.input "ids" : tensor<4xi64> <[4]> <@io[0, 32]> {range = array<i64: 0, 99>, range_user = "gather"}
    plan.input "ids" : tensor<4xi64> <[4]> <@io[0, 32]> {range = array<i64: 0, 99>, range_user = "gather"}
    // CHECK: plan.output "y" : tensor<4x8xf32>
    plan.output "y" : tensor<4x8xf32> <[4:(0)], [8]> <@io[64, 64]>
    // CHECK: plan.fixed_input "shape" dense<[4, 8]> : tensor<2xi64>
    plan.fixed_input "shape" dense<[4, 8]> : tensor<2xi64>
    // CHECK: %[[X:.*]] = dist.coordinate 0
    %x = dist.coordinate 0
    // CHECK: plan.launch @add(%[[X]])
    // CHECK-SAME: writes 1 tiles 4 {queue = 0 : i64, tile_scratch = 64 : i64}
    plan.launch @add(%x) [#plan.buffer<@activations[0, 64]>, #plan.buffer<@weights[0, 64]>, #plan.buffer<@activations[64, 64]>] writes 1 tiles 4 {tile_scratch = 64 : i64, queue = 0 : i64}
    // CHECK: plan.collective all_reduce() [0] <@activations[0, 64]> -> <@activations[128, 64]> : f32
    plan.collective all_reduce() [0] <@activations[0, 64]> -> <@activations[128, 64]> : f32 {reduction = #dist<reduction sum>, sizes = array<i64: 16>, src_strides = array<i64: 1>, dst_strides = array<i64: 1>}
    // CHECK: plan.collective permute(%[[X]]) [0, 1]
    plan.collective permute(%x) [0, 1] <@activations[0, 64]> -> <@activations[128, 64]> : f32 {sizes = array<i64: 16>, src_strides = array<i64: 1>, dst_strides = array<i64: 1>}
    // CHECK: plan.collective exchange(%[[X]], %[[X]], %[[X]])
    // CHECK-SAME: window = array<i64: 1, 1, 16, 16>
    plan.collective exchange(%x, %x, %x) [0] <@activations[0, 64]> -> <@activations[128, 64]> : f32 {window = array<i64: 1, 1, 16, 16>, fill = 0.0 : f64, sizes = array<i64>, src_strides = array<i64>, dst_strides = array<i64>}
    // CHECK: plan.copy <@activations[0, 64]> -> <@io[64, 64]>
    plan.copy <@activations[0, 64]> -> <@io[64, 64]>
    // CHECK: plan.send <@activations[0, 64]> to %[[X]] tag 3
    plan.send <@activations[0, 64]> to %x tag 3
    // CHECK: plan.recv <@activations[64, 64]> from %[[X]] tag 3
    plan.recv <@activations[64, 64]> from %x tag 3
    // CHECK: plan.repeat 4 {
    // CHECK: ^bb0(%[[TURN:.*]]: index):
    plan.repeat 4 {
    ^bb0(%turn: index):
      // CHECK: plan.copy <@activations[0, 64]> -> <@io[64, 64] by[64]>
      plan.copy <@activations[0, 64]> -> <@io[64, 64] by [64]>
      // CHECK: plan.repeat 2 {
      plan.repeat 2 {
      ^bb0(%inner: index):
        // CHECK: plan.launch @add(%[[TURN]])
        // CHECK-SAME: <@activations[0, 64] by[0, 64]>
        plan.launch @add(%turn) [#plan.buffer<@activations[0, 64] by [0, 64]>, #plan.buffer<@weights[0, 64]>, #plan.buffer<@activations[64, 64]>] writes 1 tiles 4
      }
    }
    // CHECK: plan.call @layer(%[[X]], %[[X]])
    plan.call @layer(%x, %x)
    // CHECK: plan.call @layer(%[[X]], %[[X]]) names ["0", "attn"]
    plan.call @layer(%x, %x) names ["0", "attn"]
    // CHECK: plan.convolution
    // CHECK-SAME: : f32
    plan.convolution [#plan.buffer<@activations[0, 64]>, #plan.buffer<@weights[0, 64]>, #plan.buffer<@activations[64, 64]>, #plan.buffer<@activations[128, 64]>] : f32 {input = array<i64: 1, 2, 4>, weight = array<i64: 2, 2, 1>, output = array<i64: 1, 2, 4>, input_strides = array<i64: 8, 4, 1>, output_strides = array<i64: 8, 4, 1>, strides = array<i64: 1>, dilations = array<i64: 1>, pads_begin = array<i64: 0>, pads_end = array<i64: 0>, group = 1 : i64, bias = false, residual = false, activation = "", transposed = false, algorithm = "direct"}
    // CHECK: plan.contraction
    // CHECK-SAME: : bf16 -> bf16
    plan.contraction [#plan.buffer<@activations[0, 64]>, #plan.buffer<@weights[0, 64]>, #plan.buffer<@weights[64, 16]>, #plan.buffer<@activations[64, 256]>, #plan.buffer<@activations[320, 64]>] : bf16 -> bf16 {compute = "f32", sizes = array<i64: 1, 4, 8, 8>, a_strides = array<i64: 0, 8, 1>, b_strides = array<i64: 0, 1, 8>, c_strides = array<i64: 0, 8, 1>, bias = true, activation = "relu"}
    // CHECK: plan.convolution
    // CHECK-SAME: compute = "tf32"
    plan.convolution [#plan.buffer<@activations[0, 64]>, #plan.buffer<@weights[0, 64]>, #plan.buffer<@activations[64, 64]>, #plan.buffer<@activations[128, 64]>] : f32 {input = array<i64: 1, 2, 4>, weight = array<i64: 2, 2, 1>, output = array<i64: 1, 2, 4>, input_strides = array<i64: 8, 4, 1>, output_strides = array<i64: 8, 4, 1>, strides = array<i64: 1>, dilations = array<i64: 1>, pads_begin = array<i64: 0>, pads_end = array<i64: 0>, group = 1 : i64, bias = false, residual = false, activation = "", transposed = false, algorithm = "direct", compute = "tf32"}
    // CHECK: plan.fused_attention
    // CHECK-SAME: causal_offset = 1
    plan.fused_attention [#plan.buffer<@activations[0, 64]>, #plan.buffer<@activations[64, 64]>, #plan.buffer<@activations[128, 64]>, #plan.buffer<@activations[192, 64]>, #plan.buffer<@activations[256, 64]>] : bf16 {sizes = array<i64: 1, 2, 1, 2, 2, 8, 8>, query_strides = array<i64: 32, 16, 8, 1>, key_strides = array<i64: 16, 16, 8, 1>, value_strides = array<i64: 16, 16, 8, 1>, output_strides = array<i64: 32, 16, 8, 1>, scale = 0.5 : f64, causal = true, causal_offset = 1 : i64}
  }
}
