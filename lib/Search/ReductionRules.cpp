// Rules R1 and R3 to R6 of Reduction.h on the mutable graph.
#include "MinPlus.h"
#include "ReductionGraph.h"

#include <algorithm>
#include <cstring>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace colossal::search {

const Reduction::Graph::Dead &Reduction::Graph::findDead(const TablePtr &table) {
  auto [found, fresh] = dead.try_emplace(table.get());
  if (!fresh)
    return found->second;
  std::vector<char> lives(table->cols, 0);
  for (int r = 0; r < table->rows; ++r) {
    const double *row = table->row(r);
    bool isDead = true;
    for (int c = 0; c < table->cols; ++c) {
      const bool isAllowed = !isBig(row[c]);
      lives[c] |= static_cast<char>(isAllowed);
      isDead &= !isAllowed;
    }
    if (isDead)
      found->second.rows.push_back(r);
  }
  for (int c = 0; c < table->cols; ++c)
    if (!lives[c])
      found->second.cols.push_back(c);
  return found->second;
}

bool Reduction::Graph::dropForbidden(int i) {
  Node &node = nodes[i];
  std::vector<char> bad; // empty: none, as of nearly all
  auto drop = [&](std::size_t k) {
    bad.resize(node.cost.size());
    bad[k] = 1;
  };
  for (std::size_t k = 0; k < node.cost.size(); ++k)
    if (isBig(node.cost[k]))
      drop(k);
  for (int e : node.edges) {
    const Dead &both = findDead(edges[e].table);
    const std::vector<int> &classes = edges[e].a == i ? both.rows : both.cols;
    if (classes.empty())
      continue;
    const ClassMap &mine = edges[e].a == i ? *edges[e].rows : *edges[e].cols;
    for (std::size_t k = 0; k < node.cost.size(); ++k)
      if (std::binary_search(classes.begin(), classes.end(), mine.of[k]))
        drop(k);
  }
  if (bad.empty())
    return false;
  std::vector<int> kept;
  for (std::size_t k = 0; k < bad.size(); ++k)
    if (!bad[k])
      kept.push_back(static_cast<int>(k));
  if (kept.empty()) {
    infeasible = true;
    reason = describe(i) + " has no candidate that its neighbours " +
             (limitUsed ? "and the memory limit allow" : "allow");
    return true;
  }
  keepOnly(i, kept);
  return true;
}

namespace {

/// For each of `count` things the number of its contents, counted in the order of first appearance; `first`:
/// a thing of each. `hashes` are equal where contents are, `isEqual` compares two.
template <typename Equal>
std::vector<int> numberContents(const std::vector<std::uint64_t> &hashes, std::vector<int> &first,
                                const Equal &isEqual) {
  const int count = static_cast<int>(hashes.size());
  std::vector<int> number(count);
  first.reserve(count);
  // Numbers by hash, probed place after place: at most half of the places are taken.
  std::size_t places = 4;
  while (places < 2 * static_cast<std::size_t>(count))
    places *= 2;
  std::vector<int> seen(places, -1);
  for (int r = 0; r < count; ++r) {
    std::size_t at = hashes[r] & (places - 1);
    while (seen[at] >= 0 && (hashes[first[seen[at]]] != hashes[r] || !isEqual(r, first[seen[at]])))
      at = (at + 1) & (places - 1);
    if (seen[at] < 0) {
      seen[at] = static_cast<int>(first.size());
      first.push_back(r);
    }
    number[r] = seen[at];
  }
  return number;
}

std::uint64_t bitsOf(double cost) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &cost, sizeof(bits));
  return bits;
}

std::vector<int> numberRows(const Table &table, std::vector<int> &first) {
  std::vector<std::uint64_t> hashes(table.rows);
  for (int r = 0; r < table.rows; ++r)
    hashes[r] = XXH3_64bits(table.row(r), table.cols * sizeof(double));
  return numberContents(hashes, first, [&](int a, int b) {
    return std::equal(table.row(a), table.row(a) + table.cols, table.row(b));
  });
}

