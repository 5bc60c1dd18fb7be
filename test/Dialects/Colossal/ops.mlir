// Every op, in every form that its assembly has, comes back from text as it was.
//
// RUN: colossal-opt %s -o %t.once && colossal-opt %t.once -o %t.twice && diff %t.once %t.twice
// RUN: FileCheck %s < %t.twice

// CHECK-LABEL: @attention
func.func @attention(%q: tensor<1x4x3x8xf32>, %k: tensor<1x2x5x8xf32>, %m: tensor<3x5xi1>, %o: index) {
  // CHECK: colossal.attention(%{{.*}}, %{{.*}}, %{{.*}}) {scale = 5.000000e-01 : f64}
  %0 = colossal.attention(%q, %k, %k) {scale = 0.5 : f64} : (tensor<1x4x3x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>) -> tensor<1x4x3x8xf32>
  // CHECK: colossal.attention(%{{.*}}, %{{.*}}, %{{.*}}, mask %{{.*}}query_offset %{{.*}}key_count %{{.*}}) {causal = true, causal_offset = 2 : i64, guard = true, scale = 5.000000e-01 : f64, softcap = 3.000000e+00 : f64}
  %1 = colossal.attention(%q, %k, %k, mask %m query_offset %o key_count %o) {scale = 0.5 : f64, causal = true, causal_offset = 2 : i64, softcap = 3.0 : f64, guard = true} : (tensor<1x4x3x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>, tensor<3x5xi1>) -> tensor<1x4x3x8xf32>
  // CHECK: colossal.attention({{.*}}) -> tensor<1x4x3x8xf32>, tensor<1x4x3x1xf32>
  %2:2 = colossal.attention(%q, %k, %k) {scale = 0.5 : f64} : (tensor<1x4x3x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>) -> tensor<1x4x3x8xf32>, tensor<1x4x3x1xf32>
  return
}

// CHECK-LABEL: @attention_gradient
func.func @attention_gradient(%q: tensor<1x4x3x8xf32>, %k: tensor<1x2x5x8xf32>, %y: tensor<1x4x3x8xf32>, %m: tensor<3x5xi1>, %o: index) {
  // CHECK: colossal.attention_gradient(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {scale = 5.000000e-01 : f64}
  %0:3 = colossal.attention_gradient(%q, %k, %k, %y, %y) {scale = 0.5 : f64} : (tensor<1x4x3x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>, tensor<1x4x3x8xf32>, tensor<1x4x3x8xf32>) -> tensor<1x4x3x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>
  // CHECK: colossal.attention_gradient({{.*}}, mask %{{.*}} query_offset %{{.*}}) {causal = true, rows = 2 : i64, scale = 5.000000e-01 : f64}
  %1:3 = colossal.attention_gradient(%q, %k, %k, %y, %y, mask %m query_offset %o) {scale = 0.5 : f64, causal = true, rows = 2 : i64} : (tensor<1x4x3x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>, tensor<1x4x3x8xf32>, tensor<1x4x3x8xf32>, tensor<3x5xi1>) -> tensor<1x4x3x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>
  return
}

