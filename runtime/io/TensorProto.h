// ONNX TensorProto files (.pb), read field by field from the wire format: the runtime knows no ONNX schema.
#ifndef COLOSSAL_RUNTIME_IO_TENSORPROTO_H
#define COLOSSAL_RUNTIME_IO_TENSORPROTO_H

#include "runtime/io/Tensor.h"

namespace colossal::runtime {

/// Parses a serialized TensorProto. Strings, complex numbers and external data are refused.
Status parseTensorProto(const std::string &bytes, Tensor &tensor);
Status readTensorProto(const std::string &path, Tensor &tensor);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_IO_TENSORPROTO_H
