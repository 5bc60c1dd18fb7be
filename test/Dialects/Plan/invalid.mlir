// Each module breaks the constraint that its first symbol is named after.
// RUN: colossal-opt %s -split-input-file -verify-diagnostics -o /dev/null

// expected-error@+1 {{has -1 bytes (C1)}}
plan.arena @arena_c1 device weights -1

// -----

// expected-error@+1 {{has alignment 96, expected a power of two of at least 64 (C1)}}
plan.arena @arena_c1_2 device weights 64 {alignment = 96 : i64}

// -----

// expected-error@+1 {{has type 'tensor<?xf32>', expected a ranked tensor of static shape (C1)}}
plan.parameter @parameter_c1 "w" : tensor<?xf32> {file = "", offset = 0 : i64, bytes = 4 : i64}

// -----

// expected-error@+1 {{lies at offset -4 with 4 bytes (C1)}}
plan.parameter @parameter_c1_2 "w" : tensor<1xf32> {file = "", offset = -4 : i64, bytes = 4 : i64}

// -----

// expected-error@+1 {{takes 0 buffers and 0 parameters (C1)}}
plan.kernel @kernel_c1 buffers 0 params 0

// -----

plan.program @main infer {
  // expected-error@+1 {{which is not one of}}
  plan.input "input_c1" : tensor<4xf32> <[8]> <@a[0, 16]>
}

// -----

plan.program @main infer {
  // expected-error@+1 {{has range [3, 2], expected a least and a greatest value (C2)}}
  plan.input "input_c2" : tensor<4xi64> <[4]> <@a[0, 32]> {range = array<i64: 3, 2>}
}

// -----

plan.program @main infer {
  // expected-error@+1 {{has range [3], expected a least and a greatest value (C2)}}
  plan.output "output_c2" : tensor<4xi64> <[4]> <@a[0, 32]> {range = array<i64: 3>}
}

// -----

