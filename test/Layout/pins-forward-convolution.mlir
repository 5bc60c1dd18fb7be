// Gradients of a convolution, which are convolutions with other channels, or with the batch, in place of its own, are split by a pin `forward` as pins split it
// there; where it has one tap they are contractions. Where places of the image are split, the search decides.
// RUN: colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={.*\.gradient=forward} pin={(conv|point)=channels:x} explain=true})' -o /dev/null 2>&1 | FileCheck %s
// RUN: colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={.*\.gradient=forward} pin={(conv|point)=in_channels:x} explain=true})' -o /dev/null 2>&1 | FileCheck %s --check-prefix=IN
// RUN: colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={.*\.gradient=forward} pin={(conv|point)=batch:x} explain=true})' -o /dev/null 2>&1 | FileCheck %s --check-prefix=BATCH
// RUN: colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={.*\.gradient=forward} pin={conv=height:x} explain=true})' -o /dev/null
// CHECK: conv 'conv': channels:x
// CHECK: conv 'conv.gradient': in_channels:x
// CHECK: conv 'conv.gradient#2': channels:x
// CHECK: conv 'point': channels:x
// CHECK: contract 'point.gradient': k:x
// CHECK: contract 'point.gradient#2': m:x
// IN: conv 'conv': in_channels:x
// IN: conv 'conv.gradient': channels:x
// IN: conv 'conv.gradient#2': batch:x
// IN: conv 'point': in_channels:x
// IN: contract 'point.gradient': n:x
// IN: contract 'point.gradient#2': n:x
// BATCH: conv 'conv': batch:x
// BATCH: conv 'conv.gradient': batch:x
// BATCH: conv 'conv.gradient#2': in_channels:x
// BATCH: conv 'point': batch:x
// BATCH: contract 'point.gradient': {{m[^ ]*}}:x
// BATCH: contract 'point.gradient#2': {{k[^ ]*}}:x
module attributes {dist.mesh = #dist.mesh<["x" = 2]>} {
  func.func @main(%x: tensor<8x16x6x6xf32> {colossal.name = "x"}, %g: tensor<8x32x6x6xf32> {colossal.name = "g"})
      -> (tensor<8x32x6x6xf32> {colossal.name = "y"}, tensor<8x16x6x6xf32> {colossal.name = "dx"}, tensor<32x16x3x3xf32> {colossal.name = "dw"},
          tensor<8x32x6x6xf32> {colossal.name = "z"}, tensor<8x16x6x6xf32> {colossal.name = "dxz"}, tensor<32x16xf32> {colossal.name = "dv"}) {
    %w = colossal.parameter "w" {file = "", offset = 0 : i64, bytes = 18432 : i64} : tensor<32x16x3x3xf32>
    %v = colossal.parameter "v" {file = "", offset = 18432 : i64, bytes = 2048 : i64} : tensor<32x16x1x1xf32>
    %y = colossal.conv(%x, %w) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 1, 1>} : (tensor<8x16x6x6xf32>, tensor<32x16x3x3xf32>) -> tensor<8x32x6x6xf32> loc("conv")
    %exchanged = colossal.transpose %w [1, 0, 2, 3] : tensor<32x16x3x3xf32> -> tensor<16x32x3x3xf32>
    %dx = colossal.conv(%g, %exchanged) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 1, 1>} : (tensor<8x32x6x6xf32>, tensor<16x32x3x3xf32>) -> tensor<8x16x6x6xf32> loc("conv.gradient")
    %image = colossal.transpose %x [1, 0, 2, 3] : tensor<8x16x6x6xf32> -> tensor<16x8x6x6xf32>
    %filter = colossal.transpose %g [1, 0, 2, 3] : tensor<8x32x6x6xf32> -> tensor<32x8x6x6xf32>
    %sums = colossal.conv(%image, %filter) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 1, 1>} : (tensor<16x8x6x6xf32>, tensor<32x8x6x6xf32>) -> tensor<16x32x3x3xf32> loc("conv.gradient")
    %dw = colossal.transpose %sums [1, 0, 2, 3] : tensor<16x32x3x3xf32> -> tensor<32x16x3x3xf32>
    %z = colossal.conv(%x, %v) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<8x16x6x6xf32>, tensor<32x16x1x1xf32>) -> tensor<8x32x6x6xf32> loc("point")
    %flat = colossal.reshape %v : tensor<32x16x1x1xf32> -> tensor<32x16xf32>
    %dxz = colossal.contract %g [0, 1, 3, 4], %flat [1, 2] -> [0, 2, 3, 4] : (tensor<8x32x6x6xf32>, tensor<32x16xf32>) -> tensor<8x16x6x6xf32> loc("point.gradient")
    %dv = colossal.contract %g [0, 1, 3, 4], %x [0, 2, 3, 4] -> [1, 2] : (tensor<8x32x6x6xf32>, tensor<8x16x6x6xf32>) -> tensor<32x16xf32> loc("point.gradient")
    return %y, %dx, %dw, %z, %dxz, %dv : tensor<8x32x6x6xf32>, tensor<8x16x6x6xf32>, tensor<32x16x3x3xf32>, tensor<8x32x6x6xf32>, tensor<8x16x6x6xf32>, tensor<32x16xf32>
  }
}
