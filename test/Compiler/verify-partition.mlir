// RUN: colossal-opt %s -verify-diagnostics -colossal-verify-phase=phase=partition -o /dev/null
module attributes {dist.mesh = #dist.mesh<["x" = 2]>} {
  shard.grid @mesh(shape = 2)
  // expected-error@+1 {{has no sharding of argument 0 (after phase 'partition')}}
  func.func @main(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
    // expected-error@+1 {{has an assignment, which partitioning should have used up (after phase 'partition')}}
    %0 = colossal.transpose %x [1, 0] {dist.assignment = []} : tensor<4x6xf32> -> tensor<6x4xf32>
    // expected-error@+1 {{computes something else than an index (after phase 'partition')}}
    %1 = arith.constant 1.0 : f32
    %2 = dist.coordinate 0
    // expected-error@+1 {{is not index arithmetic that a plan can say (after phase 'partition')}}
    %3 = arith.divui %2, %2 : index
    return %x : tensor<4x6xf32>
  }
}
