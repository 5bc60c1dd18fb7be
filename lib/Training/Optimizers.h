//===- Optimizers.h - updates as ops ------------------------------------------===//
#ifndef COLOSSAL_LIB_TRAINING_OPTIMIZERS_H
#define COLOSSAL_LIB_TRAINING_OPTIMIZERS_H

#include "dialects/Colossal/OpComposer.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"

#include <map>
#include <memory>
#include <string>

namespace colossal::training {

/// What an optimizer keeps of a parameter; it begins as zeros.
struct Slot {
  llvm::StringRef name;
  llvm::SmallVector<int64_t> shape;
};

/// One parameter's step.
struct Update {
  mlir::Value parameter, gradient;      ///< the latter is the mean's, clipped
  llvm::SmallVector<mlir::Value> slots; ///< as getSlots orders them
  bool decays = true;
};

/// What becomes of a parameter and its slots.
struct Updated {
  mlir::Value parameter;
  llvm::SmallVector<mlir::Value> slots;
};

/// The input of step values, read by name. Scalars that are made of them are computed in f64, as PyTorch
/// computes them on the host, once for all parameters.
class StepValues {
public:
  StepValues(OpComposer &ops, mlir::Value input, llvm::ArrayRef<llvm::StringRef> names)
      : ops(ops), input(input), names(names) {}
  /// f64.
  mlir::Value get(llvm::StringRef name);
  mlir::Value get(llvm::StringRef name, mlir::Type element) {
    return get(name, element, [&] { return get(name); });
  }
  /// What `compute` makes of step values, converted to `element`; known by `key` from then on.
  mlir::Value get(llvm::StringRef key, mlir::Type element, llvm::function_ref<mlir::Value()> compute);

private:
  OpComposer &ops;
  mlir::Value input;
  llvm::ArrayRef<llvm::StringRef> names;
  llvm::StringMap<mlir::Value> read;
  std::map<std::pair<std::string, const void *>, mlir::Value> made;
};

/// How parameters are updated.
class Optimizer {
public:
  virtual ~Optimizer() = default;
  /// The step values that it reads, in the order of the input (docs/PlanFormat.md says what they are).
  virtual llvm::SmallVector<llvm::StringRef> getStepValues() const = 0;
  virtual llvm::SmallVector<Slot> getSlots(mlir::RankedTensorType parameter) const = 0;
  virtual Updated update(OpComposer &ops, const Update &update, StepValues &values) const = 0;

  /// Null where none is called so.
  static std::unique_ptr<Optimizer> create(llvm::StringRef name);
};

} // namespace colossal::training

#endif // COLOSSAL_LIB_TRAINING_OPTIMIZERS_H
