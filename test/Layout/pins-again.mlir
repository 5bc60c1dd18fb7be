// What a backward pass makes again lies as a pin of the op says, where no pin speaks of the copy.
// RUN: colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={fc=k:x} explain=true})' -o /dev/null 2>&1 | FileCheck %s
// RUN: colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={fc\.again=n:x} pin={fc=k:x} explain=true})' -o /dev/null 2>&1 | FileCheck %s --check-prefix=OWN
// CHECK: contract 'fc': k:x
// CHECK: contract 'fc.again': k:x
// OWN: contract 'fc': k:x
// OWN: contract 'fc.again': n:x
module attributes {dist.mesh = #dist.mesh<["x" = 2]>} {
  func.func @main(%x: tensor<8x32xf32> {colossal.name = "x"}) -> (tensor<8x64xf32> {colossal.name = "y"}, tensor<8x64xf32> {colossal.name = "z"}) {
    %w = colossal.parameter "w" {file = "", offset = 0 : i64, bytes = 8192 : i64} : tensor<32x64xf32>
    %y = colossal.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<8x32xf32>, tensor<32x64xf32>) -> tensor<8x64xf32> loc("fc")
    %z = colossal.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<8x32xf32>, tensor<32x64xf32>) -> tensor<8x64xf32> loc("fc.again")
    return %y, %z : tensor<8x64xf32>, tensor<8x64xf32>
  }
}
