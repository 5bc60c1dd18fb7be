// Validation of problems and the small arithmetic of costs.
#include "colossal/Search/Problem.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

namespace colossal::search {

Cost costFromSeconds(double seconds) {
  if (!(seconds > 0))
    return 0;
  double picoseconds = std::round(seconds * 1e12);
  return picoseconds >= static_cast<double>(kMaxCost) ? kMaxCost : static_cast<Cost>(picoseconds);
}

double secondsFromCost(Total cost) {
  return static_cast<double>(cost) * 1e-12;
}

std::string toString(Total total) {
  bool negative = total < 0;
  std::string digits;
  do {
    int digit = static_cast<int>(total % 10);
    digits.push_back(static_cast<char>('0' + (digit < 0 ? -digit : digit)));
    total /= 10;
  } while (total != 0);
  if (negative)
    digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

namespace {

bool isLegal(Cost cost) {
  return cost == kForbidden || (cost >= -kMaxCost && cost <= kMaxCost);
}

constexpr std::int64_t kMaxBytes = std::int64_t{1} << 52;

std::string nodePlace(const Problem &problem, std::size_t i) {
  std::string place = "nodes[" + std::to_string(i) + "]";
  if (!problem.nodes[i].name.empty())
    place += " ('" + problem.nodes[i].name + "')";
  return place;
}

std::string validateNodes(const Problem &problem) {
  // The sum of every node's largest single candidate bounds any peak.
  std::int64_t total = 0;
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const Node &node = problem.nodes[i];
    if (node.candidates.empty())
      return nodePlace(problem, i) + ": has no candidates";
    if (node.candidates.size() > (std::size_t{1} << 30))
      return nodePlace(problem, i) + ": more than 2^30 candidates";
    std::int64_t largest = 0;
    for (std::size_t k = 0; k < node.candidates.size(); ++k) {
      const Candidate &candidate = node.candidates[k];
      auto place = [&] { return nodePlace(problem, i) + ".candidates[" + std::to_string(k) + "]"; };
      if (!isLegal(candidate.cost))
        return place() + ": cost " + std::to_string(candidate.cost) + " is outside +-10^18";
      std::int64_t sum = 0;
      for (const MemoryUse &use : candidate.memory) {
        if (use.bytes < 0)
          return place() + ": " + std::to_string(use.bytes) + " bytes is negative";
        if (use.bytes > kMaxBytes || sum > kMaxBytes - use.bytes)
          return place() + ": bytes add up to more than 2^52";
        sum += use.bytes;
      }
      largest = std::max(largest, sum);
    }
    if (total > kMaxBytes - largest)
      return nodePlace(problem, i) + ": bytes of all nodes add up to more than 2^52";
    total += largest;
  }
  return "";
}

/// `known`: classes that were looked at, which many edges share.
std::string validateClasses(const Problem &problem, const Edge &edge, std::size_t k,
                            std::unordered_set<const Classes *> &known) {
  if (k >= edge.classes.size() || !edge.classes[k])
    return "";
  const Classes &classes = *edge.classes[k];
  std::size_t candidates = problem.nodes[edge.nodes[k]].candidates.size();
  if (classes.of.size() != candidates)
    return "tells the classes of " + std::to_string(classes.of.size()) + " candidates, the node has " +
           std::to_string(candidates);
  if (classes.count < 1 || static_cast<std::size_t>(classes.count) > candidates)
    return std::to_string(classes.count) + " classes of " + std::to_string(candidates) + " candidates";
  if (!known.insert(&classes).second)
    return "";
  std::vector<char> seen(classes.count, 0);
  for (std::int32_t each : classes.of) {
    if (each < 0 || each >= classes.count)
      return "class " + std::to_string(each) + " does not exist, there are " + std::to_string(classes.count);
    seen[each] = 1;
  }
  auto empty = std::find(seen.begin(), seen.end(), 0);
  return empty == seen.end() ? "" : "class " + std::to_string(empty - seen.begin()) + " has no candidate";
}

std::string validateEdge(const Problem &problem, std::size_t e, std::unordered_set<const Classes *> &known) {
  const Edge &edge = problem.edges[e];
  auto place = [&] { return "edges[" + std::to_string(e) + "]"; };
  if (edge.nodes.empty())
    return place() + ": ties no nodes together";
  std::size_t size = 1;
  for (std::size_t k = 0; k < edge.nodes.size(); ++k) {
    std::int32_t node = edge.nodes[k];
    if (node < 0 || static_cast<std::size_t>(node) >= problem.nodes.size())
      return place() + ".nodes[" + std::to_string(k) + "]: node " + std::to_string(node) +
             " does not exist, there are " + std::to_string(problem.nodes.size());
    for (std::size_t l = 0; l < k; ++l)
      if (edge.nodes[l] == node)
        return place() + ".nodes[" + std::to_string(k) + "]: node " + std::to_string(node) + " stands twice";
    if (std::string error = validateClasses(problem, edge, k, known); !error.empty())
      return place() + ".classes[" + std::to_string(k) + "]: " + error;
    auto classes = static_cast<std::size_t>(problem.countClasses(edge, k));
    if (size > (std::size_t{1} << 40) / classes)
      return place() + ": more than 2^40 combinations";
    size *= classes;
  }
  if (edge.classes.size() > edge.nodes.size())
    return place() + ": has classes of " + std::to_string(edge.classes.size()) + " nodes, and ties " +
           std::to_string(edge.nodes.size());
  if (!edge.table)
    return place() + ": has no table";
  if (edge.table->size() != size) {
    std::string shape;
    for (std::size_t k = 0; k < edge.nodes.size(); ++k)
      shape += (k ? " x " : "") + std::to_string(problem.countClasses(edge, k));
    bool hasClasses =
        std::any_of(edge.classes.begin(), edge.classes.end(), [](const auto &c) { return c != nullptr; });
    return place() + ": table has " + std::to_string(edge.table->size()) + " costs, its nodes have " + shape +
           (hasClasses ? " classes" : " candidates");
  }
  return "";
}

} // namespace

std::string validate(const Problem &problem) {
  if (problem.nodes.size() > (std::size_t{1} << 30))
    return "nodes: more than 2^30";
  if (problem.memoryLimit && (*problem.memoryLimit < 0 || *problem.memoryLimit > kMaxBytes))
    return "memory_limit: " + std::to_string(*problem.memoryLimit) + " is outside 0..2^52";
  if (std::string error = validateNodes(problem); !error.empty())
    return error;
  std::unordered_set<const CostTable *> seen; // many edges share a table: look at its costs once
  std::unordered_set<const Classes *> known;
  for (std::size_t e = 0; e < problem.edges.size(); ++e) {
    if (std::string error = validateEdge(problem, e, known); !error.empty())
      return error;
    const CostTable *table = problem.edges[e].table.get();
    if (!seen.insert(table).second)
      continue;
    auto bad = std::find_if_not(table->begin(), table->end(), isLegal);
    if (bad != table->end())
      return "edges[" + std::to_string(e) + "]: cost " + std::to_string(*bad) + " at entry " +
             std::to_string(bad - table->begin()) + " is outside +-10^18";
  }
  return "";
}

} // namespace colossal::search
