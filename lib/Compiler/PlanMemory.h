//===- PlanMemory.h - what a finished plan takes of a device ----------------===//
//
// The search counts tensors; a plan has packed weights, workspaces and scratch as well. Sizes here are the
// plan's own.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_COMPILER_PLANMEMORY_H
#define COLOSSAL_LIB_COMPILER_PLANMEMORY_H

#include "colossal/Plan/Plan.pb.h"

#include <string>
#include <utility>
#include <vector>

namespace colossal {

/// Bytes of one rank.
struct PlanMemory {
  uint64_t weights = 0, activations = 0, io = 0;
  uint64_t scratch = 0;  ///< of the kernels, for all threads
  uint64_t staging = 0;  ///< of a communicator that moves between processes
  uint64_t messages = 0; ///< that wait on their way to other stages
  uint64_t total() const { return weights + activations + io + scratch + staging + messages; }
  /// The same by name, "total" last.
  std::vector<std::pair<std::string, uint64_t>> list() const {
    return {{"weights", weights}, {"activations", activations}, {"io", io},        {"scratch", scratch},
            {"staging", staging}, {"messages", messages},       {"total", total()}};
  }
  /// "weights 12.0 MiB, ..., total 14.0 MiB (14680064 bytes)".
  std::string describe() const;
};

/// Of a rank of each stage; a plan without stages has one. `threads`: that a rank runs with; each has scratch
/// of its own.
std::vector<PlanMemory> measureStages(const plan::Plan &plan, unsigned threads);
/// The greatest of them.
PlanMemory measurePlan(const plan::Plan &plan, unsigned threads);

} // namespace colossal

#endif // COLOSSAL_LIB_COMPILER_PLANMEMORY_H
