// Convolutions. Each function breaks the constraint that it is named after.
// RUN: colossal-opt %s -split-input-file -verify-diagnostics -o /dev/null

func.func @conv_c1(%x: tensor<1x4xf32>, %w: tensor<6x4xf32>) {
  // expected-error@+1 {{needs 1 to 3 spatial dimensions, but the input is 'tensor<1x4xf32>' (C1)}}
  %r = colossal.conv(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, group = 1 : i64} : (tensor<1x4xf32>, tensor<6x4xf32>) -> tensor<1x6xf32>
  return
}

// -----

func.func @conv_c1_2(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error@+1 {{pads must have 4 entries, but has 2 (C1)}}
  %r = colossal.conv(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0>, group = 1 : i64} : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  return
}

// -----

func.func @conv_c1_3(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error@+1 {{group, strides and dilations must be positive (C1)}}
  %r = colossal.conv(%x, %w) {strides = array<i64: 1, 0>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, group = 1 : i64} : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  return
}

// -----

func.func @conv_c2(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error@+1 {{spatial dimension 1 of the result, 7, reaches beyond the padded input (C2)}}
  %r = colossal.conv(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, group = 1 : i64} : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x7xf32>
  return
}

// -----

func.func @conv_c2_2(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error@+1 {{spatial dimension 0 of the result, 5, reaches beyond the padded input (C2)}}
  %r = colossal.conv(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 2, 1>, pads = array<i64: 0, 0, 0, 0>, group = 1 : i64} : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x5x6xf32>
  return
}

// -----

func.func @conv_c3(%x: tensor<1x4x8x8xf32>, %w: tensor<6x3x3x3xf32>) {
  // expected-error@+1 {{channels of 'tensor<1x4x8x8xf32>', 'tensor<6x3x3x3xf32>' and 'tensor<1x6x6x6xf32>' do not fit 1 groups (C3)}}
  %r = colossal.conv(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, group = 1 : i64} : (tensor<1x4x8x8xf32>, tensor<6x3x3x3xf32>) -> tensor<1x6x6x6xf32>
  return
}

// -----

func.func @conv_c3_2(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>, %b: tensor<5xf32>) {
  // expected-error@+1 {{bias must have shape [6], but is 'tensor<5xf32>' (C3)}}
  %r = colossal.conv(%x, %w, %b) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, group = 1 : i64} : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>, tensor<5xf32>) -> tensor<1x6x6x6xf32>
  return
}

// -----

func.func @conv_c3_3(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error@+1 {{batch sizes of 'tensor<1x4x8x8xf32>' and 'tensor<2x6x6x6xf32>' differ (C3)}}
  %r = colossal.conv(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, group = 1 : i64} : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<2x6x6x6xf32>
  return
}

// -----

func.func @conv_c4(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf16>) {
  // expected-error@+1 {{mixes elements of types 'f32' and 'f16' (C4)}}
  %r = colossal.conv(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, group = 1 : i64} : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf16>) -> tensor<1x6x6x6xf32>
  return
}

// -----

func.func @conv_transpose_c1(%x: tensor<1x4x8x8xf32>, %w: tensor<4x6x3x3xf32>) {
  // expected-error@+1 {{group, strides and dilations must be positive (C1)}}
  %r = colossal.conv_transpose(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, -1>, pads = array<i64: 0, 0, 0, 0>, group = 1 : i64} : (tensor<1x4x8x8xf32>, tensor<4x6x3x3xf32>) -> tensor<1x6x10x10xf32>
  return
}

// -----

func.func @conv_transpose_c3(%x: tensor<1x4x8x8xf32>, %w: tensor<4x6x3x3xf32>) {
  // expected-error@+1 {{channels of 'tensor<1x4x8x8xf32>', 'tensor<4x6x3x3xf32>' and 'tensor<1x6x10x10xf32>' do not fit 2 groups (C3)}}
  %r = colossal.conv_transpose(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, group = 2 : i64} : (tensor<1x4x8x8xf32>, tensor<4x6x3x3xf32>) -> tensor<1x6x10x10xf32>
  return
}

// -----

func.func @conv_transpose_c4(%x: tensor<1x4x8x8xf32>, %w: tensor<4x6x3x3xf32>) {
  // expected-error@+1 {{mixes elements of types 'f32' and 'f64' (C4)}}
  %r = colossal.conv_transpose(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, group = 1 : i64} : (tensor<1x4x8x8xf32>, tensor<4x6x3x3xf32>) -> tensor<1x6x10x10xf64>
  return
}
