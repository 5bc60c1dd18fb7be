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

/// How much of the trials each remedy may take, those after it the rest: memory is what one asks for first.
static constexpr double kMemoryShare = 0.4, kMeshShare = 0.8;

/// Of the trials `share`, for as long as it lives; what it leaves is given back.
class TrialShare {
public:
  TrialShare(RemedySearch &search, double share)
      : search(search), kept(search.trials - static_cast<int>(share * search.trials)) {
    search.trials -= kept;
  }
  ~TrialShare() { search.trials += kept; }

private:
  RemedySearch &search;
  int kept;
};

/// Asks one of the functions of the search, unless all trials are spent.
template <class Try>
static std::optional<uint64_t> ask(RemedySearch &search, const std::string &what, Try attempt) {
  if (!search.spend())
    return std::nullopt;
  search.progress(what);
  return attempt();
}

static std::string findMemory(RemedySearch &search) {
  TrialShare share(search, kMemoryShare);
  cost::ByteSize size = cost::roundUpBytes(static_cast<double>(search.needed));
  double raise = kRaise;
  for (int i = 0; i < kAmounts && search.trials > 0; ++i, raise *= 2) {
    std::optional<uint64_t> needed =
        ask(search, "--memory " + size.text, [&] { return search.tryMemory(size.bytes); });
    if (!needed)
      return "";
    if (*needed == 0)
      return "--memory " + size.text + " is enough for each device";
    size = cost::roundUpBytes(
        std::max(static_cast<double>(*needed), (1 + raise) * static_cast<double>(size.bytes)));
  }
  return "how much --memory is enough was not found with the compilations that were tried; less than " +
         size.text + " was not";
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

static std::string findMesh(RemedySearch &search) {
  TrialShare share(search, kMeshShare);
  int64_t most = std::min(search.devices, std::max(kMostRanks, kMostTimes * search.ranks));
  if (most < 2 * search.ranks)
    return "the machine has no devices for a larger mesh";
  for (int64_t ranks = 2 * search.ranks; ranks <= most; ranks *= 2) {
    // Each rank holds at best that much less; what two ranks hold twice may be held once by more.
    double times = static_cast<double>(ranks) / search.ranks;
    if (static_cast<double>(search.needed) / times > 2 * static_cast<double>(search.limit))
      continue;
    for (const std::string &mesh : writeMeshes(ranks)) {
      const std::string option =
          search.countsDevices ? "--devices " + std::to_string(ranks) : "--mesh " + mesh;
      auto fits = [&](bool whole) {
        return ask(search, option, [&] { return search.tryMesh(mesh, whole); }) == 0;
      };
      if (search.trials == 0)
        return "no mesh of less than " + std::to_string(ranks) +
               " devices makes it fit, of those that were tried; larger ones were not";
      if (!fits(false))
        continue;
      if (fits(true))
        return option + " makes it fit";
      if (search.countsDevices)
        break; // that was every mesh of so many
    }
  }
  return "no mesh of up to " + std::to_string(most) + " devices makes it fit, of those that were tried";
}

std::vector<std::string> findRemedies(RemedySearch &search) {
  std::vector<std::string> remedies;
  if (std::string memory = findMemory(search); !memory.empty())
    remedies.push_back(memory);
  if (search.triesMeshes)
    remedies.push_back(findMesh(search));
  for (int64_t batch = search.batch / 2; batch >= 1; batch /= 2) {
    const std::string option = "--dim " + search.batchName + "=" + std::to_string(batch);
    auto fits = [&](bool whole) {
      return ask(search, option, [&] { return search.tryBatch(batch, whole); }) == 0;
    };
    if (fits(false) && fits(true)) {
      remedies.push_back(option + " makes it fit");
      break;
    }
  }
  return remedies;
}

} // namespace colossal
