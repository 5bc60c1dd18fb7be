// Elementwise ops. Each function breaks the constraint that it is named after.
// RUN: colossal-opt %s -split-input-file -verify-diagnostics -o /dev/null

func.func @elementwise_c0(%0: tensor<4xi7>) {
  // expected-error@+1 {{operand 0 has elements of unsupported type 'i7' (C0)}}
  %r = colossal.elementwise abs(%0) : (tensor<4xi7>) -> tensor<4xi7>
  return
}

// -----

func.func @elementwise_c1(%0: tensor<3xf32>, %1: tensor<4xf32>) {
  // expected-error@+1 {{operand 0 does not broadcast to [4]: it is 'tensor<3xf32>' (C1)}}
  %r = colossal.elementwise add(%0, %1) : (tensor<3xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @elementwise_c1_2(%0: tensor<1x4xf32>) {
  // expected-error@+1 {{operand 0 does not broadcast to [4]: it is 'tensor<1x4xf32>' (C1)}}
  %r = colossal.elementwise relu(%0) : (tensor<1x4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @elementwise_c2(%0: tensor<4xf32>, %1: tensor<4xf32>) {
  // expected-error@+1 {{relu takes 1 operands, not 2 (C2)}}
  %r = colossal.elementwise relu(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @elementwise_c2_2(%0: tensor<4xf32>) {
  // expected-error@+1 {{sub takes 2 operands, not 1 (C2)}}
  %r = colossal.elementwise sub(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @elementwise_c2_3(%0: tensor<4xf32>, %1: tensor<4xf32>) {
  // expected-error@+1 {{clip takes 3 operands, not 2 (C2)}}
  %r = colossal.elementwise clip(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @elementwise_c3(%0: tensor<4xf32>, %1: tensor<4xi32>) {
  // expected-error@+1 {{mixes elements of types 'f32' and 'i32' (C3)}}
  %r = colossal.elementwise mul(%0, %1) : (tensor<4xf32>, tensor<4xi32>) -> tensor<4xf32>
  return
}

// -----

func.func @elementwise_c3_2(%0: tensor<4xf32>, %1: tensor<4xf32>) {
  // expected-error@+1 {{less gives elements of type 'i1', but the result has 'f32' (C3)}}
  %r = colossal.elementwise less(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @elementwise_c3_3(%0: tensor<4xi32>) {
  // expected-error@+1 {{exp has no meaning for 'i32' (C3)}}
  %r = colossal.elementwise exp(%0) : (tensor<4xi32>) -> tensor<4xi32>
  return
}

// -----

func.func @elementwise_c3_4(%0: tensor<4xi32>, %1: tensor<4xi32>) {
  // expected-error@+1 {{and has no meaning for 'i32' (C3)}}
  %r = colossal.elementwise and(%0, %1) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  return
}

// -----

func.func @elementwise_c3_5(%0: tensor<4xf32>, %1: tensor<4xf32>) {
  // expected-error@+1 {{bit_or has no meaning for 'f32' (C3)}}
  %r = colossal.elementwise bit_or(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @elementwise_c3_6(%0: tensor<4xi1>, %1: tensor<4xi1>) {
  // expected-error@+1 {{add has no meaning for 'i1' (C3)}}
  %r = colossal.elementwise add(%0, %1) : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  return
}

// -----

func.func @elementwise_c3_7(%0: tensor<4xi32>, %1: tensor<4xf32>, %2: tensor<4xf32>) {
  // expected-error@+1 {{the condition must be i1, but is 'i32' (C3)}}
  %r = colossal.elementwise select(%0, %1, %2) : (tensor<4xi32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @elementwise_c3_8(%0: tensor<4xi1>, %1: tensor<4xf32>, %2: tensor<4xf32>) {
  // expected-error@+1 {{select gives elements of type 'f32', but the result has 'i32' (C3)}}
  %r = colossal.elementwise select(%0, %1, %2) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xi32>
  return
}

// -----

func.func @elementwise_c4(%0: tensor<4xf32>) {
  // expected-error@+1 {{relu has 0 parameters, not 1 (C4)}}
  %r = colossal.elementwise relu(%0) {params = array<f64: 1.0>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @elementwise_c3_9(%0: tensor<4xf8E4M3FN>) {
  // expected-error@+1 {{abs has no meaning for 'f8E4M3FN' (C3)}}
  %r = colossal.elementwise abs(%0) : (tensor<4xf8E4M3FN>) -> tensor<4xf8E4M3FN>
  return
}

// -----

func.func @elementwise_c3_10(%0: tensor<4xsi64>) {
  // expected-error@+1 {{cast has no meaning for 'si64' (C3)}}
  %r = colossal.elementwise cast(%0) : (tensor<4xsi64>) -> tensor<4xi64>
  return
}

// -----

func.func @elementwise_c3_11(%0: tensor<4xi64>) {
  // expected-error@+1 {{cast does not give elements of type 'si64' (C3)}}
  %r = colossal.elementwise cast(%0) : (tensor<4xi64>) -> tensor<4xsi64>
  return
}

// -----

func.func @elementwise_c3_12(%0: tensor<4xf32>) {
  // expected-error@+1 {{the bits of 'f32' cannot be seen as 'i16' (C3)}}
  %r = colossal.elementwise bitcast(%0) : (tensor<4xf32>) -> tensor<4xi16>
  return
}

// -----

func.func @elementwise_c3_13(%0: tensor<4xf8E5M2>) {
  // expected-error@+1 {{equal has no meaning for 'f8E5M2' (C3)}}
  %r = colossal.elementwise equal(%0, %0) : (tensor<4xf8E5M2>, tensor<4xf8E5M2>) -> tensor<4xi1>
  return
}

// -----

func.func @formula_c1(%0: tensor<4xf32>) {
  // expected-error@+1 {{gives nothing (C1)}}
  colossal.formula(%0) {gives = array<i64>, steps = [#colossal.step<mul [0, 0] : f32>]} : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @formula_c1_2(%0: tensor<4xf32>, %1: tensor<1xf32>) {
  // expected-error@+1 {{result 1 must have shape [4], but is 'tensor<1xf32>' (C1)}}
  %r:2 = colossal.formula(%0, %1) {gives = array<i64: 0, 1>, steps = []} : (tensor<4xf32>, tensor<1xf32>) -> (tensor<4xf32>, tensor<1xf32>)
  return
}

// -----

func.func @formula_c2(%0: tensor<3xf32>) {
  // expected-error@+1 {{operand 0 does not broadcast to [4]: it is 'tensor<3xf32>' (C2)}}
  %r = colossal.formula(%0) {gives = array<i64: 1>, steps = [#colossal.step<mul [0, 0] : f32>]} : (tensor<3xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @formula_c3(%0: tensor<4xf32>) {
  // expected-error@+1 {{step 0 takes value 1, which does not stand before it (C3)}}
  %r = colossal.formula(%0) {gives = array<i64: 1>, steps = [#colossal.step<mul [0, 1] : f32>]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @formula_c3_2(%0: tensor<4xf32>) {
  // expected-error@+1 {{step 0: sqrt takes 1 operands, not 2 (C3)}}
  %r = colossal.formula(%0) {gives = array<i64: 1>, steps = [#colossal.step<sqrt [0, 0] : f32>]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @formula_c3_3(%0: tensor<4xf32>) {
  // expected-error@+1 {{step 0: mul gives elements of type 'f32', but the result has 'f64' (C3)}}
  %r = colossal.formula(%0) {gives = array<i64: 1>, steps = [#colossal.step<mul [0, 0] : f64>]} : (tensor<4xf32>) -> tensor<4xf64>
  return
}

// -----

func.func @formula_c3_4(%0: tensor<4xf32>) {
  // expected-error@+1 {{result 0 is value 2, which there is not (C3)}}
  %r = colossal.formula(%0) {gives = array<i64: 2>, steps = [#colossal.step<mul [0, 0] : f32>]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @formula_c3_5(%0: tensor<4xf32>) {
  // expected-error@+1 {{result 0 has elements of type 'f64', but its value has 'f32' (C3)}}
  %r = colossal.formula(%0) {gives = array<i64: 1>, steps = [#colossal.step<mul [0, 0] : f32>]} : (tensor<4xf32>) -> tensor<4xf64>
  return
}

// -----

func.func @formula_c3_6(%0: tensor<4xf32>) {
  // expected-error@+1 {{gives must have 2 entries, but has 1 (C3)}}
  %r:2 = colossal.formula(%0) {gives = array<i64: 1>, steps = [#colossal.step<mul [0, 0] : f32>]} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}
