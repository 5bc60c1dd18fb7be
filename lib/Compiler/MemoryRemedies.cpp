//===- MemoryRemedies.cpp - what makes a model fit --------------------------===//
#include "MemoryRemedies.h"

#include "colossal/Cost/ByteSize.h"

#include <algorithm>

namespace colossal {

/// A plan of more memory may be another one, which needs more again: so often the amount is raised, by kRaise
/// of it and each time by twice that part, more than a hundredfold in all.
static constexpr int kAmounts = 10;
static constexpr double kRaise = 0.02;
/// Larger meshes than these are no remedy that anybody asks for: ranks of one mesh, and times the given ones.
static constexpr int64_t kMostRanks = 64, kMostTimes = 8;

static std::optional<cost::ByteSize> findMemory(const RemedySearch &search) {
  cost::ByteSize size = cost::roundUpBytes(static_cast<double>(search.needed));
  double raise = kRaise;
  for (int i = 0; i < kAmounts; ++i, raise *= 2) {
    std::optional<uint64_t> needed = search.tryMemory(size.bytes);
    if (!needed)
      return std::nullopt;
    if (*needed == 0)
      return size;
    size = cost::roundUpBytes(
        std::max(static_cast<double>(*needed), (1 + raise) * static_cast<double>(size.bytes)));
  }
  return std::nullopt;
}

/// As one axis, then as near to a square as can be.
static std::vector<std::string> writeMeshes(int64_t ranks) {
  std::vector<std::string> texts{std::to_string(ranks)};
  int64_t outer = 1;
  for (int64_t d = 2; d * d <= ranks; ++d)
    if (ranks % d == 0)
      outer = d;
  if (outer > 1)
    texts.push_back(std::to_string(outer) + "x" + std::to_string(ranks / outer));
  return texts;
}

static std::string findMesh(const RemedySearch &search) {
  int64_t most = std::min(search.devices, std::max(kMostRanks, kMostTimes * search.ranks));
  if (most < 2 * search.ranks)
    return "the machine has no devices for a larger mesh";
  for (int64_t ranks = 2 * search.ranks; ranks <= most; ranks *= 2) {
    // Each rank holds at best that much less; what two ranks hold twice may be held once by more.
    double times = static_cast<double>(ranks) / search.ranks;
    if (static_cast<double>(search.needed) / times > 2 * static_cast<double>(search.limit))
      continue;
    for (const std::string &mesh : writeMeshes(ranks))
      if (search.tryMesh(mesh, false) == 0 && search.tryMesh(mesh, true) == 0)
        return "--mesh " + mesh + " makes it fit";
  }
  return "no mesh of up to " + std::to_string(most) + " devices makes it fit, of those that were tried";
}

std::vector<std::string> findRemedies(const RemedySearch &search) {
  std::vector<std::string> remedies;
  if (std::optional<cost::ByteSize> enough = findMemory(search))
    remedies.push_back("--memory " + enough->text + " is enough for each device");
  if (search.triesMeshes)
    remedies.push_back(findMesh(search));
  for (int64_t batch = search.batch / 2; batch >= 1; batch /= 2)
    if (search.tryBatch(batch, false) == 0 && search.tryBatch(batch, true) == 0) {
      remedies.push_back("--dim " + search.batchName + "=" + std::to_string(batch) + " makes it fit");
      break;
    }
  return remedies;
}

} // namespace colossal
