// Which layout the search finds by itself for a transformer block on one axis of four ranks.
//
// RUN: colossal-opt %s --split-input-file --colossal-search-layouts=explain=true -o /dev/null 2>&1 | FileCheck %s

// Batch 1: column-then-row split (Shoeybi et al., 2019), the fused QKV contraction by heads.
// CHECK: contract 'h.0.attn.c_attn': n.1:model
// CHECK: attention 'h.0.attention': heads:model
// CHECK: contract 'h.0.attn.c_proj': k.0:model
// CHECK: contract 'h.0.mlp.c_fc': n:model
// CHECK: contract 'h.0.mlp.c_proj': k:model
// CHECK: parameter 'h.0.attn.c_attn.weight': [768,3*12:model*64]
module attributes {dist.mesh = #dist.mesh<["model" = 4]>} {
func.func @main(%ids: tensor<1x128xi64> {colossal.name = "ids"}) -> (tensor<1x128x64xf32> {colossal.name = "logits"}) {
  %v1 = colossal.parameter "wte" {file = "", offset = 0 : i64, bytes = 196608 : i64} : tensor<64x768xf32> loc("wte")
  %v2 = colossal.gather %v1[%ids] {axis = 0 : i64} : tensor<64x768xf32>, tensor<1x128xi64> -> tensor<1x128x768xf32> loc("embed")
  %v3 = colossal.parameter "h.0.ln_1.weight" {file = "", offset = 196608 : i64, bytes = 3072 : i64} : tensor<768xf32> loc("h.0.ln_1.weight")
  %v4 = colossal.parameter "h.0.ln_1.bias" {file = "", offset = 199680 : i64, bytes = 3072 : i64} : tensor<768xf32> loc("h.0.ln_1.bias")
  %v5 = colossal.normalize layer(%v2, scale %v3, bias %v4) {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<1x128x768xf32>, tensor<768xf32>, tensor<768xf32>) -> tensor<1x128x768xf32> loc("h.0.ln_1")
  %v6 = colossal.parameter "h.0.attn.c_attn.weight" {file = "", offset = 202752 : i64, bytes = 7077888 : i64} : tensor<768x2304xf32> loc("h.0.attn.c_attn.weight")
  %v7 = colossal.parameter "h.0.attn.c_attn.bias" {file = "", offset = 7280640 : i64, bytes = 9216 : i64} : tensor<2304xf32> loc("h.0.attn.c_attn.bias")
  %v8 = colossal.contract %v5 [0, 1, 2], %v6 [2, 3] -> [0, 1, 3] : (tensor<1x128x768xf32>, tensor<768x2304xf32>) -> tensor<1x128x2304xf32> loc("h.0.attn.c_attn")
  %v9 = colossal.elementwise add(%v8, %v7) : (tensor<1x128x2304xf32>, tensor<2304xf32>) -> tensor<1x128x2304xf32> loc("h.0.attn.c_attn")
  %v10 = colossal.slice %v9 [0, 0, 0] by [1, 1, 1] : tensor<1x128x2304xf32> -> tensor<1x128x768xf32> loc("h.0.split")
  %v11 = colossal.reshape %v10 : tensor<1x128x768xf32> -> tensor<1x128x12x64xf32> loc("h.0.view")
  %v12 = colossal.transpose %v11 [0, 2, 1, 3] : tensor<1x128x12x64xf32> -> tensor<1x12x128x64xf32> loc("h.0.permute")
  %v13 = colossal.slice %v9 [0, 0, 768] by [1, 1, 1] : tensor<1x128x2304xf32> -> tensor<1x128x768xf32> loc("h.0.split")
  %v14 = colossal.reshape %v13 : tensor<1x128x768xf32> -> tensor<1x128x12x64xf32> loc("h.0.view")
  %v15 = colossal.transpose %v14 [0, 2, 1, 3] : tensor<1x128x12x64xf32> -> tensor<1x12x128x64xf32> loc("h.0.permute")
  %v16 = colossal.slice %v9 [0, 0, 1536] by [1, 1, 1] : tensor<1x128x2304xf32> -> tensor<1x128x768xf32> loc("h.0.split")
  %v17 = colossal.reshape %v16 : tensor<1x128x768xf32> -> tensor<1x128x12x64xf32> loc("h.0.view")
  %v18 = colossal.transpose %v17 [0, 2, 1, 3] : tensor<1x128x12x64xf32> -> tensor<1x12x128x64xf32> loc("h.0.permute")
  %v19 = colossal.attention(%v12, %v15, %v18) {scale = 0.125 : f64, causal = true} : (tensor<1x12x128x64xf32>, tensor<1x12x128x64xf32>, tensor<1x12x128x64xf32>) -> tensor<1x12x128x64xf32> loc("h.0.attention")
  %v20 = colossal.transpose %v19 [0, 2, 1, 3] : tensor<1x12x128x64xf32> -> tensor<1x128x12x64xf32> loc("h.0.permute")
  %v21 = colossal.reshape %v20 : tensor<1x128x12x64xf32> -> tensor<1x128x768xf32> loc("h.0.view")
  %v22 = colossal.parameter "h.0.attn.c_proj.weight" {file = "", offset = 7289856 : i64, bytes = 2359296 : i64} : tensor<768x768xf32> loc("h.0.attn.c_proj.weight")
  %v23 = colossal.parameter "h.0.attn.c_proj.bias" {file = "", offset = 9649152 : i64, bytes = 3072 : i64} : tensor<768xf32> loc("h.0.attn.c_proj.bias")
  %v24 = colossal.contract %v21 [0, 1, 2], %v22 [2, 3] -> [0, 1, 3] : (tensor<1x128x768xf32>, tensor<768x768xf32>) -> tensor<1x128x768xf32> loc("h.0.attn.c_proj")
  %v25 = colossal.elementwise add(%v24, %v23) : (tensor<1x128x768xf32>, tensor<768xf32>) -> tensor<1x128x768xf32> loc("h.0.attn.c_proj")
  %v26 = colossal.elementwise add(%v2, %v25) : (tensor<1x128x768xf32>, tensor<1x128x768xf32>) -> tensor<1x128x768xf32> loc("h.0.res1")
  %v27 = colossal.parameter "h.0.ln_2.weight" {file = "", offset = 9652224 : i64, bytes = 3072 : i64} : tensor<768xf32> loc("h.0.ln_2.weight")
  %v28 = colossal.parameter "h.0.ln_2.bias" {file = "", offset = 9655296 : i64, bytes = 3072 : i64} : tensor<768xf32> loc("h.0.ln_2.bias")
  %v29 = colossal.normalize layer(%v26, scale %v27, bias %v28) {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<1x128x768xf32>, tensor<768xf32>, tensor<768xf32>) -> tensor<1x128x768xf32> loc("h.0.ln_2")
  %v30 = colossal.parameter "h.0.mlp.c_fc.weight" {file = "", offset = 9658368 : i64, bytes = 9437184 : i64} : tensor<768x3072xf32> loc("h.0.mlp.c_fc.weight")
  %v31 = colossal.parameter "h.0.mlp.c_fc.bias" {file = "", offset = 19095552 : i64, bytes = 12288 : i64} : tensor<3072xf32> loc("h.0.mlp.c_fc.bias")
  %v32 = colossal.contract %v29 [0, 1, 2], %v30 [2, 3] -> [0, 1, 3] : (tensor<1x128x768xf32>, tensor<768x3072xf32>) -> tensor<1x128x3072xf32> loc("h.0.mlp.c_fc")
  %v33 = colossal.elementwise add(%v32, %v31) : (tensor<1x128x3072xf32>, tensor<3072xf32>) -> tensor<1x128x3072xf32> loc("h.0.mlp.c_fc")
  %v34 = colossal.elementwise gelu(%v33) : (tensor<1x128x3072xf32>) -> tensor<1x128x3072xf32> loc("h.0.act")
  %v35 = colossal.parameter "h.0.mlp.c_proj.weight" {file = "", offset = 19107840 : i64, bytes = 9437184 : i64} : tensor<3072x768xf32> loc("h.0.mlp.c_proj.weight")
  %v36 = colossal.parameter "h.0.mlp.c_proj.bias" {file = "", offset = 28545024 : i64, bytes = 3072 : i64} : tensor<768xf32> loc("h.0.mlp.c_proj.bias")
  %v37 = colossal.contract %v34 [0, 1, 2], %v35 [2, 3] -> [0, 1, 3] : (tensor<1x128x3072xf32>, tensor<3072x768xf32>) -> tensor<1x128x768xf32> loc("h.0.mlp.c_proj")
  %v38 = colossal.elementwise add(%v37, %v36) : (tensor<1x128x768xf32>, tensor<768xf32>) -> tensor<1x128x768xf32> loc("h.0.mlp.c_proj")
  %v39 = colossal.elementwise add(%v26, %v38) : (tensor<1x128x768xf32>, tensor<1x128x768xf32>) -> tensor<1x128x768xf32> loc("h.0.res2")
  %v40 = colossal.parameter "ln_f.weight" {file = "", offset = 28548096 : i64, bytes = 3072 : i64} : tensor<768xf32> loc("ln_f.weight")
  %v41 = colossal.parameter "ln_f.bias" {file = "", offset = 28551168 : i64, bytes = 3072 : i64} : tensor<768xf32> loc("ln_f.bias")
  %v42 = colossal.normalize layer(%v39, scale %v40, bias %v41) {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<1x128x768xf32>, tensor<768xf32>, tensor<768xf32>) -> tensor<1x128x768xf32> loc("ln_f")
  %v43 = colossal.contract %v42 [0, 1, 2], %v1 [3, 2] -> [0, 1, 3] : (tensor<1x128x768xf32>, tensor<64x768xf32>) -> tensor<1x128x64xf32> loc("lm_head")
  return %v43 : tensor<1x128x64xf32>
}
}

