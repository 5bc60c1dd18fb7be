//===- Costs.h - seconds of ops and collectives on a mesh -------------------===//
//
// What the search asks of the cost model, in the terms of this phase: local work of an op, and moves over mesh axes.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_LAYOUT_COSTS_H
#define COLOSSAL_LIB_LAYOUT_COSTS_H

#include "colossal/Partition/Resharding.h"
#include "mlir/IR/BuiltinOps.h"

#include <memory>
#include <string>

namespace colossal::layout {

class Costs {
public:
  /// Reads the machine (a file, a name, or empty for the default) for ranks on `mesh`; an empty pointer and a message in
  /// `error` where that fails.
  static std::unique_ptr<Costs> create(const std::string &machine, dist::MeshAttr mesh, std::string &error);
  virtual ~Costs() = default;
  /// Seconds that one rank needs for `flops` operations that read and write `bytes`.
  virtual double getComputeSeconds(double flops, double bytes, mlir::Type element) const = 0;
  /// Seconds of a collective; `bytes` as in dist::Move.
  virtual double getMoveSeconds(dist::MoveKind kind, double bytes, llvm::ArrayRef<unsigned> axes) const = 0;
  /// Memory of one device in bytes.
  virtual uint64_t getMemoryBytes() const = 0;
};

} // namespace colossal::layout

#endif // COLOSSAL_LIB_LAYOUT_COSTS_H
