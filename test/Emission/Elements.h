// Elements of tensors as kernels have them in memory, and when two are equal.
#ifndef COLOSSAL_TEST_EMISSION_ELEMENTS_H
#define COLOSSAL_TEST_EMISSION_ELEMENTS_H

#include "dialects/Colossal/NarrowTypes.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace colossal::test {

/// The elements as kernels read them: dense, row-major, a boolean is a byte.
inline std::vector<char> toBytes(mlir::DenseElementsAttr values) {
  std::vector<char> bytes;
  mlir::Type element = values.getElementType();
  if (isNarrow(element)) {
    if (isNarrowFloat(element))
      for (llvm::APFloat value : values.getValues<llvm::APFloat>())
        bytes.push_back(char(carrierBits(value, element)));
    else
      for (llvm::APInt value : values.getValues<llvm::APInt>())
        bytes.push_back(char(carrierBits(value, element)));
    return bytes;
  }
  bool isFloat = llvm::isa<mlir::FloatType>(values.getElementType());
  unsigned width = std::max(values.getElementType().getIntOrFloatBitWidth(), 8u) / 8;
  auto append = [&](llvm::APInt bits) {
    uint64_t word = bits.getZExtValue();
    bytes.insert(bytes.end(), reinterpret_cast<char *>(&word), reinterpret_cast<char *>(&word) + width);
  };
  if (isFloat)
    for (llvm::APFloat value : values.getValues<llvm::APFloat>())
      append(value.bitcastToAPInt());
  else
    for (llvm::APInt value : values.getValues<llvm::APInt>())
      append(value);
  return bytes;
}

inline mlir::DenseElementsAttr fromBytes(mlir::RankedTensorType type, const std::vector<char> &bytes) {
  if (mlir::Type element = type.getElementType(); isNarrow(element)) {
    unsigned width = element.getIntOrFloatBitWidth();
    llvm::SmallVector<mlir::Attribute> values;
    for (char byte : bytes) {
      llvm::APInt bits(width, uint8_t(byte), /*isSigned=*/false, /*implicitTrunc=*/true);
      // Also the bits above the element are as NarrowTypes.h says.
      EXPECT_EQ(uint8_t(byte), carrierBits(bits, element));
      auto floats = llvm::dyn_cast<mlir::FloatType>(element);
      values.push_back(floats ? mlir::Attribute(mlir::FloatAttr::get(
                                    floats, llvm::APFloat(floats.getFloatSemantics(), bits)))
                              : mlir::Attribute(mlir::IntegerAttr::get(element, bits)));
    }
    return mlir::DenseElementsAttr::get(type, values);
  }
  if (!type.getElementType().isInteger(1))
    return mlir::DenseElementsAttr::getFromRawBuffer(type, bytes);
  llvm::SmallVector<bool> values(bytes.begin(), bytes.end());
  return mlir::DenseElementsAttr::get(type, values);
}

inline bool isClose(mlir::Attribute found, mlir::Attribute expected, double tolerance) {
  auto real = llvm::dyn_cast<mlir::FloatAttr>(expected);
  if (!real)
    return found == expected;
  if (isNarrow(real.getType())) // rounded as exactly as there are few of them
    return found == expected ||
           (real.getValue().isNaN() && llvm::cast<mlir::FloatAttr>(found).getValue().isNaN());
  double x = llvm::cast<mlir::FloatAttr>(found).getValueAsDouble(), y = real.getValueAsDouble();
  if (std::isnan(y) || std::isinf(y))
    return std::isnan(y) ? std::isnan(x) : x == y;
  // Kernels may flush numbers below the type's least normal one to zero, as the processor's bf16 conversion
  // does.
  llvm::APFloat least =
      llvm::APFloat::getSmallestNormalized(llvm::cast<mlir::FloatType>(real.getType()).getFloatSemantics());
  return std::fabs(x - y) <= tolerance * (1 + std::fabs(y)) ||
         (x == 0 && std::fabs(y) < least.convertToDouble());
}

inline std::string toText(mlir::Attribute attribute) {
  std::string text;
  llvm::raw_string_ostream(text) << attribute;
  return text;
}

inline llvm::SmallVector<int64_t> denseStrides(mlir::RankedTensorType type) {
  llvm::SmallVector<int64_t> strides(type.getRank(), 1);
  for (int64_t d = type.getRank() - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * type.getDimSize(d + 1);
  return strides;
}

} // namespace colossal::test

#endif // COLOSSAL_TEST_EMISSION_ELEMENTS_H
