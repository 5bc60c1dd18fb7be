//===- OutlinedEvents.h - events of instructions that become one text -------===//
#ifndef COLOSSAL_LIB_SCHEDULE_OUTLINEDEVENTS_H
#define COLOSSAL_LIB_SCHEDULE_OUTLINEDEVENTS_H

#include "Repetitions.h"

#include "dialects/Plan/PlanDialect.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>
#include <vector>

namespace colossal::schedule {

/// The events of a program of which parts become functions. Instructions that become one text signal one
/// event: whoever waited for any of theirs waits for the last that came, which its queue has done after it.
///
///   all_reduce signals 1; ...; all_reduce signals 2; ...; launch waits [1]; launch waits [2]
///     -> call @f; ...; call @f; ...; launch waits [1]; launch            all_reduce in @f signals 1
class OutlinedEvents {
public:
  /// `items`: the instructions of a block of `program`, in order.
  OutlinedEvents(plan::ProgramOp program, std::vector<mlir::Operation *> items);

  /// How far before item `item` those stand that signal what it waits for, ascending; none where it takes
  /// part in an order that functions cannot have: with messages, or with what stands in another block.
  std::optional<llvm::SmallVector<uint64_t>> getDistances(size_t item) const;

  /// What the instructions of one text wait for, in the order of the text, of which the parts of `repetition`
  /// are instances; none where they cannot have one text.
  std::optional<std::vector<llvm::SmallVector<int64_t>>> findWaits(const Repetition &repetition) const;
  /// Lets the instances of `repetition` signal one event each of their instructions; returns it by place in
  /// the text, 0: none.
  std::vector<int64_t> merge(const Repetition &repetition);

  /// Lets all waits of the program, and of `functions`, which are its own, be for events that there are, and
  /// leaves out those that are implied by others, and signals that nobody waits for.
  void finish(llvm::ArrayRef<plan::FunctionOp> functions);

private:
  int64_t resolve(int64_t event) const;
  void dropImplied(llvm::ArrayRef<plan::FunctionOp> functions);

  plan::ProgramOp program;
  std::vector<llvm::SmallVector<int64_t>> waits; ///< by item
  std::vector<int64_t> signals;                  ///< by item; 0: none
  std::vector<int64_t> queues;                   ///< by item
  std::vector<bool> isFixed;                     ///< by item: it cannot be in a function
  llvm::DenseMap<int64_t, size_t> signallers;    ///< item by event
  llvm::DenseMap<int64_t, int64_t> aliases;      ///< events that another one stands for
};

} // namespace colossal::schedule

#endif // COLOSSAL_LIB_SCHEDULE_OUTLINEDEVENTS_H
