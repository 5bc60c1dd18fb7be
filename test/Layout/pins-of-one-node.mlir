// A node of the model may become several ops, which have its names and those of its tensors. What is pinned of an op by its own
// name goes before what is pinned of a tensor that another of them makes.
//
// RUN: colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={gemm=k:x} pin={gemm#2=d1:x} pin={y=[8,32:x]} explain=true})' -o /dev/null 2>&1 | FileCheck %s
// RUN: not colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={gemm=k:x} pin={product=[8:x,32]}})' -o /dev/null 2>&1 | FileCheck %s --check-prefix=CONFLICT

// With a shape behind it, a pin is of what has that shape.
// RUN: colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={gemm=k:x} pin={?gemm=replicated[8,32]} explain=true})' -o /dev/null 2>&1 | FileCheck %s --check-prefix=SHAPE
// RUN: colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={gemm=k:x} pin={?gemm=replicated[32]} pin={?gemm=replicated[]} explain=true})' -o /dev/null 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={gemm=k:x[-,32]} pin={?gemm=k:x[-,31]} pin={?gemm=n:x[32]} explain=true})' -o /dev/null 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={gemm=k:x[-,31]}})' -o /dev/null 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={gemm=replicated[8,x]}})' 2>&1 | FileCheck %s --check-prefix=SIZE

// SHAPE: contract 'gemm': replicated
// SHAPE: elementwise 'gemm#2': replicated
// OTHER: contract 'gemm': k:x
// SIZE: pin 'gemm=replicated[8,x]': a dimension's size must be a number
// NONE: pin 'gemm=k:x[-,31]' matches no op or tensor that can be laid out so
// CHECK: contract 'gemm': k:x
// CHECK: elementwise 'gemm#2': d1:x
// CHECK: output 'y': [8,32:x]
// CONFLICT: error: 'gemm': pin 'product=[8:x,32]' cannot be met: no layout of this op gives [8:x,32]
module attributes {dist.mesh = #dist.mesh<["x" = 2]>} {
  func.func @main(%x: tensor<8x16xf32> {colossal.name = "x"}) -> (tensor<8x32xf32> {colossal.name = "y"}) {
    %w = colossal.parameter "w" {file = "", offset = 0 : i64, bytes = 2048 : i64} : tensor<16x32xf32>
    %b = colossal.parameter "b" {file = "", offset = 2048 : i64, bytes = 128 : i64} : tensor<32xf32>
    %p = colossal.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32> loc(fused["gemm", "product", "y"])
    %y = colossal.elementwise add(%p, %b) : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32> loc(fused["gemm", "y"])
    return %y : tensor<8x32xf32>
  }
}
