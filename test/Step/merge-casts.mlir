// RUN: colossal-opt %s --colossal-merge-casts | FileCheck %s

// Two layers share weights: they are narrowed once, where they are first read. What is no state, what no product reads, and what
// a lookup does, and what the backward pass makes again, have casts of their own.
module {
  // CHECK-LABEL: func.func @step(
  // CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>, %[[I:[a-z0-9]+]]: tensor<3xi64>, %[[W:[a-z0-9]+]]: tensor<8x8xf32>
  func.func @step(%x: tensor<4x8xf32>, %i: tensor<3xi64>, %w: tensor<8x8xf32> {colossal.state = "w"}, %v: tensor<8x8xf32> {colossal.state = "v"})
      -> (tensor<4x8xbf16>, tensor<8x8xf16>, tensor<8x8xbf16>, tensor<3x8xbf16>) {
    // CHECK: elementwise cast(%[[X]])
    %a = colossal.elementwise cast(%x) : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    // CHECK: %[[NARROW:.*]] = colossal.elementwise cast(%[[W]]) : (tensor<8x8xf32>) -> tensor<8x8xbf16>
    %w1 = colossal.elementwise cast(%w) : (tensor<8x8xf32>) -> tensor<8x8xbf16>
    // CHECK: contract %{{.*}} [0, 1], %[[NARROW]] [1, 2]
    %b = colossal.contract %a [0, 1], %w1 [1, 2] -> [0, 2] : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
    // CHECK: elementwise cast(%[[X]])
    %a2 = colossal.elementwise cast(%x) : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %c = colossal.elementwise add(%a2, %b) : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
    // CHECK-NOT: cast(%[[W]]) : (tensor<8x8xf32>) -> tensor<8x8xbf16>
    %w2 = colossal.elementwise cast(%w) : (tensor<8x8xf32>) -> tensor<8x8xbf16>
    // CHECK: contract %{{.*}} [0, 1], %[[NARROW]] [1, 2]
    %d = colossal.contract %c [0, 1], %w2 [1, 2] -> [0, 2] : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
    // CHECK: elementwise cast(%[[W]]) : (tensor<8x8xf32>) -> tensor<8x8xf16>
    %w3 = colossal.elementwise cast(%w) : (tensor<8x8xf32>) -> tensor<8x8xf16>
    // CHECK: elementwise cast(%[[V:.*]]) : (tensor<8x8xf32>) -> tensor<8x8xbf16>
    %v1 = colossal.elementwise cast(%v) : (tensor<8x8xf32>) -> tensor<8x8xbf16>
    // CHECK: %[[ROWS:.*]] = colossal.elementwise cast(%[[W]]) : (tensor<8x8xf32>) -> tensor<8x8xbf16>
    // CHECK: gather %[[ROWS]][%[[I]]]
    %w4 = colossal.elementwise cast(%w) : (tensor<8x8xf32>) -> tensor<8x8xbf16>
    %rows = colossal.gather %w4[%i] {axis = 0 : i64} : tensor<8x8xbf16>, tensor<3xi64> -> tensor<3x8xbf16>
    // CHECK: %[[AGAIN:.*]] = colossal.elementwise cast(%[[W]]) : (tensor<8x8xf32>) -> tensor<8x8xbf16>
    // CHECK: contract %{{.*}} [0, 1], %[[AGAIN]] [1, 2]
    %w5 = colossal.elementwise cast(%w) : (tensor<8x8xf32>) -> tensor<8x8xbf16> loc("w.again")
    %e = colossal.contract %d [0, 1], %w5 [1, 2] -> [0, 2] : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
    return %e, %w3, %v1, %rows : tensor<4x8xbf16>, tensor<8x8xf16>, tensor<8x8xbf16>, tensor<3x8xbf16>
  }
}
