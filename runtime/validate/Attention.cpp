// Attention's sizes and strides, so that the library is only asked for what can be.
#include "runtime/validate/Checker.h"

#include "colossal/Plan/DataType.h"

#include <cmath>
#include <iterator>

namespace colossal::runtime {

namespace {

using Strides = google::protobuf::RepeatedField<uint64_t>;

bool isAdded(plan::DataType type) {
  return type == plan::F32 || type == plan::F16 || type == plan::BF16;
}

/// Bytes from the first to the last element of a tensor of four dimensions.
Status spanBytes(const char *name, const uint64_t (&sizes)[4], const Strides &strides, uint64_t elementBytes,
                 uint64_t &bytes) {
  if (strides.size() != 4)
    return invalid("attention: " + std::string(name) + " has " + std::to_string(strides.size()) + " strides");
  unsigned __int128 last = 0;
  for (int d = 0; d < 4; ++d) {
    if (strides[d] > maxExtent)
      return invalid("attention: a stride of " + std::string(name) + " is out of range");
    last += static_cast<unsigned __int128>(sizes[d] - 1) * strides[d];
  }
  if (last > maxExtent)
    return invalid("attention: " + std::string(name) + " is out of range");
  bytes = (static_cast<uint64_t>(last) + 1) * elementBytes;
  return {};
}

} // namespace

Status checkAttention(const plan::Attention &a, AttentionBytes &bytes) {
  if (a.type() != plan::F16 && a.type() != plan::BF16)
    return {Code::Unsupported, "attention: this runtime does not know its type"};
  for (uint64_t extent :
       {a.batch(), a.query_heads(), a.key_heads(), a.queries(), a.keys(), a.width(), a.value_width()})
    if (extent == 0 || extent >= uint64_t(1) << 31)
      return invalid("attention: an extent is 0 or out of range");
  if (a.query_heads() % a.key_heads() != 0)
    return invalid("attention: its query heads are no multiple of its key heads");
  if (!std::isfinite(a.scale()))
    return invalid("attention: its scale is not finite");
  if (a.causal_offset() >= uint64_t(1) << 31 || (a.causal_offset() != 0 && !a.causal()))
    return invalid("attention: its causal offset is out of range, or it is not causal");
  const uint64_t size = plan::elementBytes(a.type());
  const uint64_t query[] = {a.batch(), a.query_heads(), a.queries(), a.width()},
                 key[] = {a.batch(), a.key_heads(), a.keys(), a.width()},
                 value[] = {a.batch(), a.key_heads(), a.keys(), a.value_width()},
                 output[] = {a.batch(), a.query_heads(), a.queries(), a.value_width()},
                 scores[] = {a.batch(), a.query_heads(), a.queries(), a.keys()};
  COLOSSAL_RETURN_IF_ERROR(spanBytes("its query", query, a.query_strides(), size, bytes.query));
  COLOSSAL_RETURN_IF_ERROR(spanBytes("its key", key, a.key_strides(), size, bytes.key));
  COLOSSAL_RETURN_IF_ERROR(spanBytes("its value", value, a.value_strides(), size, bytes.value));
  COLOSSAL_RETURN_IF_ERROR(spanBytes("its output", output, a.output_strides(), size, bytes.output));
  for (const Strides *strides :
       {&a.query_strides(), &a.key_strides(), &a.value_strides(), &a.output_strides()})
    for (int d = 0; d < 4; ++d)
      if ((*strides)[d] == 0 || (d == 3 && (*strides)[d] != 1))
        return invalid("attention: a stride is 0, or an element does not follow the one before it");
  if (!isInjective({std::begin(output), std::end(output)}, a.output_strides()))
    return invalid("attention: elements of the output share their place");
  bytes.mask = 0;
  if (!a.mask())
    return a.mask_strides_size() == 0 ? Status() : invalid("attention: it has strides of no mask");
  if (!isAdded(a.mask_type()))
    return {Code::Unsupported, "attention: this runtime does not know its mask's type"};
  return spanBytes("its mask", scores, a.mask_strides(), plan::elementBytes(a.mask_type()), bytes.mask);
}

} // namespace colossal::runtime
