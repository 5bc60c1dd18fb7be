// Sizes and names of the plan's data types, and conversions of the types that C++17 lacks.
#ifndef COLOSSAL_PLAN_DATATYPE_H
#define COLOSSAL_PLAN_DATATYPE_H

#include "colossal/Plan/Plan.pb.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace colossal::plan {

/// Bytes of one element; 0 for a value that is no data type.
uint64_t elementBytes(DataType type);
/// "f32", "bf16", "bool", ...; "?" for a value that is no data type.
const char *dataTypeName(DataType type);
bool isFloat(DataType type);
/// A type that is moved and converted only; its elements are bytes.
bool isNarrow(DataType type);

/// Bits of one element in a weight file or a TensorProto's raw data: fewer than a byte where ONNX packs them;
/// 0 for strings, which are not stored so.
unsigned storedBits(DataType type);
/// Bytes of so many elements there.
uint64_t storedBytes(DataType type, uint64_t elements);
/// Element `index` of packed data of a type of less than eight stored bits, as a byte.
std::byte unpackElement(const std::byte *packed, uint64_t index, DataType type);

} // namespace colossal::plan

#endif // COLOSSAL_PLAN_DATATYPE_H
