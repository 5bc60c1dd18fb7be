// What reduces a split dimension works in stages: a part, an exchange of statistics, and the rest.
//
// RUN: colossal-opt %s "--colossal-search-layouts=explain=true machine=h100 pin=norm=d2:model,softmax=d2:model,best=d2:model" -o /dev/null 2>&1 | FileCheck %s --check-prefix=EXPLAIN
// RUN: colossal-opt %s "--colossal-search-layouts=machine=h100 pin=norm=d2:model,softmax=d2:model,best=d2:model" --colossal-partition | FileCheck %s

// Two numbers a row, and of arg-max one value and one index from each rank.
// EXPLAIN: normalize 'norm': d2:model, {{.*}}statistics 3.0 KiB
// EXPLAIN: softmax 'softmax': d2:model, {{.*}}statistics 3.0 KiB
// EXPLAIN: arg_reduce 'best': d2:model, {{.*}}statistics
// EXPLAIN: statistics {{.*}} in 3;
// CHECK-LABEL: func.func @rows(
// CHECK: colossal.reduce mean
// CHECK: shard.all_reduce {{.*}}dist.statistics
// CHECK: colossal.elementwise sub
// CHECK: colossal.reduce mean
// CHECK: shard.all_reduce {{.*}}dist.statistics
// CHECK-NOT: colossal.normalize
// CHECK: colossal.reduce max
// CHECK: shard.all_reduce {{.*}}reduction = max
// CHECK: colossal.elementwise exp
// CHECK: shard.all_reduce
// CHECK-NOT: colossal.softmax
// CHECK: colossal.arg_reduce
// CHECK: shard.all_gather {{.*}}dist.statistics
// CHECK: shard.all_gather {{.*}}dist.statistics
// CHECK: colossal.gather_elements
module attributes {dist.mesh = #dist.mesh<["model" = 4]>} {
func.func @rows(%x: tensor<2x128x768xf32>) -> tensor<2x128xi64> {
  %n = colossal.normalize layer(%x) {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x128x768xf32>) -> tensor<2x128x768xf32> loc("norm")
  %s = colossal.softmax %n {axis = 2 : i64} : tensor<2x128x768xf32> loc("softmax")
  %i = colossal.arg_reduce %s {axis = 2 : i64, minimum = false, keepdims = false, select_last = false} : tensor<2x128x768xf32> -> tensor<2x128xi64> loc("best")
  return %i : tensor<2x128xi64>
}
}
