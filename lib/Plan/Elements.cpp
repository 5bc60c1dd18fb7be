//===- Elements.cpp - element types and constants as bytes ------------------===//
#include "Elements.h"

#include "dialects/Colossal/NarrowTypes.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/APFloat.h"

using namespace mlir;

namespace colossal::plan {

std::optional<DataType> getDataType(Type element) {
  if (element.isF32())
    return F32;
  if (element.isF64())
    return F64;
  if (element.isF16())
    return F16;
  if (element.isBF16())
    return BF16;
  if (isa<Float8E4M3FNType>(element))
    return F8E4M3FN;
  if (isa<Float8E4M3FNUZType>(element))
    return F8E4M3FNUZ;
  if (isa<Float8E5M2Type>(element))
    return F8E5M2;
  if (isa<Float8E5M2FNUZType>(element))
    return F8E5M2FNUZ;
  if (isa<Float8E8M0FNUType>(element))
    return F8E8M0;
  if (isa<Float4E2M1FNType>(element))
    return F4E2M1;
  if (isString(element))
    return STRING;
  auto integer = dyn_cast<IntegerType>(element);
  if (!integer)
    return std::nullopt;
  bool isUnsigned = integer.isUnsigned();
  switch (integer.getWidth()) {
  case 1: return BOOL;
  case 2: return isUnsigned ? U2 : I2;
  case 4: return isUnsigned ? U4 : I4;
  case 8: return isUnsigned ? U8 : I8;
  case 16: return isUnsigned ? U16 : I16;
  case 32: return isUnsigned ? U32 : I32;
  case 64: return isUnsigned ? U64 : I64;
  default: return std::nullopt;
  }
}

unsigned getElementBytes(DataType type) {
  switch (type) {
  case F64:
  case I64:
  case U64:
  case STRING: return 8;
  case F32:
  case I32:
  case U32: return 4;
  case F16:
  case BF16:
  case I16:
  case U16: return 2;
  default: return 1;
  }
}

static void append(std::string &bytes, const llvm::APInt &value, unsigned size) {
  uint64_t bits = value.getZExtValue();
  for (unsigned i = 0; i < size; ++i)
    bytes.push_back(static_cast<char>(bits >> (8 * i)));
}

FailureOr<std::string> getBytes(ElementsAttr value) {
  Type element = value.getElementType();
  std::optional<DataType> type = getDataType(element);
  if (!type)
    return failure();
  unsigned size = getElementBytes(*type);
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(value)) {
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (!blob || blob->getData().size() != static_cast<size_t>(value.getNumElements()) * size)
      return failure();
    return std::string(blob->getData().data(), blob->getData().size());
  }
  auto dense = dyn_cast<DenseElementsAttr>(value);
  if (!dense)
    return failure();
  std::string bytes;
  bytes.reserve(static_cast<size_t>(value.getNumElements()) * size);
  if (isNarrow(element)) {
    if (isa<FloatType>(element))
      for (const llvm::APFloat &item : dense.getValues<llvm::APFloat>())
        bytes.push_back(static_cast<char>(carrierBits(item, element)));
    else
      for (const llvm::APInt &item : dense.getValues<llvm::APInt>())
        bytes.push_back(static_cast<char>(carrierBits(item, element)));
  } else if (isa<FloatType>(element)) {
    for (const llvm::APFloat &item : dense.getValues<llvm::APFloat>())
      append(bytes, item.bitcastToAPInt(), size);
  } else {
    for (const llvm::APInt &item : dense.getValues<llvm::APInt>())
      append(bytes, item, size);
  }
  return bytes;
}

} // namespace colossal::plan
