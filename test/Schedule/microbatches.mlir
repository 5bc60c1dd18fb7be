// A loop over three parts of a batch of eight. What all parts share is computed before the loop, once, what depends on parameters
// alone when the plan is loaded. A part of an input is read where it lies, and one of an output written there; where the batch is not
// the outermost dimension, it is copied.
// RUN: colossal-opt %s --colossal-propagate-batch --colossal-search-layouts --colossal-partition > %t
// RUN: FileCheck %s --check-prefix=LOCAL < %t
// RUN: colossal-opt %t --colossal-schedule=target-cpu=x86-64 -colossal-verify-phase=phase=schedule | FileCheck %s
module attributes {dist.mesh = #dist.mesh<["microbatch" = 3 loop]>} {
  // Nine rows in all, of which the last is padding.
  // CHECK: plan.program @load load
  // CHECK-NOT: plan.repeat
  // CHECK: plan.program @main infer
  // CHECK: plan.input "x" : tensor<8x16xf32> <[8:(0)], [16]> <@io[[[X:[0-9]+]], 576]>
  // CHECK: plan.input "bias" : tensor<1x16xf32> <[1], [16]> <@io[[[BIAS:[0-9]+]], 64]>
  // CHECK: plan.output "y" : tensor<8x16xf32> <[8:(0)], [16]> <@io[[[Y:[0-9]+]], 576]>
  // CHECK: plan.output "turned" : tensor<16x8xf32> <[16], [8:(0)]> <@io[[[TURNED:[0-9]+]], 576]>
  // CHECK: plan.launch @exp
  // CHECK-SAME: <@io[[[BIAS]], 64]>, #plan.buffer<@activations[[[EXP:[0-9]+]], 64]>
  // CHECK-NEXT: plan.repeat 3 {
  // CHECK-NEXT: ^bb0(%{{.*}}: index):
  // CHECK: plan.launch @contract
  // CHECK-SAME: <@io[[[X]], 192] by[192]>
  // CHECK-SAME: <@activations[[[EXP]], 64]>
  // CHECK-SAME: <@weights[{{[0-9]+}}, 192] by[192]>
  // CHECK-SAME: <@io[[[Y]], 192] by[192]>
  // CHECK: plan.launch @copy
  // CHECK-SAME: <@io[[[Y]], 192] by[192]>, #plan.buffer<@activations[[[DENSE:[0-9]+]], 192]>
  // CHECK-NEXT: plan.launch @copy
  // CHECK-SAME: <@activations[[[DENSE]], 192]>, #plan.buffer<@io[[[TURNED]], {{[0-9]+}}] by[12]>

  // LOCAL: func.func @main(%[[X:.*]]: tensor<3x16xf32> {{{.*}}}, %[[BIAS:.*]]: tensor<1x16xf32>
  func.func @main(%x: tensor<8x16xf32> {colossal.name = "x"}, %bias: tensor<1x16xf32> {colossal.name = "bias"}) -> (tensor<8x16xf32> {colossal.name = "y"}, tensor<16x8xf32> {colossal.name = "turned"}) {
    %w = colossal.parameter "w" {file = "", offset = 0 : i64, bytes = 1024 : i64} : tensor<16x16xf32>
    // A parameter with a row for each of the batch's: padded once, and each turn sees its own.
    // LOCAL: %[[ROWS:.*]] = colossal.parameter "rows"{{.*}} : tensor<8x16xf32>
    %rows = colossal.parameter "rows" {file = "", offset = 1024 : i64, bytes = 512 : i64} : tensor<8x16xf32>
    // LOCAL: colossal.elementwise exp(%[[BIAS]])
    %e = colossal.elementwise exp(%bias) : (tensor<1x16xf32>) -> tensor<1x16xf32>
    %c = colossal.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
    %a = colossal.elementwise add(%c, %e) : (tensor<8x16xf32>, tensor<1x16xf32>) -> tensor<8x16xf32>
    // LOCAL: %[[PADDED:.*]] = colossal.pad %[[ROWS]]
    // LOCAL-SAME: -> tensor<9x16xf32>
    // LOCAL: dist.loop_slice %[[PADDED]] {axis = 0 : i64, dim = 0 : i64} : tensor<9x16xf32> -> tensor<3x16xf32>
    %y = colossal.elementwise add(%a, %rows) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %t = colossal.transpose %y [1, 0] : tensor<8x16xf32> -> tensor<16x8xf32>
    return %y, %t : tensor<8x16xf32>, tensor<16x8xf32>
  }
}
