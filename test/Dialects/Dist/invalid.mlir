// Each function breaks the constraint that it is named after.
// RUN: colossal-opt %s -split-input-file -verify-diagnostics -o /dev/null

func.func @coordinate_c1() {
  // expected-error@+1 {{names mesh axis -1, expected 0 to 31 (C1)}}
  %c = dist.coordinate -1
  return
}

// -----

func.func @mask_padding_c1(%x: tensor<4x6xf32>, %v: index) {
  // expected-error@+1 {{has extents [4, -6], of which one is negative (C1)}}
  %0 = dist.mask_padding %x[%v] {extents = array<i64: 4, -6>, masked = array<i64: 0>, fill = 0.0 : f64} : tensor<4x6xf32>
  return
}

// -----

func.func @mask_padding_c1_2(%x: tensor<4x6xf32>, %v: index) {
  // expected-error@+1 {{has extents [4, 5] of 20 elements, and an input of 24 (C1)}}
  %0 = dist.mask_padding %x[%v] {extents = array<i64: 4, 5>, masked = array<i64: 0>, fill = 0.0 : f64} : tensor<4x6xf32>
  return
}

// -----

func.func @mask_padding_c2(%x: tensor<4x6xf32>, %v: index) {
  // expected-error@+1 {{masks 2 extents and has 1 valid sizes (C2)}}
  %0 = dist.mask_padding %x[%v] {extents = array<i64: 4, 6>, masked = array<i64: 0, 1>, fill = 0.0 : f64} : tensor<4x6xf32>
  return
}

// -----

func.func @mask_padding_c2_2(%x: tensor<4x6xf32>, %v: index) {
  // expected-error@+1 {{masks extents [2], expected ascending indices below 2 (C2)}}
  %0 = dist.mask_padding %x[%v] {extents = array<i64: 4, 6>, masked = array<i64: 2>, fill = 0.0 : f64} : tensor<4x6xf32>
  return
}

// -----

func.func @exchange_c1(%x: tensor<4x6xf32>, %v: index) {
  // expected-error@+1 {{exchanges along dimension 2 of an input of rank 2 (C1)}}
  %0 = dist.exchange %x, from %v valid %v to %v {dim = 2 : i64, axes = array<i64: 0>, fill = 0.0 : f64} : tensor<4x6xf32> -> tensor<4x6xf32>
  return
}

// -----

func.func @exchange_c2(%x: tensor<4x6xf32>, %v: index) {
  // expected-error@+1 {{needs at least one mesh axis (C2)}}
  %0 = dist.exchange %x, from %v valid %v to %v {dim = 0 : i64, axes = array<i64>, fill = 0.0 : f64} : tensor<4x6xf32> -> tensor<4x6xf32>
  return
}

// -----

func.func @exchange_c3(%x: tensor<4x6xf32>, %v: index) {
  // expected-error@+1 {{expected the input's type 'tensor<4x6xf32>' with another size of dimension 0 (C3)}}
  %0 = dist.exchange %x, from %v valid %v to %v {dim = 0 : i64, axes = array<i64: 0>, fill = 0.0 : f64} : tensor<4x6xf32> -> tensor<2x5xf32>
  return
}

// -----

func.func @permute_c1(%x: tensor<4x6xf32>, %v: index) {
  // expected-error@+1 {{names mesh axis 1 twice (C1)}}
  %0 = dist.permute %x from %v {axes = array<i64: 1, 1>} : tensor<4x6xf32>
  return
}

// -----

// expected-error@+1 {{mesh axis 'microbatch' is a loop, which the last axis alone may be (C3)}}
module attributes {dist.mesh = #dist.mesh<["microbatch" = 4 loop, "model" = 2]>} {
}

// -----

func.func @loop_slice_c1(%x: tensor<8x16xf32>) {
  // expected-error@+1 {{names mesh axis 32, expected 0 to 31 (C1)}}
  %0 = dist.loop_slice %x {axis = 32 : i64, dim = 0 : i64} : tensor<8x16xf32> -> tensor<2x16xf32>
  return
}

// -----

func.func @loop_slice_c1_2(%x: tensor<8x16xf32>) {
  // expected-error@+1 {{slices dimension 2 of an input of rank 2 (C1)}}
  %0 = dist.loop_slice %x {axis = 1 : i64, dim = 2 : i64} : tensor<8x16xf32> -> tensor<8x16xf32>
  return
}

// -----

func.func @loop_slice_c2(%x: tensor<8x16xf32>) {
  // expected-error@+1 {{has result 'tensor<3x16xf32>', expected the input's type 'tensor<8x16xf32>' with a part of dimension 0 (C2)}}
  %0 = dist.loop_slice %x {axis = 1 : i64, dim = 0 : i64} : tensor<8x16xf32> -> tensor<3x16xf32>
  return
}
