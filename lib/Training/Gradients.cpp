//===- Gradients.cpp - gradients as a step's update takes them -----------------===//
#include "Gradients.h"

#include "dialects/Dist/LayoutMarks.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::training;

/// Sums scalars, few at a time, so that no kernel reads hundreds of them.
static Value addAll(OpComposer &ops, SmallVector<Value> values) {
  constexpr size_t kMost = 8;
  while (values.size() > 1) {
    SmallVector<Value> sums;
    for (size_t i = 0; i < values.size(); i += kMost) {
      ArrayRef<Value> part = ArrayRef(values).slice(i, std::min(kMost, values.size() - i));
      sums.push_back(part.size() == 1 ? part.front() : ops.apply(ElementwiseKind::Add, part));
    }
    values = std::move(sums);
  }
  return values.front();
}

/// Has a convolution's sums, which are as narrow as what it reads, go on in the type of `cast`, the first of
/// `path`, whose last is the convolution's.
static void widenBehind(ElementwiseOp cast, ArrayRef<Value> path) {
  if (path.size() > 1) {
    Value sums = path.back();
    OpBuilder b(cast.getContext());
    b.setInsertionPointAfterValue(sums);
    Value wide = OpComposer(b, cast.getLoc()).cast(sums, elementTypeOf(cast.getResult()));
    sums.replaceAllUsesExcept(wide, wide.getDefiningOp());
    for (Value value : path.drop_back())
      value.setType(::cast<RankedTensorType>(value.getType()).clone(elementTypeOf(wide)));
    cast.getResult().replaceAllUsesWith(path.front());
    cast = wide.getDefiningOp<ElementwiseOp>();
  }
  cast->setAttr(dist::kWidensSumsAttrName, UnitAttr::get(cast.getContext()));
}

Value training::widenSums(Value gradient) {
  auto op = gradient.getDefiningOp<ElementwiseOp>();
  if (!op)
    return gradient;
  if (op.getKind() == ElementwiseKind::Add) {
    for (OpOperand &operand : op->getOpOperands())
      operand.set(widenSums(operand.get()));
    return gradient;
  }
  if (op.getKind() != ElementwiseKind::Cast || !elementTypeOf(gradient).isF32())
    return gradient;
  Value narrow = op.getInputs().front();
  SmallVector<Value> path;
  for (Value at = narrow; at.hasOneUse() && at.getDefiningOp(); at = at.getDefiningOp()->getOperand(0)) {
    path.push_back(at);
    if (isa<ContractOp>(at.getDefiningOp())) {
      for (Value value : path)
        value.setType(cast<RankedTensorType>(value.getType()).clone(elementTypeOf(gradient)));
      return narrow;
    }
    if (isa<ConvOp>(at.getDefiningOp())) {
      widenBehind(op, path);
      return path.size() > 1 ? narrow : gradient;
    }
    // A table's are sums of f32, and the narrow ones that it is read as were to have their gradient.
    if (auto narrowed = at.getDefiningOp<ElementwiseOp>();
        narrowed && narrowed.getKind() == ElementwiseKind::Cast &&
        elementTypeOf(narrowed.getInputs().front()) == elementTypeOf(gradient)) {
      at.replaceAllUsesWith(narrowed.getInputs().front());
      for (Value value : ArrayRef(path).drop_back())
        value.setType(cast<RankedTensorType>(value.getType()).clone(elementTypeOf(gradient)));
      return op.getInputs().front();
    }
    if (!isa<ReshapeOp, TransposeOp>(at.getDefiningOp()))
      break;
  }
  return gradient;
}

Value training::buildNorm(OpComposer &ops, ArrayRef<Value> gradients) {
  auto isDouble = [](Value gradient) { return elementTypeOf(gradient).isF64(); };
  Builder types(gradients.front().getContext());
  Type wide = llvm::any_of(gradients, isDouble) ? types.getF64Type() : types.getF32Type();
  SmallVector<Value> squares;
  for (Value gradient : gradients) {
    Value square = ops.cast(gradient, wide);
    const auto rank = static_cast<int64_t>(shapeOf(gradient).size());
    square = rank == 0 ? ops.mul(square, square)
                       : ops.reshape(ops.reduce(ReduceKind::SumSquare, square,
                                                llvm::to_vector(llvm::seq<int64_t>(rank))),
                                     {});
    squares.push_back(square);
  }
  return ops.apply(ElementwiseKind::Sqrt, {addAll(ops, squares)});
}
