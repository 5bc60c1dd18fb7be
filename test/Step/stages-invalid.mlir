// What a module of stages must be (Stages.h of the Dist dialect).
//
// RUN: colossal-opt %s --split-input-file --verify-diagnostics --colossal-verify-phase=phase=step

// expected-error @+1 {{has a mesh of 4 ranks, its stages have 2 (C1)}}
module attributes {dist.mesh = #dist.mesh<["stage" = 2, "model" = 2]>} {
  module @stage0 attributes {dist.mesh = #dist.mesh<["x" = 1]>, dist.stage = 0 : i64} {}
  module @stage1 attributes {dist.mesh = #dist.mesh<["x" = 1]>, dist.stage = 1 : i64} {}
}

// -----

module attributes {dist.mesh = #dist.mesh<["stage" = 2]>} {
  // expected-error @+1 {{stands in place of stage 0 (C1)}}
  module @stage1 attributes {dist.mesh = #dist.mesh<["x" = 1]>, dist.stage = 1 : i64} {}
  module @stage0 attributes {dist.mesh = #dist.mesh<["x" = 1]>, dist.stage = 0 : i64} {}
}

// -----

module attributes {dist.mesh = #dist.mesh<["stage" = 2]>} {
  module @stage0 attributes {dist.mesh = #dist.mesh<["x" = 1]>, dist.stage = 0 : i64} {
    func.func @main(%x: tensor<4xf32>) { return }
  }
  module @stage1 attributes {dist.mesh = #dist.mesh<["x" = 1]>, dist.stage = 1 : i64} {
    // expected-error @+1 {{is no part of a program: stage 0 has no function of this name (C2)}}
    func.func @other(%x: tensor<4xf32>) { return }
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<["stage" = 2]>} {
  module @stage0 attributes {dist.mesh = #dist.mesh<["x" = 1]>, dist.stage = 0 : i64} {
    func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32> {dist.sends = 0 : i64}) { return %x : tensor<4xf32> }
  }
  module @stage1 attributes {dist.mesh = #dist.mesh<["x" = 1]>, dist.stage = 1 : i64} {
    // expected-error @+1 {{receives value 1, which no earlier stage sends (C3)}}
    func.func @main(%x: tensor<4xf32> {dist.receives = 1 : i64}) { return }
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<["stage" = 2]>} {
  module @stage0 attributes {dist.mesh = #dist.mesh<["x" = 1]>, dist.stage = 0 : i64} {
    func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32> {dist.sends = 0 : i64}) { return %x : tensor<4xf32> }
  }
  module @stage1 attributes {dist.mesh = #dist.mesh<["x" = 1]>, dist.stage = 1 : i64} {
    // expected-error @+1 {{receives value 0 as 'tensor<5xf32>', which is sent as 'tensor<4xf32>' (C3)}}
    func.func @main(%x: tensor<5xf32> {dist.receives = 0 : i64}) { return }
  }
}
