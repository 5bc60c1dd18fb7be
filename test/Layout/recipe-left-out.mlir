// What a recipe leaves to the search is counted, and the first op of it named; a model of which it says nothing is told, too.
//
// RUN: split-file %s %t
// RUN: colossal-opt %t/some.mlir "--colossal-search-layouts=machine=h100 layout=2d" -o /dev/null 2>&1 | FileCheck %s --check-prefix=SOME
// RUN: colossal-opt %t/none.mlir "--colossal-search-layouts=machine=h100 layout=2d" -o /dev/null 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: colossal-opt %t/all.mlir "--colossal-search-layouts=machine=h100 layout=2d" -o /dev/null 2>&1 | FileCheck %s --check-prefix=ALL --allow-empty

// SOME: warning: {{.*}}layout '2d' says how 1 of 2 contractions and convolutions with weights lie; the first that is left to the search is 'head'
// NONE: warning: {{.*}}layout '2d' says nothing of this model, which has no contraction or convolution of activations with weights: the search decides
// ALL-NOT: layout '2d'

//--- some.mlir
module attributes {dist.mesh = #dist.mesh<["rows" = 2, "columns" = 4]>} {
func.func @classifier(%x: tensor<128x64xf32>) -> tensor<128x2xf32> {
  %w1 = colossal.parameter "w1" {file = "", offset = 0 : i64, bytes = 16384 : i64} : tensor<64x64xf32> loc("w1")
  %w2 = colossal.parameter "w2" {file = "", offset = 16384 : i64, bytes = 512 : i64} : tensor<64x2xf32> loc("w2")
  %a = colossal.contract %x [0, 1], %w1 [1, 2] -> [0, 2] : (tensor<128x64xf32>, tensor<64x64xf32>) -> tensor<128x64xf32> loc("body")
  %b = colossal.contract %a [0, 1], %w2 [1, 2] -> [0, 2] : (tensor<128x64xf32>, tensor<64x2xf32>) -> tensor<128x2xf32> loc("head")
  return %b : tensor<128x2xf32>
}
}

//--- none.mlir
module attributes {dist.mesh = #dist.mesh<["rows" = 2, "columns" = 4]>} {
func.func @act(%x: tensor<128x64xf32>) -> tensor<128x64xf32> {
  %a = colossal.elementwise relu(%x) : (tensor<128x64xf32>) -> tensor<128x64xf32> loc("act")
  return %a : tensor<128x64xf32>
}
}

//--- all.mlir
module attributes {dist.mesh = #dist.mesh<["rows" = 2, "columns" = 4]>} {
func.func @body(%x: tensor<128x64xf32>) -> tensor<128x64xf32> {
  %w1 = colossal.parameter "w1" {file = "", offset = 0 : i64, bytes = 16384 : i64} : tensor<64x64xf32> loc("w1")
  %a = colossal.contract %x [0, 1], %w1 [1, 2] -> [0, 2] : (tensor<128x64xf32>, tensor<64x64xf32>) -> tensor<128x64xf32> loc("body")
  return %a : tensor<128x64xf32>
}
}
