// Partial sums go on where that saves a collective: two branches that are added share one, and a slice comes before it.
//
// RUN: colossal-opt %s --split-input-file "--colossal-search-layouts=machine=h100 pin=.*up=n:model,.*down=k:model" --colossal-partition | FileCheck %s
// RUN: colossal-opt %s --split-input-file "--colossal-search-layouts=explain=true machine=h100 pin=.*up=n:model,.*down=k:model" -o /dev/null 2>&1 | FileCheck %s --check-prefix=EXPLAIN

// Each rank computes with a quarter of both hidden layers; the residual enters whole.
// EXPLAIN: elementwise 'b.bias': partial:model
// EXPLAIN: elementwise 'join': partial:model
// EXPLAIN: elementwise 'residual': d1:model, {{.*}} reduce-scatter 288.0 KiB
// CHECK-LABEL: func.func @branches(
// CHECK: %[[MASKED:.*]] = dist.mask_padding
// CHECK: %[[C:.*]] = colossal.elementwise add(%{{.*}}, %[[MASKED]])
// CHECK: %[[S:.*]] = colossal.elementwise add(%{{.*}}, %[[C]])
// CHECK: shard.reduce_scatter %[[S]]
// CHECK-NOT: shard.reduce
// CHECK: return
module attributes {dist.mesh = #dist.mesh<["model" = 4]>} {
func.func @branches(%x: tensor<1x128x768xf32>) -> tensor<1x128x768xf32> {
  %w1 = colossal.parameter "w1" {file = "", offset = 0 : i64, bytes = 9437184 : i64} : tensor<768x3072xf32> loc("w1")
  %w2 = colossal.parameter "w2" {file = "", offset = 9437184 : i64, bytes = 9437184 : i64} : tensor<3072x768xf32> loc("w2")
  %v1 = colossal.parameter "v1" {file = "", offset = 18874368 : i64, bytes = 9437184 : i64} : tensor<768x3072xf32> loc("v1")
  %v2 = colossal.parameter "v2" {file = "", offset = 28311552 : i64, bytes = 9437184 : i64} : tensor<3072x768xf32> loc("v2")
  %bias = colossal.parameter "bias" {file = "", offset = 37748736 : i64, bytes = 3072 : i64} : tensor<768xf32> loc("bias")
  %n = colossal.normalize layer(%x) {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<1x128x768xf32>) -> tensor<1x128x768xf32> loc("norm")
  %a = colossal.contract %n [0, 1, 2], %w1 [2, 3] -> [0, 1, 3] : (tensor<1x128x768xf32>, tensor<768x3072xf32>) -> tensor<1x128x3072xf32> loc("a.up")
  %a1 = colossal.elementwise gelu(%a) : (tensor<1x128x3072xf32>) -> tensor<1x128x3072xf32> loc("a.gelu")
  %a2 = colossal.contract %a1 [0, 1, 2], %w2 [2, 3] -> [0, 1, 3] : (tensor<1x128x3072xf32>, tensor<3072x768xf32>) -> tensor<1x128x768xf32> loc("a.down")
  %b = colossal.contract %n [0, 1, 2], %v1 [2, 3] -> [0, 1, 3] : (tensor<1x128x768xf32>, tensor<768x3072xf32>) -> tensor<1x128x3072xf32> loc("b.up")
  %b1 = colossal.elementwise relu(%b) : (tensor<1x128x3072xf32>) -> tensor<1x128x3072xf32> loc("b.relu")
  %b2 = colossal.contract %b1 [0, 1, 2], %v2 [2, 3] -> [0, 1, 3] : (tensor<1x128x3072xf32>, tensor<3072x768xf32>) -> tensor<1x128x768xf32> loc("b.down")
  %b3 = colossal.elementwise add(%b2, %bias) : (tensor<1x128x768xf32>, tensor<768xf32>) -> tensor<1x128x768xf32> loc("b.bias")
  %s = colossal.elementwise add(%a2, %b3) : (tensor<1x128x768xf32>, tensor<1x128x768xf32>) -> tensor<1x128x768xf32> loc("join")
  %r = colossal.elementwise add(%s, %x) : (tensor<1x128x768xf32>, tensor<1x128x768xf32>) -> tensor<1x128x768xf32> loc("residual")
  %y = colossal.normalize layer(%r) {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<1x128x768xf32>) -> tensor<1x128x768xf32> loc("last")
  return %y : tensor<1x128x768xf32>
}
}

// -----

// Of 128 positions one is used: 3 KiB are summed, not 384.
// CHECK-LABEL: func.func @last(
// CHECK: colossal.slice
// CHECK-NEXT: shard.all_reduce {{.*}} : tensor<1x1x768xf32> -> tensor<1x1x768xf32>
// CHECK-NOT: shard.
// CHECK: return
module attributes {dist.mesh = #dist.mesh<["model" = 4]>} {
func.func @last(%x: tensor<1x128x768xf32>) -> tensor<1x1x768xf32> {
  %w1 = colossal.parameter "w1" {file = "", offset = 0 : i64, bytes = 9437184 : i64} : tensor<768x3072xf32> loc("w1")
  %w2 = colossal.parameter "w2" {file = "", offset = 9437184 : i64, bytes = 9437184 : i64} : tensor<3072x768xf32> loc("w2")
  %a = colossal.contract %x [0, 1, 2], %w1 [2, 3] -> [0, 1, 3] : (tensor<1x128x768xf32>, tensor<768x3072xf32>) -> tensor<1x128x3072xf32> loc("up")
  %a1 = colossal.elementwise gelu(%a) : (tensor<1x128x3072xf32>) -> tensor<1x128x3072xf32> loc("gelu")
  %a2 = colossal.contract %a1 [0, 1, 2], %w2 [2, 3] -> [0, 1, 3] : (tensor<1x128x3072xf32>, tensor<3072x768xf32>) -> tensor<1x128x768xf32> loc("down")
  %s = colossal.slice %a2 [0, 127, 0] by [1, 1, 1] : tensor<1x128x768xf32> -> tensor<1x1x768xf32> loc("slice")
  %y = colossal.normalize layer(%s) {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<1x1x768xf32>) -> tensor<1x1x768xf32> loc("last")
  return %y : tensor<1x1x768xf32>
}
}
