// A whole tensor in host memory: dense, row-major, little-endian.
#ifndef COLOSSAL_RUNTIME_IO_TENSOR_H
#define COLOSSAL_RUNTIME_IO_TENSOR_H

#include "colossal/Plan/DataType.h"
#include "colossal/Plan/Status.h"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace colossal::runtime {

using plan::Code;
using plan::Status;

struct Tensor {
  plan::DataType type = plan::F32;
  std::vector<uint64_t> shape;
  std::vector<std::byte> bytes;   ///< as Plan.proto's DataType says; of strings their digests
  std::vector<std::string> texts; ///< of strings, in the same order
};
using Tensors = std::map<std::string, Tensor>;

/// "f32[2,3]"
std::string describeType(plan::DataType type, const std::vector<uint64_t> &shape);
inline std::string describeType(const Tensor &tensor) {
  return describeType(tensor.type, tensor.shape);
}

/// The digest by which a plan knows a string: XXH3-64, 0 for the empty one.
uint64_t digestText(const std::string &text);
/// Gives a tensor of strings its texts, and their digests as its elements.
void setTexts(Tensor &tensor, std::vector<std::string> texts);

/// Elements of a shape; false if the tensor would exceed 2^46 bytes.
bool tensorElements(plan::DataType type, const std::vector<uint64_t> &shape, uint64_t &elements);

/// Whether elements of a type of less than a byte are within its range, as kernels take for granted.
bool elementsFit(const Tensor &tensor);

/// The elements as doubles (64-bit integers lose their last bits).
std::vector<double> toDoubles(const Tensor &tensor);

/// Brings a tensor to `type` where no value changes or the file format lacks the type: u8 as bool, u16 bits
/// or f32 as bf16, u8 bits or f32 as a narrow float and back to f32, i8 and u8 as integers of four and two
/// bits if they fit. Other differences are errors.
Status convertTo(plan::DataType type, Tensor &tensor);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_IO_TENSOR_H
