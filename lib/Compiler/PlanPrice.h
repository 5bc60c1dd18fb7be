//===- PlanPrice.h - seconds of a scheduled program -------------------------===//
//
// The search prices ops by their layouts before it is known what becomes one kernel, what is copied and what
// is padded. Once a program is scheduled all of that is known: this prices its instructions, one after the
// other, with the same formulas (colossal/Cost/HostCost.h).
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_COMPILER_PLANPRICE_H
#define COLOSSAL_COMPILER_PLANPRICE_H

#include "colossal/Cost/Machine.h"
#include "dialects/Plan/PlanDialect.h"

#include <cstdint>
#include <string>
#include <vector>

namespace colossal {

/// Seconds of one run of a program on one rank, every rank doing the same.
struct PlanPrice {
  double computing = 0, moving = 0, communicating = 0; ///< kernels, copies, collectives and what it sends
  double sending = 0;                                  ///< part of the latter: to other stages
  /// Part of all of that, and part of this what it sends to other stages.
  struct Chunk {
    double seconds = 0, sending = 0;
  };
  std::vector<Chunk> chunks; ///< of the stage; where it loops over microbatches, in all of its turns
  int64_t instructions = 0;
  double total() const { return computing + moving + communicating; }
  /// One line for people. `seconds`: of a run, where that is not the sum, as stages work side by side.
  std::string describe(double seconds) const;
};

/// Prices `program`, whose launches carry schedule::kWorkAttrName, on the mesh `mesh`, where `ranks` share
/// the machine, those of other stages too, and `working` of them compute while it runs (the others wait for
/// it). Each instruction gets its seconds as an attribute `colossal.seconds`, which goes into the plan.
PlanPrice pricePlan(plan::ProgramOp program, dist::MeshAttr mesh, int64_t ranks, int64_t working,
                    const cost::Machine &machine);

} // namespace colossal

#endif // COLOSSAL_COMPILER_PLANPRICE_H
