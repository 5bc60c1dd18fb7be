// RUN: colossal-opt %s -verify-diagnostics -colossal-verify-phase=phase=schedule -o /dev/null

// expected-error@+1 {{has 0 load programs, expected one (after phase 'schedule')}}
module attributes {dist.mesh = #dist.mesh<["x" = 2]>} {
  plan.arena @a device activations 128
  plan.function @inside {
  ^bb0(%place: index):
    plan.copy <@a[0, 32] by [32]> -> <@a[32, 32] by [32]>
  }
  // expected-error@+1 {{holds an instruction that has 32 bytes at 0 of arena @a, which has 128, in some turn or call}}
  plan.function @outside {
  ^bb0(%place: index):
    plan.copy <@a[0, 32] by [-32]> -> <@a[64, 32]>
  }
  // expected-error@+1 {{is no instruction (after phase 'schedule')}}
  func.func private @left()
  plan.program @main infer {
    %zero = arith.constant 0 : index
    %two = arith.constant 2 : index
    plan.call @inside(%zero)
    plan.call @inside(%two)
    plan.call @outside(%zero)
    plan.call @outside(%two)
    plan.copy <@a[0, 64]> -> <@a[64, 64]>
    // expected-error@+1 {{has 64 bytes at 96 of arena @a, which has 128 (after phase 'schedule')}}
    plan.copy <@a[0, 64]> -> <@a[96, 64]>
    // expected-error@+1 {{names arena @b, which the module does not have (after phase 'schedule')}}
    plan.copy <@b[0, 64]> -> <@a[64, 64]>
    // expected-error@+1 {{has a buffer with 1 strides, and sees 0 arguments and counters (after phase 'schedule')}}
    plan.copy <@a[0, 64] by [64]> -> <@a[64, 64]>
    plan.repeat 2 {
    ^bb0(%turn: index):
      plan.copy <@a[0, 64] by [64]> -> <@a[64, 64] by [-64]>
      // expected-error@+1 {{has 64 bytes at 64 of arena @a, which has 128, in some turn or call (after phase 'schedule')}}
      plan.copy <@a[0, 64] by [64]> -> <@a[64, 64] by [64]>
      // expected-error@+1 {{has 32 bytes at 0 of arena @a, which has 128, in some turn or call (after phase 'schedule')}}
      plan.copy <@a[0, 32] by [-32]> -> <@a[64, 32]>
    }
  }
}
