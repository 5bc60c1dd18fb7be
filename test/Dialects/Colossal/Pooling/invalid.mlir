// Pooling and resampling. Each function breaks the constraint that it is named after.
// RUN: colossal-opt %s -split-input-file -verify-diagnostics -o /dev/null

func.func @pool_c1(%x: tensor<1x4xf32>) {
  // expected-error@+1 {{needs a spatial dimension, but the input is 'tensor<1x4xf32>' (C1)}}
  %r = colossal.pool max %x {kernel = array<i64>, strides = array<i64>, dilations = array<i64>, pads = array<i64>} : tensor<1x4xf32> -> tensor<1x4xf32>
  return
}

// -----

func.func @pool_c1_2(%x: tensor<1x4x8x8xf32>) {
  // expected-error@+1 {{kernel must have 2 entries, but has 1 (C1)}}
  %r = colossal.pool max %x {kernel = array<i64: 2>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>} : tensor<1x4x8x8xf32> -> tensor<1x4x7x7xf32>
  return
}

// -----

func.func @pool_c1_3(%x: tensor<1x4x8x8xf32>) {
  // expected-error@+1 {{kernel, strides and dilations must be positive (C1)}}
  %r = colossal.pool max %x {kernel = array<i64: 2, 2>, strides = array<i64: 1, 0>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>} : tensor<1x4x8x8xf32> -> tensor<1x4x7x7xf32>
  return
}

// -----

func.func @pool_c2(%x: tensor<1x4x8x8xf32>) {
  // expected-error@+1 {{changes batch or channels: 'tensor<1x4x8x8xf32>' to 'tensor<1x5x7x7xf32>' (C2)}}
  %r = colossal.pool max %x {kernel = array<i64: 2, 2>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>} : tensor<1x4x8x8xf32> -> tensor<1x5x7x7xf32>
  return
}

// -----

func.func @pool_c3(%x: tensor<1x4x8x8xf32>) {
  // expected-error@+1 {{average pooling has no indices (C3)}}
  %r:2 = colossal.pool average %x {kernel = array<i64: 2, 2>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>} : tensor<1x4x8x8xf32> -> tensor<1x4x7x7xf32>, tensor<1x4x7x7xi64>
  return
}

// -----

func.func @pool_c3_2(%x: tensor<1x4x8x8xf32>) {
  // expected-error@+1 {{indices must have shape [1, 4, 7, 7], but is 'tensor<1x4x7x6xi64>' (C3)}}
  %r:2 = colossal.pool max %x {kernel = array<i64: 2, 2>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>} : tensor<1x4x8x8xf32> -> tensor<1x4x7x7xf32>, tensor<1x4x7x6xi64>
  return
}

// -----

func.func @pool_c4(%x: tensor<1x4x8x8xi8>) {
  // expected-error@+1 {{has no meaning for 'i8' (C4)}}
  %r = colossal.pool average %x {kernel = array<i64: 2, 2>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>} : tensor<1x4x8x8xi8> -> tensor<1x4x7x7xi8>
  return
}

// -----

func.func @pool_c4_2(%x: tensor<1x4x8x8xf32>) {
  // expected-error@+1 {{mixes elements of types 'f32' and 'f64' (C4)}}
  %r = colossal.pool max %x {kernel = array<i64: 2, 2>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>} : tensor<1x4x8x8xf32> -> tensor<1x4x7x7xf64>
  return
}

// -----

func.func @resize_c1(%x: tensor<4x5xf32>) {
  // expected-error@+1 {{scales must have 2 entries, but has 1 (C1)}}
  %r = colossal.resize %x {mode = "linear", coordinates = "half_pixel", nearest = "floor", scales = array<f64: 2.0>, cubic_coeff = -0.75 : f64, exclude_outside = false, antialias = false, extrapolation = 0.0 : f64} : tensor<4x5xf32> -> tensor<4x10xf32>
  return
}

// -----

func.func @resize_c1_2(%x: tensor<4x5xf32>) {
  // expected-error@+1 {{scales must be positive, but one is 0.000000e+00 (C1)}}
  %r = colossal.resize %x {mode = "linear", coordinates = "half_pixel", nearest = "floor", scales = array<f64: 1.0, 0.0>, cubic_coeff = -0.75 : f64, exclude_outside = false, antialias = false, extrapolation = 0.0 : f64} : tensor<4x5xf32> -> tensor<4x10xf32>
  return
}

// -----

func.func @resize_c2(%x: tensor<4x5xf32>) {
  // expected-error@+1 {{mode must be one of nearest, linear, cubic, but is area (C2)}}
  %r = colossal.resize %x {mode = "area", coordinates = "half_pixel", nearest = "floor", scales = array<f64: 1.0, 2.0>, cubic_coeff = -0.75 : f64, exclude_outside = false, antialias = false, extrapolation = 0.0 : f64} : tensor<4x5xf32> -> tensor<4x10xf32>
  return
}

// -----

func.func @resize_c2_2(%x: tensor<4x5xf32>) {
  // expected-error@+1 {{nearest must be one of round_prefer_floor, round_prefer_ceil, floor, ceil, but is round (C2)}}
  %r = colossal.resize %x {mode = "linear", coordinates = "half_pixel", nearest = "round", scales = array<f64: 1.0, 2.0>, cubic_coeff = -0.75 : f64, exclude_outside = false, antialias = false, extrapolation = 0.0 : f64} : tensor<4x5xf32> -> tensor<4x10xf32>
  return
}

