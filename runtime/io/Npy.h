// NumPy's .npy format (versions 1 to 3) and its .npz archives, read as an attacker's and written atomically.
#ifndef COLOSSAL_RUNTIME_IO_NPY_H
#define COLOSSAL_RUNTIME_IO_NPY_H

#include "runtime/io/Tensor.h"

#include <string_view>

namespace colossal::runtime {

/// What an .npy file says before its elements.
struct NpyHeader {
  plan::DataType type = plan::F32;
  std::vector<uint64_t> shape;
  bool swapped = false; ///< the elements are big-endian
  bool fortran = false; ///< the first index varies fastest
  uint64_t width = 0;   ///< of strings: code points of each
  uint64_t elements = 0;
  uint64_t begin = 0; ///< of the elements, in the file
};
/// Reads it from the bytes of the whole file, of which only the header is touched. Sizes are checked against
/// the bytes there are.
Status parseNpyHeader(std::string_view bytes, NpyHeader &header);

/// Parses the bytes of an .npy file: numbers and booleans of either byte order, C or Fortran order. `|V2` and
/// `<V2` are taken as bf16. Sizes are checked against the bytes there are.
Status parseNpy(const std::string &bytes, Tensor &tensor);
/// The bytes of an .npy file, version 1. bf16 is written as `<V2`.
std::string formatNpy(const Tensor &tensor);

Status readNpy(const std::string &path, Tensor &tensor);
/// Reads all arrays of an .npz file (entries stored or deflated).
Status readNpz(const std::string &path, Tensors &tensors);
/// Writes an .npz file that appears under its name complete or not at all.
Status writeNpz(const std::string &path, const Tensors &tensors);

/// The whole file; refuses more than `limit` bytes.
Status readFile(const std::string &path, uint64_t limit, std::string &bytes);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_IO_NPY_H
