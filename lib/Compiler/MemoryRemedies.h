//===- MemoryRemedies.h - what makes a model fit ----------------------------===//
//
// Asked where a model does not fit. Nothing is estimated: every remedy that is named was tried. How many
// compilations are tried is bounded, and what was not found for that is said.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_COMPILER_MEMORYREMEDIES_H
#define COLOSSAL_LIB_COMPILER_MEMORYREMEDIES_H

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace colossal {

struct RemedySearch {
  uint64_t limit = 0;             ///< bytes of a device
  uint64_t needed = 0;            ///< bytes with which something may fit
  int64_t ranks = 1, devices = 1; ///< of the mesh; of the machine
  bool triesMeshes = true;
  bool countsDevices = false; ///< a mesh is asked for by the number of its ranks, --devices
  int64_t batch = 1;          ///< 1: none that can be smaller
  std::string batchName;
  /// Compilations that are left to be tried, which each of the three functions takes one of (and its callee,
  /// by spend, perhaps more).
  int trials = 0;
  bool spend() { return trials > 0 && trials-- > 0; }
  /// What is tried next, as an option.
  std::function<void(const std::string &what)> progress;
  /// 0 if it fits with so many bytes, else the bytes that it needs; none where it fails for another reason.
  std::function<std::optional<uint64_t>(uint64_t memory)> tryMemory;
  /// The same with the limit, on another mesh; not `whole`: as far as the search for layouts. Where devices
  /// are counted, the mesh is whole what is found for as many devices as it has ranks.
  std::function<std::optional<uint64_t>(const std::string &mesh, bool whole)> tryMesh;
  std::function<std::optional<uint64_t>(int64_t batch, bool whole)> tryBatch;
};

/// For people, one sentence each: the memory that is enough; a mesh, or that none was found; a batch.
std::vector<std::string> findRemedies(RemedySearch &search);

} // namespace colossal

#endif // COLOSSAL_LIB_COMPILER_MEMORYREMEDIES_H
