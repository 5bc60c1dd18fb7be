//===- Precision.cpp - the table of which op may be computed in which types --===//
#include "dialects/Colossal/Precision.h"

#include "dialects/Colossal/Colossal.h"

using namespace mlir;
using namespace colossal;

/// Kinds whose results are about as large as their operands, and no less exact. What grows fast, or is the
/// difference of what was large (powers, exponentials, reciprocals, logarithms), leaves the range of f16 or
/// loses what bf16 has no digits for.
static bool staysInRange(ElementwiseOp op) {
  using K = ElementwiseKind;
  switch (op.getKind()) {
  case K::Abs:
  case K::Neg:
  case K::Erf:
  case K::Tanh:
  case K::Sign:
  case K::LeakyRelu:
  case K::Elu:
  case K::Selu:
  case K::Celu:
  case K::Sigmoid:
  case K::HardSigmoid:
  case K::HardSwish:
  case K::Softsign:
  case K::ThresholdedRelu:
  case K::Gelu:
  case K::GeluTanh:
  case K::Swish:
  case K::Mish:
  case K::Shrink:
  case K::Add:
  case K::Sub:
  case K::Max:
  case K::Min:
  case K::PRelu:
  case K::Select:
  case K::Clip: return true;
  // A square is no product of two things of size one.
  case K::Mul: return op.getInputs().size() == 2 && op.getInputs()[0] != op.getInputs()[1];
  default: return false;
  }
}

PrecisionRole colossal::getPrecisionRole(Operation *op) {
  if (isa<ContractOp, ConvOp, ConvTransposeOp, AttentionOp>(op))
    return PrecisionRole::Product;
  if (isa<ReshapeOp, TransposeOp, BroadcastOp, SliceOp, ConcatOp, PadOp, GatherOp, GatherElementsOp,
          GatherNDOp>(op))
    return PrecisionRole::Moves;
  if (auto scatter = dyn_cast<ScatterElementsOp>(op))
    return scatter.getReduction() == ScatterReduction::None ? PrecisionRole::Moves : PrecisionRole::Wide;
  if (auto scatter = dyn_cast<ScatterNDOp>(op))
    return scatter.getReduction() == ScatterReduction::None ? PrecisionRole::Moves : PrecisionRole::Wide;
  if (auto softmax = dyn_cast<SoftmaxOp>(op))
    return softmax.getLog() ? PrecisionRole::Wide : PrecisionRole::Follows;
  // What is rounded before or after it is the same.
  if (auto pool = dyn_cast<PoolOp>(op); pool && pool.getKind() == PoolKind::Max)
    return PrecisionRole::Moves;
  if (auto relu = dyn_cast<ElementwiseOp>(op); relu && relu.getKind() == ElementwiseKind::Relu)
    return PrecisionRole::Moves;
  if (isa<NormalizeOp, PoolOp>(op))
    return PrecisionRole::Follows;
  if (auto elementwise = dyn_cast<ElementwiseOp>(op); elementwise && staysInRange(elementwise))
    return PrecisionRole::Follows;
  return PrecisionRole::Wide;
}

bool colossal::isReadAsItIs(OpOperand &operand) {
  Operation *op = operand.getOwner();
  if (auto attention = dyn_cast<AttentionOp>(op))
    return operand.get() == attention.getMask();
  return isa<NormalizeOp>(op) && operand.getOperandNumber() > 0;
}

bool colossal::isSensitive(OpOperand &operand) {
  Operation *op = operand.getOwner();
  if (auto attention = dyn_cast<AttentionOp>(op))
    return operand.get() == attention.getMask();
  if (isa<RotaryOp>(op))
    return operand.getOperandNumber() > 0;
  auto elementwise = dyn_cast<ElementwiseOp>(op);
  return elementwise &&
         (elementwise.getKind() == ElementwiseKind::Sin || elementwise.getKind() == ElementwiseKind::Cos ||
          elementwise.getKind() == ElementwiseKind::Tan);
}

/// Whether `op` is a cast between f32 and 16 bits, of which the operand or the result is the narrow side.
static bool isCast(Operation *op, bool narrows) {
  auto cast = dyn_cast_or_null<ElementwiseOp>(op);
  if (!cast || cast.getKind() != ElementwiseKind::Cast)
    return false;
  Type from = elementTypeOf(cast.getOperand(0)), to = elementTypeOf(cast.getResult());
  Type narrow = narrows ? to : from, wide = narrows ? from : to;
  return (narrow.isF16() || narrow.isBF16()) && wide.isF32();
}

bool colossal::isWidening(Operation *op) {
  return isCast(op, false);
}

bool colossal::isNarrowing(Operation *op) {
  return isCast(op, true);
}
