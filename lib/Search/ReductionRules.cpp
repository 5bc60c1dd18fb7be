// Rules R1 to R6 of Reduction.h on the mutable graph.
#include "ReductionGraph.h"

#include <algorithm>
#include <cstring>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace colossal::search {

TablePtr Reduction::Graph::intern(Table table) {
  for (double &cost : table.costs)
    if (isBig(cost))
      cost = kBig;
  std::uint64_t key = XXH64(table.costs.data(), table.costs.size() * sizeof(double), table.rows);
  for (const TablePtr &known : interned[key])
    if (known->rows == table.rows && known->costs == table.costs)
      return known;
  auto kept = std::make_shared<const Table>(std::move(table));
  interned[key].push_back(kept);
  return kept;
}

TablePtr Reduction::Graph::intern(const TablePtr &table) {
  std::uint64_t key = XXH64(table->costs.data(), table->costs.size() * sizeof(double), table->rows);
  for (const TablePtr &known : interned[key])
    if (known->rows == table->rows && known->costs == table->costs)
      return known;
  interned[key].push_back(table);
  return table;
}

TablePtr Reduction::Graph::transposed(const TablePtr &table) {
  auto found = transposes.find(table.get());
  if (found != transposes.end())
    return found->second;
  Table out{table->cols, table->rows, std::vector<double>(table->costs.size())};
  for (int r = 0; r < table->rows; ++r)
    for (int c = 0; c < table->cols; ++c)
      out.costs[static_cast<std::size_t>(c) * table->rows + r] = table->row(r)[c];
  TablePtr result = intern(std::move(out));
  transposes[table.get()] = result;
  transposes[result.get()] = table;
  return result;
}

TablePtr Reduction::Graph::facing(int e, int i) {
  return edges[e].a == i ? edges[e].table : transposed(edges[e].table);
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

void Reduction::Graph::setTable(int e, TablePtr table) {
  edges[e].table = std::move(table);
  enqueue(edges[e].a);
  enqueue(edges[e].b);
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

/// R2 in passing: an edge to a node that is already a neighbour is added to the edge that is there.
void Reduction::Graph::addEdge(int a, int b, TablePtr table) {
  const auto &shorter = nodes[a].edges.size() < nodes[b].edges.size() ? nodes[a].edges : nodes[b].edges;
  for (int e : shorter) {
    if (!edges[e].table || !((edges[e].a == a && edges[e].b == b) || (edges[e].a == b && edges[e].b == a)))
      continue;
    TablePtr old = facing(e, a);
    Table sum = *old;
    for (std::size_t k = 0; k < sum.costs.size(); ++k)
      sum.costs[k] += table->costs[k];
    TablePtr result = intern(std::move(sum));
    setTable(e, edges[e].a == a ? result : transposed(result));
    return;
  }
  int e = static_cast<int>(edges.size());
  edges.push_back({a, b, std::move(table)});
  nodes[a].edges.push_back(e);
  nodes[b].edges.push_back(e);
  enqueue(a);
  enqueue(b);
}

void Reduction::Graph::keepOnly(int i, const std::vector<int> &kept) {
  Node &node = nodes[i];
  trail.push_back({TrailEntry::Keep, i, 0, 0, std::make_shared<const std::vector<int>>(kept), 0});
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
    TablePtr old = facing(e, i);
    Table rows{static_cast<int>(kept.size()), old->cols, {}};
    rows.costs.reserve(kept.size() * old->cols);
    for (int k : kept)
      rows.costs.insert(rows.costs.end(), old->row(k), old->row(k) + old->cols);
    TablePtr result = intern(std::move(rows));
    setTable(e, edges[e].a == i ? result : transposed(result));
  }
  enqueue(i);
}

const std::vector<int> &Reduction::Graph::deadRows(const TablePtr &table) {
  auto [found, fresh] = dead.try_emplace(table.get());
  if (fresh)
    for (int r = 0; r < table->rows; ++r)
      if (std::all_of(table->row(r), table->row(r) + table->cols, isBig))
        found->second.push_back(r);
  return found->second;
}

bool Reduction::Graph::dropForbidden(int i) {
  Node &node = nodes[i];
  std::vector<char> bad(node.cost.size(), 0);
  for (std::size_t k = 0; k < bad.size(); ++k)
    bad[k] = isBig(node.cost[k]);
  for (int e : node.edges)
    for (int r : deadRows(facing(e, i)))
      bad[r] = 1;
  std::vector<int> kept;
  for (std::size_t k = 0; k < bad.size(); ++k)
    if (!bad[k])
      kept.push_back(static_cast<int>(k));
  if (kept.size() == bad.size())
    return false;
  if (kept.empty()) {
    infeasible = true;
    reason = describe(i) + " has no candidate that its neighbours " +
             (limitUsed ? "and the memory limit allow" : "allow");
    return true;
  }
  keepOnly(i, kept);
  return true;
}

const Reduction::Graph::Split &Reduction::Graph::split(const TablePtr &table) {
  auto found = splits.find(table.get());
  if (found != splits.end())
    return found->second;
  Split out;
  Table rest = *table;
  int rows = rest.rows, cols = rest.cols;
  out.row.assign(rows, 0);
  out.col.assign(cols, kBig);
  for (int r = 0; r < rows; ++r) {
    double *row = rest.costs.data() + static_cast<std::size_t>(r) * cols;
    double low = *std::min_element(row, row + cols);
    if (isBig(low))
      low = 0;
    out.row[r] = low;
    for (int c = 0; c < cols; ++c) {
      if (!isBig(row[c]))
        row[c] -= low;
      out.col[c] = std::min(out.col[c], row[c]);
    }
  }
  for (double &low : out.col)
    if (isBig(low))
      low = 0;
  bool zero = true;
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) {
      double &cost = rest.costs[static_cast<std::size_t>(r) * cols + c];
      if (!isBig(cost))
        cost -= out.col[c];
      zero &= cost == 0;
    }
  if (!zero)
    out.rest = intern(std::move(rest));
  return splits[table.get()] = std::move(out);
}

