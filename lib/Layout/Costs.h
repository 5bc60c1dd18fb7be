//===- Costs.h - seconds of ops and collectives on a mesh -------------------===//
//
// The cost model in the terms of this phase: local work of an op, and moves over mesh axes.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_LAYOUT_COSTS_H
#define COLOSSAL_LIB_LAYOUT_COSTS_H

#include "colossal/Cost/CostModel.h"
#include "colossal/Partition/Resharding.h"

namespace colossal::layout {

class Costs {
public:
  Costs(cost::Machine machine, dist::MeshAttr mesh) : model(std::move(machine)), mesh(mesh) {}

  /// Seconds that one rank needs for `flops` operations that read and write `bytes`, in `launches` kernels. A kernel
  /// overlaps computing and memory traffic in part only: the roofline, plus kOverlapLoss of the lower roof.
  double getComputeSeconds(double flops, double bytes, mlir::Type element, int launches) const;
  static constexpr double kOverlapLoss = 0.25;
  /// Seconds of a move; `bytes` as in dist::Move. Ranks are devices in the machine's numbering; a group over several axes
  /// is taken to lie as densely as its innermost axis.
  double getMoveSeconds(dist::MoveKind kind, double bytes, llvm::ArrayRef<unsigned> axes) const;
  /// Seconds of bringing windows: each rank receives `bytes` from its neighbours.
  double getExchangeSeconds(double bytes, llvm::ArrayRef<unsigned> axes) const;
  /// Memory of one device in bytes.
  int64_t getMemoryBytes() const { return model.machine().device.memoryBytes; }

private:
  cost::CostModel model;
  dist::MeshAttr mesh;

  cost::Group getGroup(llvm::ArrayRef<unsigned> axes) const;
};

} // namespace colossal::layout

#endif // COLOSSAL_LIB_LAYOUT_COSTS_H
