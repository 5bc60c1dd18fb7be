//===- Quantization.cpp - ONNX operators: quantization ---===//
//
// No rows yet: these operators are reported as not supported.
//
//===----------------------------------------------------------------------===//
#include "../Operator.h"

namespace colossal::onnx_import {

void addQuantizationOperators(OperatorTable &) {}

} // namespace colossal::onnx_import
