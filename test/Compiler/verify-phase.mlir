// What has no place after a phase is listed, all of it, each where it stands.
// RUN: colossal-opt %s -split-input-file -verify-diagnostics -colossal-verify-phase=phase=search -o /dev/null
// RUN: not colossal-opt %s -colossal-verify-phase=phase=nonsense 2>&1 | FileCheck %s --check-prefix=NAME
// NAME: colossal-verify-phase: 'nonsense' is not one of import, precision, differentiate, outline, step, search, partition, schedule

// expected-error@+1 {{has no mesh (after phase 'search')}}
module {
  // expected-error@+1 {{is private: bodies of blocks should have been put back (after phase 'search')}}
  func.func private @block(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error@+1 {{is a call: bodies of blocks should have been put back (after phase 'search')}}
    %0 = call @block(%x) : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error@+1 {{is no op of the colossal dialect (after phase 'search')}}
    %1 = dist.coordinate 0
    return %0 : tensor<4xf32>
  }
}
