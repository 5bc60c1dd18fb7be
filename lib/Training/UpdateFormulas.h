//===- UpdateFormulas.h - updates that are one op ---------------------------===//
//
// A step updates each parameter by the same functions of elements. They are written down as ops once for each
// kind of parameter; that makes a formula, and what all parameters of this kind get is one op with it. What
// is computed of step values stays outside, and is shared.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_TRAINING_UPDATEFORMULAS_H
#define COLOSSAL_LIB_TRAINING_UPDATEFORMULAS_H

#include "dialects/Colossal/OpComposer.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <map>
#include <optional>
#include <vector>

namespace colossal::training {

class UpdateFormulas {
public:
  using Values = llvm::SmallVector<mlir::Value>;

  /// What `build` makes of `given` by ops at the end of the insertion block of `ops`. `variant` tells apart
  /// what `build` may do for the same element types. Where all of it is elementwise and of the shape of the
  /// first of `given`, one op comes in its place; else (norms, means, slots of other shapes, parameters of
  /// one number, which look like step values) the ops stay.
  Values apply(OpComposer &ops, int variant, Values given, llvm::function_ref<Values()> build);

private:
  struct Formula {
    mlir::ArrayAttr steps;
    mlir::DenseI64ArrayAttr gives;
    Values shared; ///< operands behind those given: step values, and what is made of them
  };
  /// Of the ops behind `before`, or behind the beginning of the block; none where they are more than that.
  static std::optional<Formula> read(mlir::Block &block, mlir::Operation *before,
                                     llvm::ArrayRef<mlir::Value> given, llvm::ArrayRef<mlir::Value> results);
  static Values create(OpComposer &ops, const Formula &formula, llvm::ArrayRef<mlir::Value> given);

  /// By variant and the element types of what is given.
  std::map<std::pair<int, std::vector<const void *>>, std::optional<Formula>> known;
};

} // namespace colossal::training

#endif // COLOSSAL_LIB_TRAINING_UPDATEFORMULAS_H