// -----

// A small model and a large batch: data parallel.
// CHECK: contract 'h.0.attn.c_attn': m0:model
// CHECK: attention 'h.0.attention': batch:model
// CHECK: contract 'h.0.attn.c_proj': m0:model
// CHECK: contract 'h.0.mlp.c_fc': m0:model
// CHECK: contract 'h.0.mlp.c_proj': m0:model
// CHECK: parameter 'h.0.mlp.c_fc.weight': [128,512]
module attributes {dist.mesh = #dist.mesh<["model" = 4]>} {
func.func @main(%ids: tensor<32x128xi64> {colossal.name = "ids"}) -> (tensor<32x128x64xf32> {colossal.name = "logits"}) {
  %v1 = colossal.parameter "wte" {file = "", offset = 0 : i64, bytes = 32768 : i64} : tensor<64x128xf32> loc("wte")
  %v2 = colossal.gather %v1[%ids] {axis = 0 : i64} : tensor<64x128xf32>, tensor<32x128xi64> -> tensor<32x128x128xf32> loc("embed")
  %v3 = colossal.parameter "h.0.ln_1.weight" {file = "", offset = 32768 : i64, bytes = 512 : i64} : tensor<128xf32> loc("h.0.ln_1.weight")
  %v4 = colossal.parameter "h.0.ln_1.bias" {file = "", offset = 33280 : i64, bytes = 512 : i64} : tensor<128xf32> loc("h.0.ln_1.bias")
  %v5 = colossal.normalize layer(%v2, scale %v3, bias %v4) {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<32x128x128xf32>, tensor<128xf32>, tensor<128xf32>) -> tensor<32x128x128xf32> loc("h.0.ln_1")
  %v6 = colossal.parameter "h.0.attn.c_attn.weight" {file = "", offset = 33792 : i64, bytes = 196608 : i64} : tensor<128x384xf32> loc("h.0.attn.c_attn.weight")
  %v7 = colossal.parameter "h.0.attn.c_attn.bias" {file = "", offset = 230400 : i64, bytes = 1536 : i64} : tensor<384xf32> loc("h.0.attn.c_attn.bias")
  %v8 = colossal.contract %v5 [0, 1, 2], %v6 [2, 3] -> [0, 1, 3] : (tensor<32x128x128xf32>, tensor<128x384xf32>) -> tensor<32x128x384xf32> loc("h.0.attn.c_attn")
  %v9 = colossal.elementwise add(%v8, %v7) : (tensor<32x128x384xf32>, tensor<384xf32>) -> tensor<32x128x384xf32> loc("h.0.attn.c_attn")
  %v10 = colossal.slice %v9 [0, 0, 0] by [1, 1, 1] : tensor<32x128x384xf32> -> tensor<32x128x128xf32> loc("h.0.split")
  %v11 = colossal.reshape %v10 : tensor<32x128x128xf32> -> tensor<32x128x4x32xf32> loc("h.0.view")
  %v12 = colossal.transpose %v11 [0, 2, 1, 3] : tensor<32x128x4x32xf32> -> tensor<32x4x128x32xf32> loc("h.0.permute")
  %v13 = colossal.slice %v9 [0, 0, 128] by [1, 1, 1] : tensor<32x128x384xf32> -> tensor<32x128x128xf32> loc("h.0.split")
  %v14 = colossal.reshape %v13 : tensor<32x128x128xf32> -> tensor<32x128x4x32xf32> loc("h.0.view")
  %v15 = colossal.transpose %v14 [0, 2, 1, 3] : tensor<32x128x4x32xf32> -> tensor<32x4x128x32xf32> loc("h.0.permute")
  %v16 = colossal.slice %v9 [0, 0, 256] by [1, 1, 1] : tensor<32x128x384xf32> -> tensor<32x128x128xf32> loc("h.0.split")
  %v17 = colossal.reshape %v16 : tensor<32x128x128xf32> -> tensor<32x128x4x32xf32> loc("h.0.view")
  %v18 = colossal.transpose %v17 [0, 2, 1, 3] : tensor<32x128x4x32xf32> -> tensor<32x4x128x32xf32> loc("h.0.permute")
  %v19 = colossal.attention(%v12, %v15, %v18) {scale = 0.125 : f64, causal = true} : (tensor<32x4x128x32xf32>, tensor<32x4x128x32xf32>, tensor<32x4x128x32xf32>) -> tensor<32x4x128x32xf32> loc("h.0.attention")
  %v20 = colossal.transpose %v19 [0, 2, 1, 3] : tensor<32x4x128x32xf32> -> tensor<32x128x4x32xf32> loc("h.0.permute")
  %v21 = colossal.reshape %v20 : tensor<32x128x4x32xf32> -> tensor<32x128x128xf32> loc("h.0.view")
  %v22 = colossal.parameter "h.0.attn.c_proj.weight" {file = "", offset = 231936 : i64, bytes = 65536 : i64} : tensor<128x128xf32> loc("h.0.attn.c_proj.weight")
  %v23 = colossal.parameter "h.0.attn.c_proj.bias" {file = "", offset = 297472 : i64, bytes = 512 : i64} : tensor<128xf32> loc("h.0.attn.c_proj.bias")
  %v24 = colossal.contract %v21 [0, 1, 2], %v22 [2, 3] -> [0, 1, 3] : (tensor<32x128x128xf32>, tensor<128x128xf32>) -> tensor<32x128x128xf32> loc("h.0.attn.c_proj")
  %v25 = colossal.elementwise add(%v24, %v23) : (tensor<32x128x128xf32>, tensor<128xf32>) -> tensor<32x128x128xf32> loc("h.0.attn.c_proj")
  %v26 = colossal.elementwise add(%v2, %v25) : (tensor<32x128x128xf32>, tensor<32x128x128xf32>) -> tensor<32x128x128xf32> loc("h.0.res1")
  %v27 = colossal.parameter "h.0.ln_2.weight" {file = "", offset = 297984 : i64, bytes = 512 : i64} : tensor<128xf32> loc("h.0.ln_2.weight")
  %v28 = colossal.parameter "h.0.ln_2.bias" {file = "", offset = 298496 : i64, bytes = 512 : i64} : tensor<128xf32> loc("h.0.ln_2.bias")
  %v29 = colossal.normalize layer(%v26, scale %v27, bias %v28) {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<32x128x128xf32>, tensor<128xf32>, tensor<128xf32>) -> tensor<32x128x128xf32> loc("h.0.ln_2")
  %v30 = colossal.parameter "h.0.mlp.c_fc.weight" {file = "", offset = 299008 : i64, bytes = 262144 : i64} : tensor<128x512xf32> loc("h.0.mlp.c_fc.weight")
  %v31 = colossal.parameter "h.0.mlp.c_fc.bias" {file = "", offset = 561152 : i64, bytes = 2048 : i64} : tensor<512xf32> loc("h.0.mlp.c_fc.bias")
  %v32 = colossal.contract %v29 [0, 1, 2], %v30 [2, 3] -> [0, 1, 3] : (tensor<32x128x128xf32>, tensor<128x512xf32>) -> tensor<32x128x512xf32> loc("h.0.mlp.c_fc")
  %v33 = colossal.elementwise add(%v32, %v31) : (tensor<32x128x512xf32>, tensor<512xf32>) -> tensor<32x128x512xf32> loc("h.0.mlp.c_fc")
  %v34 = colossal.elementwise gelu(%v33) : (tensor<32x128x512xf32>) -> tensor<32x128x512xf32> loc("h.0.act")
  %v35 = colossal.parameter "h.0.mlp.c_proj.weight" {file = "", offset = 563200 : i64, bytes = 262144 : i64} : tensor<512x128xf32> loc("h.0.mlp.c_proj.weight")
  %v36 = colossal.parameter "h.0.mlp.c_proj.bias" {file = "", offset = 825344 : i64, bytes = 512 : i64} : tensor<128xf32> loc("h.0.mlp.c_proj.bias")
  %v37 = colossal.contract %v34 [0, 1, 2], %v35 [2, 3] -> [0, 1, 3] : (tensor<32x128x512xf32>, tensor<512x128xf32>) -> tensor<32x128x128xf32> loc("h.0.mlp.c_proj")
  %v38 = colossal.elementwise add(%v37, %v36) : (tensor<32x128x128xf32>, tensor<128xf32>) -> tensor<32x128x128xf32> loc("h.0.mlp.c_proj")
  %v39 = colossal.elementwise add(%v26, %v38) : (tensor<32x128x128xf32>, tensor<32x128x128xf32>) -> tensor<32x128x128xf32> loc("h.0.res2")
  %v40 = colossal.parameter "ln_f.weight" {file = "", offset = 825856 : i64, bytes = 512 : i64} : tensor<128xf32> loc("ln_f.weight")
  %v41 = colossal.parameter "ln_f.bias" {file = "", offset = 826368 : i64, bytes = 512 : i64} : tensor<128xf32> loc("ln_f.bias")
  %v42 = colossal.normalize layer(%v39, scale %v40, bias %v41) {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<32x128x128xf32>, tensor<128xf32>, tensor<128xf32>) -> tensor<32x128x128xf32> loc("ln_f")
  %v43 = colossal.contract %v42 [0, 1, 2], %v1 [3, 2] -> [0, 1, 3] : (tensor<32x128x128xf32>, tensor<64x128xf32>) -> tensor<32x128x64xf32> loc("lm_head")
  return %v43 : tensor<32x128x64xf32>
}
}

