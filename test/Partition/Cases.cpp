//===- Cases.cpp - the ops of the layout harness, and what each must split --===//
#include "Cases.h"

using namespace colossal::test;

const std::vector<Case> colossal::test::cases = {
    // Contractions: batch, M, N, K.
    {"contract.matmul", "m n k", "%a: tensor<6x8xf32>, %b: tensor<8x10xf32>",
     "colossal.contract %a [0, 1], %b [1, 2] -> [0, 2] : (tensor<6x8xf32>, tensor<8x10xf32>) -> "
     "tensor<6x10xf32>",
     "tensor<6x10xf32>"},
    {"contract.transposed", "m n k", "%a: tensor<5x7xf32>, %b: tensor<9x7xf32>",
     "colossal.contract %a [0, 1], %b [2, 1] -> [2, 0] : (tensor<5x7xf32>, tensor<9x7xf32>) -> "
     "tensor<9x5xf32>",
     "tensor<9x5xf32>"},
    {"contract.batched", "batch m n k", "%a: tensor<4x3x8xf32>, %b: tensor<4x8x5xf32>",
     "colossal.contract %a [0, 1, 2], %b [0, 2, 3] -> [0, 1, 3] : (tensor<4x3x8xf32>, tensor<4x8x5xf32>) -> "
     "tensor<4x3x5xf32>",
     "tensor<4x3x5xf32>"},
    {"contract.integers", "m n k", "%a: tensor<4x6xi32>, %b: tensor<6x3xi32>",
     "colossal.contract %a [0, 1], %b [1, 2] -> [0, 2] : (tensor<4x6xi32>, tensor<6x3xi32>) -> "
     "tensor<4x3xi32>",
     "tensor<4x3xi32>"},
    // Attention: batch, heads, sequence, keys.
    {"attention", "batch heads sequence keys",
     "%q: tensor<2x4x6x4xf32>, %k: tensor<2x4x6x4xf32>, %v: tensor<2x4x6x3xf32>",
     "colossal.attention(%q, %k, %v) {scale = 0.5 : f64} : (tensor<2x4x6x4xf32>, tensor<2x4x6x4xf32>, "
     "tensor<2x4x6x3xf32>) -> tensor<2x4x6x3xf32>",
     "tensor<2x4x6x3xf32>"},
    {"attention.causal", "batch heads group sequence keys",
     "%q: tensor<2x6x5x4xf32>, %k: tensor<2x3x7x4xf32>, %v: tensor<2x3x7x4xf32>",
     "colossal.attention(%q, %k, %v) {scale = 0.5 : f64, causal = true, causal_offset = 2 : i64} : "
     "(tensor<2x6x5x4xf32>, tensor<2x3x7x4xf32>, tensor<2x3x7x4xf32>) -> tensor<2x6x5x4xf32>",
     "tensor<2x6x5x4xf32>"},
    {"attention.mask", "batch heads sequence keys",
     "%q: tensor<2x2x4x4xf32>, %k: tensor<2x2x4x4xf32>, %v: tensor<2x2x4x4xf32>, %m: tensor<2x1x4x4xf32>",
     "colossal.attention(%q, %k, %v, mask %m) {scale = 1.0 : f64} : (tensor<2x2x4x4xf32>, "
     "tensor<2x2x4x4xf32>, "
     "tensor<2x2x4x4xf32>, tensor<2x1x4x4xf32>) -> tensor<2x2x4x4xf32>",
     "tensor<2x2x4x4xf32>"},
    {"attention.empty", "batch heads sequence keys",
     "%q: tensor<2x2x5x4xf32>, %k: tensor<2x2x5x4xf32>, %v: tensor<2x2x5x4xf32>, %m: tensor<5x5xi1>",
     "colossal.attention(%q, %k, %v, mask %m) {scale = 1.0 : f64, causal = true, causal_offset = -2 : i64, "
     "guard = true} : (tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<5x5xi1>) -> "
     "tensor<2x2x5x4xf32>",
     "tensor<2x2x5x4xf32>"},
    {"attention_gradient", "batch heads sequence",
     "%q: tensor<2x4x6x4xf32>, %k: tensor<2x4x5x4xf32>, %v: tensor<2x4x5x3xf32>, %o: tensor<2x4x6x3xf32>, "
     "%g: tensor<2x4x6x3xf32>",
     "colossal.attention_gradient(%q, %k, %v, %o, %g) {scale = 0.5 : f64, rows = 2 : i64} : "
     "(tensor<2x4x6x4xf32>, tensor<2x4x5x4xf32>, tensor<2x4x5x3xf32>, tensor<2x4x6x3xf32>, "
     "tensor<2x4x6x3xf32>) -> tensor<2x4x6x4xf32>, tensor<2x4x5x4xf32>, tensor<2x4x5x3xf32>",
     "tensor<2x4x6x4xf32>, tensor<2x4x5x4xf32>, tensor<2x4x5x3xf32>"},
    {"attention_gradient.causal", "batch heads group sequence",
     "%q: tensor<2x6x5x4xf32>, %k: tensor<2x3x7x4xf32>, %v: tensor<2x3x7x4xf32>, %o: tensor<2x6x5x4xf32>, "
     "%g: tensor<2x6x5x4xf32>",
     "colossal.attention_gradient(%q, %k, %v, %o, %g) {scale = 0.5 : f64, causal = true, causal_offset = 2 : "
     "i64, rows = 2 : i64} : (tensor<2x6x5x4xf32>, tensor<2x3x7x4xf32>, tensor<2x3x7x4xf32>, "
     "tensor<2x6x5x4xf32>, tensor<2x6x5x4xf32>) -> tensor<2x6x5x4xf32>, tensor<2x3x7x4xf32>, "
     "tensor<2x3x7x4xf32>",
     "tensor<2x6x5x4xf32>, tensor<2x3x7x4xf32>, tensor<2x3x7x4xf32>"},
    {"attention_gradient.mask", "batch heads sequence",
     "%q: tensor<2x2x5x4xf32>, %k: tensor<2x2x5x4xf32>, %v: tensor<2x2x5x4xf32>, %o: tensor<2x2x5x4xf32>, "
     "%g: tensor<2x2x5x4xf32>, %m: tensor<5x5xi1>",
     "colossal.attention_gradient(%q, %k, %v, %o, %g, mask %m) {scale = 1.0 : f64, causal = true, "
     "causal_offset = -2 : i64, softcap = 2.0 : f64, guard = true, rows = 3 : i64} : (tensor<2x2x5x4xf32>, "
     "tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<5x5xi1>) -> "
     "tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>",
     "tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>"},
    // Sixteen parts: what is composed of them must not double with each.
    {"attention_gradient.parts", "heads sequence",
     "%q: tensor<1x2x16x2xf32>, %k: tensor<1x2x16x2xf32>, %v: tensor<1x2x16x2xf32>, %o: "
     "tensor<1x2x16x2xf32>, %g: tensor<1x2x16x2xf32>",
     "colossal.attention_gradient(%q, %k, %v, %o, %g) {scale = 0.5 : f64, causal = true, rows = 1 : i64} : "
     "(tensor<1x2x16x2xf32>, tensor<1x2x16x2xf32>, tensor<1x2x16x2xf32>, tensor<1x2x16x2xf32>, "
     "tensor<1x2x16x2xf32>) -> tensor<1x2x16x2xf32>, tensor<1x2x16x2xf32>, tensor<1x2x16x2xf32>",
     "tensor<1x2x16x2xf32>, tensor<1x2x16x2xf32>, tensor<1x2x16x2xf32>"},
    {"rotary", "d0 d1 d2", "%a: tensor<2x3x4x8xf32>, %c: tensor<4x4xf32>, %s: tensor<4x4xf32>",
     "colossal.rotary(%a, %c, %s) : (tensor<2x3x4x8xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> "
     "tensor<2x3x4x8xf32>",
     "tensor<2x3x4x8xf32>"},
    // Elementwise: every dimension.
    {"formula", "d0 d1", "%a: tensor<5x4xf32>, %b: tensor<4xf32>, %c: tensor<f32>",
     "colossal.formula(%a, %b, %c) {gives = array<i64: 6, 4>, steps = [#colossal.step<mul [0, 1] : f32>, "
     "#colossal.step<add [3, 2] : f32>, #colossal.step<less [0, 3] : i1>, #colossal.step<select [5, 4, 0] : "
     "f32>]} : (tensor<5x4xf32>, tensor<4xf32>, tensor<f32>) -> (tensor<5x4xf32>, tensor<5x4xf32>)",
     "tensor<5x4xf32>, tensor<5x4xf32>"},
    {"formula.divide", "d0 d1", "%a: tensor<5x4xi32>, %b: tensor<5x4xi32><9>",
     "colossal.formula(%a, %b) {gives = array<i64: 3>, steps = [#colossal.step<add [0, 1] : i32>, "
     "#colossal.step<div [2, 1] : i32>]} : (tensor<5x4xi32>, tensor<5x4xi32>) -> tensor<5x4xi32>",
     "tensor<5x4xi32>"},
    {"elementwise.add", "d0 d1 d2 partial", "%a: tensor<3x4x5xf32>, %b: tensor<4x1xf32>",
     "colossal.elementwise add(%a, %b) : (tensor<3x4x5xf32>, tensor<4x1xf32>) -> tensor<3x4x5xf32>",
     "tensor<3x4x5xf32>"},
    {"elementwise.multiply", "d0 d1 partial0 partial1", "%a: tensor<3x5xf32>, %b: tensor<5xf32>",
     "colossal.elementwise mul(%a, %b) : (tensor<3x5xf32>, tensor<5xf32>) -> tensor<3x5xf32>",
     "tensor<3x5xf32>"},
    {"elementwise.subtract", "d0 partial", "%a: tensor<6xi32>, %b: tensor<6xi32>",
     "colossal.elementwise sub(%a, %b) : (tensor<6xi32>, tensor<6xi32>) -> tensor<6xi32>", "tensor<6xi32>"},
    {"elementwise.divide", "d0 d1", "%a: tensor<3x5xi32>, %b: tensor<3x5xi32>",
     "colossal.elementwise div(%a, %b) : (tensor<3x5xi32>, tensor<3x5xi32>) -> tensor<3x5xi32>",
     "tensor<3x5xi32>"},
    {"elementwise.select", "d0 d1", "%c: tensor<1x5xi1>, %a: tensor<4x5xf32>, %b: tensor<4x1xf32>",
     "colossal.elementwise select(%c, %a, %b) : (tensor<1x5xi1>, tensor<4x5xf32>, tensor<4x1xf32>) -> "
     "tensor<4x5xf32>",
     "tensor<4x5xf32>"},
    // Movement.
    {"reshape.split", "d0 d1 d2 partial", "%a: tensor<4x24xf32>",
     "colossal.reshape %a : tensor<4x24xf32> -> tensor<4x6x4xf32>", "tensor<4x6x4xf32>"},
    {"reshape.merge", "d0 d1 d2", "%a: tensor<4x5x3xf32>",
     "colossal.reshape %a : tensor<4x5x3xf32> -> tensor<20x3xf32>", "tensor<20x3xf32>"},
    {"reshape.regroup", "d0 d1 d2", "%a: tensor<12x4xf32>",
     "colossal.reshape %a : tensor<12x4xf32> -> tensor<3x16xf32>", "tensor<3x16xf32>"},
    {"reshape.unrelated", "d0", "%a: tensor<5x4x6xf32>",
     "colossal.reshape %a : tensor<5x4x6xf32> -> tensor<5x6x4xf32>", "tensor<5x6x4xf32>"},
    {"transpose", "d0 d1 d2 partial", "%a: tensor<3x4x5xf32>",
     "colossal.transpose %a [2, 0, 1] : tensor<3x4x5xf32> -> tensor<5x3x4xf32>", "tensor<5x3x4xf32>"},
    {"broadcast", "d0 d1 d2 partial", "%a: tensor<4x1xf32>",
     "colossal.broadcast %a : tensor<4x1xf32> -> tensor<3x4x5xf32>", "tensor<3x4x5xf32>"},
    {"slice.third", "d0 d2 partial", "%a: tensor<4x18xf32>",
     "colossal.slice %a [0, 6] by [1, 1] : tensor<4x18xf32> -> tensor<4x6xf32>", "tensor<4x6xf32>"},
    {"slice.odd", "d0 partial", "%a: tensor<4x7xf32>",
     "colossal.slice %a [0, 1] by [1, 2] : tensor<4x7xf32> -> tensor<4x3xf32>", "tensor<4x3xf32>"},
    {"concat", "d0 d1 partial", "%a: tensor<3x4xf32>, %b: tensor<3x8xf32>",
     "colossal.concat %a, %b {axis = 1 : i64} : (tensor<3x4xf32>, tensor<3x8xf32>) -> tensor<3x12xf32>",
     "tensor<3x12xf32>"},
    {"concat.odd", "d0 partial", "%a: tensor<5x4xf32>, %b: tensor<5x1xf32>",
     "colossal.concat %a, %b {axis = 1 : i64} : (tensor<5x4xf32>, tensor<5x1xf32>) -> tensor<5x5xf32>",
     "tensor<5x5xf32>"},
    {"pad", "d0", "%a: tensor<5x4xf32>", "colossal.pad %a low [0, 1] : tensor<5x4xf32> -> tensor<5x7xf32>",
     "tensor<5x7xf32>"},
    // Reductions: independent dimensions, and what is summed.
    {"reduce.sum", "d0 k", "%a: tensor<5x7xf32>",
     "colossal.reduce sum %a over [1] : tensor<5x7xf32> -> tensor<5xf32>", "tensor<5xf32>"},
    {"reduce.mean", "k0 d0 k1", "%a: tensor<3x5x7xf32>",
     "colossal.reduce mean %a over [0, 2] {keepdims = true} : tensor<3x5x7xf32> -> tensor<1x5x1xf32>",
     "tensor<1x5x1xf32>"},
    {"reduce.max", "d0 k", "%a: tensor<4x6xf32>",
     "colossal.reduce max %a over [1] : tensor<4x6xf32> -> tensor<4xf32>", "tensor<4xf32>"},
    {"reduce.min", "d0 k", "%a: tensor<4x5xi32>",
     "colossal.reduce min %a over [1] : tensor<4x5xi32> -> tensor<4xi32>", "tensor<4xi32>"},
    {"reduce.max_integers", "d0 k", "%a: tensor<4x5xi64>",
     "colossal.reduce max %a over [1] : tensor<4x5xi64> -> tensor<4xi64>", "tensor<4xi64>"},
    {"reduce.min_unsigned", "d0 k", "%a: tensor<4x5xui8>",
     "colossal.reduce min %a over [1] : tensor<4x5xui8> -> tensor<4xui8>", "tensor<4xui8>"},
    {"reduce.sum_double", "d0 k", "%a: tensor<4x5xf64>",
     "colossal.reduce sum %a over [1] : tensor<4x5xf64> -> tensor<4xf64>", "tensor<4xf64>"},
    {"reduce.prod", "d0 k", "%a: tensor<3x5xf32>",
     "colossal.reduce prod %a over [1] : tensor<3x5xf32> -> tensor<3xf32>", "tensor<3xf32>"},
    {"reduce.any", "d0 k", "%a: tensor<3x5xi1>",
     "colossal.reduce max %a over [1] : tensor<3x5xi1> -> tensor<3xi1>", "tensor<3xi1>"},
    {"reduce.l2", "d0", "%a: tensor<4x5xf32>",
     "colossal.reduce l2 %a over [1] : tensor<4x5xf32> -> tensor<4xf32>", "tensor<4xf32>"},
    {"arg_reduce", "d0 d1", "%a: tensor<5x4xf32>",
     "colossal.arg_reduce %a {axis = 1 : i64, minimum = false, keepdims = true, select_last = false} : "
     "tensor<5x4xf32> -> "
     "tensor<5x1xi64>",
     "tensor<5x1xi64>"},
    {"cumulate", "d0", "%a: tensor<5x4xf32>",
     "colossal.cumulate %a {axis = 1 : i64, exclusive = false, reverse = false} : tensor<5x4xf32>",
     "tensor<5x4xf32>"},
    {"arg_reduce.last", "d0 d1", "%a: tensor<3x7xf32>",
     "colossal.arg_reduce %a {axis = 1 : i64, minimum = true, keepdims = false, select_last = true} : "
     "tensor<3x7xf32> -> tensor<3xi64>",
     "tensor<3xi64>"},
    {"topk", "d0 d1", "%a: tensor<5x6xf32>",
     "colossal.topk %a {axis = 1 : i64, largest = true} : tensor<5x6xf32> -> tensor<5x2xf32>, "
     "tensor<5x2xi64>",
     "tensor<5x2xf32>, tensor<5x2xi64>"},
    // Normalizations: what is independent, and in stages what is not.
    {"softmax", "d0 d1 d2", "%a: tensor<3x4x5xf32>",
     "colossal.softmax %a {axis = 2 : i64} : tensor<3x4x5xf32>", "tensor<3x4x5xf32>"},
    {"softmax.log", "d0 d1", "%a: tensor<5x4xf32>",
     "colossal.softmax %a {axis = 0 : i64, log = true} : tensor<5x4xf32>", "tensor<5x4xf32>"},
    {"normalize.rms", "d0 d1 d2", "%a: tensor<3x4x6xf32>, %s: tensor<6xf32>",
     "colossal.normalize rms(%a, scale %s) {axis = 1 : i64, epsilon = 1.0e-5 : f64} : "
     "(tensor<3x4x6xf32>, tensor<6xf32>) -> tensor<3x4x6xf32>",
     "tensor<3x4x6xf32>"},
    {"normalize", "d0 d1 d2", "%a: tensor<3x4x6xf32>, %s: tensor<6xf32>, %b: tensor<6xf32>",
     "colossal.normalize layer(%a, scale %s, bias %b) {axis = 2 : i64, epsilon = 1.0e-5 : f64} : "
     "(tensor<3x4x6xf32>, "
     "tensor<6xf32>, tensor<6xf32>) -> tensor<3x4x6xf32>",
     "tensor<3x4x6xf32>"},
    // Lookup: vocabulary, positions, width.
    {"gather.embedding", "vocabulary positions0 positions1 d0",
     "%w: tensor<11x4xf32>, %i: tensor<2x3xi64><11>",
     "colossal.gather %w[%i] {axis = 0 : i64} : tensor<11x4xf32>, tensor<2x3xi64> -> tensor<2x3x4xf32>",
     "tensor<2x3x4xf32>"},
    {"gather.inner", "vocabulary positions d0 d1", "%w: tensor<3x8x2xf32>, %i: tensor<5xi64><8>",
     "colossal.gather %w[%i] {axis = 1 : i64} : tensor<3x8x2xf32>, tensor<5xi64> -> tensor<3x5x2xf32>",
     "tensor<3x5x2xf32>"},
    {"gather_elements", "d0 d1", "%w: tensor<4x6xf32>, %i: tensor<4x3xi64><6>",
     "colossal.gather_elements %w[%i] {axis = 1 : i64} : tensor<4x6xf32>, tensor<4x3xi64> -> tensor<4x3xf32>",
     "tensor<4x3xf32>"},
    {"gather_nd", "batch positions d2", "%w: tensor<2x5x3xf32>, %i: tensor<2x4x1xi64><5>",
     "colossal.gather_nd %w[%i] {batch_dims = 1 : i64} : tensor<2x5x3xf32>, tensor<2x4x1xi64> -> "
     "tensor<2x4x3xf32>",
     "tensor<2x4x3xf32>"},
    {"scatter_elements", "d0", "%w: tensor<4x6xf32>, %i: tensor<4x2xi64><6>, %u: tensor<4x2xf32>",
     "colossal.scatter_elements add %w[%i], %u {axis = 1 : i64} : tensor<4x6xf32>, tensor<4x2xi64>, "
     "tensor<4x2xf32> -> "
     "tensor<4x6xf32>",
     "tensor<4x6xf32>"},
    {"scatter_nd", "d3", "%w: tensor<5x6xf32>, %i: tensor<3x1xi64><5>, %u: tensor<3x6xf32>",
     "colossal.scatter_nd add %w[%i], %u : tensor<5x6xf32>, tensor<3x1xi64>, tensor<3x6xf32> -> "
     "tensor<5x6xf32>",
     "tensor<5x6xf32>"},
    {"segment_sum", "vocabulary positions0 positions1 d0 partial",
     "%u: tensor<2x3x4xf32>, %i: tensor<2x3xi64><11>",
     "colossal.segment_sum %u by %i {axis = 0 : i64} : tensor<2x3x4xf32>, tensor<2x3xi64> -> "
     "tensor<11x4xf32>",
     "tensor<11x4xf32>"},
    {"segment_sum.inner", "vocabulary positions d0 d1 partial", "%u: tensor<3x7x2xf32>, %i: tensor<7xi64><8>",
     "colossal.segment_sum %u by %i {axis = 1 : i64} : tensor<3x7x2xf32>, tensor<7xi64> -> tensor<3x8x2xf32>",
     "tensor<3x8x2xf32>"},
    // Convolutions: batch, channels in and out, groups, height and width.
    {"conv", "batch channels in_channels height width",
     "%a: tensor<2x4x6x5xf32>, %w: tensor<3x4x3x3xf32>, %b: tensor<3xf32>",
     "colossal.conv(%a, %w, %b) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: "
     "1, 1, 1, 1>, "
     "group = 1 : i64} : (tensor<2x4x6x5xf32>, tensor<3x4x3x3xf32>, tensor<3xf32>) -> tensor<2x3x6x5xf32>",
     "tensor<2x3x6x5xf32>"},
    {"conv.strided", "batch channels in_channels height width",
     "%a: tensor<1x3x9x8xf32>, %w: tensor<4x3x3x2xf32>",
     "colossal.conv(%a, %w) {strides = array<i64: 2, 3>, dilations = array<i64: 2, 1>, pads = array<i64: 2, "
     "0, 1, 1>, "
     "group = 1 : i64} : (tensor<1x3x9x8xf32>, tensor<4x3x3x2xf32>) -> tensor<1x4x4x3xf32>",
     "tensor<1x4x4x3xf32>"},
    {"conv.depthwise", "batch group width", "%a: tensor<2x6x8xf32>, %w: tensor<6x1x3xf32>, %b: tensor<6xf32>",
     "colossal.conv(%a, %w, %b) {strides = array<i64: 1>, dilations = array<i64: 1>, pads = array<i64: 1, "
     "1>, group = 6 : i64} "
     ": (tensor<2x6x8xf32>, tensor<6x1x3xf32>, tensor<6xf32>) -> tensor<2x6x8xf32>",
     "tensor<2x6x8xf32>"},
    {"conv.grouped", "batch group channels in_channels height width",
     "%a: tensor<2x8x6x5xf32>, %w: tensor<16x4x3x3xf32>, %b: tensor<16xf32>",
     "colossal.conv(%a, %w, %b) {strides = array<i64: 1, 2>, dilations = array<i64: 1, 1>, pads = array<i64: "
     "1, 1, 1, 1>, group = 2 : i64} : (tensor<2x8x6x5xf32>, tensor<16x4x3x3xf32>, tensor<16xf32>) -> "
     "tensor<2x16x6x3xf32>",
     "tensor<2x16x6x3xf32>"},
    {"conv_transpose", "batch channels in_channels",
     "%a: tensor<2x4x3x3xf32>, %w: tensor<4x3x2x2xf32>, %b: tensor<3xf32>",
     "colossal.conv_transpose(%a, %w, %b) {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads = "
     "array<i64: 0, 0, "
     "0, 0>, group = 1 : i64} : (tensor<2x4x3x3xf32>, tensor<4x3x2x2xf32>, tensor<3xf32>) -> "
     "tensor<2x3x6x6xf32>",
     "tensor<2x3x6x6xf32>"},
    // Windows that overlap, by phases; groups, an odd stride, and places beyond the last window.
    {"conv_transpose.overlapping", "batch group channels in_channels",
     "%a: tensor<2x4x3x4xf32>, %w: tensor<4x2x5x3xf32>, %b: tensor<4xf32>",
     "colossal.conv_transpose(%a, %w, %b) {strides = array<i64: 3, 2>, dilations = array<i64: 1, 2>, pads = "
     "array<i64: 1, 2, 0, 0>, group = 2 : i64} : (tensor<2x4x3x4xf32>, tensor<4x2x5x3xf32>, tensor<4xf32>) "
     "-> "
     "tensor<2x4x11x10xf32>",
     "tensor<2x4x11x10xf32>"},
    {"pool.max", "batch channels height width", "%a: tensor<2x3x8x7xf32>",
     "colossal.pool max %a {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, dilations = array<i64: 1, "
     "1>, pads = "
     "array<i64: 1, 1, 1, 1>} : tensor<2x3x8x7xf32> -> tensor<2x3x4x4xf32>",
     "tensor<2x3x4x4xf32>"},
    {"pool.max_bytes", "batch channels height width", "%a: tensor<1x2x5x7xi8>",
     "colossal.pool max %a {kernel = array<i64: 2, 3>, strides = array<i64: 1, 2>, dilations = array<i64: 1, "
     "1>, pads = "
     "array<i64: 0, 1, 1, 1>} : tensor<1x2x5x7xi8> -> tensor<1x2x5x4xi8>",
     "tensor<1x2x5x4xi8>"},
    {"pool.average", "batch channels height width", "%a: tensor<1x3x8x6xf32>",
     "colossal.pool average %a {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, dilations = "
     "array<i64: 1, 1>, pads = "
     "array<i64: 0, 0, 0, 0>} : tensor<1x3x8x6xf32> -> tensor<1x3x4x3xf32>",
     "tensor<1x3x4x3xf32>"},
    {"pool.average_padded", "batch channels", "%a: tensor<2x3x6x6xf32>",
     "colossal.pool average %a {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, dilations = "
     "array<i64: 1, 1>, pads = "
     "array<i64: 1, 1, 1, 1>} : tensor<2x3x6x6xf32> -> tensor<2x3x6x6xf32>",
     "tensor<2x3x6x6xf32>"},
    {"pool_taps", "batch channels", "%a: tensor<2x3x8x7xf32>",
     "colossal.pool_taps %a {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, dilations = array<i64: "
     "1, "
     "1>, pads = array<i64: 1, 1, 1, 1>} : tensor<2x3x8x7xf32> -> tensor<2x3x4x4xi32>",
     "tensor<2x3x4x4xi32>"},
    {"pool_gradient.max", "batch channels partial", "%g: tensor<2x3x4x4xf32>, %t: tensor<2x3x4x4xi32>",
     "colossal.pool_gradient max %g at %t {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, dilations "
     "= "
     "array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>} : tensor<2x3x4x4xf32>, tensor<2x3x4x4xi32> -> "
     "tensor<2x3x8x7xf32>",
     "tensor<2x3x8x7xf32>"},
    {"pool_gradient.average", "batch channels partial", "%g: tensor<2x3x5x4xf32>",
     "colossal.pool_gradient average %g {kernel = array<i64: 3, 2>, strides = array<i64: 1, 2>, dilations = "
     "array<i64: 1, 2>, pads = array<i64: 1, 0, 1, 1>} : tensor<2x3x5x4xf32> -> tensor<2x3x5x8xf32>",
     "tensor<2x3x5x8xf32>"},
    {"roi_max_pool", "channels regions", "%a: tensor<2x3x5x6xf32>, %r: tensor<5x5xf32>",
     "colossal.roi_max_pool(%a, %r) {scale = 1.5 : f64} : (tensor<2x3x5x6xf32>, tensor<5x5xf32>) -> "
     "tensor<5x3x2x3xf32>",
     "tensor<5x3x2x3xf32>"},
    {"resize", "d0 d1", "%a: tensor<2x3x4x4xf32>",
     "colossal.resize %a {mode = \"nearest\", coordinates = \"asymmetric\", nearest = \"floor\", scales = "
     "array<f64: 1.0, "
     "1.0, 2.0, 2.0>, cubic_coeff = -7.5e-1 : f64, exclude_outside = false, antialias = false, extrapolation "
     "= 0.0 : f64} "
     ": tensor<2x3x4x4xf32> -> tensor<2x3x8x8xf32>",
     "tensor<2x3x8x8xf32>"},
    // Sources.
    {"iota", "d0 d1", "",
     "colossal.iota {axis = 1 : i64, start = 3.0 : f64, step = 0.5 : f64} : tensor<3x7xf32>",
     "tensor<3x7xf32>"},
    {"random", "d0 d1", "",
     "colossal.random uniform {a = 0.0 : f64, b = 1.0 : f64, seed = 7 : i64, extents = array<i64: 3, 7>} : "
     "tensor<3x7xf32>",
     "tensor<3x7xf32>"},
    {"random.stream", "d0 d1", "%p: tensor<3x7xf32>, %s: tensor<2xi64>",
     "colossal.random bernoulli(%p : tensor<3x7xf32>) stream %s : tensor<2xi64> {a = 0.0 : f64, b = 0.0 : "
     "f64, seed = 7 "
     ": i64, extents = array<i64: 3, 7>} : tensor<3x7xi1>",
     "tensor<3x7xi1>"},
    {"dropout", "d0 d1 partial", "%a: tensor<3x7xf32>, %s: tensor<2xi64>",
     "colossal.dropout %a stream %s : tensor<2xi64> {ratio = 0.3 : f64, seed = 7 : i64, extents = array<i64: "
     "3, 7>} : "
     "tensor<3x7xf32>",
     "tensor<3x7xf32>"},
    {"constant.splat", "d0 d1", "", "colossal.constant dense<2.5> : tensor<3x5xf32> : tensor<3x5xf32>",
     "tensor<3x5xf32>"},
};

std::string colossal::test::getText(const Case &each) {
  std::string arguments = each.arguments;
  // "tensor<...><11>" becomes "tensor<...> {test.below = 11 : i64}".
  for (size_t at; (at = arguments.find("><")) != std::string::npos;) {
    size_t end = arguments.find('>', at + 2);
    arguments = arguments.substr(0, at) + "> {test.below = " + arguments.substr(at + 2, end - at - 2) +
                " : i64}" + arguments.substr(end + 1);
  }
  // "%y:2 = op" gives "%y#0, %y#1".
  std::string types = each.result, values;
  unsigned count = 0;
  for (size_t at = types.find("tensor<"); at != std::string::npos;
       at = types.find("tensor<", at + 1), ++count)
    values += (count ? ", %y#" : "%y#") + std::to_string(count);
  return "func.func @main(" + arguments + ") -> (" + types + ") {\n  %y:" + std::to_string(count) + " = " +
         each.op + "\n  return " + values + " : " + types + "\n}\n";
}