/// R3. Also brings tables to a normal form, in which more of them are equal.
bool Reduction::Graph::simplifyEdges(int i) {
  bool changed = false;
  for (int e : nodes[i].edges) {
    if (!edges[e].table)
      continue;
    TablePtr table = edges[e].table;
    const Split &parts = split(table);
    if (parts.rest == table)
      continue;
    int a = edges[e].a, b = edges[e].b;
    for (std::size_t k = 0; k < parts.row.size(); ++k)
      nodes[a].cost[k] += parts.row[k];
    for (std::size_t k = 0; k < parts.col.size(); ++k)
      nodes[b].cost[k] += parts.col[k];
    TablePtr rest = parts.rest;
    rest ? setTable(e, rest) : removeEdge(e);
    changed = true;
  }
  cleanEdges(i);
  return changed;
}

const std::vector<int> &Reduction::Graph::uniqueColumns(const TablePtr &table) {
  auto found = followMaps.find(table.get());
  if (found != followMaps.end())
    return found->second;
  std::vector<int> map(table->rows, -1);
  for (int r = 0; r < table->rows && !map.empty(); ++r) {
    const double *row = table->row(r);
    for (int c = 0; c < table->cols; ++c) {
      if (isBig(row[c]))
        continue;
      if (map[r] >= 0) {
        map.clear();
        break;
      }
      map[r] = c;
    }
    // A row that allows nothing is R1's to drop, first.
    if (!map.empty() && map[r] < 0)
      map.clear();
  }
  return followMaps[table.get()] = std::move(map);
}

void Reduction::Graph::follow(int leader, int follower, int edge, const std::vector<int> &map) {
  Node &to = nodes[leader], &from = nodes[follower];
  TablePtr table = facing(edge, leader);
  trail.push_back(
      {TrailEntry::Follow, follower, leader, 0, std::make_shared<const std::vector<int>>(map), 0});
  for (std::size_t k = 0; k < map.size(); ++k) {
    to.cost[k] += from.cost[map[k]] + table->row(static_cast<int>(k))[map[k]];
    if (!from.pieces[map[k]].empty()) {
      auto &pieces = to.pieces[k];
      pieces.insert(pieces.end(), from.pieces[map[k]].begin(), from.pieces[map[k]].end());
    }
  }
  edges[edge].table = nullptr;
  from.alive = false;
  std::vector<int> list = std::move(from.edges);
  from.edges.clear();
  for (int e : list) {
    if (!edges[e].table)
      continue;
    int other = otherEnd(e, follower);
    TablePtr old = facing(e, follower);
    edges[e].table = nullptr;
    Table rows{static_cast<int>(map.size()), old->cols, {}};
    rows.costs.reserve(map.size() * old->cols);
    for (int k : map)
      rows.costs.insert(rows.costs.end(), old->row(k), old->row(k) + old->cols);
    addEdge(leader, other, intern(std::move(rows)));
  }
  from.pieces.clear();
  from.cost.clear();
  enqueue(leader);
}

/// R4, for followers of node i. A follower with fewer candidates than its leader makes the tables of its
/// other edges larger; it is merged only where that costs little.
bool Reduction::Graph::mergeFollower(int i) {
  bool changed = false;
  for (std::size_t n = 0; n < nodes[i].edges.size(); ++n) {
    int e = nodes[i].edges[n];
    if (!edges[e].table)
      continue;
    const std::vector<int> &map = uniqueColumns(facing(e, i));
    if (map.empty())
      continue;
    int j = otherEnd(e, i);
    double mine = nodes[i].cost.size(), its = nodes[j].cost.size(), growth = 0;
    if (mine > its)
      for (int f : nodes[j].edges)
        if (f != e && edges[f].table)
          growth += (mine - its) * nodes[otherEnd(f, j)].cost.size();
    if (growth > 4 * mine * its + 1000)
      continue;
    follow(i, j, e, std::vector<int>(map));
    changed = true;
  }
  if (changed)
    cleanEdges(i);
  return changed;
}

