// Tables, classes, edges and candidates of the mutable graph: equal ones are one object, and every change of
// a node reaches its edges. Knows no rule but R2, which adding an edge is.
#include "ReductionGraph.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace colossal::search {

Table transpose(const Table &table) {
  constexpr int kBlock = 16; // rows and columns that stay in the cache together
  Table out{table.cols, table.rows, std::vector<double>(table.costs.size())};
  for (int top = 0; top < table.rows; top += kBlock)
    for (int left = 0; left < table.cols; left += kBlock)
      for (int r = top; r < std::min(top + kBlock, table.rows); ++r)
        for (int c = left; c < std::min(left + kBlock, table.cols); ++c)
          out.costs[static_cast<std::size_t>(c) * table.rows + r] = table.row(r)[c];
  return out;
}

static std::uint64_t hashOf(const Table &table) {
  return XXH3_64bits_withSeed(table.costs.data(), table.costs.size() * sizeof(double), table.rows);
}

/// Bit for bit: a sum that is a zero is never a negative one.
static bool areEqual(const Table &a, const Table &b) {
  return a.rows == b.rows && a.costs.size() == b.costs.size() &&
         std::memcmp(a.costs.data(), b.costs.data(), a.costs.size() * sizeof(double)) == 0;
}

TablePtr Reduction::Graph::intern(Table table) {
  for (double &cost : table.costs)
    cost = isBig(cost) ? kBig : cost; // written whatever it is: several at once
  std::vector<TablePtr> &alike = interned[hashOf(table)];
  for (const TablePtr &known : alike)
    if (areEqual(*known, table))
      return known;
  return alike.emplace_back(std::make_shared<const Table>(std::move(table)));
}

MapPtr Reduction::Graph::intern(ClassMap map) {
  std::vector<MapPtr> &alike =
      internedMaps[XXH3_64bits_withSeed(map.of.data(), map.of.size() * sizeof(int), map.count)];
  for (const MapPtr &known : alike)
    if (known->of == map.of)
      return known;
  return alike.emplace_back(std::make_shared<const ClassMap>(std::move(map)));
}

MapPtr Reduction::Graph::identity(std::size_t candidates) {
  ClassMap map{std::vector<int>(candidates), static_cast<int>(candidates)};
  std::iota(map.of.begin(), map.of.end(), 0);
  return intern(std::move(map));
}

TablePtr Reduction::Graph::intern(const TablePtr &table) {
  std::vector<TablePtr> &alike = interned[hashOf(*table)];
  for (const TablePtr &known : alike)
    if (areEqual(*known, *table))
      return known;
  return alike.emplace_back(table);
}

TablePtr Reduction::Graph::transposed(const TablePtr &table) {
  auto found = transposes.find(table.get());
  if (found != transposes.end())
    return found->second;
  TablePtr result = intern(transpose(*table));
  transposes[table.get()] = result;
  transposes[result.get()] = table;
  return result;
}

TablePtr Reduction::Graph::spread(const TablePtr &table, const MapPtr &rows, const MapPtr &cols) {
  if (rows == identity(rows->of.size()) && cols == identity(cols->of.size()))
    return table;
  Table out{static_cast<int>(rows->of.size()), static_cast<int>(cols->of.size()), {}};
  out.costs.reserve(rows->of.size() * cols->of.size());
  for (int r : rows->of) {
    const double *row = table->row(r);
    for (int c : cols->of)
      out.costs.push_back(row[c]);
  }
  return intern(std::move(out));
}

Reduction::Graph::View Reduction::Graph::facing(int e, int i) {
  const Edge &edge = edges[e];
  if (edge.a == i)
    return {edge.table, edge.rows, edge.cols};
  return {transposed(edge.table), edge.cols, edge.rows};
}

void Reduction::Graph::enqueue(int i) {
  if (!nodes[i].queued && nodes[i].alive) {
    nodes[i].queued = true;
    queue.push_back(i);
  }
}

void Reduction::Graph::removeEdge(int e) {
  edges[e].table = nullptr;
  enqueue(edges[e].a);
  enqueue(edges[e].b);
}

void Reduction::Graph::setEdge(int e, int i, View view) {
  Edge &edge = edges[e];
  if (edge.a != i) {
    view.table = transposed(view.table);
    std::swap(view.mine, view.theirs);
  }
  edge.table = std::move(view.table);
  edge.rows = std::move(view.mine);
  edge.cols = std::move(view.theirs);
  enqueue(edge.a);
  enqueue(edge.b);
}

void Reduction::Graph::cleanEdges(int i) {
  auto &list = nodes[i].edges;
  list.erase(std::remove_if(list.begin(), list.end(), [&](int e) { return !edges[e].table; }), list.end());
}

