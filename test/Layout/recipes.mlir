// The layouts of the papers, by name: where axes stand in two contractions with weights, and what is stored over them.
//
// RUN: colossal-opt %s "--colossal-search-layouts=explain=true machine=h100 layout=2d" -o /dev/null 2>&1 | FileCheck %s --check-prefix=TWO
// RUN: not colossal-opt %s "--colossal-search-layouts=machine=h100 layout=3d" -o /dev/null 2>&1 | FileCheck %s --check-prefix=AXES
// RUN: not colossal-opt %s "--colossal-search-layouts=machine=h100 layout=4d" -o /dev/null 2>&1 | FileCheck %s --check-prefix=NAME

// TWO: contract 'up': m{{[.01]*}}:rows,n:columns
// TWO: contract 'down': m{{[.01]*}}:rows,n:columns
// TWO: parameter 'w1': [768:rows,3072:columns]
// TWO: parameter 'w2': [3072:rows,768:columns]
// AXES: layout '3d' takes a mesh of 3 axes (M, K and N, such as --mesh 2x2x2), beside which there may be one named 'data'; this mesh has 2
// NAME: unknown layout '4d'; there are 1d, sequence, ulysses, 2d, 2.5d, 3d
module attributes {dist.mesh = #dist.mesh<["rows" = 2, "columns" = 2]>} {
func.func @mlp(%x: tensor<128x768xf32>) -> tensor<128x768xf32> {
  %w1 = colossal.parameter "w1" {file = "", offset = 0 : i64, bytes = 9437184 : i64} : tensor<768x3072xf32> loc("w1")
  %w2 = colossal.parameter "w2" {file = "", offset = 9437184 : i64, bytes = 9437184 : i64} : tensor<3072x768xf32> loc("w2")
  %a = colossal.contract %x [0, 1], %w1 [1, 2] -> [0, 2] : (tensor<128x768xf32>, tensor<768x3072xf32>) -> tensor<128x3072xf32> loc("up")
  %b = colossal.elementwise gelu(%a) : (tensor<128x3072xf32>) -> tensor<128x3072xf32> loc("gelu")
  %c = colossal.contract %b [0, 1], %w2 [1, 2] -> [0, 2] : (tensor<128x3072xf32>, tensor<3072x768xf32>) -> tensor<128x768xf32> loc("down")
  return %c : tensor<128x768xf32>
}
}
