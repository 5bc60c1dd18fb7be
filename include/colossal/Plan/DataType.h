// Sizes and names of the plan's data types, and conversions of the types that C++17 lacks.
#ifndef COLOSSAL_PLAN_DATATYPE_H
#define COLOSSAL_PLAN_DATATYPE_H

#include "colossal/Plan/Plan.pb.h"

#include <cstdint>
#include <string>

namespace colossal::plan {

/// Bytes of one element; 0 for a value that is no data type.
uint64_t elementBytes(DataType type);
/// "f32", "bf16", "bool", ...; "?" for a value that is no data type.
const char *dataTypeName(DataType type);
bool isFloat(DataType type);

} // namespace colossal::plan

#endif // COLOSSAL_PLAN_DATATYPE_H