bool Reduction::Graph::dropDominated(int i) {
  Node &node = nodes[i];
  int count = static_cast<int>(node.cost.size());
  double work = 0;
  for (int e : node.edges)
    work += nodes[otherEnd(e, i)].cost.size();
  if (count < 2 || work * count * count > 2e6)
    return false;
  std::vector<TablePtr> tables;
  for (int e : node.edges)
    tables.push_back(facing(e, i));
  for (auto &pieces : node.pieces)
    normalizePieces(pieces);
  std::vector<char> gone(count, 0);
  bool any = false;
  for (int k = 0; k < count; ++k)
    for (int l = 0; l < count && !gone[k]; ++l) {
      if (k == l || gone[l])
        continue;
      double slack = node.cost[k] - node.cost[l];
      for (const TablePtr &table : tables) {
        const double *rk = table->row(k), *rl = table->row(l);
        double worst = -kBig;
        for (int c = 0; c < table->cols; ++c)
          if (!isBig(rk[c]))
            worst = std::max(worst, rl[c] - rk[c]);
        slack -= worst;
        if (slack < -kBig / 4)
          break;
      }
      if (slack >= 0 && holdsNoMore(node.pieces[l], node.pieces[k])) {
        gone[k] = 1;
        any = true;
      }
    }
  if (!any)
    return false;
  std::vector<int> kept;
  for (int k = 0; k < count; ++k)
    if (!gone[k])
      kept.push_back(k);
  keepOnly(i, kept);
  return true;
}

bool Reduction::Graph::minimise2(int i) {
  Node &node = nodes[i];
  int e = node.edges[0], f = node.edges[1];
  int p = otherEnd(e, i), q = otherEnd(f, i);
  double rows = nodes[p].cost.size(), cols = nodes[q].cost.size(), mine = node.cost.size();
  if (rows * cols * mine > 3e6 || rows * cols > 4 * mine * (rows + cols) + 4096)
    return false;
  Minimised entry{facing(e, i), facing(f, i), nullptr, node.cost, nullptr};
  std::uint64_t key = XXH64(node.cost.data(), node.cost.size() * sizeof(double),
                            reinterpret_cast<std::uintptr_t>(entry.first.get()) * 31 +
                                reinterpret_cast<std::uintptr_t>(entry.second.get()));
  for (const Minimised &known : minimised[key])
    if (known.first == entry.first && known.second == entry.second && known.cost == entry.cost) {
      entry.result = known.result;
      entry.choice = known.choice;
    }
  if (!entry.result) {
    TablePtr first = transposed(entry.first), second = transposed(entry.second);
    Table best{first->rows, second->rows, std::vector<double>(static_cast<std::size_t>(rows * cols))};
    std::vector<int> choice(best.costs.size());
    std::vector<double> sum(node.cost.size());
    for (int r = 0; r < best.rows; ++r) {
      for (std::size_t k = 0; k < sum.size(); ++k)
        sum[k] = node.cost[k] + first->row(r)[k];
      for (int c = 0; c < best.cols; ++c) {
        const double *row = second->row(c);
        double low = 4 * kBig;
        int at = 0;
        for (std::size_t k = 0; k < sum.size(); ++k)
          if (sum[k] + row[k] < low) {
            low = sum[k] + row[k];
            at = static_cast<int>(k);
          }
        best.costs[static_cast<std::size_t>(r) * best.cols + c] = low;
        choice[static_cast<std::size_t>(r) * best.cols + c] = at;
      }
    }
    entry.result = intern(std::move(best));
    entry.choice = std::make_shared<const std::vector<int>>(std::move(choice));
    minimised[key].push_back(entry);
  }
  trail.push_back({TrailEntry::Minimise2, i, p, q, entry.choice, static_cast<int>(cols)});
  node.alive = false;
  edges[e].table = edges[f].table = nullptr;
  addEdge(p, q, entry.result);
  return true;
}

bool Reduction::Graph::minimiseOut(int i) {
  Node &node = nodes[i];
  if (node.edges.size() > 2 || holdsMemory(i))
    return false;
  if (node.edges.size() == 2)
    return minimise2(i);
  if (node.edges.empty()) {
    auto low = std::min_element(node.cost.begin(), node.cost.end());
    offset += *low;
    trail.push_back({TrailEntry::Fix, i, 0, 0,
                     std::make_shared<const std::vector<int>>(1, static_cast<int>(low - node.cost.begin())),
                     0});
    node.alive = false;
    return true;
  }
  int e = node.edges[0], p = otherEnd(e, i);
  TablePtr table = facing(e, p);
  std::vector<int> choice(table->rows);
  for (int r = 0; r < table->rows; ++r) {
    double low = 4 * kBig;
    for (int k = 0; k < table->cols; ++k)
      if (table->row(r)[k] + node.cost[k] < low) {
        low = table->row(r)[k] + node.cost[k];
        choice[r] = k;
      }
    nodes[p].cost[r] += low;
  }
  trail.push_back(
      {TrailEntry::Minimise1, i, p, 0, std::make_shared<const std::vector<int>>(std::move(choice)), 0});
  node.alive = false;
  edges[e].table = nullptr;
  enqueue(p);
  return true;
}

} // namespace colossal::search
