// Ranks divide what a turn of the loop works on: the loop axis stands first wherever the batch is, and pins do not name it.
// RUN: colossal-opt %s --colossal-propagate-batch "--colossal-search-layouts=machine=h100 pin=c=m:x pin=x=[x,-] explain=true" 2> %t | FileCheck %s
// RUN: FileCheck %s --check-prefix=EXPLAIN < %t
// RUN: colossal-opt %s --colossal-propagate-batch "--colossal-search-layouts=machine=h100 pin=c=m:x pin=x=[x,-]" --colossal-partition | FileCheck %s --check-prefix=LOCAL
// RUN: not colossal-opt %s --colossal-propagate-batch "--colossal-search-layouts=machine=h100 pin=c=m:microbatch" 2>&1 | FileCheck %s --check-prefix=AXIS
// AXIS: pin 'c=m:microbatch': 'microbatch' is no axis of the mesh (x)

// RUN: sed -e 's/8x16/7x16/g' %s > %t.mlir
// RUN: not colossal-opt %t.mlir --colossal-propagate-batch "--colossal-search-layouts=machine=h100 pin=x=[x,-]" 2>&1 | FileCheck %s --check-prefix=UNEVEN
// UNEVEN: 'x' cannot lie as it is pinned: its microbatches, of which 4 do not divide the batch, cannot be split further
// RUN: colossal-opt %t.mlir --colossal-propagate-batch "--colossal-search-layouts=machine=h100 pin=c=m:x" | FileCheck %s --check-prefix=WHOLE
// WHOLE: func.func @main(%{{.*}}: tensor<7x16xf32> {colossal.name = "x", dist.sharding = #dist.sharding<[7:(1)], [16]>})
// WHOLE: colossal.contract {{.*}} {dist.assignment = [array<i64: 1, 0>, array<i64>, array<i64>]}
module attributes {dist.mesh = #dist.mesh<["x" = 2, "microbatch" = 4 loop]>} {
  // CHECK: func.func @main(%{{.*}}: tensor<8x16xf32> {colossal.name = "x", dist.sharding = #dist.sharding<[8:(1, 0)], [16]>})
  // EXPLAIN: contract 'c': m:x,
  // EXPLAIN: input 'x': [8:x,16]
  // LOCAL: func.func @main(%[[X:.*]]: tensor<1x16xf32>
  func.func @main(%x: tensor<8x16xf32> {colossal.name = "x"}) -> (tensor<8x16xf32> {colossal.name = "y"}) {
    %w = colossal.parameter "w" {file = "", offset = 0 : i64, bytes = 1024 : i64} : tensor<16x16xf32>
    // CHECK: colossal.contract {{.*}} {dist.assignment = [array<i64: 1, 0>, array<i64>, array<i64>]}
    // LOCAL: colossal.contract %[[X]] {{.*}} -> tensor<1x16xf32>
    // LOCAL-NOT: shard.
    %c = colossal.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32> loc("c")
    return %c : tensor<8x16xf32>
  }
}
