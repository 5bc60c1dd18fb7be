// Builds the mutable graph from a problem, runs the rules to their fixed point, and lays the rest flat.
#include "Reduction.h"
#include "ReductionGraph.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

namespace colossal::search {

SplitCost Core::totalCost(const std::vector<int> &x) const {
  SplitCost total{0, offset};
  for (int i = 0; i < nodes; ++i) {
    total.add(cost[first[i] + x[i]]);
    for (int h = halfFirst[i]; h < halfFirst[i + 1]; ++h)
      if (halves[h].other < i)
        total.add(halves[h].from[static_cast<std::size_t>(x[halves[h].other]) * candidates(i) + x[i]]);
  }
  return total;
}

std::string Reduction::Graph::describe(int i) const {
  return static_cast<std::size_t>(i) < originals ? "node " + std::to_string(i) : "a tie of several nodes";
}

void Reduction::Graph::run(const std::function<bool()> &stop) {
  // Dominance compares all pairs of candidates, so it waits until the cheap rules have nothing left to do.
  std::vector<char> compared(nodes.size(), 0);
  trail.reserve(nodes.size()); // nearly each node goes in one step
  for (std::size_t i = 0; i < nodes.size(); ++i)
    enqueue(static_cast<int>(i));
  std::vector<int> round;
  for (bool cheap = true; !infeasible;) {
    // Whole rounds, in the order of the nodes: leaves and hubs both change at most once a round.
    round.swap(queue);
    queue.clear();
    for (int i : round)
      nodes[i].queued = false;
    if (round.empty()) {
      if (!cheap)
        break;
      for (std::size_t i = 0; i < nodes.size() && !stop(); ++i)
        if (nodes[i].alive && !compared[i]) {
          compared[i] = 1;
          cleanEdges(static_cast<int>(i));
          dropDominated(static_cast<int>(i));
        }
      cheap = !queue.empty();
      if (!cheap)
        break;
      continue;
    }
    for (int i : round) {
      if (!nodes[i].alive || infeasible)
        continue;
      if (stop())
        return;
      cleanEdges(i);
      compared[i] = 0;
      if (dropForbidden(i) || simplifyEdges(i) || minimiseOut(i) || mergeFollower(i))
        enqueue(i);
    }
  }
}

void Reduction::Graph::forgetTables() {
  interned.clear();
  internedMaps.clear();
  transposes.clear();
  splits.clear();
  followMaps.clear();
  dead.clear();
  extremes.clear();
  compared.clear();
  minimised.clear();
  edges = {};
  queue = {};
  for (Node &node : nodes) {
    node.cost = {};
    node.pieces = {};
    node.edges = {};
  }
}

namespace {

/// Costs are divided by 2^shift so that they add up to less than 2^52.
int chooseShift(const Problem &problem, bool relax) {
  double sum = 0;
  auto largest = [&](auto begin, auto end, auto get) {
    double most = 0;
    for (auto it = begin; it != end; ++it)
      if (Cost cost = get(*it); cost != kForbidden)
        most = std::max(most, std::fabs(static_cast<double>(cost)));
    return most;
  };
  for (const Node &node : problem.nodes)
    sum += largest(node.candidates.begin(), node.candidates.end(), [](const Candidate &c) { return c.cost; });
  std::unordered_map<const CostTable *, double> known;
  for (const Edge &edge : problem.edges) {
    auto [at, fresh] = known.emplace(edge.table.get(), 0);
    if (fresh)
      at->second = largest(edge.table->begin(), edge.table->end(), [](Cost c) { return c; });
    sum += at->second;
  }
  int shift = 0;
  while (sum + 1 > 0x1p52) {
    sum /= 2;
    ++shift;
  }
  return shift;
}

} // namespace

Reduction::~Reduction() = default;

const std::vector<int> &Reduction::stepOrigin() const {
  return graph->stepOrigin;
}

void Reduction::tighten() {
  // Without a limit, or once no step can be over it, nothing holds memory.
  if (graph->capacity.empty())
    return;
  std::vector<NodePieces *> list;
  for (Graph::Node &node : graph->nodes)
    if (node.alive) {
      for (auto &pieces : node.pieces)
        normalizePieces(pieces);
      list.push_back(&node.pieces);
    }
  double excess = tightenTimeline(list, graph->capacity, graph->stepOrigin);
  if (excess > 0 && limitRules && !proof)
    proof = "the least bytes of all nodes together exceed the limit by at least " +
            std::to_string(static_cast<std::int64_t>(excess));
}

Reduction::Reduction(const Problem &problem, const Options &options) : graph(std::make_unique<Graph>()) {
  Graph &g = *graph;
  isRelaxed = options.relax;
  limitRules = !options.relax && !options.overLimit;
  costShift = chooseShift(problem, options.relax);
  // A forbidden choice taken as a cost must exceed what any allowed choice could win; beyond 2^53 sums may
  // round, which a problem without an allowed answer can bear.
  forbiddenCost = options.relax ? 0x1p56 : kBig;
  g.originals = problem.nodes.size();
  std::vector<NodePieces> pieces;
  layTimeline(problem, pieces, g.capacity);
  g.stepOrigin.resize(g.capacity.size());
  std::iota(g.stepOrigin.begin(), g.stepOrigin.end(), 0);
  g.nodes.resize(problem.nodes.size());
  for (std::size_t i = 0; i < g.nodes.size(); ++i) {
    Graph::Node &node = g.nodes[i];
    node.cost.reserve(problem.nodes[i].candidates.size());
    for (const Candidate &candidate : problem.nodes[i].candidates)
      node.cost.push_back(scaled(candidate.cost));
    node.origin.resize(node.cost.size());
    std::iota(node.origin.begin(), node.origin.end(), 0);
    node.pieces = std::move(pieces[i]);
  }
  tighten();
  addEdges(problem);
  reduce(options);
}

Reduction::Reduction(const Core &core, const std::vector<char> &keep, const Options &options)
    : graph(std::make_unique<Graph>()) {
  Graph &g = *graph;
  g.originals = core.nodes;
  g.capacity = core.capacity;
  g.stepOrigin.resize(g.capacity.size());
  std::iota(g.stepOrigin.begin(), g.stepOrigin.end(), 0);
  g.offset = core.offset;
  g.nodes.resize(core.nodes);
  for (int i = 0; i < core.nodes; ++i) {
    Graph::Node &node = g.nodes[i];
    for (int c = core.first[i]; c < core.first[i + 1]; ++c) {
      node.cost.push_back(keep[c] ? core.cost[c] : kBig);
      node.origin.push_back(c - core.first[i]);
      node.pieces.emplace_back(core.pieces.begin() + core.pieceFirst[c],
                               core.pieces.begin() + core.pieceFirst[c + 1]);
    }
  }
  std::unordered_map<const double *, TablePtr> tables;
  for (const TablePtr &table : core.tables)
    tables[table->costs.data()] = g.intern(table);
  for (int i = 0; i < core.nodes; ++i)
    for (int h = core.halfFirst[i]; h < core.halfFirst[i + 1]; ++h)
      if (core.halves[h].other < i)
        g.addEdge(core.halves[h].other, i,
                  {tables.at(core.halves[h].from), g.identity(core.candidates(core.halves[h].other)),
                   g.identity(core.candidates(i))});
  reduce(options);
}

void Reduction::addEdges(const Problem &problem) {
  Graph &g = *graph;
  std::unordered_map<const CostTable *, TablePtr> pairs; // by table, as a pairwise one
  std::unordered_map<const Classes *, MapPtr> maps;
  auto mapOf = [&](const Edge &edge, std::size_t k) {
    if (k >= edge.classes.size() || !edge.classes[k])
      return g.identity(problem.nodes[edge.nodes[k]].candidates.size());
    MapPtr &map = maps[edge.classes[k].get()];
    if (!map)
      map = g.intern(ClassMap{edge.classes[k]->of, edge.classes[k]->count});
    return map;
  };
  for (std::size_t e = 0; e < problem.edges.size(); ++e) {
    const Edge &edge = problem.edges[e];
    const CostTable &costs = *edge.table;
    if (edge.nodes.size() == 1) {
      std::vector<double> &own = g.nodes[edge.nodes[0]].cost;
      for (std::size_t k = 0; k < own.size(); ++k)
        own[k] += scaled(costs[edge.classOf(0, static_cast<std::int32_t>(k))]);
    } else if (edge.nodes.size() == 2) {
      int rows = problem.countClasses(edge, 0), cols = problem.countClasses(edge, 1);
      TablePtr &table = pairs[edge.table.get()];
      if (!table || table->rows != rows) {
        Table made{rows, cols, std::vector<double>(costs.size())};
        for (std::size_t k = 0; k < costs.size(); ++k)
          made.costs[k] = scaled(costs[k]);
        table = g.intern(std::move(made));
      }
      g.addEdge(edge.nodes[0], edge.nodes[1], {table, mapOf(edge, 0), mapOf(edge, 1)});
    } else {
      addTie(problem, e);
    }
  }
}

/// R2: one node whose candidates are the combinations of classes.
void Reduction::addTie(const Problem &problem, std::size_t e) {
  Graph &g = *graph;
  const Edge &edge = problem.edges[e];
  const CostTable &costs = *edge.table;
  int tie = static_cast<int>(g.nodes.size());
  Graph::Node &node = g.nodes.emplace_back();
  std::vector<std::size_t> entries;
  for (std::size_t k = 0; k < costs.size(); ++k)
    if (isRelaxed || costs[k] != kForbidden) {
      entries.push_back(k);
      node.cost.push_back(scaled(costs[k]));
    }
  node.pieces.resize(entries.size());
  node.origin.resize(entries.size());
  std::iota(node.origin.begin(), node.origin.end(), 0);
  if (entries.empty() && !proof)
    proof = "edge " + std::to_string(e) + " forbids every combination";
  std::size_t stride = costs.size();
  for (std::size_t n = 0; n < edge.nodes.size(); ++n) {
    int count = problem.countClasses(edge, n);
    stride /= count;
    Table made{static_cast<int>(entries.size()), count, std::vector<double>(entries.size() * count, kBig)};
    for (std::size_t k = 0; k < entries.size(); ++k)
      made.costs[k * count + (entries[k] / stride) % count] = 0;
    ClassMap classes{{}, count};
    for (std::size_t k = 0; k < problem.nodes[edge.nodes[n]].candidates.size(); ++k)
      classes.of.push_back(edge.classOf(n, static_cast<std::int32_t>(k)));
    g.addEdge(tie, edge.nodes[n],
              {g.intern(std::move(made)), g.identity(entries.size()), g.intern(std::move(classes))});
  }
}

void Reduction::reduce(const Options &options) {
  Graph &g = *graph;
  bool more = !options.none;
  auto failed = [&] {
    if (g.infeasible && !proof)
      proof = g.reason;
    return proof && !options.relax;
  };
  for (int round = 0; more && !failed() && round < 8 && !options.stop(); ++round) {
    g.run(options.stop);
    if (failed())
      break;
    tighten();
    // What is over the limit alone goes, then the least of each node may rise, and so on.
    more = !failed() && limitRules && (g.dropOversized() || g.forbidClashes());
  }
  // Nodes that lost their last piece of memory may now be minimised out.
  if (!options.none && !failed()) {
    g.run(options.stop);
    if (!failed())
      tighten();
  }
  if (!failed())
    flatten();
}

void Reduction::flatten() {
  Graph &g = *graph;
  std::vector<int> number(g.nodes.size(), -1);
  flat.first.push_back(0);
  flat.pieceFirst.push_back(0);
  flat.offset = g.offset;
  flat.capacity = g.capacity;
  for (std::size_t i = 0; i < g.nodes.size(); ++i) {
    Graph::Node &node = g.nodes[i];
    if (!node.alive)
      continue;
    g.cleanEdges(static_cast<int>(i));
    number[i] = flat.nodes++;
    nodeFrom.push_back(static_cast<int>(i));
    candidateFrom.insert(candidateFrom.end(), node.origin.begin(), node.origin.end());
    flat.cost.insert(flat.cost.end(), node.cost.begin(), node.cost.end());
    flat.first.push_back(static_cast<int>(flat.cost.size()));
    for (auto &list : node.pieces) {
      normalizePieces(list);
      flat.pieces.insert(flat.pieces.end(), list.begin(), list.end());
      flat.pieceFirst.push_back(static_cast<std::int64_t>(flat.pieces.size()));
    }
  }
  flattenEdges(number);
  g.forgetTables();
}

void Reduction::flattenEdges(const std::vector<int> &number) {
  Graph &g = *graph;
  flat.halfFirst.push_back(0);
  std::vector<int> halfOf(g.edges.size(), -1);
  std::map<std::tuple<const Table *, const ClassMap *, const ClassMap *>, TablePtr> spread; // by candidates
  for (std::size_t i = 0; i < g.nodes.size(); ++i) {
    if (!g.nodes[i].alive)
      continue;
    std::vector<int> order = g.nodes[i].edges;
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      return number[g.otherEnd(a, static_cast<int>(i))] < number[g.otherEnd(b, static_cast<int>(i))];
    });
    for (int e : order) {
      int other = g.otherEnd(e, static_cast<int>(i));
      Graph::View view = g.facing(e, other);
      TablePtr &table = spread[{view.table.get(), view.mine.get(), view.theirs.get()}];
      if (!table)
        table = g.spread(view.table, view.mine, view.theirs);
      Core::Half half{number[other], -1, table->costs.data()};
      flat.tables.push_back(table);
      int at = static_cast<int>(flat.halves.size());
      if (halfOf[e] < 0)
        halfOf[e] = at;
      else {
        half.reverse = halfOf[e];
        flat.halves[halfOf[e]].reverse = at;
      }
      flat.halves.push_back(half);
    }
    flat.halfFirst.push_back(static_cast<int>(flat.halves.size()));
  }
  std::sort(flat.tables.begin(), flat.tables.end());
  flat.tables.erase(std::unique(flat.tables.begin(), flat.tables.end()), flat.tables.end());
}

