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
  case K::Relu:
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
