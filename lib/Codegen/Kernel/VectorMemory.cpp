// VectorMemory: addresses are computed in integers and accessed by LLVM's loads and stores, which need no
// memref lowering.
#include "colossal/Codegen/Kernel/VectorMemory.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace colossal::kernel {

bool isUnsignedElement(Type type) {
  return type.isUnsignedInteger();
}

Type storageType(Type type) {
  if (auto integer = dyn_cast<IntegerType>(type)) {
    return IntegerType::get(type.getContext(), std::max(8u, integer.getWidth()));
  }
  if (isa<FloatType>(type) && type.getIntOrFloatBitWidth() <= 8)
    return IntegerType::get(type.getContext(), 8);
  return type;
}

int64_t elementBytes(Type type) {
  return (type.getIntOrFloatBitWidth() + 7) / 8;
}

Type VectorMemory::vectorOf(Type element, int64_t width) {
  return width == 1 ? element : VectorType::get({width}, element);
}

static int64_t widthOf(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector ? vector.getNumElements() : 1;
}

static std::optional<int64_t> constantOf(Value value) {
  if (auto op = value.getDefiningOp<arith::ConstantOp>())
    if (auto attribute = dyn_cast<IntegerAttr>(op.getValue()))
      return attribute.getInt();
  return std::nullopt;
}

Type VectorMemory::indexType() const {
  return b.getIntegerType(indexBits);
}

Value VectorMemory::constant(int64_t value) {
  return arith::ConstantOp::create(b, loc, b.getIntegerAttr(indexType(), value));
}

Value VectorMemory::constants(ArrayRef<int64_t> values) {
  SmallVector<APInt> bits;
  for (int64_t value : values)
    bits.push_back(APInt(indexBits, uint64_t(value), /*isSigned=*/true, /*implicitTrunc=*/true));
  auto type = VectorType::get({int64_t(values.size())}, indexType());
  return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, bits));
}

Value VectorMemory::add(Value lhs, Value rhs) {
  if (auto right = constantOf(rhs))
    return addConstant(lhs, *right);
  if (auto left = constantOf(lhs))
    return addConstant(rhs, *left);
  return arith::AddIOp::create(b, loc, lhs, rhs, arith::IntegerOverflowFlags::nsw);
}

Value VectorMemory::addConstant(Value lhs, int64_t rhs) {
  if (rhs == 0)
    return lhs;
  if (auto left = constantOf(lhs))
    return constant(*left + rhs);
  return arith::AddIOp::create(b, loc, lhs, constant(rhs), arith::IntegerOverflowFlags::nsw);
}

Value VectorMemory::mulConstant(Value lhs, int64_t rhs) {
  if (rhs == 1)
    return lhs;
  if (auto left = constantOf(lhs))
    return constant(*left * rhs);
  if (rhs == 0)
    return constant(0);
  return arith::MulIOp::create(b, loc, lhs, constant(rhs), arith::IntegerOverflowFlags::nsw);
}

Value VectorMemory::min(Value lhs, Value rhs) {
  return arith::MinSIOp::create(b, loc, lhs, rhs);
}
Value VectorMemory::minConstant(Value lhs, int64_t rhs) {
  return min(lhs, constant(rhs));
}

std::pair<Value, Value> VectorMemory::divRem(Value value, int64_t divisor) {
  if (divisor == 1)
    return {value, constant(0)};
  if (auto known = constantOf(value))
    return {constant(*known / divisor), constant(*known % divisor)};
  // Unsigned: shorter code for constant divisors.
  Value quotient = arith::DivUIOp::create(b, loc, value, constant(divisor));
  Value remainder = arith::SubIOp::create(b, loc, value, mulConstant(quotient, divisor));
  return {quotient, remainder};
}

SmallVector<Value> VectorMemory::delinearize(Value linear, ArrayRef<int64_t> sizes) {
  SmallVector<Value> result(sizes.size());
  for (int64_t i = int64_t(sizes.size()) - 1; i > 0; --i)
    std::tie(linear, result[i]) = divRem(linear, sizes[i]);
  if (!sizes.empty())
    result[0] = sizes[0] == 1 ? constant(0) : linear;
  return result;
}