/// The same of columns, row by row as the table lies.
std::vector<int> numberColumns(const Table &table, std::vector<int> &first) {
  std::vector<std::uint64_t> hashes(table.cols, 0);
  for (int r = 0; r < table.rows; ++r) {
    const double *row = table.row(r);
    for (int c = 0; c < table.cols; ++c)
      hashes[c] = (hashes[c] ^ bitsOf(row[c])) * 0x9e3779b97f4a7c15ULL;
  }
  for (std::uint64_t &hash : hashes)
    hash ^= hash >> 32; // the low bits of the products know little of the costs' high ones
  return numberContents(hashes, first, [&](int a, int b) {
    for (int r = 0; r < table.rows; ++r)
      if (table.row(r)[a] != table.row(r)[b])
        return false;
    return true;
  });
}

Table selectRows(const Table &table, const std::vector<int> &rows) {
  Table out{static_cast<int>(rows.size()), table.cols, {}};
  out.costs.reserve(rows.size() * table.cols);
  for (int r : rows)
    out.costs.insert(out.costs.end(), table.row(r), table.row(r) + table.cols);
  return out;
}

Table selectColumns(const Table &table, const std::vector<int> &cols) {
  Table out{table.rows, static_cast<int>(cols.size()), {}};
  out.costs.reserve(cols.size() * table.rows);
  for (int r = 0; r < table.rows; ++r)
    for (int c : cols)
      out.costs.push_back(table.row(r)[c]);
  return out;
}

} // namespace

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
    double *col = out.col.data();
    for (int c = 0; c < cols; ++c) { // without branches: several columns at once
      const double cost = isBig(row[c]) ? row[c] : row[c] - low;
      row[c] = cost;
      col[c] = cost < col[c] ? cost : col[c];
    }
  }
  for (double &low : out.col)
    if (isBig(low))
      low = 0;
  bool zero = true;
  for (int r = 0; r < rows; ++r) {
    double *row = rest.costs.data() + static_cast<std::size_t>(r) * cols;
    const double *col = out.col.data();
    for (int c = 0; c < cols; ++c)
      row[c] = isBig(row[c]) ? kBig : row[c] - col[c];
    zero = zero && std::all_of(row, row + cols, [](double cost) { return cost == 0; });
  }
  if (!zero) {
    std::vector<int> first;
    out.rowOf = numberRows(rest, first);
    if (static_cast<int>(first.size()) < rows)
      rest = selectRows(rest, first);
    first.clear();
    out.colOf = numberColumns(rest, first);
    if (static_cast<int>(first.size()) < cols)
      rest = selectColumns(rest, first);
    out.rest = intern(std::move(rest));
  }
  return splits[table.get()] = std::move(out);
}

