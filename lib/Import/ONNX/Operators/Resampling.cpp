//===- Resampling.cpp - ONNX operators: resampling ---===//
//
// No rows yet: these operators are reported as not supported.
//
//===----------------------------------------------------------------------===//
#include "../Operator.h"

namespace colossal::onnx_import {

void addResamplingOperators(OperatorTable &) {}

} // namespace colossal::onnx_import
