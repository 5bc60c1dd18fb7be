// Reads and writes at computed places. Each function breaks the constraint that it is named after.
// RUN: colossal-opt %s -split-input-file -verify-diagnostics -o /dev/null

func.func @gather_c1(%d: tensor<4x5xf32>, %i: tensor<2xi64>) {
  // expected-error@+1 {{axis 2 is not one of the 2 dimensions of 'tensor<4x5xf32>' (C1)}}
  %r = colossal.gather %d[%i] {axis = 2 : i64} : tensor<4x5xf32>, tensor<2xi64> -> tensor<2x5xf32>
  return
}

// -----

func.func @gather_c1_2(%d: tensor<4x5xf32>, %i: tensor<2xf32>) {
  // expected-error@+1 {{indices must be integers, but are 'f32' (C1)}}
  %r = colossal.gather %d[%i] {axis = 0 : i64} : tensor<4x5xf32>, tensor<2xf32> -> tensor<2x5xf32>
  return
}

// -----

func.func @gather_c2(%d: tensor<4x5xf32>, %i: tensor<2xi64>) {
  // expected-error@+1 {{result must have shape [4, 2], but is 'tensor<2x5xf32>' (C2)}}
  %r = colossal.gather %d[%i] {axis = 1 : i64} : tensor<4x5xf32>, tensor<2xi64> -> tensor<2x5xf32>
  return
}

// -----

func.func @gather_elements_c1(%d: tensor<4x5xf32>, %i: tensor<4xi64>) {
  // expected-error@+1 {{indices must have rank 2, but is 'tensor<4xi64>' (C1)}}
  %r = colossal.gather_elements %d[%i] {axis = 1 : i64} : tensor<4x5xf32>, tensor<4xi64> -> tensor<4xf32>
  return
}

// -----

func.func @gather_elements_c2(%d: tensor<4x5xf32>, %i: tensor<4x2xi64>) {
  // expected-error@+1 {{result must have shape [4, 2], but is 'tensor<4x5xf32>' (C2)}}
  %r = colossal.gather_elements %d[%i] {axis = 1 : i64} : tensor<4x5xf32>, tensor<4x2xi64> -> tensor<4x5xf32>
  return
}

// -----

func.func @gather_elements_c3(%d: tensor<4x5xf32>, %i: tensor<6x2xi64>) {
  // expected-error@+1 {{indices of 'tensor<6x2xi64>' reach beyond dimension 0 of 'tensor<4x5xf32>' (C3)}}
  %r = colossal.gather_elements %d[%i] {axis = 1 : i64} : tensor<4x5xf32>, tensor<6x2xi64> -> tensor<6x2xf32>
  return
}

// -----

func.func @gather_nd_c1(%d: tensor<4x5xf32>, %i: tensor<2x3xi64>) {
  // expected-error@+1 {{tuples of 'tensor<2x3xi64>' with 0 batch dimensions do not index 'tensor<4x5xf32>' (C1)}}
  %r = colossal.gather_nd %d[%i] {batch_dims = 0 : i64} : tensor<4x5xf32>, tensor<2x3xi64> -> tensor<2xf32>
  return
}

// -----

func.func @gather_nd_c2(%d: tensor<4x5xf32>, %i: tensor<2x1xi64>) {
  // expected-error@+1 {{result must have shape [2, 5], but is 'tensor<2xf32>' (C2)}}
  %r = colossal.gather_nd %d[%i] {batch_dims = 0 : i64} : tensor<4x5xf32>, tensor<2x1xi64> -> tensor<2xf32>
  return
}

// -----

func.func @scatter_elements_c1(%d: tensor<4x5xf32>, %i: tensor<2x5xi64>, %u: tensor<2x4xf32>) {
  // expected-error@+1 {{updates must have shape [2, 5], but is 'tensor<2x4xf32>' (C1)}}
  %r = colossal.scatter_elements none %d[%i], %u {axis = 0 : i64} : tensor<4x5xf32>, tensor<2x5xi64>, tensor<2x4xf32> -> tensor<4x5xf32>
  return
}

// -----

func.func @scatter_elements_c2(%d: tensor<4x5xf32>, %i: tensor<2x5xi64>, %u: tensor<2x5xf64>) {
  // expected-error@+1 {{mixes elements of types 'f32' and 'f64' (C2)}}
  %r = colossal.scatter_elements none %d[%i], %u {axis = 0 : i64} : tensor<4x5xf32>, tensor<2x5xi64>, tensor<2x5xf64> -> tensor<4x5xf32>
  return
}

// -----

func.func @scatter_elements_c3(%d: tensor<4x5xf32>, %i: tensor<2x6xi64>, %u: tensor<2x6xf32>) {
  // expected-error@+1 {{indices of 'tensor<2x6xi64>' reach beyond dimension 1 of 'tensor<4x5xf32>' (C3)}}
  %r = colossal.scatter_elements none %d[%i], %u {axis = 0 : i64} : tensor<4x5xf32>, tensor<2x6xi64>, tensor<2x6xf32> -> tensor<4x5xf32>
  return
}

// -----

func.func @scatter_nd_c1(%d: tensor<4x5xf32>, %i: tensor<2x1xi64>, %u: tensor<2x4xf32>) {
  // expected-error@+1 {{updates must have shape [2, 5], but is 'tensor<2x4xf32>' (C1)}}
  %r = colossal.scatter_nd none %d[%i], %u : tensor<4x5xf32>, tensor<2x1xi64>, tensor<2x4xf32> -> tensor<4x5xf32>
  return
}

// -----

func.func @scatter_nd_c2(%d: tensor<4x5xf32>, %i: tensor<2x1xi64>, %u: tensor<2x5xf32>) {
  // expected-error@+1 {{result must have shape [4, 5], but is 'tensor<4x6xf32>' (C2)}}
  %r = colossal.scatter_nd none %d[%i], %u : tensor<4x5xf32>, tensor<2x1xi64>, tensor<2x5xf32> -> tensor<4x6xf32>
  return
}

// -----

func.func @segment_sum_c1(%u: tensor<3x5xf32>, %i: tensor<3xui8>) {
  // expected-error@+1 {{indices must be signed, but are 'tensor<3xui8>' (C1)}}
  %r = colossal.segment_sum %u by %i {axis = 0 : i64} : tensor<3x5xf32>, tensor<3xui8> -> tensor<4x5xf32>
  return
}

// -----

func.func @segment_sum_c2(%u: tensor<3x5xf32>, %i: tensor<2xi64>) {
  // expected-error@+1 {{updates must have shape [2, 5], but is 'tensor<3x5xf32>' (C2)}}
  %r = colossal.segment_sum %u by %i {axis = 0 : i64} : tensor<3x5xf32>, tensor<2xi64> -> tensor<4x5xf32>
  return
}

// -----

func.func @segment_sum_c2_2(%u: tensor<3xi1>, %i: tensor<3xi64>) {
  // expected-error@+1 {{has no meaning for booleans (C2)}}
  %r = colossal.segment_sum %u by %i {axis = 0 : i64} : tensor<3xi1>, tensor<3xi64> -> tensor<4xi1>
  return
}
