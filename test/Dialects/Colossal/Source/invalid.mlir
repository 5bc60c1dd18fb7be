// Tensors that come from nowhere. Each function breaks the constraint that it is named after.
// RUN: colossal-opt %s -split-input-file -verify-diagnostics -o /dev/null

func.func @parameter_c1() {
  // expected-error@+1 {{offset and bytes must not be negative (C1)}}
  %r = colossal.parameter "w" {file = "", offset = -8 : i64, bytes = 16 : i64} : tensor<4xf32>
  return
}

// -----

func.func @constant_c1() {
  // expected-error@+1 {{the value is 'tensor<4xf32>', but the result is 'tensor<5xf32>' (C1)}}
  %r = colossal.constant dense<1.0> : tensor<4xf32> : tensor<5xf32>
  return
}

// -----

func.func @iota_c1() {
  // expected-error@+1 {{axis 1 is not one of the 1 dimensions of 'tensor<4xi64>' (C1)}}
  %r = colossal.iota {axis = 1 : i64, start = 0.0 : f64, step = 1.0 : f64} : tensor<4xi64>
  return
}

// -----

func.func @random_c1() {
  // expected-error@+1 {{extents must have 2 entries, but has 1 (C1)}}
  %r = colossal.random uniform {a = 0.0 : f64, b = 1.0 : f64, seed = 1 : i64, extents = array<i64: 4>} : tensor<4x5xf32>
  return
}

// -----

func.func @random_c2() {
  // expected-error@+1 {{bernoulli, and nothing else, takes probabilities (C2)}}
  %r = colossal.random bernoulli {a = 0.0 : f64, b = 1.0 : f64, seed = 1 : i64, extents = array<i64: 4>} : tensor<4xf32>
  return
}

// -----

func.func @random_c3(%s: tensor<1xi64>) {
  // expected-error@+1 {{the stream must be a tensor<2xi64>, but is 'tensor<1xi64>' (C3)}}
  %r = colossal.random uniform stream %s : tensor<1xi64> {a = 0.0 : f64, b = 1.0 : f64, seed = 1 : i64, extents = array<i64: 4>} : tensor<4xf32>
  return
}

// -----

func.func @dropout_c1(%x: tensor<4xi32>) {
  // expected-error@+1 {{(C1)}}
  %r = colossal.dropout %x {ratio = 0.5 : f64, seed = 1 : i64, extents = array<i64: 4>} : tensor<4xi32>
  return
}

// -----

func.func @dropout_c2(%x: tensor<4xf32>) {
  // expected-error@+1 {{extents must have 1 entries, but has 2 (C2)}}
  %r = colossal.dropout %x {ratio = 0.5 : f64, seed = 1 : i64, extents = array<i64: 4, 1>} : tensor<4xf32>
  return
}

// -----

func.func @dropout_c3(%x: tensor<4xf32>, %s: tensor<2xi32>) {
  // expected-error@+1 {{the stream must be a tensor<2xi64>, but is 'tensor<2xi32>' (C3)}}
  %r = colossal.dropout %x stream %s : tensor<2xi32> {ratio = 0.5 : f64, seed = 1 : i64, extents = array<i64: 4>} : tensor<4xf32>
  return
}

// -----

func.func @dropout_c4(%x: tensor<4xf32>) {
  // expected-error@+1 {{the ratio must be from 0 to 1, but is 1.5}}
  %r = colossal.dropout %x {ratio = 1.5 : f64, seed = 1 : i64, extents = array<i64: 4>} : tensor<4xf32>
  return
}
