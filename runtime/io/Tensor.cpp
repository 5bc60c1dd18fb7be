// Descriptions and conversions of whole tensors.
#include "runtime/io/Tensor.h"

#include "runtime/comm/Reduce.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

namespace colossal::runtime {

std::string describeType(plan::DataType type, const std::vector<uint64_t> &shape) {
  std::string text = std::string(plan::dataTypeName(type)) + "[";
  for (size_t d = 0; d < shape.size(); ++d)
    text += (d ? "," : "") + std::to_string(shape[d]);
  return text + "]";
}

uint64_t digestText(const std::string &text) {
  return text.empty() ? 0 : XXH3_64bits(text.data(), text.size());
}

void setTexts(Tensor &tensor, std::vector<std::string> texts) {
  tensor.texts = std::move(texts);
  tensor.bytes.resize(tensor.texts.size() * sizeof(uint64_t));
  for (size_t e = 0; e < tensor.texts.size(); ++e) {
    uint64_t digest = digestText(tensor.texts[e]);
    std::memcpy(tensor.bytes.data() + e * sizeof digest, &digest, sizeof digest);
  }
}

bool tensorElements(plan::DataType type, const std::vector<uint64_t> &shape, uint64_t &elements) {
  const uint64_t limit = uint64_t(1) << 46;
  elements = 1;
  for (uint64_t extent : shape) {
    if (__builtin_mul_overflow(elements, extent, &elements) || elements > limit)
      return false;
  }
  return elements * plan::elementBytes(type) <= limit;
}

bool elementsFit(const Tensor &tensor) {
  const unsigned bits = plan::storedBits(tensor.type);
  if (!plan::isNarrow(tensor.type) || bits == 8)
    return true;
  const bool isSigned = tensor.type == plan::I4 || tensor.type == plan::I2;
  const int least = isSigned ? -(1 << (bits - 1)) : 0, greatest = least + (1 << bits) - 1;
  for (std::byte element : tensor.bytes) {
    const int value = isSigned ? static_cast<int8_t>(element) : static_cast<uint8_t>(element);
    if (value < least || value > greatest)
      return false;
  }
  return true;
}

namespace {
template <class T>
void widen(const Tensor &tensor, std::vector<double> &values) {
  for (size_t e = 0; e < values.size(); ++e) {
    T value;
    std::memcpy(&value, tensor.bytes.data() + e * sizeof(T), sizeof(T));
    values[e] = static_cast<double>(value);
  }
}
} // namespace

std::vector<double> toDoubles(const Tensor &tensor) {
  std::vector<double> values(tensor.bytes.size() / plan::elementBytes(tensor.type));
  switch (tensor.type) {
  case plan::F32: widen<float>(tensor, values); break;
  case plan::F64: widen<double>(tensor, values); break;
  case plan::F16:
  case plan::BF16:
    widen<uint16_t>(tensor, values);
    for (double &value : values)
      value = tensor.type == plan::F16 ? halfToFloat(static_cast<uint16_t>(value))
                                       : bfloatToFloat(static_cast<uint16_t>(value));
    break;
  case plan::I8: widen<int8_t>(tensor, values); break;
  case plan::I16: widen<int16_t>(tensor, values); break;
  case plan::I32: widen<int32_t>(tensor, values); break;
  case plan::I64: widen<int64_t>(tensor, values); break;
  case plan::U16: widen<uint16_t>(tensor, values); break;
  case plan::U32: widen<uint32_t>(tensor, values); break;
  case plan::U64:
  case plan::STRING: widen<uint64_t>(tensor, values); break;
  case plan::I4:
  case plan::I2: widen<int8_t>(tensor, values); break;
  default:
    widen<uint8_t>(tensor, values);
    if (plan::isFloat(tensor.type))
      for (double &value : values)
        value = narrowToFloat(static_cast<ElementType>(tensor.type), static_cast<uint8_t>(value));
    break;
  }
  return values;
}

namespace {
/// To and from the narrow types; false where `convertTo` has no such conversion.
bool convertNarrow(plan::DataType type, Tensor &tensor) {
  const uint64_t elements = tensor.bytes.size() / plan::elementBytes(tensor.type);
  const bool isFloat = plan::isFloat(type);
  const plan::DataType given = tensor.type;
  const plan::DataType bytes = type == plan::I4 || type == plan::I2 ? plan::I8 : plan::U8;
  if (plan::isNarrow(type) && given == bytes) {
    tensor.type = type;
    if (elementsFit(tensor))
      return true;
    tensor.type = given;
    return false;
  }
  if (plan::isNarrow(type) && isFloat && tensor.type == plan::F32) {
    std::vector<std::byte> narrow(elements);
    for (uint64_t e = 0; e < elements; ++e) {
      float value;
      std::memcpy(&value, tensor.bytes.data() + e * 4, 4);
      narrow[e] = std::byte{floatToNarrow(static_cast<ElementType>(type), value)};
    }
    tensor.bytes = std::move(narrow);
  } else if (plan::isNarrow(tensor.type) && plan::isFloat(tensor.type) && type == plan::F32) {
    std::vector<std::byte> wide(elements * 4);
    for (uint64_t e = 0; e < elements; ++e) {
      float value =
          narrowToFloat(static_cast<ElementType>(tensor.type), static_cast<uint8_t>(tensor.bytes[e]));
      std::memcpy(wide.data() + e * 4, &value, 4);
    }
    tensor.bytes = std::move(wide);
  } else {
    return false;
  }
  tensor.type = type;
  return true;
}
} // namespace

Status convertTo(plan::DataType type, Tensor &tensor) {
  if (tensor.type == type)
    return {};
  if (convertNarrow(type, tensor))
    return {};
  if (type == plan::BF16 && tensor.type == plan::U16) {
    tensor.type = type;
    return {};
  }
  if (type == plan::BOOL && tensor.type == plan::U8) {
    for (std::byte &value : tensor.bytes)
      value = std::byte(value != std::byte{0});
    tensor.type = type;
    return {};
  }
  const uint64_t elements = tensor.bytes.size() / plan::elementBytes(tensor.type);
  if (type == plan::BF16 && tensor.type == plan::F32) {
    std::vector<std::byte> narrow(elements * 2);
    for (uint64_t e = 0; e < elements; ++e) {
      float value;
      std::memcpy(&value, tensor.bytes.data() + e * 4, 4);
      uint16_t bits = floatToBfloat(value);
      std::memcpy(narrow.data() + e * 2, &bits, 2);
    }
    tensor.bytes = std::move(narrow);
    tensor.type = type;
    return {};
  }
  if (type == plan::F32 && tensor.type == plan::BF16) {
    std::vector<std::byte> wide(elements * 4);
    for (uint64_t e = 0; e < elements; ++e) {
      uint16_t bits;
      std::memcpy(&bits, tensor.bytes.data() + e * 2, 2);
      float value = bfloatToFloat(bits);
      std::memcpy(wide.data() + e * 4, &value, 4);
    }
    tensor.bytes = std::move(wide);
    tensor.type = type;
    return {};
  }
  return {Code::InvalidArgument, std::string("it has type ") + plan::dataTypeName(tensor.type) + ", and " +
                                     plan::dataTypeName(type) + " is needed"};
}

} // namespace colossal::runtime
