// A value that several ops use in another layout than it is made in is brought there once: they share the copy in what is
// searched, in what is priced and in the program. The activations come split by rows, and all three contractions need
// all rows.
//
// RUN: colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{machine=cpu pin={act=d0:x} pin={[qkv]=n:x} explain=true})' 2>&1 | FileCheck %s
// RUN: colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{machine=cpu pin={act=d0:x} pin={[qkv]=n:x}},colossal-partition)' | FileCheck %s --check-prefix=PROGRAM

// CHECK: contract 'q': n:x, {{.*}}, all-gather 128.0 KiB
// CHECK: contract 'k': n:x, {{[0-9.]*}} {{.?}}s{{$}}
// CHECK: contract 'v': n:x, {{[0-9.]*}} {{.?}}s{{$}}
// CHECK: bytes sent per rank: all-gather 128.0 KiB in 1;
// CHECK: at most 0.0 % above the best layout of this model of costs
// CHECK: colossal.elementwise relu({{.*}}dist.shared = [#dist.sharding<[256], [256]>]

// PROGRAM-COUNT-1: shard.all_gather
// PROGRAM-NOT: shard.all_gather
// PROGRAM-NOT: dist.shared
module attributes {dist.mesh = #dist.mesh<["x" = 2]>} {
  func.func @main(%x: tensor<256x256xf32> {colossal.name = "x"}) -> (tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) {
    %wq = colossal.parameter "wq" {file = "", offset = 0 : i64, bytes = 262144 : i64} : tensor<256x256xf32>
    %wk = colossal.parameter "wk" {file = "", offset = 262144 : i64, bytes = 262144 : i64} : tensor<256x256xf32>
    %wv = colossal.parameter "wv" {file = "", offset = 524288 : i64, bytes = 262144 : i64} : tensor<256x256xf32>
    %h = colossal.elementwise relu(%x) : (tensor<256x256xf32>) -> tensor<256x256xf32> loc("act")
    %q = colossal.contract %h [0, 1], %wq [1, 2] -> [0, 2] : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("q")
    %k = colossal.contract %h [0, 1], %wk [1, 2] -> [0, 2] : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("k")
    %v = colossal.contract %h [0, 1], %wv [1, 2] -> [0, 2] : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("v")
    return %q, %k, %v : tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>
  }
}
