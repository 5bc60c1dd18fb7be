// ONNX TensorProto files (.pb).
#ifndef COLOSSAL_RUNTIME_IO_TENSORPROTO_H
#define COLOSSAL_RUNTIME_IO_TENSORPROTO_H

#include "runtime/io/Tensor.h"

namespace colossal::runtime {

/// Parses a serialized TensorProto of any type but complex numbers. External data is refused.
Status parseTensorProto(const std::string &bytes, Tensor &tensor);
Status readTensorProto(const std::string &path, Tensor &tensor);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_IO_TENSORPROTO_H