bool Reduction::Graph::holdsMemory(int i) const {
  for (const auto &pieces : nodes[i].pieces)
    if (!pieces.empty())
      return true;
  return false;
}

std::pair<TablePtr, MapPtr> Reduction::Graph::compact(TablePtr table, std::vector<int> of) {
  std::vector<int> number(table->rows, -1), used;
  for (int each : of)
    number[each] = 0;
  for (int r = 0; r < table->rows; ++r)
    if (number[r] == 0) {
      number[r] = static_cast<int>(used.size());
      used.push_back(r);
    }
  if (static_cast<int>(used.size()) < table->rows) {
    Table rows{static_cast<int>(used.size()), table->cols, {}};
    rows.costs.reserve(used.size() * table->cols);
    for (int r : used)
      rows.costs.insert(rows.costs.end(), table->row(r), table->row(r) + table->cols);
    table = intern(std::move(rows));
    for (int &each : of)
      each = number[each];
  }
  int count = table->rows;
  return {std::move(table), intern(ClassMap{std::move(of), count})};
}

MapPtr Reduction::Graph::renumber(const MapPtr &map, const std::vector<int> &number) {
  ClassMap out{map->of, 0};
  for (int &each : out.of) {
    each = number[each];
    out.count = std::max(out.count, each + 1);
  }
  return intern(std::move(out));
}

CommonClasses meet(const ClassMap &a, const ClassMap &b) {
  CommonClasses out;
  std::unordered_map<std::int64_t, int> number;
  for (std::size_t k = 0; k < a.of.size(); ++k) {
    auto [at, fresh] = number.try_emplace(static_cast<std::int64_t>(a.of[k]) * b.count + b.of[k],
                                          static_cast<int>(out.from.size()));
    if (fresh)
      out.from.emplace_back(a.of[k], b.of[k]);
    out.map.of.push_back(at->second);
  }
  out.map.count = static_cast<int>(out.from.size());
  return out;
}

/// R2 in passing: an edge to a node that is already a neighbour is added to the edge that is there.
void Reduction::Graph::addEdge(int a, int b, View view) {
  const auto &shorter = nodes[a].edges.size() < nodes[b].edges.size() ? nodes[a].edges : nodes[b].edges;
  for (int e : shorter) {
    if (!edges[e].table || !((edges[e].a == a && edges[e].b == b) || (edges[e].a == b && edges[e].b == a)))
      continue;
    View old = facing(e, a);
    if (old.mine == view.mine && old.theirs == view.theirs) {
      Table sum = *old.table;
      for (std::size_t k = 0; k < sum.costs.size(); ++k)
        sum.costs[k] += view.table->costs[k];
      setEdge(e, a, {intern(std::move(sum)), old.mine, old.theirs});
      return;
    }
    CommonClasses rows = meet(*old.mine, *view.mine), cols = meet(*old.theirs, *view.theirs);
    Table sum{rows.map.count, cols.map.count, {}};
    sum.costs.reserve(rows.from.size() * cols.from.size());
    for (auto [first, second] : rows.from) {
      const double *one = old.table->row(first), *other = view.table->row(second);
      for (auto [left, right] : cols.from)
        sum.costs.push_back(one[left] + other[right]);
    }
    setEdge(e, a, {intern(std::move(sum)), intern(std::move(rows.map)), intern(std::move(cols.map))});
    return;
  }
  int e = static_cast<int>(edges.size());
  edges.push_back({a, b, std::move(view.table), std::move(view.mine), std::move(view.theirs)});
  nodes[a].edges.push_back(e);
  nodes[b].edges.push_back(e);
  enqueue(a);
  enqueue(b);
}

void Reduction::Graph::keepOnly(int i, const std::vector<int> &kept) {
  Node &node = nodes[i];
  trail.push_back({TrailEntry::Keep, i, 0, 0, std::make_shared<const std::vector<int>>(kept)});
  for (std::size_t k = 0; k < kept.size(); ++k) {
    node.cost[k] = node.cost[kept[k]];
    node.origin[k] = node.origin[kept[k]];
    if (static_cast<int>(k) != kept[k])
      node.pieces[k] = std::move(node.pieces[kept[k]]);
  }
  node.cost.resize(kept.size());
  node.origin.resize(kept.size());
  node.pieces.resize(kept.size());
  for (int e : node.edges) {
    if (!edges[e].table)
      continue;
    View old = facing(e, i);
    std::vector<int> of;
    for (int k : kept)
      of.push_back(old.mine->of[k]);
    auto [table, mine] = compact(old.table, std::move(of));
    setEdge(e, i, {table, mine, old.theirs});
  }
  enqueue(i);
}

} // namespace colossal::search
