// An ONNX file with other values in its tensors: everything else goes over byte by byte, whatever version of
// the format it is. What lies outside the file (external data) stays outside, in one file beside the new
// model.
#ifndef COLOSSAL_RUNTIME_IO_ONNXREWRITE_H
#define COLOSSAL_RUNTIME_IO_ONNXREWRITE_H

#include "runtime/io/Tensor.h"

#include <functional>
#include <map>

namespace colossal::runtime {

/// A tensor's new value.
struct NewTensor {
  plan::DataType type = plan::F32;
  std::vector<uint64_t> shape;
  /// Puts elements [first, first + count) at `elements`.
  std::function<Status(uint64_t first, uint64_t count, std::byte *elements)> read;
  /// Not empty: several nodes of the main graph read the initializer of this name, and each has a value of
  /// its own; this one is an initializer beside it, and takes its place for `node` (its name, or
  /// "KIND:OUTPUT"; with ":K" behind it for the K-th place, from 0, in which a Concat reads it), or for the
  /// one that reads it of the nodes that are computed as one with `node`. Also where nodes that only move it
  /// stand between.
  std::string beside;
  std::string node;
  bool isStatistic = false; ///< then a BatchNormalization reads it as mean or variance, and else it does not
};

/// Writes `to` (and, where `from` has external data, `to`.data), with the tensors of `values` in place of the
/// initializers, or values of Constant nodes, of their names. Their shapes must be those that they take the
/// place of; floats become the type that is there. NotFound where a name is not in the model; names the first
/// few. Unsupported where it is not plain which node reads which value of an initializer.
Status rewriteOnnx(const std::string &from, const std::string &to,
                   const std::map<std::string, NewTensor> &values);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_IO_ONNXREWRITE_H
