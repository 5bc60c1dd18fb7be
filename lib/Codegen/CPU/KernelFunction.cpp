// KernelFunction: the entry point unpacks the buffers and calls the body, whose pointer arguments carry
// noalias.
#include "colossal/Codegen/CPU/KernelFunction.h"
#include "mlir/Conversion/LLVMCommon/MemRefBuilder.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace colossal::cpu {

void KernelFunction::loadDialects(MLIRContext &context) {
  context.loadDialect<affine::AffineDialect, arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect,
                      LLVM::LLVMDialect, math::MathDialect, memref::MemRefDialect, scf::SCFDialect,
                      ub::UBDialect, vector::VectorDialect>();
}

KernelFunction::KernelFunction(MLIRContext &context, llvm::ArrayRef<BufferSpec> buffers, unsigned params,
                               int64_t scratchBytes)
    : bodyBuilder(&context), location(UnknownLoc::get(&context)), specs(buffers.begin(), buffers.end()),
      views(buffers.size()), params(params), scratchSize(scratchBytes) {
  loadDialects(context);
  owned = ModuleOp::create(location);
  OpBuilder b(&context);
  b.setInsertionPointToEnd(owned->getBody());
  Type pointer = LLVM::LLVMPointerType::get(&context), i64 = b.getI64Type();
  unsigned pointers = specs.size() + (scratchBytes != 0);

  SmallVector<Type> bodyTypes(pointers, pointer);
  bodyTypes.append(params + 2, i64);
  body = func::FuncOp::create(b, location, "body", b.getFunctionType(bodyTypes, {}));
  body.setPrivate();
  body.setArgAttr(0, "llvm.noundef", b.getUnitAttr());
  for (unsigned i = 0; i < pointers; ++i) {
    if (i >= specs.size() || specs[i].noalias)
      body.setArgAttr(i, "llvm.noalias", b.getUnitAttr());
    body.setArgAttr(i, "llvm.noundef", b.getUnitAttr());
  }
  if (scratchBytes)
    body.setArgAttr(pointers - 1, "llvm.align", b.getI64IntegerAttr(64));

  auto entry =
      func::FuncOp::create(b, location, entryName, b.getFunctionType({pointer, pointer, i64, i64}, {}));
  Block *block = entry.addEntryBlock();
  b.setInsertionPointToStart(block);
  SmallVector<Value> arguments;
  auto loadAt = [&](Value base, unsigned index, Type type) {
    Value address =
        LLVM::GEPOp::create(b, location, pointer, type, base, ArrayRef<LLVM::GEPArg>{int32_t(index)});
    return LLVM::LoadOp::create(b, location, type, address).getResult();
  };
  for (unsigned i = 0; i < pointers; ++i)
    arguments.push_back(loadAt(block->getArgument(0), i, pointer));
  for (unsigned i = 0; i < params; ++i)
    arguments.push_back(loadAt(block->getArgument(1), i, i64));
  arguments.push_back(block->getArgument(2));
  arguments.push_back(block->getArgument(3));
  func::CallOp::create(b, location, body, arguments);
  func::ReturnOp::create(b, location);

  Block *bodyBlock = body.addEntryBlock();
  bodyBuilder.setInsertionPointToStart(bodyBlock);
  auto end = func::ReturnOp::create(bodyBuilder, location);
  bodyBuilder.setInsertionPoint(end);
}

Value KernelFunction::pointer(unsigned buffer) const {
  return const_cast<func::FuncOp &>(body).getArgument(buffer);
}
Value KernelFunction::scratch() const {
  return pointer(specs.size());
}
Value KernelFunction::param(unsigned index) const {
  return pointer(specs.size() + (scratchSize != 0) + index);
}
Value KernelFunction::begin() const {
  return param(params);
}
Value KernelFunction::end() const {
  return param(params + 1);
}

void KernelFunction::forEachTile(llvm::function_ref<void(Value)> body) {
  OpBuilder &b = bodyBuilder;
  Value one = arith::ConstantOp::create(b, location, b.getI64IntegerAttr(1));
  auto loop = scf::ForOp::create(b, location, begin(), end(), one);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  body(loop.getInductionVar());
}

Value KernelFunction::member() {
  return arith::ConstantOp::create(bodyBuilder, location, bodyBuilder.getI64IntegerAttr(0));
}

Value KernelFunction::combine(Value partial, llvm::function_ref<Value(Value, Value)>) {
  return partial;
}

Value KernelFunction::memref(unsigned buffer) {
  if (views[buffer])
    return views[buffer];
  const BufferSpec &spec = specs[buffer];
  SmallVector<int64_t> strides = spec.strides;
  if (strides.empty()) {
    strides.assign(spec.shape.size(), 1);
    for (int64_t i = int64_t(spec.shape.size()) - 2; i >= 0; --i)
      strides[i] = strides[i + 1] * spec.shape[i + 1];
  }
  MLIRContext *context = owned->getContext();
  auto identity = MemRefType::get(spec.shape, spec.element);
  MemRefType type = identity;
  if (!spec.strides.empty())
    type = MemRefType::get(spec.shape, spec.element, StridedLayoutAttr::get(context, 0, strides));
  // The descriptor is written by hand and cast; the casts fold once memrefs are lowered.
  OpBuilder::InsertionGuard guard(bodyBuilder);
  bodyBuilder.setInsertionPointToStart(&body.getBody().front());
  LLVMTypeConverter converter(context);
  auto descriptor =
      MemRefDescriptor::fromStaticShape(bodyBuilder, location, converter, type, pointer(buffer));
  views[buffer] =
      UnrealizedConversionCastOp::create(bodyBuilder, location, type, Value(descriptor)).getResult(0);
  return views[buffer];
}

} // namespace colossal::cpu
