// Calls that the phases do not take.
//
// RUN: colossal-opt %s --split-input-file --colossal-inline-blocks -verify-diagnostics

// C1: the callee is a private function with a body.
func.func private @outside(tensor<4xf32>) -> tensor<4xf32>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{must name a private function of the module, with a body of one block; 'outside' is none}}
  %0 = call @outside(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// C1: a public function is no block.
func.func @other(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'other' is none}}
  %0 = call @other(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// C1: blocks call nothing.
func.func private @inner(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func private @block(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{stands in private function 'block', which may call nothing}}
  %0 = call @inner(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @block(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// C2: what is private is called.
// expected-error @+1 {{is private, but never called}}
func.func private @block(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
