// Products of matrices that a warp holds, by NVVM's ops.
#include "TensorCores.h"

#include "colossal/Precision/Precision.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace colossal::nvidia;

namespace {
constexpr unsigned globalSpace = 1;
} // namespace

bool colossal::nvidia::roundsToTf32(Operation *op) {
  bool isRounded = false;
  for (auto module = op->getParentOfType<ModuleOp>(); module; module = module->getParentOfType<ModuleOp>())
    isRounded |= module->hasAttr(precision::kTf32AttrName);
  return isRounded;
}

SmallVector<Value, 4> TensorCores::multiply(ArrayRef<Value> left, ArrayRef<Value> right,
                                            ArrayRef<Value> sum) {
  const auto type = element.isF16()    ? NVVM::MMATypes::f16
                    : element.isBF16() ? NVVM::MMATypes::bf16
                                       : NVVM::MMATypes::tf32;
  auto words = [&](ArrayRef<Value> values) {
    SmallVector<Value> result(values);
    if (element.isF16()) // the only type whose operands are vectors
      for (Value &word : result)
        word = LLVM::BitcastOp::create(b, loc, VectorType::get({2}, element), word);
    return result;
  };
  Type f32 = b.getF32Type();
  auto result = LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(4, f32));
  Value product =
      NVVM::MmaOp::create(b, loc, result, words(left), words(right), sum, {rows, columns, depth()},
                          std::nullopt, std::nullopt, std::array<NVVM::MMATypes, 2>{type, type},
                          std::array<NVVM::MMALayout, 2>{NVVM::MMALayout::row, NVVM::MMALayout::col});
  SmallVector<Value, 4> values;
  for (int64_t i = 0; i < 4; ++i)
    values.push_back(LLVM::ExtractValueOp::create(b, loc, product, i));
  return values;
}

Value TensorCores::pack(ArrayRef<Value> values) {
  Type i32 = b.getI32Type();
  if (element.isF32())
    return toOperand(LLVM::BitcastOp::create(b, loc, i32, values[0]));
  Type i16 = b.getI16Type();
  Value word;
  for (auto [i, value] : llvm::enumerate(values)) {
    Value bits =
        arith::BitcastOp::create(b, loc, i16, arith::TruncFOp::create(b, loc, element, value).getResult());
    Value part = arith::ExtUIOp::create(b, loc, i32, bits);
    if (i == 0) {
      word = part;
      continue;
    }
    Value shift = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(16));
    word = arith::OrIOp::create(b, loc, word, arith::ShLIOp::create(b, loc, part, shift).getResult());
  }
  return word;
}

Value TensorCores::toOperand(Value word) {
  if (!element.isF32())
    return word;
  Value value = LLVM::BitcastOp::create(b, loc, b.getF32Type(), word);
  auto nearest = NVVM::FPRoundingModeAttr::get(b.getContext(), NVVM::FPRoundingMode::RNA);
  return NVVM::ConvertFloatToTF32Op::create(b, loc, b.getI32Type(), value, nearest);
}

SmallVector<Value, 4> TensorCores::loadMatrices(Value address, unsigned count, bool transposed) {
  Type i32 = b.getI32Type();
  Type result = count == 1
                    ? i32
                    : Type(LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(count, i32)));
  auto layout = transposed ? NVVM::MMALayout::col : NVVM::MMALayout::row;
  auto shape = NVVM::LdStMatrixShapeAttr::get(b.getContext(), 8, 8);
  Value loaded =
      NVVM::LdMatrixOp::create(b, loc, result, address, count, layout, shape, NVVM::LdStMatrixEltType::B16);
  if (count == 1)
    return {loaded};
  SmallVector<Value, 4> words;
  for (int64_t i = 0; i < count; ++i)
    words.push_back(LLVM::ExtractValueOp::create(b, loc, loaded, i));
  return words;
}

void TensorCores::copy(Value to, Value from, int64_t bytes, Value exists) {
  auto number = [&](int64_t n) {
    return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(int32_t(n))).getResult();
  };
  auto global = LLVM::LLVMPointerType::get(b.getContext(), globalSpace);
  Value source = LLVM::AddrSpaceCastOp::create(b, loc, global, from);
  Value read = arith::SelectOp::create(b, loc, exists, number(bytes), number(0));
  // Sixteen bytes go past the first cache, which others have no use for.
  auto modifier = bytes == 16 ? NVVM::LoadCacheModifierKind::CG : NVVM::LoadCacheModifierKind::CA;
  NVVM::CpAsyncOp::create(b, loc, to, source, b.getI32IntegerAttr(int32_t(bytes)),
                          NVVM::LoadCacheModifierKindAttr::get(b.getContext(), modifier), read);
}

void TensorCores::closeGroup() {
  NVVM::CpAsyncCommitGroupOp::create(b, loc);
}

void TensorCores::waitForGroups(int64_t groups) {
  NVVM::CpAsyncWaitGroupOp::create(b, loc, b.getI32IntegerAttr(int32_t(groups)));
}
