//===- HostTensor.cpp - small tensors evaluated at compile time -------------===//
//
// Storage, rounding and conversion. The ops are evaluated in ConstantFolding.cpp.
//
//===----------------------------------------------------------------------===//
#include "HostTensor.h"

#include "dialects/Colossal/Colossal.h"

using namespace mlir;

namespace colossal {

HostTensor::HostTensor(RankedTensorType type, bool splat) : type(type), splat(splat) {
  size_t size = splat ? 1 : type.getNumElements();
  if (isFloat())
    floats.resize(size);
  else
    ints.resize(size);
}

double roundToType(double value, Type type) {
  if (type.isF64())
    return value;
  if (type.isF32())
    return float(value);
  APFloat number(value);
  bool loses = false;
  number.convert(cast<FloatType>(type).getFloatSemantics(), APFloat::rmNearestTiesToEven, &loses);
  number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
  return number.convertToDouble();
}

int64_t wrapToType(int64_t value, Type type) {
  auto integer = dyn_cast<IntegerType>(type);
  unsigned width = integer ? integer.getWidth() : 64;
  if (width == 1)
    return value & 1;
  if (width >= 64)
    return value;
  uint64_t bits = uint64_t(value) << (64 - width);
  return integer.isUnsigned() ? int64_t(bits >> (64 - width)) : int64_t(bits) >> (64 - width);
}

double HostTensor::getFloat(int64_t i) const {
  if (isFloat())
    return floats[splat ? 0 : i];
  int64_t value = ints[splat ? 0 : i];
  auto integer = dyn_cast<IntegerType>(type.getElementType());
  if (integer && integer.isUnsigned() && integer.getWidth() == 64)
    return double(uint64_t(value));
  return double(value);
}

void HostTensor::setFloat(int64_t i, double value) {
  floats[i] = roundToType(value, type.getElementType());
}
void HostTensor::setInt(int64_t i, int64_t value) {
  ints[i] = wrapToType(value, type.getElementType());
}

HostTensor HostTensor::expanded() const {
  if (!splat)
    return *this;
  HostTensor result(type);
  if (isFloat())
    std::fill(result.floats.begin(), result.floats.end(), floats[0]);
  else
    std::fill(result.ints.begin(), result.ints.end(), ints[0]);
  return result;
}

DenseElementsAttr HostTensor::toAttr() const {
  Type element = type.getElementType();
  if (auto floatType = dyn_cast<FloatType>(element)) {
    SmallVector<APFloat> values;
    for (double value : floats) {
      APFloat number(value);
      bool loses = false;
      number.convert(floatType.getFloatSemantics(), APFloat::rmNearestTiesToEven, &loses);
      values.push_back(number);
    }
    return DenseElementsAttr::get(type, values);
  }
  unsigned width = element.getIntOrFloatBitWidth();
  SmallVector<APInt> values;
  for (int64_t value : ints)
    values.push_back(APInt(width, uint64_t(value), /*isSigned=*/true, /*implicitTrunc=*/true));
  return DenseElementsAttr::get(type, values);
}

std::optional<HostTensor> HostTensor::fromAttr(ElementsAttr attr) {
  auto type = dyn_cast<RankedTensorType>(attr.getType());
  auto dense = dyn_cast<DenseIntOrFPElementsAttr>(attr);
  if (!type || !dense)
    return std::nullopt;
  HostTensor tensor(type, dense.isSplat() && type.getNumElements() > 0);
  size_t i = 0;
  if (auto floatType = dyn_cast<FloatType>(type.getElementType())) {
    auto store = [&](APFloat value) {
      bool loses = false;
      value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
      tensor.floats[i++] = value.convertToDouble();
    };
    if (tensor.splat)
      store(dense.getSplatValue<APFloat>());
    else
      for (const APFloat &value : dense.getValues<APFloat>())
        store(value);
    return tensor;
  }
  auto integer = dyn_cast<IntegerType>(type.getElementType());
  if (!integer)
    return std::nullopt;
  auto store = [&](const APInt &value) {
    bool zero = integer.isUnsigned() || integer.getWidth() == 1;
    tensor.ints[i++] = zero ? int64_t(value.getZExtValue()) : value.getSExtValue();
  };
  if (tensor.splat)
    store(dense.getSplatValue<APInt>());
  else
    for (const APInt &value : dense.getValues<APInt>())
      store(value);
  return tensor;
}

} // namespace colossal
