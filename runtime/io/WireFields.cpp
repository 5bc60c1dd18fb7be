#include "runtime/io/WireFields.h"

namespace colossal::runtime::wire {

namespace {

constexpr unsigned lengthDelimited = 2;

void putVarint(uint64_t value, std::string &to) {
  for (; value >= 0x80; value >>= 7)
    to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

} // namespace

bool readVarint(std::string_view &rest, uint64_t &value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && !rest.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(rest[0]);
    rest.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80)
      return true;
  }
  return false;
}

bool readField(std::string_view &rest, Field &field) {
  const std::string_view begin = rest;
  uint64_t tag = 0, length = 0;
  if (!readVarint(rest, tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX)
    return false;
  field.number = static_cast<uint32_t>(tag >> 3);
  field.type = tag & 7;
  switch (field.type) {
  case 0:
    if (!readVarint(rest, field.varint))
      return false;
    break;
  case 1: length = 8; break;
  case lengthDelimited:
    if (!readVarint(rest, length))
      return false;
    break;
  case 5: length = 4; break;
  default: return false; // groups are not in ONNX
  }
  if (length > rest.size())
    return false;
  field.payload = rest.substr(0, length);
  rest.remove_prefix(length);
  field.raw = begin.substr(0, begin.size() - rest.size());
  return true;
}

void putField(uint32_t number, std::string_view payload, std::string &to) {
  putVarint(uint64_t(number) << 3 | lengthDelimited, to);
  putVarint(payload.size(), to);
  to += payload;
}

void putNumber(uint32_t number, uint64_t value, std::string &to) {
  putVarint(uint64_t(number) << 3, to);
  putVarint(value, to);
}

} // namespace colossal::runtime::wire
