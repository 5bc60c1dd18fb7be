// A counter-based generator: two rounds of a 64-bit mixer over key and index. The normal deviate is the sum
// of four 16-bit uniforms (Irwin-Hall), exact integer arithmetic, so that no library's rounding enters.
#include "runtime/execute/RandomValues.h"

#include "runtime/comm/Reduce.h"

#include <cmath>
#include <cstring>

namespace colossal::runtime {

namespace {

uint64_t mix(uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  x ^= x >> 32;
  return x;
}

uint64_t keyOf(uint64_t seed, const std::string &name) {
  uint64_t key = mix(seed + 0x9e3779b97f4a7c15u);
  for (unsigned char c : name)
    key = mix(key ^ (c + 0x100u));
  return key;
}

/// Mean 0, variance 1, within 3.5.
float normal(uint64_t hash) {
  auto sum =
      static_cast<int32_t>((hash & 0xffff) + (hash >> 16 & 0xffff) + (hash >> 32 & 0xffff) + (hash >> 48));
  // The sum of four uniforms on 0..65535 has mean 131070 and variance 4 * (65536^2 - 1) / 12.
  return static_cast<float>(sum - 131070) * (1.0f / 37837.227f);
}

template <class T>
void store(std::byte *out, uint64_t element, T value) {
  std::memcpy(out + element * sizeof(T), &value, sizeof(T));
}

} // namespace

RandomValues RandomValues::weights(uint64_t seed, const std::string &name, plan::DataType type,
                                   const std::vector<uint64_t> &shape) {
  RandomValues values;
  values.key = keyOf(seed, name);
  values.type = type;
  values.mean = shape.size() <= 1 ? 1.0f : 0.0f;
  values.deviation = 0.02f;
  if (shape.size() > 2) {
    double fanIn = 1;
    for (size_t d = 1; d < shape.size(); ++d)
      fanIn *= static_cast<double>(shape[d]);
    values.deviation = static_cast<float>(1 / std::sqrt(fanIn > 0 ? fanIn : 1));
  }
  return values;
}

RandomValues RandomValues::inputs(uint64_t seed, const std::string &name, plan::DataType type) {
  RandomValues values;
  values.key = keyOf(seed ^ 0x5851f42d4c957f2du, name);
  values.type = type;
  values.bits = true;
  return values;
}

void RandomValues::fill(uint64_t begin, uint64_t count, std::byte *out) const {
  for (uint64_t e = 0; e < count; ++e) {
    uint64_t hash = mix(key ^ mix(begin + e));
    float real = mean + deviation * normal(hash);
    uint64_t integer = bits ? hash & 1 : 0;
    switch (type) {
    case plan::F32: store(out, e, real); break;
    case plan::F64: store(out, e, static_cast<double>(real)); break;
    case plan::F16: store(out, e, floatToHalf(real)); break;
    case plan::BF16: store(out, e, floatToBfloat(real)); break;
    case plan::I16:
    case plan::U16: store(out, e, static_cast<uint16_t>(integer)); break;
    case plan::I32:
    case plan::U32: store(out, e, static_cast<uint32_t>(integer)); break;
    case plan::I64:
    case plan::U64: store(out, e, integer); break;
    case plan::STRING: store(out, e, uint64_t(0)); break;
    case plan::F8E4M3FN:
    case plan::F8E4M3FNUZ:
    case plan::F8E5M2:
    case plan::F8E5M2FNUZ:
    case plan::F8E8M0:
    case plan::F4E2M1: store(out, e, floatToNarrow(static_cast<ElementType>(type), real)); break;
    default: store(out, e, static_cast<uint8_t>(integer)); break;
    }
  }
}

} // namespace colossal::runtime
