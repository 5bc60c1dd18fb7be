// Attention and rotary embedding. Each function breaks the constraint that it is named after.
// RUN: colossal-opt %s -split-input-file -verify-diagnostics -o /dev/null

func.func @attention_c0(%q: tensor<1x2x?x4xf32>, %k: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{operand 0 must have a static shape, but is 'tensor<1x2x?x4xf32>' (C0)}}
  %r = colossal.attention(%q, %k, %k) {scale = 1.0 : f64} : (tensor<1x2x?x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @attention_c1(%q: tensor<2x3x4xf32>, %k: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{every tensor must have rank 4, but is 'tensor<2x3x4xf32>' (C1)}}
  %r = colossal.attention(%q, %k, %k) {scale = 1.0 : f64} : (tensor<2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @attention_c1_2(%q: tensor<1x2x3x4xi32>) {
  // expected-error@+1 {{has no meaning for 'i32' (C1)}}
  %r = colossal.attention(%q, %q, %q) {scale = 1.0 : f64} : (tensor<1x2x3x4xi32>, tensor<1x2x3x4xi32>, tensor<1x2x3x4xi32>) -> tensor<1x2x3x4xi32>
  return
}

// -----

func.func @attention_c2(%q: tensor<1x3x3x4xf32>, %k: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{3 query heads are not a multiple of 2 key heads (C2)}}
  %r = colossal.attention(%q, %k, %k) {scale = 1.0 : f64} : (tensor<1x3x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x3x3x4xf32>
  return
}

// -----

func.func @attention_c2_2(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x3x5xf32>) {
  // expected-error@+1 {{key must have shape [1, 2, 3, 4], but is 'tensor<1x2x3x5xf32>' (C2)}}
  %r = colossal.attention(%q, %k, %k) {scale = 1.0 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x5xf32>, tensor<1x2x3x5xf32>) -> tensor<1x2x3x5xf32>
  return
}

// -----

func.func @attention_c2_statistics(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{statistics must have shape [1, 2, 3, 1], but is 'tensor<1x2x3xf32>' (C2)}}
  %r:2 = colossal.attention(%q, %q, %q) {scale = 1.0 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>, tensor<1x2x3xf32>
  return
}

// -----

func.func @attention_c4(%q: tensor<1x2x3x4xbf16>) {
  // expected-error@+1 {{the statistics must be of 'f32', but are 'tensor<1x2x3x1xbf16>' (C4)}}
  %r:2 = colossal.attention(%q, %q, %q) {scale = 1.0 : f64} : (tensor<1x2x3x4xbf16>, tensor<1x2x3x4xbf16>, tensor<1x2x3x4xbf16>) -> tensor<1x2x3x4xbf16>, tensor<1x2x3x1xbf16>
  return
}

// -----

func.func @attention_c3(%q: tensor<1x2x3x4xf32>, %m: tensor<3x5xf32>) {
  // expected-error@+1 {{mask does not broadcast to [1, 2, 3, 3]: it is 'tensor<3x5xf32>' (C3)}}
  %r = colossal.attention(%q, %q, %q, mask %m) {scale = 1.0 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<3x5xf32>) -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @attention_c3_2(%q: tensor<1x2x3x4xf32>, %m: tensor<3x3xi32>) {
  // expected-error@+1 {{the mask must be of floats or i1, but is 'tensor<3x3xi32>' (C3)}}
  %r = colossal.attention(%q, %q, %q, mask %m) {scale = 1.0 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<3x3xi32>) -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @rotary_c1(%x: tensor<3x4xf32>, %c: tensor<3x2xf32>) {
  // expected-error@+1 {{the result must be 'tensor<3x4xf32>', as the input, but is 'tensor<3x5xf32>' (C1)}}
  %r = colossal.rotary(%x, %c, %c) : (tensor<3x4xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @rotary_c2(%x: tensor<3x4xf32>, %c: tensor<3x3xf32>) {
  // expected-error@+1 {{cos of 'tensor<3x3xf32>' and sin of 'tensor<3x3xf32>' do not turn rows of 'tensor<3x4xf32>' (C2)}}
  %r = colossal.rotary(%x, %c, %c) : (tensor<3x4xf32>, tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x4xf32>
  return
}

// -----

func.func @rotary_c2_2(%x: tensor<3x4xf32>, %c: tensor<3x2xf32>, %s: tensor<2x2xf32>) {
  // expected-error@+1 {{sin does not broadcast to [3, 2]: it is 'tensor<2x2xf32>' (C2)}}
  %r = colossal.rotary(%x, %c, %s) : (tensor<3x4xf32>, tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x4xf32>
  return
}

// -----

func.func @attention_gradient_c1(%q: tensor<1x2x3x4xf32>, %g: tensor<1x2x3x5xf32>) {
  // expected-error@+1 {{the gradient must be 'tensor<1x2x3x4xf32>', as the output, but is 'tensor<1x2x3x5xf32>' (C1)}}
  %r:3 = colossal.attention_gradient(%q, %q, %q, %q, %g) {scale = 1.0 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x5xf32>) -> tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>
  return
}

// -----

func.func @attention_gradient_c1_2(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{the gradient of 'tensor<1x2x3x4xf32>' must be of that type, but is 'tensor<1x2x3x5xf32>' (C1)}}
  %r:3 = colossal.attention_gradient(%q, %q, %q, %q, %q) {scale = 1.0 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>, tensor<1x2x3x5xf32>, tensor<1x2x3x4xf32>
  return
}

// -----

func.func @attention_gradient_c1_3(%q: tensor<1x2x3x4xf32>, %m: tensor<3x5xf32>) {
  // expected-error@+1 {{mask does not broadcast to [1, 2, 3, 3]: it is 'tensor<3x5xf32>' (C1)}}
  %r:3 = colossal.attention_gradient(%q, %q, %q, %q, %q, mask %m) {scale = 1.0 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<3x5xf32>) -> tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>
  return
}

// -----

func.func @attention_gradient_c2(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{rows are -1 (C2)}}
  %r:3 = colossal.attention_gradient(%q, %q, %q, %q, %q) {scale = 1.0 : f64, rows = -1 : i64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>
  return
}
