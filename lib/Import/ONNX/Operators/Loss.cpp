//===- Loss.cpp - ONNX operators: loss ---===//
//
// No rows yet: these operators are reported as not supported.
//
//===----------------------------------------------------------------------===//
#include "../Operator.h"

namespace colossal::onnx_import {

void addLossOperators(OperatorTable &) {}

} // namespace colossal::onnx_import
