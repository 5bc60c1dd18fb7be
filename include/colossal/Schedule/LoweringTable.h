//===- LoweringTable.h - a lowering for each kind of group ------------------===//
//
// The schedule registers what every target does alike; a target adds its own, or puts them in the place of
// those.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_SCHEDULE_LOWERINGTABLE_H
#define COLOSSAL_SCHEDULE_LOWERINGTABLE_H

#include "colossal/Schedule/FusionGroup.h"
#include "mlir/Support/LLVM.h"

#include <functional>
#include <map>

namespace colossal::schedule {

class LoweringContext;

/// Makes the instructions of a group. Where no kernel of the whole group can be made, a lowering may fall
/// back to LoweringContext::lowerSeparately; it fails, with a diagnostic, where nothing can be done.
using Lowering = std::function<mlir::LogicalResult(LoweringContext &, FusionGroup &)>;

class LoweringTable {
public:
  void set(GroupKind kind, Lowering lowering) { lowerings[kind] = std::move(lowering); }
  /// Null where there is none.
  const Lowering *find(GroupKind kind) const {
    auto found = lowerings.find(kind);
    return found == lowerings.end() ? nullptr : &found->second;
  }

private:
  std::map<GroupKind, Lowering> lowerings;
};

} // namespace colossal::schedule

#endif // COLOSSAL_SCHEDULE_LOWERINGTABLE_H