// -----

func.func @roi_max_pool_c1(%x: tensor<1x4x8x8xf32>, %r: tensor<3x4xf32>) {
  // expected-error@+1 {{rois must have shape [3, 5], but is 'tensor<3x4xf32>' (C1)}}
  %y = colossal.roi_max_pool(%x, %r) {scale = 1.0 : f64} : (tensor<1x4x8x8xf32>, tensor<3x4xf32>) -> tensor<3x4x2x2xf32>
  return
}

// -----

func.func @roi_max_pool_c1_2(%x: tensor<0x4x8x8xf32>, %r: tensor<3x5xf32>) {
  // expected-error@+1 {{has no image to read in 'tensor<0x4x8x8xf32>' (C1)}}
  %y = colossal.roi_max_pool(%x, %r) {scale = 1.0 : f64} : (tensor<0x4x8x8xf32>, tensor<3x5xf32>) -> tensor<3x4x2x2xf32>
  return
}

// -----

func.func @roi_max_pool_c2(%x: tensor<1x4x8x8xf32>, %r: tensor<3x5xf32>) {
  // expected-error@+1 {{result must have shape [3, 4, 2, 2], but is 'tensor<2x4x2x2xf32>' (C2)}}
  %y = colossal.roi_max_pool(%x, %r) {scale = 1.0 : f64} : (tensor<1x4x8x8xf32>, tensor<3x5xf32>) -> tensor<2x4x2x2xf32>
  return
}

// -----

func.func @roi_max_pool_c3(%x: tensor<1x4x8x8xf32>, %r: tensor<3x5xf64>) {
  // expected-error@+1 {{mixes elements of types 'f32' and 'f64' (C3)}}
  %y = colossal.roi_max_pool(%x, %r) {scale = 1.0 : f64} : (tensor<1x4x8x8xf32>, tensor<3x5xf64>) -> tensor<3x4x2x2xf32>
  return
}

// -----

func.func @roi_max_pool_c3_2(%x: tensor<1x4x8x8xi8>, %r: tensor<3x5xi8>) {
  // expected-error@+1 {{has no meaning for 'i8' (C3)}}
  %y = colossal.roi_max_pool(%x, %r) {scale = 1.0 : f64} : (tensor<1x4x8x8xi8>, tensor<3x5xi8>) -> tensor<3x4x2x2xi8>
  return
}

// -----

func.func @pool_taps_c1(%x: tensor<1x4xf32>) {
  // expected-error@+1 {{needs a spatial dimension, but the input is 'tensor<1x4xf32>' (C1)}}
  %y = colossal.pool_taps %x {kernel = array<i64>, strides = array<i64>, dilations = array<i64>, pads = array<i64>} : tensor<1x4xf32> -> tensor<1x4xi32>
  return
}

// -----

func.func @pool_taps_c2(%x: tensor<1x4x8xf32>) {
  // expected-error@+1 {{changes batch or channels: 'tensor<1x4x8xf32>' to 'tensor<1x3x4xi32>' (C2)}}
  %y = colossal.pool_taps %x {kernel = array<i64: 2>, strides = array<i64: 2>, dilations = array<i64: 1>, pads = array<i64: 0, 0>} : tensor<1x4x8xf32> -> tensor<1x3x4xi32>
  return
}

// -----

func.func @pool_gradient_c1(%g: tensor<1x4x4xf32>) {
  // expected-error@+1 {{max without taps is no pool that has a gradient of this kind (C1)}}
  %y = colossal.pool_gradient max %g {kernel = array<i64: 2>, strides = array<i64: 2>, dilations = array<i64: 1>, pads = array<i64: 0, 0>} : tensor<1x4x4xf32> -> tensor<1x4x8xf32>
  return
}

// -----

func.func @pool_gradient_c2(%g: tensor<1x4x4xf32>) {
  // expected-error@+1 {{kernel, strides and dilations must be positive (C2)}}
  %y = colossal.pool_gradient average %g {kernel = array<i64: 2>, strides = array<i64: 0>, dilations = array<i64: 1>, pads = array<i64: 0, 0>} : tensor<1x4x4xf32> -> tensor<1x4x8xf32>
  return
}

// -----

func.func @pool_gradient_c3(%g: tensor<1x4x4xf32>) {
  // expected-error@+1 {{batch or channels differ: 'tensor<1x4x4xf32>' to 'tensor<1x3x8xf32>' (C3)}}
  %y = colossal.pool_gradient average %g {kernel = array<i64: 2>, strides = array<i64: 2>, dilations = array<i64: 1>, pads = array<i64: 0, 0>} : tensor<1x4x4xf32> -> tensor<1x3x8xf32>
  return
}

// -----

func.func @pool_gradient_c3_2(%g: tensor<1x4x4xf32>, %t: tensor<1x4x8xi32>) {
  // expected-error@+1 {{(C3)}}
  %y = colossal.pool_gradient max %g at %t {kernel = array<i64: 2>, strides = array<i64: 2>, dilations = array<i64: 1>, pads = array<i64: 0, 0>} : tensor<1x4x4xf32>, tensor<1x4x8xi32> -> tensor<1x4x8xf32>
  return
}
