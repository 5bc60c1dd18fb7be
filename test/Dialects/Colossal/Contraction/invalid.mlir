// Contractions. Each function breaks the constraint that it is named after.
// RUN: colossal-opt %s -split-input-file -verify-diagnostics -o /dev/null

func.func @contract_c1(%a: tensor<3x3xf32>, %b: tensor<3x4xf32>) {
  // expected-error@+1 {{label 1 occurs twice in lhs_dims (C1)}}
  %r = colossal.contract %a [1, 1], %b [1, 2] -> [2] : (tensor<3x3xf32>, tensor<3x4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @contract_c1_2(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  // expected-error@+1 {{label 1 has sizes 3 and 4 (C1)}}
  %r = colossal.contract %a [0, 1], %b [2, 1] -> [0, 2] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @contract_c2(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  // expected-error@+1 {{label 2 occurs in one tensor only (C2)}}
  %r = colossal.contract %a [0, 1], %b [1, 2] -> [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @contract_c2_2(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  // expected-error@+1 {{label 5 occurs in one tensor only (C2)}}
  %r = colossal.contract %a [0, 1], %b [1, 2] -> [0, 2, 5] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4x7xf32>
  return
}

// -----

func.func @contract_c3(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  // expected-error@+1 {{lhs_dims must have 2 entries, but has 1 (C3)}}
  %r = colossal.contract %a [0], %b [1, 2] -> [0, 2] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @contract_c4(%a: tensor<2x3xi32>, %b: tensor<3x4xf32>) {
  // expected-error@+1 {{mixes floats and integers: 'tensor<2x3xi32>' and 'tensor<3x4xf32>' (C4)}}
  %r = colossal.contract %a [0, 1], %b [1, 2] -> [0, 2] : (tensor<2x3xi32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return
}
