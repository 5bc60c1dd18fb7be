// Reductions and scans. Each function breaks the constraint that it is named after.
// RUN: colossal-opt %s -split-input-file -verify-diagnostics -o /dev/null

func.func @reduce_c1(%d: tensor<4x5xf32>) {
  // expected-error@+1 {{axes must be ascending dimensions of 'tensor<4x5xf32>', but are [1, 0] (C1)}}
  %r = colossal.reduce sum %d over [1, 0] : tensor<4x5xf32> -> tensor<f32>
  return
}

// -----

func.func @reduce_c2(%d: tensor<4x5xf32>) {
  // expected-error@+1 {{result must have shape [4, 1], but is 'tensor<4xf32>' (C2)}}
  %r = colossal.reduce sum %d over [1] {keepdims = true} : tensor<4x5xf32> -> tensor<4xf32>
  return
}

// -----

func.func @reduce_c2_2(%d: tensor<4x5xf32>) {
  // expected-error@+1 {{mixes elements of types 'f32' and 'f64' (C2)}}
  %r = colossal.reduce sum %d over [1] : tensor<4x5xf32> -> tensor<4xf64>
  return
}

// -----

func.func @reduce_c3(%d: tensor<4xi1>) {
  // expected-error@+1 {{sum has no meaning for booleans (C3)}}
  %r = colossal.reduce sum %d over [0] : tensor<4xi1> -> tensor<i1>
  return
}

// -----

func.func @arg_reduce_c1(%d: tensor<4x0xf32>) {
  // expected-error@+1 {{dimension 1 of 'tensor<4x0xf32>' has no element (C1)}}
  %r = colossal.arg_reduce %d {axis = 1 : i64, minimum = false, keepdims = false, select_last = false} : tensor<4x0xf32> -> tensor<4xi64>
  return
}

// -----

func.func @arg_reduce_c2(%d: tensor<4x5xf32>) {
  // expected-error@+1 {{result must have shape [4, 1], but is 'tensor<4xi64>' (C2)}}
  %r = colossal.arg_reduce %d {axis = 1 : i64, minimum = false, keepdims = true, select_last = false} : tensor<4x5xf32> -> tensor<4xi64>
  return
}

// -----

func.func @cumulate_c1(%d: tensor<4x5xf32>) {
  // expected-error@+1 {{axis 5 is not one of the 2 dimensions of 'tensor<4x5xf32>' (C1)}}
  %r = colossal.cumulate %d {axis = 5 : i64, exclusive = false, reverse = false} : tensor<4x5xf32>
  return
}

// -----

func.func @topk_c1(%d: tensor<4x5xf32>) {
  // expected-error@+1 {{takes 6 of 5 elements (C1)}}
  %r:2 = colossal.topk %d {axis = 1 : i64, largest = true} : tensor<4x5xf32> -> tensor<4x6xf32>, tensor<4x6xi64>
  return
}

// -----

func.func @topk_c2(%d: tensor<4x5xf32>) {
  // expected-error@+1 {{indices must have shape [4, 2], but is 'tensor<4x3xi64>' (C2)}}
  %r:2 = colossal.topk %d {axis = 1 : i64, largest = true} : tensor<4x5xf32> -> tensor<4x2xf32>, tensor<4x3xi64>
  return
}

// -----

func.func @reduce_c0(%0: tensor<4xi4>) {
  // expected-error@+1 {{computes, and elements of operand 0 have type 'i4', which can only be moved, compared and converted (C0)}}
  %r = colossal.reduce sum %0 over [0] : tensor<4xi4> -> tensor<i4>
  return
}