/// R3. Also brings tables to a normal form, in which more of them are equal, and classes of a node that cost
/// the same on an edge together.
bool Reduction::Graph::simplifyEdges(int i) {
  bool changed = false;
  for (int e : nodes[i].edges) {
    if (!edges[e].table)
      continue;
    const Split &parts = split(edges[e].table);
    if (parts.rest == edges[e].table)
      continue;
    int a = edges[e].a, b = edges[e].b;
    MapPtr rows = edges[e].rows, cols = edges[e].cols;
    for (std::size_t k = 0; k < rows->of.size(); ++k)
      nodes[a].cost[k] += parts.row[rows->of[k]];
    for (std::size_t k = 0; k < cols->of.size(); ++k)
      nodes[b].cost[k] += parts.col[cols->of[k]];
    if (parts.rest)
      setEdge(e, a, {parts.rest, renumber(rows, parts.rowOf), renumber(cols, parts.colOf)});
    else
      removeEdge(e);
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
  View view = facing(edge, leader);
  trail.push_back({TrailEntry::Follow, follower, leader, 0, std::make_shared<const std::vector<int>>(map)});
  for (std::size_t k = 0; k < map.size(); ++k) {
    to.cost[k] += from.cost[map[k]] + view.table->row(view.mine->of[k])[view.theirs->of[map[k]]];
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
    View old = facing(e, follower);
    edges[e].table = nullptr;
    std::vector<int> of;
    for (int k : map)
      of.push_back(old.mine->of[k]);
    auto [table, mine] = compact(old.table, std::move(of));
    addEdge(leader, other, {table, mine, old.theirs});
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
    View view = facing(e, i);
    const std::vector<int> &columns = uniqueColumns(view.table);
    if (columns.empty())
      continue;
    int j = otherEnd(e, i);
    // Only a class of one candidate leaves no choice.
    std::vector<int> member(view.theirs->count, -1), map;
    for (std::size_t k = 0; k < view.theirs->of.size(); ++k)
      member[view.theirs->of[k]] = member[view.theirs->of[k]] == -1 ? static_cast<int>(k) : -2;
    for (int c : view.mine->of)
      map.push_back(member[columns[c]]);
    if (std::find(map.begin(), map.end(), -2) != map.end())
      continue;
    double mine = nodes[i].cost.size(), its = nodes[j].cost.size(), growth = 0;
    if (mine > its)
      for (int f : nodes[j].edges)
        if (f != e && edges[f].table)
          growth += (mine - its) * nodes[otherEnd(f, j)].cost.size();
    if (growth > 4 * mine * its + 1000)
      continue;
    follow(i, j, e, map);
    changed = true;
  }
  if (changed)
    cleanEdges(i);
  return changed;
}

const Reduction::Graph::Extremes &Reduction::Graph::findExtremes(const TablePtr &table) {
  auto [found, fresh] = extremes.try_emplace(table.get());
  if (fresh)
    for (int r = 0; r < table->rows; ++r) {
      const double *row = table->row(r);
      auto [least, most] = std::minmax_element(row, row + table->cols);
      found->second.least.push_back(static_cast<int>(least - row));
      found->second.most.push_back(static_cast<int>(most - row));
    }
  return found->second;
}

std::vector<int> Reduction::Graph::findUndominated(int i) {
  Node &node = nodes[i];
  int count = static_cast<int>(node.cost.size());
  std::vector<View> views;
  double work = 0;
  for (int e : node.edges) {
    views.push_back(facing(e, i));
    work += views.back().theirs->count;
  }
  for (auto &pieces : node.pieces)
    normalizePieces(pieces);
  // What an edge makes of a candidate: its row there, and the columns of the least and the greatest cost in
  // it. All edges of one candidate lie side by side, since nearly all pairs are told apart by these alone.
  struct Seen {
    const double *row;
    int least, most;
  };
  const std::size_t edgeCount = views.size();
  std::vector<Seen> seen(count * edgeCount);
  for (std::size_t v = 0; v < edgeCount; ++v) {
    const Extremes &ends = findExtremes(views[v].table);
    for (int k = 0; k < count; ++k) {
      const int row = views[v].mine->of[k];
      seen[k * edgeCount + v] = {views[v].table->row(row), ends.least[row], ends.most[row]};
    }
  }
  // What the neighbours like best of k, or least of l, is nearly always enough to tell that k is of use.
  auto isPlainlyOfUse = [&](int k, int l) {
    double slack = node.cost[k] - node.cost[l];
    const Seen *ofK = seen.data() + k * edgeCount, *ofL = seen.data() + l * edgeCount;
    for (std::size_t v = 0; v < edgeCount && slack >= -kBig / 4; ++v) {
      const double *rk = ofK[v].row, *rl = ofL[v].row;
      double worst = -kBig;
      for (int c : {ofK[v].least, ofL[v].most})
        if (!isBig(rk[c]))
          worst = std::max(worst, rl[c] - rk[c]);
      slack -= worst;
    }
    return slack < 0;
  };
  // Is k of no use beside l?
  auto isBeaten = [&](int k, int l) {
    if (isPlainlyOfUse(k, l))
      return false;
    double slack = node.cost[k] - node.cost[l];
    for (std::size_t v = 0; v < edgeCount; ++v) {
      if (slack < -kBig / 4)
        return false;
      const double *rk = seen[k * edgeCount + v].row, *rl = seen[l * edgeCount + v].row;
      if (rk == rl)
        continue;
      double worst = -kBig;
      for (int c = 0; c < views[v].table->cols; ++c)
        if (!isBig(rk[c]))
          worst = std::max(worst, rl[c] - rk[c]);
      slack -= worst;
    }
    return slack >= 0 && holdsNoMore(node.pieces[l], node.pieces[k]);
  };
  std::vector<char> gone(count, 0);
  auto compare = [&](int k, int l) {
    if (k != l && !gone[k] && !gone[l] && isBeaten(k, l))
      gone[k] = 1;
  };
  if (work * count * count <= 2e6) {
    for (int k = 0; k < count; ++k)
      for (int l = 0; l < count && !gone[k]; ++l)
        compare(k, l);
  } else {
    // Too many for all pairs: those that all edges see alike.
    std::unordered_map<std::uint64_t, std::vector<int>> alike;
    std::vector<int> classes(views.size());
    for (int k = 0; k < count; ++k) {
      for (std::size_t v = 0; v < views.size(); ++v)
        classes[v] = views[v].mine->of[k];
      alike[XXH3_64bits(classes.data(), classes.size() * sizeof(int))].push_back(k);
    }
    for (const auto &[key, list] : alike)
      for (int k : list)
        for (int l : list)
          compare(k, l);
  }
  std::vector<int> kept;
  for (int k = 0; k < count; ++k)
    if (!gone[k])
      kept.push_back(k);
  return kept;
}

bool Reduction::Graph::dropDominated(int i) {
  const std::size_t count = nodes[i].cost.size();
  if (count < 2)
    return false;
  std::vector<int> kept;
  if (holdsMemory(i)) {
    kept = findUndominated(i);
  } else {
    std::uint64_t key = XXH3_64bits(nodes[i].cost.data(), count * sizeof(double));
    std::vector<View> views;
    for (int e : nodes[i].edges) {
      views.push_back(facing(e, i));
      key = key * 31 + reinterpret_cast<std::uintptr_t>(views.back().table.get());
    }
    std::vector<Compared> &alike = compared[key];
    auto isSame = [&](const Compared &known) {
      return known.cost == nodes[i].cost &&
             std::equal(known.views.begin(), known.views.end(), views.begin(), views.end(),
                        [](const View &a, const View &b) { return a.table == b.table && a.mine == b.mine; });
    };
    auto known = std::find_if(alike.begin(), alike.end(), isSame);
    if (known == alike.end())
      known = alike.insert(alike.end(), {nodes[i].cost, std::move(views), findUndominated(i)});
    kept = known->kept;
  }
  if (kept.size() == count)
    return false;
  keepOnly(i, kept);
  return true;
}

int Reduction::Graph::Between::choose(int firstClass, int secondClass) const {
  double low = 4 * kBig;
  int at = 0;
  for (std::size_t k = 0; k < cost.size(); ++k) {
    double sum = cost[k] + first->row(ofFirst->of[k])[firstClass] + second->row(ofSecond->of[k])[secondClass];
    if (sum < low) {
      low = sum;
      at = static_cast<int>(k);
    }
  }
  return at;
}

/// For each pair of classes of the neighbours the least cost of the node between them. Its candidates that
/// are of one class on both sides count once, and a side is left out before the other is looked at: out[p][q]
/// = min over b of (min over a of first[a][p] + cost[a][b]) + second[b][q].
TablePtr Reduction::Graph::combine(const Between &node) {
  CommonClasses pairs = meet(*node.ofFirst, *node.ofSecond);
  std::vector<double> cost(pairs.from.size(), 4 * kBig);
  for (std::size_t k = 0; k < node.cost.size(); ++k)
    cost[pairs.map.of[k]] = std::min(cost[pairs.map.of[k]], node.cost[k]);
  double rows = node.first->cols, cols = node.second->cols;
  bool isTurned = cols * (pairs.from.size() + rows * node.first->rows) <
                  rows * (pairs.from.size() + cols * node.second->rows);
  TablePtr left = transposed(isTurned ? node.second : node.first),
           right = isTurned ? node.first : node.second;
  Table best{left->rows, right->cols,
             std::vector<double>(static_cast<std::size_t>(left->rows) * right->cols)};
  std::vector<double> low(static_cast<std::size_t>(kMinPlusRows) * right->rows);
  for (int r = 0; r < best.rows; r += kMinPlusRows) {
    int count = std::min(kMinPlusRows, best.rows - r);
    std::fill(low.begin(), low.end(), 4 * kBig);
    for (int n = 0; n < count; ++n) {
      double *into = low.data() + static_cast<std::size_t>(n) * right->rows;
      const double *row = left->row(r + n);
      for (std::size_t p = 0; p < cost.size(); ++p) {
        auto [first, second] = pairs.from[p];
        double sum = cost[p] + row[isTurned ? second : first];
        double &least = into[isTurned ? first : second];
        least = std::min(least, sum);
      }
    }
    minPlus(low.data(), right->costs.data(), right->rows, right->cols,
            best.costs.data() + static_cast<std::size_t>(r) * best.cols, count);
  }
  return intern(isTurned ? transpose(best) : std::move(best));
}

/// Large nodes are minimised out while their work, in sums of two costs, is within these bounds: beyond them
/// what is left is better searched.
static constexpr double kMostMinimised = 6e8, kMostMinimisedInAll = 6e9, kSmall = 3e6;

bool Reduction::Graph::minimise2(int i) {
  Node &node = nodes[i];
  int e = node.edges[0], f = node.edges[1];
  int p = otherEnd(e, i), q = otherEnd(f, i);
  View first = facing(e, i), second = facing(f, i);
  double rows = first.table->cols, cols = second.table->cols;
  double work = rows * cols * std::min(first.table->rows, second.table->rows);
  if (work > (minimising < kMostMinimisedInAll ? kMostMinimised : kSmall) ||
      rows * cols > 4.0 * (first.table->costs.size() + second.table->costs.size()) + 4096)
    return false;
  std::uint64_t key = XXH3_64bits(node.cost.data(), node.cost.size() * sizeof(double));
  for (const void *part :
       {static_cast<const void *>(first.table.get()), static_cast<const void *>(second.table.get()),
        static_cast<const void *>(first.mine.get()), static_cast<const void *>(second.mine.get())})
    key = key * 31 + reinterpret_cast<std::uintptr_t>(part);
  Minimised entry;
  for (const Minimised &known : minimised[key])
    if (known.node->first == first.table && known.node->second == second.table &&
        known.node->ofFirst == first.mine && known.node->ofSecond == second.mine &&
        known.node->cost == node.cost)
      entry = known;
  if (!entry.node) {
    entry.node = std::make_shared<const Between>(
        Between{first.table, second.table, first.mine, second.mine, node.cost});
    entry.result = combine(*entry.node);
    minimised[key].push_back(entry);
    if (work > kSmall)
      minimising += work;
  }
  trail.push_back({TrailEntry::Minimise2, i, p, q, nullptr, entry.node, first.theirs, second.theirs});
  node.alive = false;
  edges[e].table = edges[f].table = nullptr;
  addEdge(p, q, {entry.result, first.theirs, second.theirs});
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
                     std::make_shared<const std::vector<int>>(1, static_cast<int>(low - node.cost.begin()))});
    node.alive = false;
    return true;
  }
  int e = node.edges[0], p = otherEnd(e, i);
  View view = facing(e, p);
  // The best candidate of each class, and of those the best for each class of p.
  std::vector<int> best(view.table->cols, -1), choice(view.table->rows);
  for (std::size_t k = 0; k < node.cost.size(); ++k)
    if (int &at = best[view.theirs->of[k]]; at < 0 || node.cost[k] < node.cost[at])
      at = static_cast<int>(k);
  std::vector<double> low(view.table->rows, 4 * kBig);
  for (int r = 0; r < view.table->rows; ++r)
    for (int c = 0; c < view.table->cols; ++c)
      if (double sum = view.table->row(r)[c] + node.cost[best[c]]; sum < low[r]) {
        low[r] = sum;
        choice[r] = best[c];
      }
  std::vector<int> map;
  for (std::size_t k = 0; k < nodes[p].cost.size(); ++k) {
    nodes[p].cost[k] += low[view.mine->of[k]];
    map.push_back(choice[view.mine->of[k]]);
  }
  trail.push_back({TrailEntry::Minimise1, i, p, 0, std::make_shared<const std::vector<int>>(std::move(map))});
  node.alive = false;
  edges[e].table = nullptr;
  enqueue(p);
  return true;
}

} // namespace colossal::search
