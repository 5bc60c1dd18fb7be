// Ops that move elements. Each function breaks the constraint that it is named after.
// RUN: colossal-opt %s -split-input-file -verify-diagnostics -o /dev/null

func.func @reshape_c1(%d: tensor<4x5xf32>) {
  // expected-error@+1 {{cannot make 'tensor<21xf32>' of 'tensor<4x5xf32>': 21 elements of 20 (C1)}}
  %r = colossal.reshape %d : tensor<4x5xf32> -> tensor<21xf32>
  return
}

// -----

func.func @reshape_c1_2(%d: tensor<4x5xf32>) {
  // expected-error@+1 {{mixes elements of types 'f32' and 'i32' (C1)}}
  %r = colossal.reshape %d : tensor<4x5xf32> -> tensor<20xi32>
  return
}

// -----

func.func @transpose_c1(%d: tensor<4x5xf32>) {
  // expected-error@+1 {{[0, 0] is not a permutation of 2 dimensions (C1)}}
  %r = colossal.transpose %d [0, 0] : tensor<4x5xf32> -> tensor<4x4xf32>
  return
}

// -----

func.func @transpose_c2(%d: tensor<4x5xf32>) {
  // expected-error@+1 {{result must have shape [5, 4], but is 'tensor<4x5xf32>' (C2)}}
  %r = colossal.transpose %d [1, 0] : tensor<4x5xf32> -> tensor<4x5xf32>
  return
}

// -----

func.func @broadcast_c1(%d: tensor<4x5xf32>) {
  // expected-error@+1 {{input does not broadcast to [4, 10]: it is 'tensor<4x5xf32>' (C1)}}
  %r = colossal.broadcast %d : tensor<4x5xf32> -> tensor<4x10xf32>
  return
}

// -----

func.func @slice_c1(%d: tensor<4x5xf32>) {
  // expected-error@+1 {{starts must have 2 entries, but has 1 (C1)}}
  %r = colossal.slice %d [0] by [1] : tensor<4x5xf32> -> tensor<2x5xf32>
  return
}

// -----

func.func @slice_c2(%d: tensor<4x5xf32>) {
  // expected-error@+1 {{3 elements from 1 by 2 reach beyond dimension 1 of 'tensor<4x5xf32>' (C2)}}
  %r = colossal.slice %d [0, 1] by [1, 2] : tensor<4x5xf32> -> tensor<4x3xf32>
  return
}

// -----

func.func @slice_c2_2(%d: tensor<4x5xf32>) {
  // expected-error@+1 {{4 elements from 2 by -1 reach beyond dimension 0 of 'tensor<4x5xf32>' (C2)}}
  %r = colossal.slice %d [2, 0] by [-1, 1] : tensor<4x5xf32> -> tensor<4x5xf32>
  return
}

// -----

func.func @concat_c1(%d: tensor<4x5xf32>) {
  // expected-error@+1 {{axis -1 is not one of the 2 dimensions of 'tensor<4x5xf32>' (C1)}}
  %r = colossal.concat %d {axis = -1 : i64} : (tensor<4x5xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @concat_c2(%d: tensor<4x5xf32>) {
  // expected-error@+1 {{result must have shape [8, 5], but is 'tensor<9x5xf32>' (C2)}}
  %r = colossal.concat %d, %d {axis = 0 : i64} : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<9x5xf32>
  return
}

// -----

func.func @concat_c2_2(%d: tensor<4x5xf32>, %e: tensor<4x6xf32>) {
  // expected-error@+1 {{operand must have shape [4, 5], but is 'tensor<4x6xf32>' (C2)}}
  %r = colossal.concat %d, %e {axis = 0 : i64} : (tensor<4x5xf32>, tensor<4x6xf32>) -> tensor<8x5xf32>
  return
}

// -----

func.func @pad_c1(%d: tensor<4x5xf32>) {
  // expected-error@+1 {{low must have 2 entries, but has 1 (C1)}}
  %r = colossal.pad %d low [1] : tensor<4x5xf32> -> tensor<5x5xf32>
  return
}

// -----

func.func @pad_c2(%d: tensor<0x5xf32>) {
  // expected-error@+1 {{dimension 0 of 'tensor<0x5xf32>' has nothing to repeat (C2)}}
  %r = colossal.pad %d low [1, 0] {mode = #colossal<pad_mode edge>} : tensor<0x5xf32> -> tensor<2x5xf32>
  return
}

// -----

func.func @pad_c3(%d: tensor<4x5xf32>, %v: tensor<2xf32>) {
  // expected-error@+1 {{the value must be one element, but is 'tensor<2xf32>' (C3)}}
  %r = colossal.pad %d value %v low [1, 0] : tensor<4x5xf32>, tensor<2xf32> -> tensor<5x5xf32>
  return
}
