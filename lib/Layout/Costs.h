//===- Costs.h - seconds of ops and collectives on a mesh -------------------===//
//
// The cost model in the terms of this phase: local work of an op, and moves over mesh axes.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_LAYOUT_COSTS_H
#define COLOSSAL_LIB_LAYOUT_COSTS_H

#include "colossal/Cost/Pricing.h"
#include "colossal/FactorGraph/FactorGraph.h"
#include "colossal/Partition/Resharding.h"
#include "dialects/Dist/FactorRule.h"

#include <memory>

namespace colossal::layout {

class Costs {
public:
  /// `ranks`: all that share the machine, those of other stages too.
  Costs(cost::Machine machine, dist::MeshAttr mesh, int64_t ranks);
  const cost::Machine &getMachine() const { return pricing->machine(); }

  /// Seconds that one rank needs for its part of `op`, whose factors are split as `assignment` says, with
  /// results of this type; `bytes` are those of its local operands and results. What is no more than moved
  /// and added is fused into another kernel.
  double getOpSeconds(const factors::Operation &op, mlir::Type element, const dist::Assignment &assignment,
                      double operandBytes, double resultBytes) const;
  /// Seconds of a move; `bytes` as in dist::Move. Ranks are devices in the machine's numbering. Axes
  /// that do not lie next to each other are priced one after the other, each by the links that it crosses.
  double getMoveSeconds(dist::MoveKind kind, double bytes, llvm::ArrayRef<unsigned> axes) const;
  /// Do moves over axes of equal sizes cost the same, wherever the axes' ranks lie?
  bool areAxesAlike() const;
  /// Seconds of bringing windows: each rank receives `bytes` from its neighbours.
  double getExchangeSeconds(double bytes, llvm::ArrayRef<unsigned> axes) const;
  /// Memory of one device in bytes.
  int64_t getMemoryBytes() const;

private:
  std::shared_ptr<const cost::Pricing> pricing;
  dist::MeshAttr mesh;
  int64_t ranks;

  double getCollectiveSeconds(cost::Collective kind, double bytes, llvm::ArrayRef<unsigned> axes) const;
};

} // namespace colossal::layout

#endif // COLOSSAL_LIB_LAYOUT_COSTS_H