// -----

// The crossover for this width lies between a batch of 2, which four ranks cannot share ...
// CHECK: contract 'h.0.mlp.c_fc': n:model
// CHECK: contract 'h.0.mlp.c_proj': k:model
module attributes {dist.mesh = #dist.mesh<["model" = 4]>} {
func.func @main(%ids: tensor<2x128xi64> {colossal.name = "ids"}) -> (tensor<2x128x64xf32> {colossal.name = "logits"}) {
  %v1 = colossal.parameter "wte" {file = "", offset = 0 : i64, bytes = 196608 : i64} : tensor<64x768xf32> loc("wte")
  %v2 = colossal.gather %v1[%ids] {axis = 0 : i64} : tensor<64x768xf32>, tensor<2x128xi64> -> tensor<2x128x768xf32> loc("embed")
  %v3 = colossal.parameter "h.0.ln_1.weight" {file = "", offset = 196608 : i64, bytes = 3072 : i64} : tensor<768xf32> loc("h.0.ln_1.weight")
  %v4 = colossal.parameter "h.0.ln_1.bias" {file = "", offset = 199680 : i64, bytes = 3072 : i64} : tensor<768xf32> loc("h.0.ln_1.bias")
  %v5 = colossal.normalize layer(%v2, scale %v3, bias %v4) {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x128x768xf32>, tensor<768xf32>, tensor<768xf32>) -> tensor<2x128x768xf32> loc("h.0.ln_1")
  %v6 = colossal.parameter "h.0.attn.c_attn.weight" {file = "", offset = 202752 : i64, bytes = 7077888 : i64} : tensor<768x2304xf32> loc("h.0.attn.c_attn.weight")
  %v7 = colossal.parameter "h.0.attn.c_attn.bias" {file = "", offset = 7280640 : i64, bytes = 9216 : i64} : tensor<2304xf32> loc("h.0.attn.c_attn.bias")
  %v8 = colossal.contract %v5 [0, 1, 2], %v6 [2, 3] -> [0, 1, 3] : (tensor<2x128x768xf32>, tensor<768x2304xf32>) -> tensor<2x128x2304xf32> loc("h.0.attn.c_attn")
  %v9 = colossal.elementwise add(%v8, %v7) : (tensor<2x128x2304xf32>, tensor<2304xf32>) -> tensor<2x128x2304xf32> loc("h.0.attn.c_attn")
  %v10 = colossal.slice %v9 [0, 0, 0] by [1, 1, 1] : tensor<2x128x2304xf32> -> tensor<2x128x768xf32> loc("h.0.split")
  %v11 = colossal.reshape %v10 : tensor<2x128x768xf32> -> tensor<2x128x12x64xf32> loc("h.0.view")
  %v12 = colossal.transpose %v11 [0, 2, 1, 3] : tensor<2x128x12x64xf32> -> tensor<2x12x128x64xf32> loc("h.0.permute")
  %v13 = colossal.slice %v9 [0, 0, 768] by [1, 1, 1] : tensor<2x128x2304xf32> -> tensor<2x128x768xf32> loc("h.0.split")
  %v14 = colossal.reshape %v13 : tensor<2x128x768xf32> -> tensor<2x128x12x64xf32> loc("h.0.view")
  %v15 = colossal.transpose %v14 [0, 2, 1, 3] : tensor<2x128x12x64xf32> -> tensor<2x12x128x64xf32> loc("h.0.permute")
  %v16 = colossal.slice %v9 [0, 0, 1536] by [1, 1, 1] : tensor<2x128x2304xf32> -> tensor<2x128x768xf32> loc("h.0.split")
  %v17 = colossal.reshape %v16 : tensor<2x128x768xf32> -> tensor<2x128x12x64xf32> loc("h.0.view")
  %v18 = colossal.transpose %v17 [0, 2, 1, 3] : tensor<2x128x12x64xf32> -> tensor<2x12x128x64xf32> loc("h.0.permute")
  %v19 = colossal.attention(%v12, %v15, %v18) {scale = 0.125 : f64, causal = true} : (tensor<2x12x128x64xf32>, tensor<2x12x128x64xf32>, tensor<2x12x128x64xf32>) -> tensor<2x12x128x64xf32> loc("h.0.attention")
  %v20 = colossal.transpose %v19 [0, 2, 1, 3] : tensor<2x12x128x64xf32> -> tensor<2x128x12x64xf32> loc("h.0.permute")
  %v21 = colossal.reshape %v20 : tensor<2x128x12x64xf32> -> tensor<2x128x768xf32> loc("h.0.view")
  %v22 = colossal.parameter "h.0.attn.c_proj.weight" {file = "", offset = 7289856 : i64, bytes = 2359296 : i64} : tensor<768x768xf32> loc("h.0.attn.c_proj.weight")
  %v23 = colossal.parameter "h.0.attn.c_proj.bias" {file = "", offset = 9649152 : i64, bytes = 3072 : i64} : tensor<768xf32> loc("h.0.attn.c_proj.bias")
  %v24 = colossal.contract %v21 [0, 1, 2], %v22 [2, 3] -> [0, 1, 3] : (tensor<2x128x768xf32>, tensor<768x768xf32>) -> tensor<2x128x768xf32> loc("h.0.attn.c_proj")
  %v25 = colossal.elementwise add(%v24, %v23) : (tensor<2x128x768xf32>, tensor<768xf32>) -> tensor<2x128x768xf32> loc("h.0.attn.c_proj")
  %v26 = colossal.elementwise add(%v2, %v25) : (tensor<2x128x768xf32>, tensor<2x128x768xf32>) -> tensor<2x128x768xf32> loc("h.0.res1")
  %v27 = colossal.parameter "h.0.ln_2.weight" {file = "", offset = 9652224 : i64, bytes = 3072 : i64} : tensor<768xf32> loc("h.0.ln_2.weight")
  %v28 = colossal.parameter "h.0.ln_2.bias" {file = "", offset = 9655296 : i64, bytes = 3072 : i64} : tensor<768xf32> loc("h.0.ln_2.bias")
  %v29 = colossal.normalize layer(%v26, scale %v27, bias %v28) {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x128x768xf32>, tensor<768xf32>, tensor<768xf32>) -> tensor<2x128x768xf32> loc("h.0.ln_2")
  %v30 = colossal.parameter "h.0.mlp.c_fc.weight" {file = "", offset = 9658368 : i64, bytes = 9437184 : i64} : tensor<768x3072xf32> loc("h.0.mlp.c_fc.weight")
  %v31 = colossal.parameter "h.0.mlp.c_fc.bias" {file = "", offset = 19095552 : i64, bytes = 12288 : i64} : tensor<3072xf32> loc("h.0.mlp.c_fc.bias")
  %v32 = colossal.contract %v29 [0, 1, 2], %v30 [2, 3] -> [0, 1, 3] : (tensor<2x128x768xf32>, tensor<768x3072xf32>) -> tensor<2x128x3072xf32> loc("h.0.mlp.c_fc")
  %v33 = colossal.elementwise add(%v32, %v31) : (tensor<2x128x3072xf32>, tensor<3072xf32>) -> tensor<2x128x3072xf32> loc("h.0.mlp.c_fc")
  %v34 = colossal.elementwise gelu(%v33) : (tensor<2x128x3072xf32>) -> tensor<2x128x3072xf32> loc("h.0.act")
  %v35 = colossal.parameter "h.0.mlp.c_proj.weight" {file = "", offset = 19107840 : i64, bytes = 9437184 : i64} : tensor<3072x768xf32> loc("h.0.mlp.c_proj.weight")
  %v36 = colossal.parameter "h.0.mlp.c_proj.bias" {file = "", offset = 28545024 : i64, bytes = 3072 : i64} : tensor<768xf32> loc("h.0.mlp.c_proj.bias")
  %v37 = colossal.contract %v34 [0, 1, 2], %v35 [2, 3] -> [0, 1, 3] : (tensor<2x128x3072xf32>, tensor<3072x768xf32>) -> tensor<2x128x768xf32> loc("h.0.mlp.c_proj")
  %v38 = colossal.elementwise add(%v37, %v36) : (tensor<2x128x768xf32>, tensor<768xf32>) -> tensor<2x128x768xf32> loc("h.0.mlp.c_proj")
  %v39 = colossal.elementwise add(%v26, %v38) : (tensor<2x128x768xf32>, tensor<2x128x768xf32>) -> tensor<2x128x768xf32> loc("h.0.res2")
  %v40 = colossal.parameter "ln_f.weight" {file = "", offset = 28548096 : i64, bytes = 3072 : i64} : tensor<768xf32> loc("ln_f.weight")
  %v41 = colossal.parameter "ln_f.bias" {file = "", offset = 28551168 : i64, bytes = 3072 : i64} : tensor<768xf32> loc("ln_f.bias")
  %v42 = colossal.normalize layer(%v39, scale %v40, bias %v41) {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x128x768xf32>, tensor<768xf32>, tensor<768xf32>) -> tensor<2x128x768xf32> loc("ln_f")
  %v43 = colossal.contract %v42 [0, 1, 2], %v1 [3, 2] -> [0, 1, 3] : (tensor<2x128x768xf32>, tensor<64x768xf32>) -> tensor<2x128x64xf32> loc("lm_head")
  return %v43 : tensor<2x128x64xf32>
}
}

