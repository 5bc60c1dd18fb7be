// Pins fix layouts, and printed as pins a layout gives itself again.
//
// RUN: colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={fc=m:x} pin={w2=[x,-]} explain=true})' -o /dev/null 2>&1 | FileCheck %s
// RUN: colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={fc=k:x} as-pins=true})' -o %t.first 2> %t.pins
// RUN: %python -c "import sys; print('builtin.module(colossal-search-layouts{' + ' '.join('pin={%%s}' %% line for line in open(sys.argv[1]).read().split('\n') if line) + '})', end='')" %t.pins > %t.pipeline
// RUN: %python -c "import subprocess, sys; subprocess.run(['colossal-opt', sys.argv[1], '--pass-pipeline=' + open(sys.argv[2]).read(), '-o', sys.argv[3]], check=True)" %s %t.pipeline %t.second
// RUN: diff %t.first %t.second
// RUN: not colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={nothing=m:x}})' 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={fc=n:z}})' 2>&1 | FileCheck %s --check-prefix=AXIS
// RUN: not colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={fc=n:x+x}})' 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{pin={fc}})' 2>&1 | FileCheck %s --check-prefix=FORM
// RUN: not colossal-opt %s --pass-pipeline='builtin.module(colossal-search-layouts{memory=4096})' 2>&1 | FileCheck %s --check-prefix=FIT

// RUN: %python -c "print('builtin.module(colossal-search-layouts{pin={' + '(' * 2000 + 'fc' + ')' * 2000 + '=m:x}})', end='')" > %t.deep
// RUN: %python -c "import subprocess, sys; sys.exit(subprocess.run(['colossal-opt', sys.argv[1], '--pass-pipeline=' + open(sys.argv[2]).read()]).returncode != 1)" %s %t.deep 2>&1 | FileCheck %s --check-prefix=LONG

// LONG: pin '((((((((((((((((((((((((((((((((((((((((...': its expression has 4002 characters, and at most 1000 are possible where it is not one name
// CHECK: contract 'fc': m:x
// CHECK: parameter 'w2': [64:x,32]
// NOTHING: pin 'nothing=m:x' matches no op or tensor that can be laid out so
// AXIS: pin 'fc=n:z': 'z' is no axis of the mesh (x)
// TWICE: pin 'fc=n:x+x': axis 'x' stands twice
// FORM: pin 'fc' is not of the form REGEX=LAYOUT
// FIT: the model does not fit: 4.0 KiB per device are given
// FIT: weights {{.*}}; largest parameters: 'w1'
module attributes {dist.mesh = #dist.mesh<["x" = 2]>} {
  func.func @main(%x: tensor<8x32xf32> {colossal.name = "x"}) -> (tensor<8x32xf32> {colossal.name = "y"}) {
    %w1 = colossal.parameter "w1" {file = "", offset = 0 : i64, bytes = 8192 : i64} : tensor<32x64xf32>
    %w2 = colossal.parameter "w2" {file = "", offset = 8192 : i64, bytes = 8192 : i64} : tensor<64x32xf32>
    %h = colossal.contract %x [0, 1], %w1 [1, 2] -> [0, 2] : (tensor<8x32xf32>, tensor<32x64xf32>) -> tensor<8x64xf32> loc("fc")
    %g = colossal.elementwise relu(%h) : (tensor<8x64xf32>) -> tensor<8x64xf32> loc("act")
    %y = colossal.contract %g [0, 1], %w2 [1, 2] -> [0, 2] : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32> loc("proj")
    return %y : tensor<8x32xf32>
  }
}