plan.program @main infer {
  // expected-error@+1 {{names kernel @k, which the module does not have (C1)}}
  plan.launch @k() [#plan.buffer<@a[0, 64]>] writes 1 tiles 1
}

// -----

// expected-note@+1 {{which takes 2 and 0}}
plan.kernel @k buffers 2 params 0
plan.program @launch_c1 infer {
  // expected-error@+1 {{gives 1 buffers and 0 parameters to kernel @k (C1)}}
  plan.launch @k() [#plan.buffer<@a[0, 64]>] writes 1 tiles 1
}

// -----

plan.kernel @k buffers 2 params 0
plan.program @main infer {
  // expected-error@+1 {{writes 3 of 2 buffers (C2)}}
  plan.launch @k() [#plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>] writes 3 tiles 1
}

// -----

plan.kernel @k buffers 2 params 0
plan.program @main infer {
  // expected-error@+1 {{also writes buffer 1, expected an index below 1 (C2)}}
  plan.launch @k() [#plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>] writes 1 tiles 1 {also_written = array<i64: 1>}
}

// -----

plan.kernel @k buffers 2 params 0
plan.program @main infer {
  // expected-error@+1 {{has 0 tiles with 0 bytes of scratch (C3)}}
  plan.launch @k() [#plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>] writes 1 tiles 0
}

// -----

plan.program @main infer {
  // expected-error@+1 {{has 2 buffers, expected 4 (C1)}}
  plan.convolution [#plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>] : f32 {input = array<i64: 1, 2, 4>, weight = array<i64: 2, 2, 1>, output = array<i64: 1, 2, 4>, input_strides = array<i64: 8, 4, 1>, output_strides = array<i64: 8, 4, 1>, strides = array<i64: 1>, dilations = array<i64: 1>, pads_begin = array<i64: 0>, pads_end = array<i64: 0>, group = 1 : i64, bias = false, residual = false, activation = "", transposed = false, algorithm = "direct"}
}

// -----

plan.program @main infer {
  // expected-error@+1 {{has an input of rank 2, expected 3 to 5 (C2)}}
  plan.convolution [#plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>] : f32 {input = array<i64: 1, 2>, weight = array<i64: 2, 2, 1>, output = array<i64: 1, 2, 4>, input_strides = array<i64: 8, 4, 1>, output_strides = array<i64: 8, 4, 1>, strides = array<i64: 1>, dilations = array<i64: 1>, pads_begin = array<i64: 0>, pads_end = array<i64: 0>, group = 1 : i64, bias = false, residual = false, activation = "", transposed = false, algorithm = "direct"}
}

// -----

plan.program @main infer {
  // expected-error@+1 {{has [2, 2], expected 3 numbers as the input has (C2)}}
  plan.convolution [#plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>] : f32 {input = array<i64: 1, 2, 4>, weight = array<i64: 2, 2>, output = array<i64: 1, 2, 4>, input_strides = array<i64: 8, 4, 1>, output_strides = array<i64: 8, 4, 1>, strides = array<i64: 1>, dilations = array<i64: 1>, pads_begin = array<i64: 0>, pads_end = array<i64: 0>, group = 1 : i64, bias = false, residual = false, activation = "", transposed = false, algorithm = "direct"}
}

// -----

plan.program @main infer {
  // expected-error@+1 {{has [1, 1] of its window, expected 1 numbers (C2)}}
  plan.convolution [#plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>] : f32 {input = array<i64: 1, 2, 4>, weight = array<i64: 2, 2, 1>, output = array<i64: 1, 2, 4>, input_strides = array<i64: 8, 4, 1>, output_strides = array<i64: 8, 4, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1>, pads_begin = array<i64: 0>, pads_end = array<i64: 0>, group = 1 : i64, bias = false, residual = false, activation = "", transposed = false, algorithm = "direct"}
}

// -----

plan.program @main infer {
  // expected-error@+1 {{packs a weight, and has 'compute', of convolutions that take it as it is (C3)}}
  plan.convolution [#plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>] : f32 {input = array<i64: 1, 2, 4>, weight = array<i64: 2, 2, 1>, output = array<i64: 1, 2, 4>, input_strides = array<i64: 8, 4, 1>, output_strides = array<i64: 8, 4, 1>, strides = array<i64: 1>, dilations = array<i64: 1>, pads_begin = array<i64: 0>, pads_end = array<i64: 0>, group = 1 : i64, bias = false, residual = false, activation = "", transposed = false, algorithm = "", pack = true, compute = "f32"}
}

// -----

plan.program @main infer {
  // expected-error@+1 {{has 6 buffers, expected 5 (C1)}}
  plan.fused_attention [#plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>] : bf16 {sizes = array<i64: 1, 2, 1, 2, 2, 8, 8>, query_strides = array<i64: 32, 16, 8, 1>, key_strides = array<i64: 16, 16, 8, 1>, value_strides = array<i64: 16, 16, 8, 1>, output_strides = array<i64: 32, 16, 8, 1>, scale = 0.5 : f64, causal = true}
}

// -----

plan.program @main infer {
  // expected-error@+1 {{has sizes [1, 3, 2, 2, 2, 8, 8], expected seven of at least 1, the second a multiple of the third (C2)}}
  plan.fused_attention [#plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>] : bf16 {sizes = array<i64: 1, 3, 2, 2, 2, 8, 8>, query_strides = array<i64: 32, 16, 8, 1>, key_strides = array<i64: 16, 16, 8, 1>, value_strides = array<i64: 16, 16, 8, 1>, output_strides = array<i64: 32, 16, 8, 1>, scale = 0.5 : f64, causal = true}
}

// -----

plan.program @main infer {
  // expected-error@+1 {{has strides [32, 16, 8, 2], expected four, the last 1 (C3)}}
  plan.fused_attention [#plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>] : bf16 {sizes = array<i64: 1, 2, 1, 2, 2, 8, 8>, query_strides = array<i64: 32, 16, 8, 2>, key_strides = array<i64: 16, 16, 8, 1>, value_strides = array<i64: 16, 16, 8, 1>, output_strides = array<i64: 32, 16, 8, 1>, scale = 0.5 : f64, causal = true}
}

// -----

plan.program @main infer {
  // expected-error@+1 {{has a mask's type or strides without the other, or a negative 'causal_offset' (C4)}}
  plan.fused_attention [#plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>] : bf16 {sizes = array<i64: 1, 2, 1, 2, 2, 8, 8>, query_strides = array<i64: 32, 16, 8, 1>, key_strides = array<i64: 16, 16, 8, 1>, value_strides = array<i64: 16, 16, 8, 1>, output_strides = array<i64: 32, 16, 8, 1>, scale = 0.5 : f64, causal = true, causal_offset = -1 : i64}
}

// -----

plan.program @main infer {
  // expected-error@+1 {{has 5 buffers, expected 4 (C1)}}
  plan.contraction [#plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>] : f32 -> f32 {compute = "f32", sizes = array<i64: 1, 4, 2, 3>, a_strides = array<i64: 0, 3, 1>, b_strides = array<i64: 0, 2, 1>, c_strides = array<i64: 0, 2, 1>, bias = false, activation = ""}
}

// -----

plan.program @main infer {
  // expected-error@+1 {{has sizes [1, 0, 2, 3], expected batch, m, n and k of at least 1 (C2)}}
  plan.contraction [#plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>] : f32 -> f32 {compute = "f32", sizes = array<i64: 1, 0, 2, 3>, a_strides = array<i64: 0, 3, 1>, b_strides = array<i64: 0, 2, 1>, c_strides = array<i64: 0, 2, 1>, bias = false, activation = ""}
}

// -----

plan.program @main infer {
  // expected-error@+1 {{has strides [2, 1] of B, expected three (C2)}}
  plan.contraction [#plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>] : f32 -> f32 {compute = "f32", sizes = array<i64: 1, 4, 2, 3>, a_strides = array<i64: 0, 3, 1>, b_strides = array<i64: 2, 1>, c_strides = array<i64: 0, 2, 1>, bias = false, activation = ""}
}

// -----

plan.program @main infer {
  // expected-error@+1 {{has strides [0, 2, 1] of A, a matrix of 4 x 3, expected rows or columns without gaps (C3)}}
  plan.contraction [#plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>] : f32 -> f32 {compute = "f32", sizes = array<i64: 1, 4, 2, 3>, a_strides = array<i64: 0, 2, 1>, b_strides = array<i64: 0, 2, 1>, c_strides = array<i64: 0, 2, 1>, bias = false, activation = ""}
}

// -----

plan.program @main infer {
  // expected-error@+1 {{has a bias, and strides [0, 1, 4] of C (C4)}}
  plan.contraction [#plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>, #plan.buffer<@a[0, 64]>] : f32 -> f32 {compute = "f32", sizes = array<i64: 1, 4, 2, 3>, a_strides = array<i64: 0, 3, 1>, b_strides = array<i64: 0, 2, 1>, c_strides = array<i64: 0, 1, 4>, bias = true, activation = ""}
}

// -----

plan.program @main infer {
  // expected-error@+1 {{needs at least one mesh axis (C1)}}
  plan.collective all_gather() [] <@a[0, 64]> -> <@a[64, 64]> : f32 {sizes = array<i64: 16>, src_strides = array<i64: 1>, dst_strides = array<i64: 1>}
}

// -----

plan.program @main infer {
  // expected-error@+1 {{has mesh axes [0, 0], expected each once (C1)}}
  plan.collective all_gather() [0, 0] <@a[0, 64]> -> <@a[64, 64]> : f32 {sizes = array<i64: 16>, src_strides = array<i64: 1>, dst_strides = array<i64: 1>}
}

// -----

plan.program @main infer {
  // expected-error@+1 {{has 1 sizes with 2 and 1 strides (C2)}}
  plan.collective all_gather() [0] <@a[0, 64]> -> <@a[64, 64]> : f32 {sizes = array<i64: 16>, src_strides = array<i64: 1, 1>, dst_strides = array<i64: 1>}
}

// -----

plan.program @main infer {
  // expected-error@+1 {{needs a reduction (C3)}}
  plan.collective all_reduce() [0] <@a[0, 64]> -> <@a[64, 64]> : f32 {sizes = array<i64: 16>, src_strides = array<i64: 1>, dst_strides = array<i64: 1>}
}

// -----

plan.program @main infer {
  // expected-error@+1 {{has a reduction, but combines nothing (C3)}}
  plan.collective all_gather() [0] <@a[0, 64]> -> <@a[64, 64]> : f32 {sizes = array<i64: 16>, src_strides = array<i64: 1>, dst_strides = array<i64: 1>, reduction = #dist<reduction sum>}
}

// -----

plan.program @main infer {
  // expected-error@+1 {{needs a root (C3)}}
  plan.collective broadcast() [0] <@a[0, 64]> -> <@a[64, 64]> : f32 {sizes = array<i64: 16>, src_strides = array<i64: 1>, dst_strides = array<i64: 1>}
}

// -----

plan.program @main infer {
  // expected-error@+1 {{has 0 operands, expected 1 (C4)}}
  plan.collective permute() [0] <@a[0, 64]> -> <@a[64, 64]> : f32 {sizes = array<i64: 16>, src_strides = array<i64: 1>, dst_strides = array<i64: 1>}
}

// -----

plan.program @main infer {
  // expected-error@+1 {{has a window, which it does not use (C4)}}
  plan.collective all_gather() [0] <@a[0, 64]> -> <@a[64, 64]> : f32 {sizes = array<i64: 16>, src_strides = array<i64: 1>, dst_strides = array<i64: 1>, window = array<i64: 1, 1, 16, 16>}
}

// -----

plan.program @main infer {
  // expected-error@+1 {{copies 64 bytes into 32 (C1)}}
  plan.copy <@a[0, 64]> -> <@a[64, 32]>
}

// -----

plan.program @main infer {
  // expected-error@+1 {{names parameter @w, which the module does not have (C1)}}
  plan.load_parameter @w <[4]> -> <@a[0, 16]>
}

// -----

plan.parameter @w "w" : tensor<4xf32> {file = "", offset = 0 : i64, bytes = 16 : i64}
plan.program @load load {
  // expected-error@+1 {{which is not one of}}
  plan.load_parameter @w <[8]> -> <@a[0, 16]>
}

// -----

plan.parameter @w "w" : tensor<4xf32> {file = "", offset = 0 : i64, bytes = 16 : i64}
plan.program @load load {
  // expected-error@+1 {{from [3] on, which is no part of 'tensor<4xf32>' (C2)}}
  plan.load_parameter @w <[2]> -> <@a[0, 8]> {starts = array<i64: 3>}
}

// -----

plan.parameter @w "w" : tensor<4xf32> {file = "", offset = 0 : i64, bytes = 16 : i64}
plan.program @load load {
  // expected-error@+1 {{which is no part of}}
  plan.load_parameter @w <[2]> -> <@a[0, 8]> {starts = array<i64: 0, 0>}
}

// -----

module {
  plan.program @main infer {
    // expected-error@+1 {{runs its body 0 times (C1)}}
    plan.repeat 0 {
    ^bb0(%turn: index):
    }
  }
}

// -----

module {
  plan.program @main infer {
    // expected-error@+1 {{has a body with 0 arguments, expected one index (C2)}}
    "plan.repeat"() <{count = 2 : i64}> ({
    ^bb0:
    }) : () -> ()
  }
}

// -----

module {
  // expected-error@+1 {{takes 1 arguments, expected at most 64, of type index (C1)}}
  "plan.function"() <{sym_name = "f"}> ({
  ^bb0(%layer: i64):
  }) : () -> ()
}

// -----

module {
  plan.function @g {
  ^bb0:
  }
  // expected-error@+1 {{calls a function (C2)}}
  plan.function @f {
  ^bb0:
    plan.call @g()
  }
}

// -----

module {
  plan.program @main infer {
    // expected-error@+1 {{names function @f, which the module does not have (C1)}}
    plan.call @f()
  }
}

// -----

module {
  plan.function @f {
  ^bb0(%layer: index):
  }
  plan.program @main infer {
    // expected-error@+1 {{gives 0 arguments to @f, which takes 1 (C1)}}
    plan.call @f()
  }
}
