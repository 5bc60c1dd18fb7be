// Builds the mutable graph from a problem, runs the rules to their fixed point, and lays the rest flat.
// Neighbours: Reduction.h has the contract, ReductionRules.cpp the rules, Timeline.cpp memory.
#include "Reduction.h"
#include "ReductionGraph.h"

#include <algorithm>
#include <cmath>

namespace colossal::search {

double Core::totalCost(const std::vector<int> &x) const {
  double total = offset;
  for (int i = 0; i < nodes; ++i) {
    total += cost[first[i] + x[i]];
    for (int h = halfFirst[i]; h < halfFirst[i + 1]; ++h)
      if (halves[h].other < i)
        total += halves[h].from[static_cast<std::size_t>(x[halves[h].other]) * candidates(i) + x[i]];
  }
  return total;
}

std::string Reduction::Graph::describe(int i) const {
  return static_cast<std::size_t>(i) < originals ? "node " + std::to_string(i) : "a tie of several nodes";
}

void Reduction::Graph::run(const std::function<bool()> &stop) {
  // Dominance compares all pairs of candidates, so it waits until the cheap rules have nothing left to do.
  std::vector<char> compared(nodes.size(), 0);
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
  transposes.clear();
  splits.clear();
  followMaps.clear();
  dead.clear();
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

Reduction::Reduction(const Problem &problem, const Options &options) : graph(std::make_unique<Graph>()) {
  Graph &g = *graph;
  isRelaxed = options.relax;
  costShift = chooseShift(problem, options.relax);
  // A forbidden choice taken as a cost must exceed what any allowed choice could win; beyond 2^53 sums may
  // round, which a problem without an allowed answer can bear.
  double forbidden = options.relax ? 0x1p56 : kBig;
  auto scale = [&](Cost cost) {
    return cost == kForbidden ? forbidden : static_cast<double>(cost >> costShift);
  };

  g.originals = problem.nodes.size();
  std::vector<NodePieces> pieces;
  layTimeline(problem, pieces, g.capacity);
  g.nodes.resize(problem.nodes.size());
  for (std::size_t i = 0; i < g.nodes.size(); ++i) {
    Graph::Node &node = g.nodes[i];
    for (const Candidate &candidate : problem.nodes[i].candidates)
      node.cost.push_back(scale(candidate.cost));
    node.pieces = std::move(pieces[i]);
  }
  auto tighten = [&] {
    std::vector<NodePieces *> list;
    for (Graph::Node &node : g.nodes)
      if (node.alive) {
        for (auto &p : node.pieces)
          normalizePieces(p);
        list.push_back(&node.pieces);
      }
    double excess = tightenTimeline(list, g.capacity);
    if (excess > 0 && !proof)
      proof = "the least bytes of all nodes together exceed the limit by at least " +
              std::to_string(static_cast<std::int64_t>(excess));
  };
  tighten();

  std::unordered_map<const CostTable *, TablePtr> pairs; // by table, as a pairwise one
  for (const search::Edge &edge : problem.edges) {
    const CostTable &costs = *edge.table;
    if (edge.nodes.size() == 1) {
      for (std::size_t k = 0; k < costs.size(); ++k)
        g.nodes[edge.nodes[0]].cost[k] += scale(costs[k]);
      continue;
    }
    if (edge.nodes.size() == 2) {
      TablePtr &table = pairs[edge.table.get()];
      if (!table || table->rows != static_cast<int>(problem.nodes[edge.nodes[0]].candidates.size())) {
        Table made{static_cast<int>(problem.nodes[edge.nodes[0]].candidates.size()),
                   static_cast<int>(problem.nodes[edge.nodes[1]].candidates.size()),
                   {}};
        made.costs.reserve(costs.size());
        for (Cost cost : costs)
          made.costs.push_back(scale(cost));
        table = g.intern(std::move(made));
      }
      g.addEdge(edge.nodes[0], edge.nodes[1], table);
      continue;
    }
    // R2: one node whose candidates are the combinations.
    int tie = static_cast<int>(g.nodes.size());
    g.nodes.emplace_back();
    std::vector<std::size_t> entries;
    for (std::size_t k = 0; k < costs.size(); ++k)
      if (options.relax || costs[k] != kForbidden) {
        entries.push_back(k);
        g.nodes[tie].cost.push_back(scale(costs[k]));
      }
    g.nodes[tie].pieces.resize(entries.size());
    if (entries.empty() && !proof)
      proof = "edge " + std::to_string(&edge - problem.edges.data()) + " forbids every combination";
    std::size_t stride = costs.size();
    for (std::int32_t node : edge.nodes) {
      int count = static_cast<int>(problem.nodes[node].candidates.size());
      stride /= count;
      Table made{static_cast<int>(entries.size()), count, std::vector<double>(entries.size() * count, kBig)};
      for (std::size_t k = 0; k < entries.size(); ++k)
        made.costs[k * count + (entries[k] / stride) % count] = 0;
      g.addEdge(tie, node, g.intern(std::move(made)));
    }
  }
  if (proof && !options.relax)
    return;
  if (!options.none) {
    bool more = true;
    for (int round = 0; more && round < 8 && !options.stop(); ++round) {
      g.run(options.stop);
      if (!g.infeasible)
        tighten();
      // What is over the limit alone goes, then the least of each node may rise, and so on.
      more = !options.relax && !g.infeasible && (g.dropOversized() || g.forbidClashes());
      if (g.infeasible && !proof)
        proof = g.reason;
      if (proof && !options.relax)
        return;
    }
    // Nodes that lost their last piece of memory may now be minimised out.
    g.run(options.stop);
    if (g.infeasible && !proof)
      proof = g.reason;
    if (proof && !options.relax)
      return;
    tighten();
  }

  // Flat.
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
    flat.cost.insert(flat.cost.end(), node.cost.begin(), node.cost.end());
    flat.first.push_back(static_cast<int>(flat.cost.size()));
    for (auto &list : node.pieces) {
      normalizePieces(list);
      flat.pieces.insert(flat.pieces.end(), list.begin(), list.end());
      flat.pieceFirst.push_back(static_cast<std::int64_t>(flat.pieces.size()));
    }
  }
  flat.halfFirst.push_back(0);
  std::vector<int> halfOf(g.edges.size(), -1);
  for (std::size_t i = 0; i < g.nodes.size(); ++i) {
    if (!g.nodes[i].alive)
      continue;
    std::vector<int> order = g.nodes[i].edges;
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      return number[g.otherEnd(a, static_cast<int>(i))] < number[g.otherEnd(b, static_cast<int>(i))];
    });
    for (int e : order) {
      int other = g.otherEnd(e, static_cast<int>(i));
      TablePtr table = g.facing(e, other);
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
  g.forgetTables();
}

Assignment Reduction::expand(const std::vector<int> &x) const {
  const Graph &g = *graph;
  std::vector<int> all(g.nodes.size(), 0);
  int next = 0;
  for (std::size_t i = 0; i < g.nodes.size(); ++i)
    if (g.nodes[i].alive)
      all[i] = x[next++];
  for (std::size_t s = g.trail.size(); s-- > 0;) {
    const Graph::Step &step = g.trail[s];
    const std::vector<int> &map = *step.map;
    switch (step.kind) {
    case Graph::Step::Keep:
      all[step.node] = map[all[step.node]];
      break;
    case Graph::Step::Follow:
    case Graph::Step::Minimise1:
      all[step.node] = map[all[step.first]];
      break;
    case Graph::Step::Minimise2:
      all[step.node] = map[static_cast<std::size_t>(all[step.first]) * step.width + all[step.second]];
      break;
    case Graph::Step::Fix:
      all[step.node] = map[0];
      break;
    }
  }
  return Assignment(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(g.originals));
}

} // namespace colossal::search
