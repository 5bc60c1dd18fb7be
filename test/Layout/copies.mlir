// What a reshard brings in has bytes and a life. The activations are split by rows and the contraction reads all of them:
// a whole copy, 1 MiB, stands beside the half while it is read. Without it 2 MiB would do.
//
// RUN: colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{machine=cpu memory=3900000 pin={act=d0:x} pin={fc=n:x} explain=true})' -o /dev/null 2>&1 | FileCheck %s
// RUN: not colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{machine=cpu memory=3000000 pin={act=d0:x} pin={fc=n:x}})' -o /dev/null 2>&1 | FileCheck %s --check-prefix=FIT

// CHECK: memory per rank, as searched: weights 512.0 KiB, activations 512.0 KiB, inputs and outputs 1.0 MiB, copies in other layouts 1.0 MiB
// FIT: the model does not fit: {{.*}} the best layout found needs 3.0 MiB
module attributes {dist.mesh = #dist.mesh<["x" = 2]>} {
  func.func @main(%x: tensor<512x512xf32> {colossal.name = "x"}) -> (tensor<512x512xf32> {colossal.name = "y"}) {
    %w = colossal.parameter "w" {file = "", offset = 0 : i64, bytes = 1048576 : i64} : tensor<512x512xf32>
    %h = colossal.elementwise relu(%x) : (tensor<512x512xf32>) -> tensor<512x512xf32> loc("act")
    %y = colossal.contract %h [0, 1], %w [1, 2] -> [0, 2] : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32> loc("fc")
    return %y : tensor<512x512xf32>
  }
}
