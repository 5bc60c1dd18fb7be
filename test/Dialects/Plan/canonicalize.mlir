// Instructions act on memory: canonicalization and CSE leave each where it stands, and clean the index arithmetic between.
// RUN: colossal-opt %s -canonicalize -cse | FileCheck %s
// CHECK: %[[TWO:.*]] = arith.constant 2 : index
plan.arena @a device activations 256
plan.kernel @k buffers 2 params 1

// CHECK-LABEL: plan.program @main
plan.program @main infer {
  // CHECK-NEXT: %[[X:.*]] = dist.coordinate 0
  // CHECK-NEXT: %[[DOUBLE:.*]] = arith.muli %[[X]], %[[TWO]]
  %x0 = dist.coordinate 0
  %x1 = dist.coordinate 0
  %unused = dist.coordinate 1
  %one = arith.constant 1 : index
  %two = arith.addi %one, %one : index
  %double0 = arith.muli %x0, %two : index
  %double1 = arith.muli %x1, %two : index
  // CHECK-NEXT: plan.launch @k(%[[DOUBLE]])
  plan.launch @k(%double0) [#plan.buffer<@a[0, 64]>, #plan.buffer<@a[64, 64]>] writes 1 tiles 1
  // CHECK-NEXT: plan.launch @k(%[[DOUBLE]])
  plan.launch @k(%double1) [#plan.buffer<@a[0, 64]>, #plan.buffer<@a[64, 64]>] writes 1 tiles 1
  // CHECK-NEXT: plan.copy
  plan.copy <@a[0, 64]> -> <@a[64, 64]>
  // CHECK-NEXT: plan.copy
  plan.copy <@a[0, 64]> -> <@a[64, 64]>
}
