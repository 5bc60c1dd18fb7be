//===- Costs.h - seconds of ops and collectives on a mesh -------------------===//
//
// The cost model in the terms of this phase: local work of an op, and moves over mesh axes.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_LAYOUT_COSTS_H
#define COLOSSAL_LIB_LAYOUT_COSTS_H

#include "colossal/Cost/HostCost.h"
#include "colossal/Partition/Resharding.h"
#include "dialects/Dist/FactorRule.h"

#include <optional>

namespace colossal::layout {

class Costs {
public:
  /// `ranks`: all that share the machine, those of other stages too.
  Costs(cost::Machine machine, dist::MeshAttr mesh, int64_t ranks);
  const cost::Machine &getMachine() const { return model.machine(); }

  /// Seconds that one rank needs for its part of `op`, whose rule is split as `assignment` says; `bytes` are
  /// those of its local operands and results. Ranks that share a host's cores are priced by the shapes of
  /// what they compute (colossal/Cost/HostCost.h). Elsewhere a kernel overlaps computing and memory traffic
  /// in part only: the roofline, plus kOverlapLoss of the lower roof.
  double getOpSeconds(mlir::Operation *op, const dist::FactorRule &rule, const dist::Assignment &assignment,
                      double operandBytes, double resultBytes) const;
  static constexpr double kOverlapLoss = 0.25;
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
  cost::CostModel model;
  dist::MeshAttr mesh;
  int64_t ranks;
  std::optional<cost::HostCost> host;

  double getRoofline(double flops, double bytes, mlir::Type element, int launches) const;

  double getCollectiveSeconds(cost::Collective kind, double bytes, llvm::ArrayRef<unsigned> axes) const;
};

} // namespace colossal::layout

#endif // COLOSSAL_LIB_LAYOUT_COSTS_H
