// What the search counts as memory: a value that is returned lies where outputs do, and nowhere else.
//
// RUN: colossal-opt %s "--colossal-search-layouts=explain=true machine=cpu" -o /dev/null 2>&1 | FileCheck %s

// CHECK: softmax 'y': d0:x
// CHECK: memory per rank, as searched: weights 0 B, activations 128.0 KiB, inputs and outputs 256.0 KiB
module attributes {dist.mesh = #dist.mesh<["x" = 2]>} {
  func.func @main(%x: tensor<64x1024xf32> {colossal.name = "x"}) -> (tensor<64x1024xf32> {colossal.name = "y"}) {
    %h = colossal.elementwise relu(%x) : (tensor<64x1024xf32>) -> tensor<64x1024xf32> loc("h")
    %y = colossal.softmax %h {axis = 1 : i64} : tensor<64x1024xf32> loc("y")
    return %y : tensor<64x1024xf32>
  }
}