Value VectorMemory::linearize(ArrayRef<Value> indices, ArrayRef<int64_t> strides) {
  Value sum;
  for (auto [index, stride] : llvm::zip_equal(indices, strides)) {
    if (stride == 0)
      continue;
    Value term = mulConstant(index, stride);
    sum = sum ? add(sum, term) : term;
  }
  return sum ? sum : constant(0);
}

Value VectorMemory::address(Value pointer, Type element, Value offset) {
  if (auto known = constantOf(offset))
    return address(pointer, element, *known);
  return LLVM::GEPOp::create(b, loc, pointer.getType(), storageType(element), pointer,
                             ArrayRef<LLVM::GEPArg>{offset}, LLVM::GEPNoWrapFlags::inbounds);
}

Value VectorMemory::address(Value pointer, Type element, int64_t offset) {
  if (offset == 0)
    return pointer;
  if (int64_t(int32_t(offset)) != offset)
    return LLVM::GEPOp::create(b, loc, pointer.getType(), storageType(element), pointer,
                               ArrayRef<LLVM::GEPArg>{constant(offset)}, LLVM::GEPNoWrapFlags::inbounds);
  return LLVM::GEPOp::create(b, loc, pointer.getType(), storageType(element), pointer,
                             ArrayRef<LLVM::GEPArg>{int32_t(offset)}, LLVM::GEPNoWrapFlags::inbounds);
}

Value VectorMemory::prefixMask(int64_t width, int64_t count) {
  SmallVector<bool> lanes(width);
  for (int64_t i = 0; i < width; ++i)
    lanes[i] = i < count;
  auto type = VectorType::get({width}, b.getI1Type());
  return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, ArrayRef<bool>(lanes)));
}

Value VectorMemory::prefixMask(int64_t width, Value count) {
  if (auto known = constantOf(count))
    return prefixMask(width, *known);
  // i32 lanes compare in one vector register; counts beyond the width are cut first.
  SmallVector<int32_t> steps(width);
  for (int64_t i = 0; i < width; ++i)
    steps[i] = int32_t(i);
  auto type = VectorType::get({width}, b.getI32Type());
  Value lane = arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, ArrayRef<int32_t>(steps)));
  Value cut = minConstant(count, width);
  if (!cut.getType().isInteger(32))
    cut = arith::TruncIOp::create(b, loc, b.getI32Type(), cut);
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, lane, splat(cut, width));
}

Value VectorMemory::load(Value address, Type element, int64_t width, Value mask) {
  element = storageType(element);
  if (element.isBF16())
    return arith::BitcastOp::create(b, loc, vectorOf(element, width),
                                    load(address, b.getI16Type(), width, mask));
  Type type = vectorOf(element, width);
  unsigned alignment = elementBytes(element);
  if (!mask)
    return LLVM::LoadOp::create(b, loc, type, address, alignment);
  return LLVM::MaskedLoadOp::create(b, loc, type, address, mask, zero(element, width),
                                    b.getI32IntegerAttr(alignment), UnitAttr());
}

// LLVM calls a library function for some bf16 operations that only move bits; i16 has none.
Value VectorMemory::withoutBfloat(Value value) {
  if (!getElementTypeOrSelf(value).isBF16())
    return value;
  return arith::BitcastOp::create(b, loc, vectorOf(b.getI16Type(), widthOf(value.getType())), value);
}

void VectorMemory::store(Value value, Value address, Value mask) {
  value = withoutBfloat(value);
  unsigned alignment = elementBytes(getElementTypeOrSelf(value));
  if (mask)
    LLVM::MaskedStoreOp::create(b, loc, value, address, mask, b.getI32IntegerAttr(alignment));
  else
    LLVM::StoreOp::create(b, loc, value, address, alignment);
}