// -----

// ... and one of 8.
// CHECK: contract 'h.0.mlp.c_fc': m0:model
// CHECK: contract 'h.0.mlp.c_proj': m0:model
module attributes {dist.mesh = #dist.mesh<["model" = 4]>} {
func.func @main(%ids: tensor<8x128xi64> {colossal.name = "ids"}) -> (tensor<8x128x64xf32> {colossal.name = "logits"}) {
  %v1 = colossal.parameter "wte" {file = "", offset = 0 : i64, bytes = 196608 : i64} : tensor<64x768xf32> loc("wte")
  %v2 = colossal.gather %v1[%ids] {axis = 0 : i64} : tensor<64x768xf32>, tensor<8x128xi64> -> tensor<8x128x768xf32> loc("embed")
  %v3 = colossal.parameter "h.0.ln_1.weight" {file = "", offset = 196608 : i64, bytes = 3072 : i64} : tensor<768xf32> loc("h.0.ln_1.weight")
  %v4 = colossal.parameter "h.0.ln_1.bias" {file = "", offset = 199680 : i64, bytes = 3072 : i64} : tensor<768xf32> loc("h.0.ln_1.bias")
  %v5 = colossal.normalize layer(%v2, scale %v3, bias %v4) {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<8x128x768xf32>, tensor<768xf32>, tensor<768xf32>) -> tensor<8x128x768xf32> loc("h.0.ln_1")
  %v6 = colossal.parameter "h.0.attn.c_attn.weight" {file = "", offset = 202752 : i64, bytes = 7077888 : i64} : tensor<768x2304xf32> loc("h.0.attn.c_attn.weight")
  %v7 = colossal.parameter "h.0.attn.c_attn.bias" {file = "", offset = 7280640 : i64, bytes = 9216 : i64} : tensor<2304xf32> loc("h.0.attn.c_attn.bias")
  %v8 = colossal.contract %v5 [0, 1, 2], %v6 [2, 3] -> [0, 1, 3] : (tensor<8x128x768xf32>, tensor<768x2304xf32>) -> tensor<8x128x2304xf32> loc("h.0.attn.c_attn")
  %v9 = colossal.elementwise add(%v8, %v7) : (tensor<8x128x2304xf32>, tensor<2304xf32>) -> tensor<8x128x2304xf32> loc("h.0.attn.c_attn")
  %v10 = colossal.slice %v9 [0, 0, 0] by [1, 1, 1] : tensor<8x128x2304xf32> -> tensor<8x128x768xf32> loc("h.0.split")
  %v11 = colossal.reshape %v10 : tensor<8x128x768xf32> -> tensor<8x128x12x64xf32> loc("h.0.view")
  %v12 = colossal.transpose %v11 [0, 2, 1, 3] : tensor<8x128x12x64xf32> -> tensor<8x12x128x64xf32> loc("h.0.permute")
  %v13 = colossal.slice %v9 [0, 0, 768] by [1, 1, 1] : tensor<8x128x2304xf32> -> tensor<8x128x768xf32> loc("h.0.split")
  %v14 = colossal.reshape %v13 : tensor<8x128x768xf32> -> tensor<8x128x12x64xf32> loc("h.0.view")
  %v15 = colossal.transpose %v14 [0, 2, 1, 3] : tensor<8x128x12x64xf32> -> tensor<8x12x128x64xf32> loc("h.0.permute")
  %v16 = colossal.slice %v9 [0, 0, 1536] by [1, 1, 1] : tensor<8x128x2304xf32> -> tensor<8x128x768xf32> loc("h.0.split")
  %v17 = colossal.reshape %v16 : tensor<8x128x768xf32> -> tensor<8x128x12x64xf32> loc("h.0.view")
  %v18 = colossal.transpose %v17 [0, 2, 1, 3] : tensor<8x128x12x64xf32> -> tensor<8x12x128x64xf32> loc("h.0.permute")
  %v19 = colossal.attention(%v12, %v15, %v18) {scale = 0.125 : f64, causal = true} : (tensor<8x12x128x64xf32>, tensor<8x12x128x64xf32>, tensor<8x12x128x64xf32>) -> tensor<8x12x128x64xf32> loc("h.0.attention")
  %v20 = colossal.transpose %v19 [0, 2, 1, 3] : tensor<8x12x128x64xf32> -> tensor<8x128x12x64xf32> loc("h.0.permute")
  %v21 = colossal.reshape %v20 : tensor<8x128x12x64xf32> -> tensor<8x128x768xf32> loc("h.0.view")
  %v22 = colossal.parameter "h.0.attn.c_proj.weight" {file = "", offset = 7289856 : i64, bytes = 2359296 : i64} : tensor<768x768xf32> loc("h.0.attn.c_proj.weight")
  %v23 = colossal.parameter "h.0.attn.c_proj.bias" {file = "", offset = 9649152 : i64, bytes = 3072 : i64} : tensor<768xf32> loc("h.0.attn.c_proj.bias")
  %v24 = colossal.contract %v21 [0, 1, 2], %v22 [2, 3] -> [0, 1, 3] : (tensor<8x128x768xf32>, tensor<768x768xf32>) -> tensor<8x128x768xf32> loc("h.0.attn.c_proj")
  %v25 = colossal.elementwise add(%v24, %v23) : (tensor<8x128x768xf32>, tensor<768xf32>) -> tensor<8x128x768xf32> loc("h.0.attn.c_proj")
  %v26 = colossal.elementwise add(%v2, %v25) : (tensor<8x128x768xf32>, tensor<8x128x768xf32>) -> tensor<8x128x768xf32> loc("h.0.res1")
  %v27 = colossal.parameter "h.0.ln_2.weight" {file = "", offset = 9652224 : i64, bytes = 3072 : i64} : tensor<768xf32> loc("h.0.ln_2.weight")
  %v28 = colossal.parameter "h.0.ln_2.bias" {file = "", offset = 9655296 : i64, bytes = 3072 : i64} : tensor<768xf32> loc("h.0.ln_2.bias")
  %v29 = colossal.normalize layer(%v26, scale %v27, bias %v28) {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<8x128x768xf32>, tensor<768xf32>, tensor<768xf32>) -> tensor<8x128x768xf32> loc("h.0.ln_2")
  %v30 = colossal.parameter "h.0.mlp.c_fc.weight" {file = "", offset = 9658368 : i64, bytes = 9437184 : i64} : tensor<768x3072xf32> loc("h.0.mlp.c_fc.weight")
  %v31 = colossal.parameter "h.0.mlp.c_fc.bias" {file = "", offset = 19095552 : i64, bytes = 12288 : i64} : tensor<3072xf32> loc("h.0.mlp.c_fc.bias")
  %v32 = colossal.contract %v29 [0, 1, 2], %v30 [2, 3] -> [0, 1, 3] : (tensor<8x128x768xf32>, tensor<768x3072xf32>) -> tensor<8x128x3072xf32> loc("h.0.mlp.c_fc")
  %v33 = colossal.elementwise add(%v32, %v31) : (tensor<8x128x3072xf32>, tensor<3072xf32>) -> tensor<8x128x3072xf32> loc("h.0.mlp.c_fc")
  %v34 = colossal.elementwise gelu(%v33) : (tensor<8x128x3072xf32>) -> tensor<8x128x3072xf32> loc("h.0.act")
  %v35 = colossal.parameter "h.0.mlp.c_proj.weight" {file = "", offset = 19107840 : i64, bytes = 9437184 : i64} : tensor<3072x768xf32> loc("h.0.mlp.c_proj.weight")
  %v36 = colossal.parameter "h.0.mlp.c_proj.bias" {file = "", offset = 28545024 : i64, bytes = 3072 : i64} : tensor<768xf32> loc("h.0.mlp.c_proj.bias")
  %v37 = colossal.contract %v34 [0, 1, 2], %v35 [2, 3] -> [0, 1, 3] : (tensor<8x128x3072xf32>, tensor<3072x768xf32>) -> tensor<8x128x768xf32> loc("h.0.mlp.c_proj")
  %v38 = colossal.elementwise add(%v37, %v36) : (tensor<8x128x768xf32>, tensor<768xf32>) -> tensor<8x128x768xf32> loc("h.0.mlp.c_proj")
  %v39 = colossal.elementwise add(%v26, %v38) : (tensor<8x128x768xf32>, tensor<8x128x768xf32>) -> tensor<8x128x768xf32> loc("h.0.res2")
  %v40 = colossal.parameter "ln_f.weight" {file = "", offset = 28548096 : i64, bytes = 3072 : i64} : tensor<768xf32> loc("ln_f.weight")
  %v41 = colossal.parameter "ln_f.bias" {file = "", offset = 28551168 : i64, bytes = 3072 : i64} : tensor<768xf32> loc("ln_f.bias")
  %v42 = colossal.normalize layer(%v39, scale %v40, bias %v41) {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<8x128x768xf32>, tensor<768xf32>, tensor<768xf32>) -> tensor<8x128x768xf32> loc("ln_f")
  %v43 = colossal.contract %v42 [0, 1, 2], %v1 [3, 2] -> [0, 1, 3] : (tensor<8x128x768xf32>, tensor<64x768xf32>) -> tensor<8x128x64xf32> loc("lm_head")
  return %v43 : tensor<8x128x64xf32>
}
}
