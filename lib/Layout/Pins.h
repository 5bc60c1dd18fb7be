//===- Pins.h - layouts that the user fixes ---------------------------------===//
//
// "REGEX=LAYOUT" as docs/Layouts.md specifies it.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_LAYOUT_PINS_H
#define COLOSSAL_LIB_LAYOUT_PINS_H

#include "colossal/Outline/OpNames.h"
#include "colossal/Partition/Refinement.h"

#include "llvm/ADT/StringMap.h"

#include <optional>
#include <string>
#include <vector>

namespace colossal::layout {

struct Pin {
  enum class Form { Factors, Dims, Replicated, Forward };
  std::string text; ///< as given, for messages
  outline::NamePattern name;
  Form form = Form::Replicated;
  /// Holds only for a tensor of this shape (-1: any size), or an op whose first result has it.
  std::optional<std::vector<int64_t>> shape;
  /// Form::Factors: factor names and the axes on each.
  std::vector<std::pair<std::string, llvm::SmallVector<unsigned, 2>>> factors;
  /// Form::Dims: per dimension its parts, outermost first; size -1 stands for what the other parts leave.
  struct Part {
    int64_t size = -1;
    llvm::SmallVector<unsigned, 2> axes;
  };
  std::vector<std::vector<Part>> dims;
  /// "?" stands before it: it may match nothing, and has sums stay partial only where that can save
  /// something.
  bool isOptional = false;
  mutable bool isUsed = false;
  /// Why it does not hold for an op that another pin speaks of: an error, if it means nothing elsewhere.
  mutable std::string conflict;

  bool matches(llvm::ArrayRef<std::string> names) const { return name.matches(names); }
  /// Whether it speaks of tensors of this shape.
  bool isOfShape(llvm::ArrayRef<int64_t> of) const {
    return !shape ||
           llvm::equal(*shape, of, [](int64_t asked, int64_t size) { return asked < 0 || asked == size; });
  }
  /// Whether it asks that a sum stays partial in an op.
  bool keepsSums() const;
  /// The sharding that a Dims or Replicated pin means for a tensor of `shape`; null where it does not fit.
  dist::ShardingAttr getSharding(mlir::MLIRContext *context, llvm::ArrayRef<int64_t> shape) const;
  /// The assignment that a Factors or Replicated pin means for an op; none where the op lacks a factor or
  /// cannot split it.
  std::optional<dist::Assignment> getAssignment(const dist::RefinedRule &refined) const;
};

/// The pins of a search, in order. A plan has one for each name of a model, so those are found by the name.
class Pins {
public:
  void add(Pin pin);
  bool empty() const { return pins.empty(); }
  /// In the order in which they were added.
  llvm::ArrayRef<Pin> getAll() const { return pins; }
  /// Those that match one of `names`, in order.
  llvm::SmallVector<const Pin *, 4> find(llvm::ArrayRef<std::string> names) const;

private:
  std::vector<Pin> pins;
  llvm::StringMap<llvm::SmallVector<unsigned, 1>> byName; ///< of one name each: numbers in `pins`
  std::vector<unsigned> expressions;                      ///< the others' numbers
};

/// Parses a pin; on failure returns none and says in `error` what is wrong, with the pin.
std::optional<Pin> parsePin(const std::string &text, dist::MeshAttr mesh, std::string &error);

} // namespace colossal::layout

#endif // COLOSSAL_LIB_LAYOUT_PINS_H