static Value laneAddresses(OpBuilder &b, Location loc, Value address, Type element, Value offsets) {
  auto type = VectorType::get({widthOf(offsets.getType())}, address.getType());
  return LLVM::GEPOp::create(b, loc, type, element, address, ArrayRef<LLVM::GEPArg>{offsets});
}

Value VectorMemory::gather(Value address, Type element, Value offsets, Value mask) {
  element = storageType(element);
  int64_t width = widthOf(offsets.getType());
  if (element.isBF16())
    return arith::BitcastOp::create(b, loc, vectorOf(element, width),
                                    gather(address, b.getI16Type(), offsets, mask));
  if (width == 1)
    return load(this->address(address, element, offsets), element, 1);
  if (!mask)
    mask = prefixMask(width, width);
  Value otherwise = zero(element, width), places = laneAddresses(b, loc, address, element, offsets);
  return LLVM::masked_gather::create(b, loc, vectorOf(element, width), places, mask, ValueRange{otherwise},
                                     b.getI32IntegerAttr(elementBytes(element)));
}

void VectorMemory::scatter(Value value, Value address, Value offsets, Value mask) {
  value = withoutBfloat(value);
  Type element = getElementTypeOrSelf(value);
  int64_t width = widthOf(offsets.getType());
  if (width == 1)
    return store(value, this->address(address, element, offsets));
  if (!mask)
    mask = prefixMask(width, width);
  LLVM::masked_scatter::create(b, loc, value, laneAddresses(b, loc, address, element, offsets), mask,
                               b.getI32IntegerAttr(elementBytes(element)));
}

void VectorMemory::prefetch(Value address, int locality, bool forWriting) {
  LLVM::Prefetch::create(b, loc, address, /*rw=*/forWriting, /*hint=*/locality, /*cache=*/1);
}

Value VectorMemory::splat(Value scalar, int64_t width) {
  if (width == 1)
    return scalar;
  return vector::BroadcastOp::create(b, loc, VectorType::get({width}, scalar.getType()), scalar);
}

Value VectorMemory::constantLike(Type type, double value) {
  Type element = getElementTypeOrSelf(type);
  TypedAttr scalar;
  if (isa<FloatType>(element))
    scalar = b.getFloatAttr(element, value);
  else
    scalar = b.getIntegerAttr(element,
                              APInt(element.getIntOrFloatBitWidth(), uint64_t(int64_t(value)), false, true));
  if (auto vector = dyn_cast<VectorType>(type))
    scalar = DenseElementsAttr::get(vector, Attribute(scalar));
  return arith::ConstantOp::create(b, loc, scalar);
}

Value VectorMemory::zero(Type element, int64_t width) {
  return constantLike(vectorOf(storageType(element), width), 0);
}

// bf16 is the upper half of f32.
Value VectorMemory::floatFromBfloat(Value value) {
  int64_t width = widthOf(value.getType());
  Type i16 = vectorOf(b.getI16Type(), width), i32 = vectorOf(b.getI32Type(), width);
  Value bits = arith::BitcastOp::create(b, loc, i16, value);
  bits = arith::ExtUIOp::create(b, loc, i32, bits);
  bits = arith::ShLIOp::create(b, loc, bits, constantLike(i32, 16));
  return arith::BitcastOp::create(b, loc, vectorOf(b.getF32Type(), width), bits);
}

Value VectorMemory::bfloatFromFloat(Value value) {
  int64_t width = widthOf(value.getType());
  if (instructions.bfloatConversion)
    return arith::TruncFOp::create(b, loc, vectorOf(b.getBF16Type(), width), value);
  Type i16 = vectorOf(b.getI16Type(), width), i32 = vectorOf(b.getI32Type(), width);
  Value bits = arith::BitcastOp::create(b, loc, i32, value);
  // Round to nearest even: add half less one, plus the bit that stays last. NaN keeps its sign and becomes
  // quiet.
  Value upper = arith::ShRUIOp::create(b, loc, bits, constantLike(i32, 16));
  Value odd = arith::AndIOp::create(b, loc, upper, constantLike(i32, 1));
  Value rounded = arith::AddIOp::create(b, loc, bits, constantLike(i32, 0x7fff));
  rounded = arith::AddIOp::create(b, loc, rounded, odd);
  rounded = arith::ShRUIOp::create(b, loc, rounded, constantLike(i32, 16));
  Value quiet = arith::OrIOp::create(b, loc, upper, constantLike(i32, 0x40));
  Value isNaN = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, value, value);
  rounded = arith::SelectOp::create(b, loc, isNaN, quiet, rounded);
  rounded = arith::TruncIOp::create(b, loc, i16, rounded);
  return arith::BitcastOp::create(b, loc, vectorOf(b.getBF16Type(), width), rounded);
}

