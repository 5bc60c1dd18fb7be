// Rule R8 of Reduction.h: what the memory limit alone forbids.
#include "ReductionGraph.h"

#include <algorithm>
#include <cmath>

namespace colossal::search {

namespace {

/// The least value of a range of steps, in constant time: a table of powers of two.
class RangeMinimum {
public:
  explicit RangeMinimum(const std::vector<double> &values) {
    levels.push_back(values);
    for (std::size_t width = 1; 2 * width <= values.size(); width *= 2) {
      const std::vector<double> &last = levels.back();
      std::vector<double> next(values.size() - 2 * width + 1);
      for (std::size_t t = 0; t < next.size(); ++t)
        next[t] = std::min(last[t], last[t + width]);
      levels.push_back(std::move(next));
    }
  }
  /// Over [begin, end), begin < end.
  double operator()(int begin, int end) const {
    int level = std::ilogb(static_cast<double>(end - begin));
    return std::min(levels[level][begin], levels[level][end - (1 << level)]);
  }

private:
  std::vector<std::vector<double>> levels;
};

/// Whether two candidates of different nodes, whose pieces these are, are together over the room that is
/// left.
bool clash(const std::vector<Piece> &a, const std::vector<Piece> &b, const RangeMinimum &room) {
  for (std::size_t p = 0, q = 0; p < a.size() && q < b.size();) {
    int begin = std::max(a[p].begin, b[q].begin), end = std::min(a[p].end, b[q].end);
    if (begin < end && a[p].bytes + b[q].bytes > room(begin, end))
      return true;
    a[p].end < b[q].end ? ++p : ++q;
  }
  return false;
}

double largest(const std::vector<Piece> &pieces) {
  double most = 0;
  for (const Piece &piece : pieces)
    most = std::max(most, piece.bytes);
  return most;
}

} // namespace

bool Reduction::Graph::dropOversized() {
  if (capacity.empty())
    return false;
  RangeMinimum room(capacity);
  bool changed = false;
  std::vector<int> kept;
  for (int i = 0; i < static_cast<int>(nodes.size()) && !infeasible; ++i) {
    Node &node = nodes[i];
    if (!node.alive)
      continue;
    kept.clear();
    for (int k = 0; k < static_cast<int>(node.pieces.size()); ++k) {
      const std::vector<Piece> &pieces = node.pieces[k];
      if (std::all_of(pieces.begin(), pieces.end(),
                      [&](const Piece &p) { return p.bytes <= room(p.begin, p.end); }))
        kept.push_back(k);
    }
    if (kept.size() == node.pieces.size())
      continue;
    if (kept.empty()) {
      infeasible = true;
      reason = describe(i) + " has no candidate that fits beside the least bytes of the others";
      return true;
    }
    cleanEdges(i);
    keepOnly(i, kept);
    changed = limitUsed = true;
  }
  return changed;
}

bool Reduction::Graph::forbidClashes() {
  if (capacity.empty())
    return false;
  RangeMinimum room(capacity);
  double least = room(0, static_cast<int>(capacity.size()));
  bool changed = false;
  std::vector<double> mine, other;
  for (int e = 0; e < static_cast<int>(edges.size()); ++e) {
    if (!edges[e].table)
      continue;
    const NodePieces &rows = nodes[edges[e].a].pieces, &cols = nodes[edges[e].b].pieces;
    mine.clear();
    other.clear();
    for (const auto &pieces : rows)
      mine.push_back(largest(pieces));
    for (const auto &pieces : cols)
      other.push_back(largest(pieces));
    if (*std::max_element(mine.begin(), mine.end()) + *std::max_element(other.begin(), other.end()) <= least)
      continue;
    // Candidates of one class may hold different bytes: where some pair clashes, classes are taken apart.
    TablePtr table = edges[e].table;
    const std::vector<int> &rowOf = edges[e].rows->of, &colOf = edges[e].cols->of;
    std::optional<Table> made;
    for (std::size_t r = 0; r < rowOf.size(); ++r)
      for (std::size_t c = 0; c < colOf.size(); ++c) {
        if (mine[r] + other[c] <= least || isBig(table->row(rowOf[r])[colOf[c]]) ||
            !clash(rows[r], cols[c], room))
          continue;
        if (!made)
          made = *spread(table, edges[e].rows, edges[e].cols);
        made->costs[r * colOf.size() + c] = kBig;
      }
    if (!made)
      continue;
    setEdge(e, edges[e].a, {intern(std::move(*made)), identity(rowOf.size()), identity(colOf.size())});
    changed = limitUsed = true;
  }
  return changed;
}

} // namespace colossal::search
