// Sizes and names of the plan's data types: one table.
#include "colossal/Plan/DataType.h"

namespace colossal::plan {

namespace {
struct Row {
  uint64_t bytes;
  const char *name;
  bool real;
};
constexpr Row rows[] = {
    {0, "?", false},     {4, "f32", true},        {8, "f64", true},      {2, "f16", true},
    {2, "bf16", true},   {1, "i8", false},        {2, "i16", false},     {4, "i32", false},
    {8, "i64", false},   {1, "u8", false},        {2, "u16", false},     {4, "u32", false},
    {8, "u64", false},   {1, "bool", false},      {1, "f8e4m3fn", true}, {1, "f8e4m3fnuz", true},
    {1, "f8e5m2", true}, {1, "f8e5m2fnuz", true}, {1, "f8e8m0", true},   {1, "f4e2m1", true},
    {1, "i4", false},    {1, "u4", false},        {1, "i2", false},      {1, "u2", false},
    {8, "string", false}};

const Row &row(DataType type) {
  int index = static_cast<int>(type);
  return index >= 0 && index < static_cast<int>(sizeof rows / sizeof *rows) ? rows[index] : rows[0];
}
} // namespace

uint64_t elementBytes(DataType type) {
  return row(type).bytes;
}
const char *dataTypeName(DataType type) {
  return row(type).name;
}
unsigned storedBits(DataType type) {
  switch (type) {
  case F4E2M1:
  case I4:
  case U4: return 4;
  case I2:
  case U2: return 2;
  case STRING: return 0;
  default: return static_cast<unsigned>(8 * elementBytes(type));
  }
}
uint64_t storedBytes(DataType type, uint64_t elements) {
  return (elements * storedBits(type) + 7) / 8;
}
std::byte unpackElement(const std::byte *packed, uint64_t index, DataType type) {
  const unsigned bits = storedBits(type);
  auto value = static_cast<unsigned>(packed[index * bits / 8]) >> (index * bits % 8) & ((1u << bits) - 1);
  if ((type == I4 || type == I2) && (value >> (bits - 1)) != 0)
    value |= 0xffu << bits;
  return static_cast<std::byte>(value);
}
bool isNarrow(DataType type) {
  return type >= F8E4M3FN && type <= U2;
}
bool isFloat(DataType type) {
  return row(type).real;
}

} // namespace colossal::plan