Value VectorMemory::floatFromHalf(Value value) {
  int64_t width = widthOf(value.getType());
  Type f32 = vectorOf(b.getF32Type(), width);
  if (instructions.halfConversions)
    return arith::ExtFOp::create(b, loc, f32, value);
  // Exponent and mantissa moved to their places of f32 and the bias set right by a multiplication, which also
  // makes denormals normal; infinity and NaN (31 -> 255) apart.
  Type i16 = vectorOf(b.getI16Type(), width), i32 = vectorOf(b.getI32Type(), width);
  Value bits = arith::ExtUIOp::create(b, loc, i32, arith::BitcastOp::create(b, loc, i16, value));
  Value sign = arith::AndIOp::create(b, loc, bits, constantLike(i32, 0x8000));
  sign = arith::ShLIOp::create(b, loc, sign, constantLike(i32, 16));
  Value body = arith::AndIOp::create(b, loc, bits, constantLike(i32, 0x7fff));
  body = arith::ShLIOp::create(b, loc, body, constantLike(i32, 13));
  Value scaled = arith::BitcastOp::create(b, loc, f32, body);
  scaled = arith::MulFOp::create(b, loc, scaled, constantLike(f32, 0x1p112));
  Value special =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge, body, constantLike(i32, 0x7c00 << 13));
  Value infinite = arith::OrIOp::create(b, loc, body, constantLike(i32, 0x7f800000));
  Value result =
      arith::SelectOp::create(b, loc, special, infinite, arith::BitcastOp::create(b, loc, i32, scaled));
  return arith::BitcastOp::create(b, loc, f32, arith::OrIOp::create(b, loc, result, sign));
}

Value VectorMemory::halfFromFloat(Value value) {
  int64_t width = widthOf(value.getType());
  Type f16 = vectorOf(b.getF16Type(), width);
  if (instructions.halfConversions)
    return arith::TruncFOp::create(b, loc, f16, value);
  Type f32 = vectorOf(b.getF32Type(), width), i16 = vectorOf(b.getI16Type(), width);
  Type i32 = vectorOf(b.getI32Type(), width);
  Value bits = arith::BitcastOp::create(b, loc, i32, value);
  Value sign = arith::AndIOp::create(b, loc, bits, constantLike(i32, -2147483648.0));
  sign = arith::ShRUIOp::create(b, loc, sign, constantLike(i32, 16));
  Value magnitude = arith::AndIOp::create(b, loc, bits, constantLike(i32, 0x7fffffff));
  // Normal results: round to nearest even at bit 13, then move the bias from 127 to 15.
  Value odd = arith::ShRUIOp::create(b, loc, magnitude, constantLike(i32, 13));
  odd = arith::AndIOp::create(b, loc, odd, constantLike(i32, 1));
  Value normal = arith::AddIOp::create(b, loc, magnitude, constantLike(i32, 0xfff - (112 << 23)));
  normal = arith::AddIOp::create(b, loc, normal, odd);
  normal = arith::ShRUIOp::create(b, loc, normal, constantLike(i32, 13));
  // Denormal results: an addition of 0.5 leaves them, rounded, in the last bits.
  Value small = arith::BitcastOp::create(b, loc, f32, magnitude);
  small = arith::AddFOp::create(b, loc, small, constantLike(f32, 0.5));
  Value denormal = arith::BitcastOp::create(b, loc, i32, small);
  denormal = arith::SubIOp::create(b, loc, denormal, constantLike(i32, 0x3f000000));
  auto select = [&](arith::CmpIPredicate predicate, int64_t bound, Value yes, Value no) -> Value {
    Value condition = arith::CmpIOp::create(b, loc, predicate, magnitude, constantLike(i32, double(bound)));
    return arith::SelectOp::create(b, loc, condition, yes, no);
  };
  Value result = select(arith::CmpIPredicate::slt, 113 << 23, denormal, normal);
  result = select(arith::CmpIPredicate::sge, 0x477ff000, constantLike(i32, 0x7c00), result);
  result = select(arith::CmpIPredicate::sgt, 0x7f800000, constantLike(i32, 0x7e00), result);
  result = arith::TruncIOp::create(b, loc, i16, arith::OrIOp::create(b, loc, result, sign));
  return arith::BitcastOp::create(b, loc, f16, result);
}

