// Sizes and names of the plan's data types: one table.
#include "colossal/Plan/DataType.h"

namespace colossal::plan {

namespace {
struct Row {
  uint64_t bytes;
  const char *name;
  bool real;
};
constexpr Row rows[] = {{0, "?", false},   {4, "f32", true},  {8, "f64", true},  {2, "f16", true},
                        {2, "bf16", true}, {1, "i8", false},  {2, "i16", false}, {4, "i32", false},
                        {8, "i64", false}, {1, "u8", false},  {2, "u16", false}, {4, "u32", false},
                        {8, "u64", false}, {1, "bool", false}};

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
bool isFloat(DataType type) {
  return row(type).real;
}

} // namespace colossal::plan
