//===- Window.h - kernels, strides and pads of ONNX operators ---------------===//
//
// What convolutions and pools share: the attributes of a window over spatial dimensions, with auto_pad
// resolved.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_IMPORT_ONNX_OPERATORS_WINDOW_H
#define COLOSSAL_LIB_IMPORT_ONNX_OPERATORS_WINDOW_H

#include "../Operator.h"

namespace colossal::onnx_import {

struct Window {
  llvm::SmallVector<int64_t> kernel, strides, dilations;
  llvm::SmallVector<int64_t> pads;   ///< low pads, then high ones
  llvm::SmallVector<int64_t> result; ///< spatial shape of the result

  int64_t extent(size_t d) const { return dilations[d] * (kernel[d] - 1) + 1; }

  /// Reads strides, dilations and pads (auto_pad included) for `kernel` over the spatial dimensions of input
  /// 0. Fails where they do not fit. `ceilMode` rounds the result's sizes up.
  static mlir::FailureOr<Window> read(Node &n, llvm::ArrayRef<int64_t> kernel, bool ceilMode);
  /// Reads strides and dilations only.
  static mlir::FailureOr<Window> readSteps(Node &n, llvm::ArrayRef<int64_t> kernel);
};

/// Sets output 0 to the convolution of `input` and `weight` (and `bias`, or null) as the node's attributes
/// say.
mlir::LogicalResult setConv(Node &n, mlir::Value input, mlir::Value weight, mlir::Value bias);

} // namespace colossal::onnx_import

#endif // COLOSSAL_LIB_IMPORT_ONNX_OPERATORS_WINDOW_H
