//===- RepeatedNodes.cpp - where a graph of nodes repeats itself ------------===//
#include "RepeatedNodes.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"

#include <map>
#include <unordered_map>

namespace colossal::onnx_import {

/// Nodes that are looked at together: few runs of so many are alike by chance.
static constexpr size_t kWindow = 16;
/// Distances between like windows that are tried, the most frequent ones.
static constexpr size_t kDistances = 4;

static llvm::hash_code hashAttribute(const onnx::AttributeProto &attribute) {
  llvm::hash_code hash =
      llvm::hash_combine(llvm::StringRef(attribute.name()), static_cast<int>(attribute.type()), attribute.i(),
                         llvm::bit_cast<uint32_t>(attribute.f()), llvm::StringRef(attribute.s()),
                         llvm::hash_combine_range(attribute.ints().begin(), attribute.ints().end()),
                         attribute.floats_size(), attribute.strings_size());
  if (attribute.has_t())
    hash = llvm::hash_combine(
        hash, attribute.t().data_type(),
        llvm::hash_combine_range(attribute.t().dims().begin(), attribute.t().dims().end()));
  if (attribute.has_g())
    hash = llvm::hash_combine(hash, attribute.g().node_size());
  return hash;
}

static size_t hashKind(const onnx::NodeProto &node) {
  llvm::hash_code hash = llvm::hash_combine(llvm::StringRef(node.op_type()), llvm::StringRef(node.domain()),
                                            node.input_size(), node.output_size());
  for (const auto &attribute : node.attribute())
    hash = llvm::hash_combine(hash, hashAttribute(attribute));
  return hash;
}

/// By how often a window of `kinds` is followed by one like it at that distance; of equal ones the shortest.
static std::vector<size_t> findDistances(llvm::ArrayRef<size_t> kinds) {
  std::unordered_map<size_t, size_t> last; // where a window stood, by its hash
  std::map<size_t, size_t> counts;
  for (size_t i = 0; i + kWindow <= kinds.size(); ++i) {
    llvm::ArrayRef<size_t> window = kinds.slice(i, kWindow);
    auto [place, isNew] = last.try_emplace(llvm::hash_combine_range(window.begin(), window.end()), i);
    if (isNew)
      continue;
    ++counts[i - place->second];
    place->second = i;
  }
  std::vector<size_t> distances;
  for (auto [distance, count] : counts)
    distances.push_back(distance);
  llvm::stable_sort(distances, [&](size_t a, size_t b) { return counts[a] > counts[b]; });
  distances.resize(std::min(distances.size(), kDistances));
  return distances;
}

RepeatedNodes findRepeatedNodes(const Nodes &nodes, llvm::ArrayRef<int> order) {
  std::vector<size_t> kinds;
  kinds.reserve(order.size());
  for (int node : order)
    kinds.push_back(hashKind(nodes[node]));
  RepeatedNodes best;
  for (size_t period : findDistances(kinds))
    for (size_t i = 0; i + period < kinds.size(); ++i) {
      const size_t first = i;
      while (i + period < kinds.size() && kinds[i] == kinds[i + period])
        ++i;
      RepeatedNodes found{first, period, (i - first) / period + 1};
      if (found.dropped() > best.dropped())
        best = found;
    }
  return best;
}

} // namespace colossal::onnx_import
