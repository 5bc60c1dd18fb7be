// Gradients of a contraction, whose labels are the contraction's, are split by a pin `forward` as pins split it there: where these are two, as the
// last says; where there are none, as the search likes.
// RUN: colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={.*\.gradient=forward} pin={fc=n:x} explain=true})' -o /dev/null 2>&1 | FileCheck %s
// RUN: colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={.*\.gradient=forward} pin={fc=n:x} pin={fc=k:x} explain=true})' -o /dev/null 2>&1 | FileCheck %s --check-prefix=LAST
// RUN: colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={.*\.gradient=forward} pin={fc=m:x} explain=true})' -o /dev/null 2>&1 | FileCheck %s --check-prefix=BATCH
// RUN: colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={.*\.gradient=forward} pin={fc=replicated} explain=true})' -o /dev/null 2>&1 | FileCheck %s --check-prefix=WHOLE
// RUN: not colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={.*\.gradient=backward}})' -o /dev/null 2>&1 | FileCheck %s --check-prefix=WRONG
// CHECK: contract 'fc': n:x
// CHECK: contract 'fc.gradient': k:x
// CHECK: contract 'fc.gradient#2': n:x
// LAST: contract 'fc': k:x
// LAST: contract 'fc.gradient': n:x
// LAST: contract 'fc.gradient#2': m:x
// BATCH: contract 'fc': m:x
// BATCH: contract 'fc.gradient': m:x
// BATCH: contract 'fc.gradient#2': k:x
// WHOLE: contract 'fc': replicated
// WHOLE: contract 'fc.gradient': replicated
// WHOLE: contract 'fc.gradient#2': replicated
// WRONG: expected FACTOR:AXES, [DIMS], replicated or forward at 'backward'
module attributes {dist.mesh = #dist.mesh<["x" = 2]>} {
  func.func @main(%x: tensor<8x32xf32> {colossal.name = "x"}, %g: tensor<8x64xf32> {colossal.name = "g"})
      -> (tensor<8x64xf32> {colossal.name = "y"}, tensor<8x32xf32> {colossal.name = "dx"}, tensor<32x64xf32> {colossal.name = "dw"}) {
    %w = colossal.parameter "w" {file = "", offset = 0 : i64, bytes = 8192 : i64} : tensor<32x64xf32>
    %y = colossal.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<8x32xf32>, tensor<32x64xf32>) -> tensor<8x64xf32> loc("fc")
    %dx = colossal.contract %g [0, 2], %w [1, 2] -> [0, 1] : (tensor<8x64xf32>, tensor<32x64xf32>) -> tensor<8x32xf32> loc("fc.gradient")
    %dw = colossal.contract %x [0, 1], %g [0, 2] -> [1, 2] : (tensor<8x32xf32>, tensor<8x64xf32>) -> tensor<32x64xf32> loc("fc.gradient")
    return %y, %dx, %dw : tensor<8x64xf32>, tensor<8x32xf32>, tensor<32x64xf32>
  }
}