// CHECK-LABEL: @rotary
func.func @rotary(%x: tensor<2x3x8xf32>, %c: tensor<3x2xf32>) {
  // CHECK: colossal.rotary(%{{.*}}, %{{.*}}, %{{.*}}) {interleaved = true}
  %0 = colossal.rotary(%x, %c, %c) {interleaved = true} : (tensor<2x3x8xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<2x3x8xf32>
  return
}

// CHECK-LABEL: @contract
func.func @contract(%a: tensor<2x3xf16>, %b: tensor<3x4xf16>) {
  // CHECK: colossal.contract %{{.*}} [0, 1], %{{.*}} [1, 2] -> [0, 2] : (tensor<2x3xf16>, tensor<3x4xf16>) -> tensor<2x4xf32>
  %0 = colossal.contract %a [0, 1], %b [1, 2] -> [0, 2] : (tensor<2x3xf16>, tensor<3x4xf16>) -> tensor<2x4xf32>
  return
}

// CHECK-LABEL: @convolutions
func.func @convolutions(%x: tensor<1x4x8x8xf32>, %w: tensor<4x2x3x3xf32>, %b: tensor<4xf32>) {
  // CHECK: colossal.conv(%{{.*}}, %{{.*}}) {
  %0 = colossal.conv(%x, %w) {strides = array<i64: 2, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 1, 0, 1>, group = 2 : i64} : (tensor<1x4x8x8xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x3x8xf32>
  // CHECK: colossal.conv_transpose(%{{.*}}, %{{.*}}, %{{.*}}) {
  %1 = colossal.conv_transpose(%x, %w, %b) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, group = 2 : i64} : (tensor<1x4x8x8xf32>, tensor<4x2x3x3xf32>, tensor<4xf32>) -> tensor<1x4x10x10xf32>
  return
}

// CHECK-LABEL: @formula
func.func @formula(%x: tensor<3x4xf32>, %y: tensor<f32>) {
  // CHECK: colossal.formula(%{{.*}}, %{{.*}}) {gives = array<i64: 3, 2>, steps = [#colossal.step<mul[0, 1] : f32>, #colossal.step<less[2, 0] : i1>]} :
  %0:2 = colossal.formula(%x, %y) {gives = array<i64: 3, 2>, steps = [#colossal.step<mul [0, 1] : f32>, #colossal.step<less [2, 0] : i1>]} : (tensor<3x4xf32>, tensor<f32>) -> (tensor<3x4xi1>, tensor<3x4xf32>)
  return
}

// CHECK-LABEL: @elementwise
func.func @elementwise(%x: tensor<3x4xf32>, %y: tensor<4xf32>, %c: tensor<i1>) {
  // CHECK: colossal.elementwise leaky_relu(%{{.*}}) {params = array<f64: 1.000000e-01>} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %0 = colossal.elementwise leaky_relu(%x) {params = array<f64: 0.1>} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  // CHECK: colossal.elementwise less(%{{.*}}, %{{.*}}) : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xi1>
  %1 = colossal.elementwise less(%x, %y) : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xi1>
  // CHECK: colossal.elementwise select(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<i1>, tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  %2 = colossal.elementwise select(%c, %x, %y) : (tensor<i1>, tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  // CHECK: colossal.elementwise add(%{{.*}}, %{{.*}}, %{{.*}}) :
  %3 = colossal.elementwise add(%x, %y, %x) : (tensor<3x4xf32>, tensor<4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  // CHECK: colossal.elementwise cast(%{{.*}}) : (tensor<4xf32>) -> tensor<4xui8>
  %4 = colossal.elementwise cast(%y) : (tensor<4xf32>) -> tensor<4xui8>
  return
}

// CHECK-LABEL: @indexing
func.func @indexing(%d: tensor<4x5xf32>, %i: tensor<2x2xi64>, %u: tensor<2x2xf32>, %v: tensor<2xf32>, %o: index) {
  // CHECK: colossal.gather %{{.*}}[%{{.*}}] {axis = 1 : i64} : tensor<4x5xf32>, tensor<2x2xi64> -> tensor<4x2x2xf32>
  %0 = colossal.gather %d[%i] {axis = 1 : i64} : tensor<4x5xf32>, tensor<2x2xi64> -> tensor<4x2x2xf32>
  // CHECK: colossal.gather %{{.*}}[%{{.*}}] offset %{{.*}} {axis = 0 : i64, extent = 8 : i64}
  %1 = colossal.gather %d[%i] offset %o {axis = 0 : i64, extent = 8 : i64} : tensor<4x5xf32>, tensor<2x2xi64> -> tensor<2x2x5xf32>
  // CHECK: colossal.gather_elements %{{.*}}[%{{.*}}] {axis = 0 : i64}
  %2 = colossal.gather_elements %d[%i] {axis = 0 : i64} : tensor<4x5xf32>, tensor<2x2xi64> -> tensor<2x2xf32>
  // CHECK: colossal.gather_nd %{{.*}}[%{{.*}}] {batch_dims = 0 : i64}
  %3 = colossal.gather_nd %d[%i] {batch_dims = 0 : i64} : tensor<4x5xf32>, tensor<2x2xi64> -> tensor<2xf32>
  // CHECK: colossal.scatter_elements add %{{.*}}[%{{.*}}], %{{.*}} {axis = 0 : i64}
  %4 = colossal.scatter_elements add %d[%i], %u {axis = 0 : i64} : tensor<4x5xf32>, tensor<2x2xi64>, tensor<2x2xf32> -> tensor<4x5xf32>
  // CHECK: colossal.scatter_nd none %{{.*}}[%{{.*}}], %{{.*}} :
  %5 = colossal.scatter_nd none %d[%i], %v : tensor<4x5xf32>, tensor<2x2xi64>, tensor<2xf32> -> tensor<4x5xf32>
  // CHECK: colossal.segment_sum %{{.*}} by %{{.*}} {axis = 0 : i64}
  %6 = colossal.segment_sum %1 by %i {axis = 0 : i64} : tensor<2x2x5xf32>, tensor<2x2xi64> -> tensor<4x5xf32>
  return
}

// CHECK-LABEL: @movement
func.func @movement(%x: tensor<4x6xf32>, %s: tensor<f32>) {
  // CHECK: colossal.reshape %{{.*}} : tensor<4x6xf32> -> tensor<2x12xf32>
  %0 = colossal.reshape %x : tensor<4x6xf32> -> tensor<2x12xf32>
  // CHECK: colossal.transpose %{{.*}} [1, 0] : tensor<4x6xf32> -> tensor<6x4xf32>
  %1 = colossal.transpose %x [1, 0] : tensor<4x6xf32> -> tensor<6x4xf32>
  // CHECK: colossal.broadcast %{{.*}} : tensor<4x6xf32> -> tensor<3x4x6xf32>
  %2 = colossal.broadcast %x : tensor<4x6xf32> -> tensor<3x4x6xf32>
  // CHECK: colossal.slice %{{.*}} [3, 0] by [-1, 2] : tensor<4x6xf32> -> tensor<2x3xf32>
  %3 = colossal.slice %x [3, 0] by [-1, 2] : tensor<4x6xf32> -> tensor<2x3xf32>
  // CHECK: colossal.concat %{{.*}}, %{{.*}} {axis = 0 : i64} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %4 = colossal.concat %x, %x {axis = 0 : i64} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  // CHECK: colossal.pad %{{.*}} low [-1, 2] : tensor<4x6xf32> -> tensor<4x9xf32>
  %5 = colossal.pad %x low [-1, 2] : tensor<4x6xf32> -> tensor<4x9xf32>
  // CHECK: colossal.pad %{{.*}} value %{{.*}} low [0, 1] : tensor<4x6xf32>, tensor<f32> -> tensor<4x8xf32>
  %6 = colossal.pad %x value %s low [0, 1] : tensor<4x6xf32>, tensor<f32> -> tensor<4x8xf32>
  // CHECK: colossal.pad %{{.*}} low [0, 1] {mode = #colossal<pad_mode wrap>}
  %7 = colossal.pad %x low [0, 1] {mode = #colossal<pad_mode wrap>} : tensor<4x6xf32> -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @normalization
func.func @normalization(%x: tensor<4x6xf32>, %s: tensor<6xf32>) {
  // CHECK: colossal.normalize layer(%{{.*}}) {axis = 1 : i64, epsilon = 1.000000e-05 : f64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %0 = colossal.normalize layer(%x) {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  // CHECK: colossal.normalize rms(%arg0, scale %arg1) {axis
  %1 = colossal.normalize rms(%x, scale %s) {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  // CHECK: colossal.normalize layer(%arg0, bias %arg1) {axis
  %2 = colossal.normalize layer(%x, bias %s) {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  // CHECK: colossal.normalize layer(%arg0, scale %arg1, bias %arg1) {axis
  %3 = colossal.normalize layer(%x, scale %s, bias %s) {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  // CHECK: colossal.batch_normalize %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {epsilon = 1.000000e-05 : f64, momentum = 9.000000e-01 : f64} : tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32> -> tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>
  %bn:3 = colossal.batch_normalize %x, %s, %s, %s, %s {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64} : tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32> -> tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>
  // CHECK: colossal.softmax %{{.*}} {axis = 1 : i64, guard = true} : tensor<4x6xf32>
  %4 = colossal.softmax %x {axis = 1 : i64, guard = true} : tensor<4x6xf32>
  return
}

// CHECK-LABEL: @pooling
func.func @pooling(%x: tensor<1x4x8xf32>, %image: tensor<1x4x8x8xf32>, %regions: tensor<3x5xf32>) {
  // CHECK: colossal.pool average %{{.*}} {
  %0 = colossal.pool average %x {kernel = array<i64: 2>, strides = array<i64: 2>, dilations = array<i64: 1>, pads = array<i64: 0, 0>, count_include_pad = true} : tensor<1x4x8xf32> -> tensor<1x4x4xf32>
  // CHECK: colossal.pool max %{{.*}} {{.*}} -> tensor<1x4x4xf32>, tensor<1x4x4xi64>
  %1:2 = colossal.pool max %x {kernel = array<i64: 2>, strides = array<i64: 2>, dilations = array<i64: 1>, pads = array<i64: 0, 0>} : tensor<1x4x8xf32> -> tensor<1x4x4xf32>, tensor<1x4x4xi64>
  // CHECK: colossal.resize %{{.*}} {{.*}}mode = "linear"
  %2 = colossal.resize %x {mode = "linear", coordinates = "half_pixel", nearest = "floor", scales = array<f64: 1.0, 1.0, 2.0>, cubic_coeff = -0.75 : f64, exclude_outside = false, antialias = false, extrapolation = 0.0 : f64} : tensor<1x4x8xf32> -> tensor<1x4x16xf32>
  // CHECK: colossal.roi_max_pool(%{{.*}}, %{{.*}}) {scale = 5.000000e-01 : f64} : (tensor<1x4x8x8xf32>, tensor<3x5xf32>) -> tensor<3x4x2x2xf32>
  %3 = colossal.roi_max_pool(%image, %regions) {scale = 0.5 : f64} : (tensor<1x4x8x8xf32>, tensor<3x5xf32>) -> tensor<3x4x2x2xf32>
  // CHECK: colossal.pool_gradient average %{{.*}} {{.*}} : tensor<1x4x4xf32> -> tensor<1x4x8xf32>
  %4 = colossal.pool_gradient average %0 {kernel = array<i64: 2>, strides = array<i64: 2>, dilations = array<i64: 1>, pads = array<i64: 0, 0>, count_include_pad = true} : tensor<1x4x4xf32> -> tensor<1x4x8xf32>
  // CHECK: colossal.pool_taps %{{.*}} {{.*}} : tensor<1x4x8xf32> -> tensor<1x4x4xi32>
  %5 = colossal.pool_taps %x {kernel = array<i64: 2>, strides = array<i64: 2>, dilations = array<i64: 1>, pads = array<i64: 0, 0>} : tensor<1x4x8xf32> -> tensor<1x4x4xi32>
  // CHECK: colossal.pool_gradient max %{{.*}} at %{{.*}} {{.*}} : tensor<1x4x4xf32>, tensor<1x4x4xi32> -> tensor<1x4x8xf32>
  %6 = colossal.pool_gradient max %0 at %5 {kernel = array<i64: 2>, strides = array<i64: 2>, dilations = array<i64: 1>, pads = array<i64: 0, 0>} : tensor<1x4x4xf32>, tensor<1x4x4xi32> -> tensor<1x4x8xf32>
  return
}

// CHECK-LABEL: @reduction
func.func @reduction(%x: tensor<4x6xf32>) {
  // CHECK: colossal.reduce mean %{{.*}} over [0] {count = 8 : i64, keepdims = true} : tensor<4x6xf32> -> tensor<1x6xf32>
  %0 = colossal.reduce mean %x over [0] {count = 8 : i64, keepdims = true} : tensor<4x6xf32> -> tensor<1x6xf32>
  // CHECK: colossal.arg_reduce %{{.*}} {axis = 1 : i64, keepdims = false, minimum = true, select_last = false} : tensor<4x6xf32> -> tensor<4xi64>
  %1 = colossal.arg_reduce %x {axis = 1 : i64, keepdims = false, minimum = true, select_last = false} : tensor<4x6xf32> -> tensor<4xi64>
  // CHECK: colossal.cumulate %{{.*}} {axis = 1 : i64, exclusive = true, product = true, reverse = false} : tensor<4x6xf32>
  %2 = colossal.cumulate %x {axis = 1 : i64, exclusive = true, product = true, reverse = false} : tensor<4x6xf32>
  // CHECK: colossal.topk %{{.*}} {axis = 1 : i64, largest = true} : tensor<4x6xf32> -> tensor<4x2xf32>, tensor<4x2xi64>
  %3:2 = colossal.topk %x {axis = 1 : i64, largest = true} : tensor<4x6xf32> -> tensor<4x2xf32>, tensor<4x2xi64>
  return
}

// CHECK-LABEL: @source
func.func @source(%p: tensor<4xf32>, %o: index) {
  // CHECK: colossal.parameter "w" {aliases = ["v"], bytes = 16 : i64, file = "weights.bin", offset = 64 : i64} : tensor<4xf32>
  %0 = colossal.parameter "w" {aliases = ["v"], bytes = 16 : i64, file = "weights.bin", offset = 64 : i64} : tensor<4xf32>
  // CHECK: colossal.constant dense<[1, 2]> : tensor<2xi64> : tensor<2xi64>
  %1 = colossal.constant dense<[1, 2]> : tensor<2xi64> : tensor<2xi64>
  // CHECK: colossal.iota {axis = 0 : i64, start = 1.000000e+00 : f64, step = 2.000000e+00 : f64} : tensor<4xi64>
  %2 = colossal.iota {axis = 0 : i64, start = 1.0 : f64, step = 2.0 : f64} : tensor<4xi64>
  // CHECK: colossal.iota offset %{{.*}} {axis = 0 : i64
  %3 = colossal.iota offset %o {axis = 0 : i64, start = 1.0 : f64, step = 2.0 : f64} : tensor<4xi64>
  // CHECK: colossal.random uniform {a = 0.000000e+00 : f64, b = 1.000000e+00 : f64, extents = array<i64: 4>, seed = 7 : i64} : tensor<4xf32>
  %4 = colossal.random uniform {a = 0.0 : f64, b = 1.0 : f64, extents = array<i64: 4>, seed = 7 : i64} : tensor<4xf32>
  // CHECK: colossal.random bernoulli(%{{.*}} : tensor<4xf32>) offsets %{{.*}} {a
  %5 = colossal.random bernoulli(%p : tensor<4xf32>) offsets %o {a = 0.0 : f64, b = 1.0 : f64, extents = array<i64: 8>, seed = 7 : i64} : tensor<4xi1>
  // CHECK: colossal.random uniform stream %{{.*}} : tensor<2xi64> offsets %{{.*}} {a
  %6 = colossal.random uniform stream %1 : tensor<2xi64> offsets %o {a = 0.0 : f64, b = 1.0 : f64, extents = array<i64: 8>, seed = 7 : i64} : tensor<4xf32>
  // CHECK: colossal.dropout %{{.*}} {extents = array<i64: 4>, ratio = 5.000000e-01 : f64, seed = 7 : i64} : tensor<4xf32>
  %7 = colossal.dropout %p {extents = array<i64: 4>, ratio = 0.5 : f64, seed = 7 : i64} : tensor<4xf32>
  // CHECK: colossal.dropout %{{.*}} stream %{{.*}} : tensor<2xi64> offsets %{{.*}} {extents
  %8 = colossal.dropout %p stream %1 : tensor<2xi64> offsets %o {extents = array<i64: 8>, ratio = 0.5 : f64, seed = 7 : i64} : tensor<4xf32>
  return
}