std::vector<int> Reduction::narrow(const std::vector<int> &outer) const {
  std::vector<int> x(flat.nodes, 0);
  for (int i = 0; i < flat.nodes; ++i) {
    const int *begin = candidateFrom.data() + flat.first[i], *end = candidateFrom.data() + flat.first[i + 1];
    const int *at = std::find(begin, end, outer[nodeFrom[i]]);
    x[i] = at == end ? 0 : static_cast<int>(at - begin);
  }
  return x;
}

Assignment Reduction::expand(const std::vector<int> &x) const {
  const Graph &g = *graph;
  std::vector<int> all(g.nodes.size(), 0);
  int next = 0;
  for (std::size_t i = 0; i < g.nodes.size(); ++i)
    if (g.nodes[i].alive)
      all[i] = x[next++];
  for (std::size_t s = g.trail.size(); s-- > 0;) {
    const Graph::TrailEntry &entry = g.trail[s];
    switch (entry.kind) {
    case Graph::TrailEntry::Keep: all[entry.node] = (*entry.map)[all[entry.node]]; break;
    case Graph::TrailEntry::Follow:
    case Graph::TrailEntry::Minimise1: all[entry.node] = (*entry.map)[all[entry.first]]; break;
    case Graph::TrailEntry::Minimise2:
      all[entry.node] = entry.between->choose(entry.firstClasses->of[all[entry.first]],
                                              entry.secondClasses->of[all[entry.second]]);
      break;
    case Graph::TrailEntry::Fix: all[entry.node] = entry.map->front(); break;
    }
  }
  return Assignment(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(g.originals));
}

} // namespace colossal::search
