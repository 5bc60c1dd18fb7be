// A contraction's sizes and strides against one another, so that the library is only asked for what can be.
#include "runtime/validate/Checker.h"

#include "colossal/Plan/DataType.h"

#include <array>

namespace colossal::runtime {

namespace {

using Strides = google::protobuf::RepeatedField<uint64_t>;

/// Bytes from the first to the last element of the matrices; false if out of range.
bool spanBytes(const std::array<uint64_t, 3> &sizes, const Strides &strides, uint64_t elementBytes,
               uint64_t &bytes) {
  unsigned __int128 last = 0;
  for (int d = 0; d < 3; ++d) {
    if (strides[d] > maxExtent)
      return false;
    last += static_cast<unsigned __int128>(sizes[static_cast<size_t>(d)] - 1) * strides[d];
  }
  if (last > maxExtent)
    return false;
  bytes = (static_cast<uint64_t>(last) + 1) * elementBytes;
  return true;
}

} // namespace

Status checkContraction(const plan::Contraction &c, ContractionBytes &bytes) {
  const bool singles = (c.type() == plan::F32 || c.type() == plan::F16 || c.type() == plan::BF16) &&
                       (c.result_type() == c.type() || c.result_type() == plan::F32) && c.compute() == "f32";
  const bool rounded = c.type() == plan::F32 && c.result_type() == plan::F32 && c.compute() == "tf32";
  const bool doubles = c.type() == plan::F64 && c.result_type() == plan::F64 && c.compute() == "f64";
  if (!singles && !rounded && !doubles)
    return {Code::Unsupported,
            "contraction: this runtime does not know its types, computed in '" + c.compute() + "'"};
  const uint64_t limit = (uint64_t(1) << 31) - 1; // what libraries count with
  for (uint64_t size : {c.batch(), c.m(), c.n(), c.k()})
    if (size == 0 || size > limit)
      return invalid("contraction: an extent is 0 or out of range");
  const std::array<uint64_t, 3> a{c.batch(), c.m(), c.k()}, b{c.batch(), c.k(), c.n()},
      result{c.batch(), c.m(), c.n()};
  for (const auto &[sizes, strides] :
       {std::pair(&a, &c.a_strides()), std::pair(&b, &c.b_strides()), std::pair(&result, &c.c_strides())}) {
    if (strides->size() != 3)
      return invalid("contraction: a matrix has " + std::to_string(strides->size()) + " strides, and not 3");
    const uint64_t row = (*strides)[1], column = (*strides)[2];
    if (!(row == 1 && column >= (*sizes)[1]) && !(column == 1 && row >= (*sizes)[2]))
      return invalid("contraction: neither rows nor columns of a matrix lie without gaps");
  }
  const uint64_t size = plan::elementBytes(c.type()), resultSize = plan::elementBytes(c.result_type());
  if (!spanBytes(a, c.a_strides(), size, bytes.a) || !spanBytes(b, c.b_strides(), size, bytes.b) ||
      !spanBytes(result, c.c_strides(), resultSize, bytes.c))
    return invalid("contraction: a stride is out of range");
  if (!isInjective({result.begin(), result.end()}, c.c_strides()))
    return invalid("contraction: elements of the result share their place");
  bytes.bias = c.n() * resultSize;
  if (c.bias() && c.c_strides(2) != 1)
    return invalid("contraction: the result lies column by column, along which no bias is added");
  if (c.activation() != "" && c.activation() != "relu" && c.activation() != "gelu_tanh")
    return {Code::Unsupported, "contraction: unknown activation '" + c.activation() + "'"};
  if (doubles && (c.bias() || c.activation() != ""))
    return {Code::Unsupported, "contraction: nothing follows one of f64"};
  return {};
}

} // namespace colossal::runtime
