// Normalizations and softmax. Each function breaks the constraint that it is named after.
// RUN: colossal-opt %s -split-input-file -verify-diagnostics -o /dev/null

func.func @normalize_c1(%d: tensor<4x5xf32>) {
  // expected-error@+1 {{axis 2 is not one of the 2 dimensions of 'tensor<4x5xf32>' (C1)}}
  %r = colossal.normalize layer(%d) {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x5xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @normalize_c1_2(%d: tensor<4x5xf32>) {
  // expected-error@+1 {{the result must be 'tensor<4x5xf32>', as the input, but is 'tensor<4xf32>' (C1)}}
  %r = colossal.normalize layer(%d) {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x5xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @normalize_c1_3(%d: tensor<4x5xi32>) {
  // expected-error@+1 {{has no meaning for 'i32' (C1)}}
  %r = colossal.normalize rms(%d) {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x5xi32>) -> tensor<4x5xi32>
  return
}

// -----

func.func @normalize_c2(%d: tensor<4x5xf32>, %s: tensor<4xf32>) {
  // expected-error@+1 {{scale does not broadcast to [4, 5]: it is 'tensor<4xf32>' (C2)}}
  %r = colossal.normalize rms(%d, scale %s) {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x5xf32>, tensor<4xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @normalize_c2_2(%d: tensor<4x5xf32>, %s: tensor<5xf32>, %b: tensor<2x4x5xf32>) {
  // expected-error@+1 {{bias does not broadcast to [4, 5]: it is 'tensor<2x4x5xf32>' (C2)}}
  %r = colossal.normalize layer(%d, scale %s, bias %b) {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x5xf32>, tensor<5xf32>, tensor<2x4x5xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @softmax_c1(%d: tensor<4x5xf32>) {
  // expected-error@+1 {{axis -1 is not one of the 2 dimensions of 'tensor<4x5xf32>' (C1)}}
  %r = colossal.softmax %d {axis = -1 : i64} : tensor<4x5xf32>
  return
}

// -----

func.func @softmax_c1_2(%d: tensor<4xi64>) {
  // expected-error@+1 {{has no meaning for 'i64' (C1)}}
  %r = colossal.softmax %d {axis = 0 : i64} : tensor<4xi64>
  return
}

// -----

func.func @softmax_c2(%d: tensor<4x5xf32>) {
  // expected-error@+1 {{a guard has no logarithm (C2)}}
  %r = colossal.softmax %d {axis = 0 : i64, guard = true, log = true} : tensor<4x5xf32>
  return
}

// -----

func.func @batch_normalize_c1(%x: tensor<4xf32>) {
  // expected-error@+1 {{the input must have two dimensions or more, and the result its type}}
  %r:3 = colossal.batch_normalize %x, %x, %x, %x, %x {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64} : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  return
}

// -----

func.func @batch_normalize_c2(%x: tensor<4x5xf32>, %s: tensor<5xf32>, %m: tensor<6xf32>) {
  // expected-error@+1 {{(C2)}}
  %r:3 = colossal.batch_normalize %x, %s, %s, %m, %s {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64} : tensor<4x5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<6xf32>, tensor<5xf32> -> tensor<4x5xf32>, tensor<6xf32>, tensor<5xf32>
  return
}

// -----

func.func @batch_normalize_c2_types(%x: tensor<4x5xf32>, %s: tensor<5xf32>) {
  // expected-error@+1 {{the updated statistics must have the types of the running ones (C2)}}
  %r:3 = colossal.batch_normalize %x, %s, %s, %s, %s {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64} : tensor<4x5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32> -> tensor<4x5xf32>, tensor<5xf32>, tensor<4xf32>
  return
}
