//===- GradientBuilder.h - what an op's gradient is built with --------------===//
//
// The reverse pass (colossal/Autodiff) hands each op one of these: the gradients of its results, and where
// those of its operands go. An op gives for an operand x the sum over its results y of dL/dy * dy/dx.
//
// Example, y = exp(x):
//   LogicalResult ...::buildGradient(GradientBuilder &gradient) {
//     gradient.add(0, gradient.ops().mul(gradient.resultGradient(), getResult()));
//     return success();
//   }
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_COLOSSAL_GRADIENTBUILDER_H
#define COLOSSAL_DIALECTS_COLOSSAL_GRADIENTBUILDER_H

#include "dialects/Colossal/OpComposer.h"

namespace colossal {

class GradientBuilder {
public:
  /// For `op`; what it builds goes where `builder` stands, at `loc`.
  GradientBuilder(mlir::Operation *op, mlir::OpBuilder &builder, mlir::Location loc)
      : op(op), composer(builder, loc) {}
  virtual ~GradientBuilder();

  OpComposer &ops() { return composer; }
  /// The gradient of a result, of its type; null where the loss does not depend on it (never of all results).
  virtual mlir::Value resultGradient(unsigned result = 0) = 0;
  /// Whether the gradient of an operand is asked for: it is of floats, and depends on what is differentiated
  /// by. What is added for others is dropped.
  virtual bool wants(unsigned operand) = 0;
  /// Adds `value` to the gradient of an operand. It is summed over dimensions in which the operand was
  /// stretched to the shape of `value` (right-aligned), stretched where it has one element and the operand
  /// more, and converted to the operand's element type.
  void add(unsigned operand, mlir::Value value);
  /// The same of the part of an operand from `starts` on: elsewhere `value` adds nothing. Of the operand's
  /// rank and element type. Parts that lie side by side are joined, not added.
  void addPart(unsigned operand, mlir::Value value, llvm::ArrayRef<int64_t> starts);

  /// The type in which the gradient of `tensor` is computed: f32 where that has fewer bits.
  static mlir::Type wideType(mlir::Value tensor) { return computeType(elementTypeOf(tensor)); }
  /// `tensor` in that type.
  mlir::Value widen(mlir::Value tensor);

  /// Fails after an error at the op that says what has no gradient: `what`, or the op.
  mlir::LogicalResult refuse(const llvm::Twine &what = "");

protected:
  /// Of the operand's type.
  virtual void addWhole(unsigned operand, mlir::Value value) = 0;
  virtual void addSlice(unsigned operand, mlir::Value value, llvm::ArrayRef<int64_t> starts) = 0;

  mlir::Operation *op;
  OpComposer composer;
};

} // namespace colossal

#endif // COLOSSAL_DIALECTS_COLOSSAL_GRADIENTBUILDER_H
