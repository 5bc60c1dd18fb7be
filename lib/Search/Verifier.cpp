// The definition of cost and memory, word for word.
#include "colossal/Search/Verifier.h"

#include <algorithm>
#include <utility>

namespace colossal::search {

namespace {

void addMemory(const Problem &problem, const Assignment &assignment, Verdict &verdict) {
  std::vector<std::pair<std::int64_t, std::int64_t>> changes; // (step, bytes more from this step on)
  for (std::size_t i = 0; i < problem.nodes.size(); ++i)
    for (const MemoryUse &use : problem.nodes[i].candidates[assignment[i]].memory)
      if (use.begin < use.end && use.bytes != 0) {
        changes.emplace_back(use.begin, use.bytes);
        changes.emplace_back(use.end, -use.bytes);
      }
  std::sort(changes.begin(), changes.end());
  std::int64_t held = 0;
  for (std::size_t k = 0; k < changes.size(); ++k) {
    held += changes[k].second;
    bool stepComplete = k + 1 == changes.size() || changes[k + 1].first != changes[k].first;
    if (stepComplete && held > verdict.peakBytes) {
      verdict.peakBytes = held;
      verdict.peakStep = changes[k].first;
    }
  }
  if (problem.memoryLimit)
    verdict.excessBytes = std::max<std::int64_t>(0, verdict.peakBytes - *problem.memoryLimit);
}

} // namespace

Verdict verify(const Problem &problem, const Assignment &assignment) {
  Verdict verdict;
  if (assignment.size() != problem.nodes.size()) {
    verdict.malformed = "the assignment has " + std::to_string(assignment.size()) +
                        " entries, the problem has " + std::to_string(problem.nodes.size()) + " nodes";
    return verdict;
  }
  for (std::size_t i = 0; i < assignment.size(); ++i)
    if (assignment[i] < 0 || static_cast<std::size_t>(assignment[i]) >= problem.nodes[i].candidates.size()) {
      verdict.malformed = "node " + std::to_string(i) + ": candidate " + std::to_string(assignment[i]) +
                          " does not exist, there are " + std::to_string(problem.nodes[i].candidates.size());
      return verdict;
    }
  auto add = [&](Cost cost) {
    if (cost == kForbidden)
      ++verdict.forbidden;
    else
      verdict.cost += cost;
  };
  for (std::size_t i = 0; i < assignment.size(); ++i)
    add(problem.nodes[i].candidates[assignment[i]].cost);
  for (const Edge &edge : problem.edges) {
    std::size_t entry = 0;
    for (std::size_t k = 0; k < edge.nodes.size(); ++k)
      entry = entry * static_cast<std::size_t>(problem.countClasses(edge, k)) +
              static_cast<std::size_t>(edge.classOf(k, assignment[edge.nodes[k]]));
    add((*edge.table)[entry]);
  }
  addMemory(problem, assignment, verdict);
  return verdict;
}

} // namespace colossal::search