Value VectorMemory::convert(Value value, Type toElement, bool fromUnsigned, bool toUnsigned) {
  Type from = getElementTypeOrSelf(value);
  int64_t width = widthOf(value.getType());
  toUnsigned |= isUnsignedElement(toElement);
  Type to = storageType(toElement);
  if (from == to)
    return value;
  Type result = vectorOf(to, width);
  Type f32 = b.getF32Type();
  bool fromFloat = isa<FloatType>(from), toFloat = isa<FloatType>(to);
  if (from.isBF16() || from.isF16())
    return convert(from.isBF16() ? floatFromBfloat(value) : floatFromHalf(value), toElement, false,
                   toUnsigned);
  if (to.isBF16() || to.isF16()) {
    if (from != f32)
      value = convert(value, f32, fromUnsigned);
    return to.isBF16() ? bfloatFromFloat(value) : halfFromFloat(value);
  }
  if (fromFloat && toFloat) {
    if (from.getIntOrFloatBitWidth() < to.getIntOrFloatBitWidth())
      return arith::ExtFOp::create(b, loc, result, value);
    return arith::TruncFOp::create(b, loc, result, value);
  }
  if (fromFloat) {
    // By way of a wide integer, so that values in range of a narrow one convert as in C++.
    unsigned bits = to.getIntOrFloatBitWidth();
    Type wide = bits < 32 ? Type(b.getI32Type()) : to;
    Value integer = toUnsigned && bits >= 32
                        ? arith::FPToUIOp::create(b, loc, vectorOf(wide, width), value).getResult()
                        : arith::FPToSIOp::create(b, loc, vectorOf(wide, width), value).getResult();
    return wide == to ? integer : arith::TruncIOp::create(b, loc, result, integer).getResult();
  }
  if (toFloat) {
    if (fromUnsigned)
      return arith::UIToFPOp::create(b, loc, result, value);
    return arith::SIToFPOp::create(b, loc, result, value);
  }
  if (from.getIntOrFloatBitWidth() > to.getIntOrFloatBitWidth())
    return arith::TruncIOp::create(b, loc, result, value);
  if (fromUnsigned)
    return arith::ExtUIOp::create(b, loc, result, value);
  return arith::ExtSIOp::create(b, loc, result, value);
}

void VectorMemory::transpose(MutableArrayRef<Value> rows) {
  // Blocks of 1x1, 2x2, 4x4... change places across the diagonal, from the largest to the smallest.
  int64_t n = rows.size();
  for (int64_t distance = n / 2; distance >= 1; distance /= 2)
    for (int64_t i = 0; i < n; ++i) {
      if (i & distance)
        continue;
      Value upper = rows[i], lower = rows[i + distance];
      SmallVector<int64_t> first(n), second(n);
      for (int64_t j = 0; j < n; ++j) {
        first[j] = (j & distance) ? n + j - distance : j;
        second[j] = (j & distance) ? n + j : j + distance;
      }
      rows[i] = vector::ShuffleOp::create(b, loc, upper, lower, first);
      rows[i + distance] = vector::ShuffleOp::create(b, loc, upper, lower, second);
    }
}

} // namespace colossal::kernel
