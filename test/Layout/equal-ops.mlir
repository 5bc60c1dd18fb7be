// Ops that are equal share their candidates, but not where their tensors are cut apart differently, and not what pins ask of
// one of them.
//
// RUN: colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={first=m:x} pin={second=n:x} pin={cut=n.1:x} explain=true})' -o /dev/null 2>&1 | FileCheck %s
// RUN: not colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={first=n.1:x}})' 2>&1 | FileCheck %s --check-prefix=WHOLE

// CHECK-DAG: contract 'first': m:x
// CHECK-DAG: contract 'second': n:x
// CHECK-DAG: contract 'cut': n.1:x
// WHOLE: pin 'first=n.1:x' matches no op or tensor that can be laid out so
module attributes {dist.mesh = #dist.mesh<["x" = 4]>} {
  func.func @main(%x: tensor<8x32xf32> {colossal.name = "x"}) -> (tensor<8x64xf32>, tensor<8x64xf32>, tensor<8x4x16xf32>) {
    %w1 = colossal.parameter "w1" {file = "", offset = 0 : i64, bytes = 8192 : i64} : tensor<32x64xf32>
    %w2 = colossal.parameter "w2" {file = "", offset = 8192 : i64, bytes = 8192 : i64} : tensor<32x64xf32>
    %w3 = colossal.parameter "w3" {file = "", offset = 16384 : i64, bytes = 8192 : i64} : tensor<32x64xf32>
    %a = colossal.contract %x [0, 1], %w1 [1, 2] -> [0, 2] : (tensor<8x32xf32>, tensor<32x64xf32>) -> tensor<8x64xf32> loc("first")
    %b = colossal.contract %x [0, 1], %w2 [1, 2] -> [0, 2] : (tensor<8x32xf32>, tensor<32x64xf32>) -> tensor<8x64xf32> loc("second")
    %c = colossal.contract %x [0, 1], %w3 [1, 2] -> [0, 2] : (tensor<8x32xf32>, tensor<32x64xf32>) -> tensor<8x64xf32> loc("cut")
    %d = colossal.reshape %c : tensor<8x64xf32> -> tensor<8x4x16xf32> loc("heads")
    return %a, %b, %d : tensor<8x64xf32>, tensor<8x64xf32>, tensor<8x4x16xf32>
  }
}
