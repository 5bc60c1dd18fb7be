// What computes the gradient of a normalization element by element, or sums it up, is split by a pin `forward` as pins split the normalization; what has
// the shape of a parameter, as the search likes. A pin with a shape holds for what is widened for its ops, too, and leaves dimensions of size 1 whole.
// RUN: colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={.*\.gradient=forward} pin={norm=d1:x+y} pin={g=[-,-,x+y]} explain=true})' -o /dev/null 2>&1 | FileCheck %s
// RUN: colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={.*\.gradient=forward} pin={norm=d0:y} explain=true})' -o /dev/null 2>&1 | FileCheck %s --check-prefix=ROWS
// RUN: colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={loss=d0:x+y[-,-,64]} explain=true})' -o /dev/null 2>&1 | FileCheck %s --check-prefix=LOSS
// CHECK: normalize 'norm': d1:x+y
// CHECK: elementwise 'norm.gradient': d1:x+y
// CHECK: reduce 'norm.gradient#2': k1:x+y
// ROWS: normalize 'norm': d0:y
// ROWS: elementwise 'norm.gradient': d0:y
// ROWS: reduce 'norm.gradient#2': k0:y
// LOSS: elementwise 'made': d0:x+y
// LOSS: elementwise 'loss': d0:x+y
// LOSS: elementwise 'loss#2': replicated
module attributes {dist.mesh = #dist.mesh<["x" = 2, "y" = 4]>} {
  func.func @main(%x: tensor<8x32x64xf32> {colossal.name = "x"}, %g: tensor<8x32x64xf32> {colossal.name = "g"}, %z: tensor<8x32x64xbf16> {colossal.name = "z"},
                  %r: tensor<1x32x64xf32> {colossal.name = "r"})
      -> (tensor<8x32x64xf32> {colossal.name = "y"}, tensor<1x1x64xf32> {colossal.name = "ds"}, tensor<8x32x64xf32> {colossal.name = "l"},
          tensor<1x32x64xf32> {colossal.name = "m"}) {
    %s = colossal.parameter "s" {file = "", offset = 0 : i64, bytes = 256 : i64} : tensor<64xf32>
    %y = colossal.normalize layer(%x, scale %s, bias %s) {axis = 2 : i64, epsilon = 1.0E-5 : f64} : (tensor<8x32x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<8x32x64xf32> loc("norm")
    %p = colossal.elementwise mul(%g, %y) : (tensor<8x32x64xf32>, tensor<8x32x64xf32>) -> tensor<8x32x64xf32> loc("norm.gradient")
    %ds = colossal.reduce sum %p over [0, 1] {keepdims = true} : tensor<8x32x64xf32> -> tensor<1x1x64xf32> loc("norm.gradient")
    %w = colossal.elementwise cast(%z) : (tensor<8x32x64xbf16>) -> tensor<8x32x64xf32> loc("made")
    %l = colossal.elementwise exp(%w) : (tensor<8x32x64xf32>) -> tensor<8x32x64xf32> loc("loss")
    %m = colossal.elementwise exp(%r) : (tensor<1x32x64xf32>) -> tensor<1x32x64xf32> loc("loss")
    return %y, %ds, %l, %m : tensor<8x32x64xf32>, tensor<1x1x64xf32>, tensor<8x32x64xf32>, tensor<1x32x64xf32>
  }
}
