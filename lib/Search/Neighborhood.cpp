// The moves: choose a forest, solve it at several prices, keep what fits and costs less. Neighbour:
// Neighborhood.h.
#include "Neighborhood.h"

#include "MinPlus.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace colossal::search {

NeighborhoodSearch::NeighborhoodSearch(const Core &core, std::uint64_t seed)
    : core(core), random(seed), x(core.nodes, 0), held(core.steps()), price(core.steps(), 0),
      prefix(core.steps() + 1, 0), position(core.nodes, -1), parentHalf(core.nodes, -1),
      rootOf(core.nodes, 0), byTime(core.nodes), timeRank(core.nodes), base(core.cost.size()),
      charge(core.cost.size()), table(core.cost.size()), baseFirst(core.nodes + 1), choice(core.nodes),
      bestChoice(core.nodes), change(core.steps() + 1, 0) {
  block.reserve(core.nodes);
  order.reserve(core.nodes);
  candidates.reserve(core.nodes);
  int most = 1;
  std::vector<int> begin(core.nodes, core.steps());
  for (int i = 0; i < core.nodes; ++i) {
    most = std::max(most, core.candidates(i));
    for (std::int64_t p = core.pieceFirst[core.first[i]]; p < core.pieceFirst[core.first[i + 1]]; ++p)
      begin[i] = std::min(begin[i], core.pieces[p].begin);
  }
  message.resize(most);
  std::iota(byTime.begin(), byTime.end(), 0);
  std::stable_sort(byTime.begin(), byTime.end(), [&](int a, int b) { return begin[a] < begin[b]; });
  for (int r = 0; r < core.nodes; ++r)
    timeRank[byTime[r]] = r;
  recompute();
}

void NeighborhoodSearch::recompute() {
  cost = core.totalCost(x);
  std::fill(change.begin(), change.end(), 0);
  for (int i = 0; i < core.nodes; ++i) {
    int c = core.first[i] + x[i];
    for (std::int64_t p = core.pieceFirst[c]; p < core.pieceFirst[c + 1]; ++p) {
      change[core.pieces[p].begin] += core.pieces[p].bytes;
      change[core.pieces[p].end] -= core.pieces[p].bytes;
    }
  }
  double sum = 0;
  excess = 0;
  for (int t = 0; t < core.steps(); ++t) {
    sum += change[t];
    held[t] = sum;
    excess += std::max(0.0, sum - core.capacity[t]);
  }
  std::fill(change.begin(), change.end(), 0);
}

void NeighborhoodSearch::assign(const std::vector<int> &to) {
  x = to;
  recompute();
}

void NeighborhoodSearch::setPrices(const std::vector<double> &prices) {
  price = prices;
  refreshPrefix();
}

void NeighborhoodSearch::refreshPrefix() {
  for (int t = 0; t < core.steps(); ++t)
    prefix[t + 1] = prefix[t] + price[t];
  spent += core.steps();
}

int NeighborhoodSearch::root(int i) {
  while (rootOf[i] != i)
    i = rootOf[i] = rootOf[rootOf[i]];
  return i;
}

/// Adds i unless it would close a cycle.
bool NeighborhoodSearch::addToBlock(int i) {
  if (position[i] >= 0 || i == frozen)
    return false;
  int degree = core.halfFirst[i + 1] - core.halfFirst[i];
  spent += degree;
  // Two neighbours in one tree close a cycle. Marks on roots are undone by looking at pairs: degrees are
  // small, and hubs are handled by the mark below.
  candidates.clear();
  for (int h = core.halfFirst[i]; h < core.halfFirst[i + 1]; ++h) {
    int j = core.halves[h].other;
    if (position[j] < 0)
      continue;
    int r = root(j);
    if (parentHalf[r] == -2) {
      for (int marked : candidates)
        parentHalf[marked] = -1;
      return false;
    }
    parentHalf[r] = -2;
    candidates.push_back(r);
  }
  for (int marked : candidates) {
    parentHalf[marked] = -1;
    rootOf[marked] = i;
  }
  rootOf[i] = i;
  parentHalf[i] = -1;
  position[i] = static_cast<int>(block.size());
  block.push_back(i);
  return true;
}

void NeighborhoodSearch::growFrom(int seed, int target) {
  if (!addToBlock(seed))
    return;
  // A random frontier: pick a node of the block and one of its neighbours.
  std::size_t start = block.size() - 1;
  int goal = static_cast<int>(block.size()) + target - 1, fails = 0;
  while (static_cast<int>(block.size()) < goal && fails < 2 * target + 8) {
    int i = block[start + random.below(static_cast<int>(block.size() - start))];
    int degree = core.halfFirst[i + 1] - core.halfFirst[i];
    if (degree == 0 || !addToBlock(core.halves[core.halfFirst[i] + random.below(degree)].other))
      ++fails;
  }
}

void NeighborhoodSearch::chooseBlock() {
  // Sizes from a few nodes to many times the typical one, log-uniform.
  int size = static_cast<int>(3 * std::exp(random.unit() * std::log(typicalSize * 8 / 3)));
  size = std::max(2, std::min(size, core.nodes));
  int seed = random.below(core.nodes);
  if (focus >= 0) {
    // Near the node in focus: itself, or one or two steps away.
    seed = focus;
    size = std::max(2, size / 4);
    for (int steps = random.below(3); steps > 0; --steps) {
      int degree = core.halfFirst[seed + 1] - core.halfFirst[seed];
      if (degree > 0)
        seed = core.halves[core.halfFirst[seed] + random.below(degree)].other;
    }
  }
  bool far = core.steps() > 0 && random.below(2);
  if (!far) {
    growFrom(seed, size);
    return;
  }
  // Several trees that are alive at about the same time: what one gives up the other may use.
  int trees = 2 + random.below(4);
  int window = std::max(8, std::min(core.nodes, 16 << random.below(8)));
  for (int k = 0; k < trees; ++k) {
    growFrom(seed, std::max(1, size / trees));
    int rank = timeRank[seed] - window / 2 + random.below(window);
    seed = byTime[std::min(core.nodes - 1, std::max(0, rank))];
  }
}

/// Orders the forest parents first, and finds each node's half edge to its parent.
void NeighborhoodSearch::orderBlock() {
  order.clear();
  blockHoldsMemory = false;
  for (int i : block)
    parentHalf[i] = -1;
  int size = 0;
  for (int start : block) {
    if (parentHalf[start] != -1)
      continue;
    parentHalf[start] = -2;
    std::size_t next = order.size();
    order.push_back(start);
    for (; next < order.size(); ++next) {
      int i = order[next];
      for (int h = core.halfFirst[i]; h < core.halfFirst[i + 1]; ++h) {
        int j = core.halves[h].other;
        if (position[j] >= 0 && parentHalf[j] == -1) {
          parentHalf[j] = core.halves[h].reverse;
          order.push_back(j);
        }
      }
    }
  }
  for (std::size_t n = 0; n < order.size(); ++n) {
    int i = order[n];
    position[i] = static_cast<int>(n);
    baseFirst[n] = size;
    size += core.candidates(i);
    blockHoldsMemory |= core.pieceFirst[core.first[i]] != core.pieceFirst[core.first[i + 1]];
  }
  baseFirst[order.size()] = size;
}

/// Costs of the block's candidates given the nodes outside.
void NeighborhoodSearch::gather() {
  for (std::size_t n = 0; n < order.size(); ++n) {
    int i = order[n], count = core.candidates(i);
    double *out = base.data() + baseFirst[n];
    const double *own = core.cost.data() + core.first[i];
    for (int k = 0; k < count; ++k)
      out[k] = own[k];
    for (int h = core.halfFirst[i]; h < core.halfFirst[i + 1]; ++h) {
      const Core::Half &half = core.halves[h];
      if (position[half.other] >= 0)
        continue;
      const double *row = half.from + static_cast<std::size_t>(x[half.other]) * count;
      for (int k = 0; k < count; ++k)
        out[k] += row[k];
      spent += count;
    }
  }
}

void NeighborhoodSearch::priceBlock() {
  for (std::size_t n = 0; n < order.size(); ++n) {
    int i = order[n], count = core.candidates(i);
    double *out = charge.data() + baseFirst[n];
    for (int k = 0; k < count; ++k) {
      int c = core.first[i] + k;
      double sum = 0;
      for (std::int64_t p = core.pieceFirst[c]; p < core.pieceFirst[c + 1]; ++p)
        sum += core.pieces[p].bytes * (prefix[core.pieces[p].end] - prefix[core.pieces[p].begin]);
      out[k] = sum;
      spent += 1 + core.pieceFirst[c + 1] - core.pieceFirst[c];
    }
  }
}

/// The block's best choice at `scale` times the prices, into `choice`.
void NeighborhoodSearch::solveForest(double scale) {
  int size = baseFirst[order.size()];
  if (scale == 0)
    std::copy(base.begin(), base.begin() + size, table.begin());
  else
    for (int k = 0; k < size; ++k)
      table[k] = base[k] + scale * charge[k];
  spent += size;
  for (std::size_t n = order.size(); n-- > 0;) {
    int i = order[n];
    if (parentHalf[i] < 0)
      continue;
    // Seen from the parent the rows are this node's candidates.
    const Core::Half &up = core.halves[core.halves[parentHalf[i]].reverse];
    int p = core.halves[parentHalf[i]].other;
    int rows = core.candidates(i), cols = core.candidates(p);
    minPlus(table.data() + baseFirst[n], up.from, rows, cols, message.data());
    double *to = table.data() + baseFirst[position[p]];
    for (int l = 0; l < cols; ++l)
      to[l] += message[l];
    spent += static_cast<std::uint64_t>(rows) * cols;
  }
  for (std::size_t n = 0; n < order.size(); ++n) {
    int i = order[n], count = core.candidates(i);
    const double *mine = table.data() + baseFirst[n];
    if (parentHalf[i] < 0) {
      choice[n] = static_cast<int>(std::min_element(mine, mine + count) - mine);
    } else {
      const Core::Half &half = core.halves[parentHalf[i]];
      double least;
      choice[n] = argMinSum(mine, half.from + static_cast<std::size_t>(choice[position[half.other]]) * count,
                            count, least);
    }
  }
}

Merit NeighborhoodSearch::evaluate() {
  Merit result{excess, 0};
  low = core.steps();
  high = 0;
  for (std::size_t n = 0; n < order.size(); ++n) {
    int i = order[n], to = choice[n], from = x[i];
    // Tree edges are charged at the child, with both ends' choices.
    if (parentHalf[i] >= 0) {
      const Core::Half &half = core.halves[parentHalf[i]];
      std::size_t count = core.candidates(i);
      result.cost +=
          half.from[choice[position[half.other]] * count + to] - half.from[x[half.other] * count + from];
    }
    if (to == from)
      continue;
    result.cost += base[baseFirst[n] + to] - base[baseFirst[n] + from];
    for (int sign = -1; sign <= 1; sign += 2) {
      int c = core.first[i] + (sign < 0 ? from : to);
      for (std::int64_t p = core.pieceFirst[c]; p < core.pieceFirst[c + 1]; ++p) {
        const Piece &piece = core.pieces[p];
        change[piece.begin] += sign * piece.bytes;
        change[piece.end] -= sign * piece.bytes;
        low = std::min(low, piece.begin);
        high = std::max(high, piece.end);
      }
    }
  }
  changedCost = result.cost;
  result.cost += cost;
  if (low >= high)
    return result;
  spent += high - low;
  double sum = 0, worst = 0;
  worstStep = -1;
  for (int t = low; t < high; ++t) {
    sum += change[t];
    change[t] = sum;
    if (sum == 0)
      continue;
    double before = std::max(0.0, held[t] - core.capacity[t]);
    double over = held[t] + sum - core.capacity[t];
    result.excess += std::max(0.0, over) - before;
    if (sum > 0 && over > worst) {
      worst = over;
      worstStep = t;
    }
  }
  change[high] = 0;
  return result;
}

/// Takes the choice that evaluate() has just looked at.
void NeighborhoodSearch::accept() {
  for (std::size_t n = 0; n < order.size(); ++n) {
    if (journaling && x[order[n]] != choice[n])
      journal.emplace_back(order[n], x[order[n]]);
    x[order[n]] = choice[n];
  }
  cost += changedCost;
  for (int t = low; t < high; ++t) {
    if (change[t] == 0)
      continue;
    double before = std::max(0.0, held[t] - core.capacity[t]);
    held[t] += change[t];
    excess += std::max(0.0, held[t] - core.capacity[t]) - before;
  }
}

void NeighborhoodSearch::forgetChange() {
  if (low < high)
    std::fill(change.begin() + low, change.begin() + high + 1, 0);
}

void NeighborhoodSearch::absorb(const std::vector<int> &other) {
  for (int start = 0; start < core.nodes; ++start) {
    if (x[start] == other[start] || position[start] >= 0)
      continue;
    order.clear();
    order.push_back(start);
    position[start] = 0;
    for (std::size_t n = 0; n < order.size(); ++n)
      for (int h = core.halfFirst[order[n]]; h < core.halfFirst[order[n] + 1]; ++h) {
        int j = core.halves[h].other;
        if (x[j] != other[j] && position[j] < 0) {
          position[j] = static_cast<int>(order.size());
          order.push_back(j);
        }
      }
    // Not a forest: the edges among the changed nodes are added up here, and evaluate() sees none.
    double among = 0;
    int size = 0;
    for (std::size_t n = 0; n < order.size(); ++n) {
      int i = order[n];
      std::size_t count = core.candidates(i);
      block.push_back(i);
      baseFirst[n] = size;
      choice[n] = other[i];
      parentHalf[i] = -1;
      double *out = base.data() + size;
      size += static_cast<int>(count);
      out[x[i]] = core.cost[core.first[i] + x[i]];
      out[other[i]] = core.cost[core.first[i] + other[i]];
      for (int h = core.halfFirst[i]; h < core.halfFirst[i + 1]; ++h) {
        const Core::Half &half = core.halves[h];
        const double *row = half.from + x[half.other] * count;
        if (position[half.other] < 0 || x[half.other] == other[half.other]) {
          out[x[i]] += row[x[i]];
          out[other[i]] += row[other[i]];
        } else if (half.other < i) {
          among += half.from[other[half.other] * count + other[i]] - row[x[i]];
        }
      }
    }
    baseFirst[order.size()] = size;
    Merit now = evaluate();
    now.cost += among;
    changedCost += among;
    if (now < merit())
      accept();
    forgetChange();
    for (int i : order)
      if (x[i] == other[i])
        position[i] = -1;
    if (x[start] != other[start]) {
      // Left as it was; keep it marked so that it is looked at once.
      for (int i : order)
        position[i] = 0;
      rejected.insert(rejected.end(), order.begin(), order.end());
    }
    block.clear();
  }
  for (int i : rejected)
    position[i] = -1;
  rejected.clear();
}

void NeighborhoodSearch::clearBlock() {
  for (int i : block) {
    position[i] = -1;
    parentHalf[i] = -1;
  }
  block.clear();
}

void NeighborhoodSearch::move() {
  chooseBlock();
  orderBlock();
  gather();
  if (!blockHoldsMemory || core.steps() == 0) {
    solveForest(0);
    evaluate();
    if (changedCost <= 0)
      accept();
    forgetChange();
    clearBlock();
    return;
  }
  priceBlock();
  // Bisect the price: too low does not fit, too high costs too much.
  double cheap = 0, dear = -1, scale = random.below(4) ? 1.0 : 0.0;
  // Over the limit, memory first: now and then whatever it costs.
  if (excess > 0)
    scale = std::ldexp(1.0, 10 * random.below(4));
  bool found = false;
  Merit best = merit();
  double bestDelta = 0;
  for (int trial = 0; trial < 6; ++trial) {
    solveForest(scale);
    Merit now = evaluate();
    bool fits = excess > 0 ? now.excess < excess : now.excess <= 0;
    bool better = excess > 0
                      ? now.excess < best.excess || (now.excess == best.excess && now.cost <= best.cost)
                      : fits && now.cost <= best.cost;
    if (better && (now < best || !found)) {
      best = now;
      bestDelta = changedCost;
      found = true;
      std::copy(choice.begin(), choice.begin() + order.size(), bestChoice.begin());
    }
    if (!fits && scale == 0 && worstStep >= 0 && price[worstStep] == 0) {
      // Nothing says that this step is scarce: say so, in proportion to what the move would win.
      double over = held[worstStep] + change[worstStep] - core.capacity[worstStep];
      price[worstStep] += std::max(1.0, -changedCost) / std::max(1.0, over) * 0.25;
      forgetChange();
      refreshPrefix();
      priceBlock();
      scale = 1;
      continue;
    }
    forgetChange();
    if (fits) {
      dear = scale;
      if (scale == 0)
        break;
      if (dear - cheap < 0.05 * dear)
        break;
      scale = trial == 0 ? 0.5 * dear : 0.5 * (cheap + dear);
    } else {
      cheap = scale;
      scale = dear < 0 ? (scale == 0 ? 1 : scale * 2) : 0.5 * (cheap + dear);
    }
  }
  if (found && bestDelta != 0) {
    std::copy(bestChoice.begin(), bestChoice.begin() + order.size(), choice.begin());
    evaluate();
    accept();
    forgetChange();
  } else if (found) {
    std::copy(bestChoice.begin(), bestChoice.begin() + order.size(), choice.begin());
    evaluate();
    accept(); // a step sideways
    forgetChange();
  }
  clearBlock();
}

void NeighborhoodSearch::kick() {
  int i = random.below(core.nodes), count = core.candidates(i);
  if (count < 2)
    return;
  int forced = random.below(count - 1);
  forced += forced >= x[i];
  Merit before = merit();
  double costBefore = cost, excessBefore = excess;
  journal.clear();
  journaling = true;
  // The node takes another candidate, and a forest around it the best that goes with that.
  int size = 2 + random.below(static_cast<int>(typicalSize));
  growFrom(i, size);
  orderBlock();
  gather();
  priceBlock();
  for (int k = 0; k < count; ++k)
    if (k != forced)
      base[baseFirst[position[i]] + k] += kBig;
  solveForest(1);
  for (int k = 0; k < count; ++k)
    if (k != forced)
      base[baseFirst[position[i]] + k] -= kBig;
  gather();
  evaluate();
  bool allowed = changedCost < kBig / 4;
  if (allowed)
    accept();
  forgetChange();
  clearBlock();
  if (allowed) {
    focus = frozen = i;
    for (int n = 0; n < 3; ++n)
      move();
    frozen = -1;
    for (int n = 0; n < 5; ++n)
      move();
    focus = -1;
  }
  journaling = false;
  if (!(before < merit()))
    return;
  // Worse than before: take it all back.
  for (std::size_t n = journal.size(); n-- > 0;) {
    auto [node, old] = journal[n];
    if (x[node] == old)
      continue;
    for (int sign = -1; sign <= 1; sign += 2) {
      int c = core.first[node] + (sign < 0 ? x[node] : old);
      for (std::int64_t p = core.pieceFirst[c]; p < core.pieceFirst[c + 1]; ++p)
        for (int t = core.pieces[p].begin; t < core.pieces[p].end; ++t)
          held[t] += sign * core.pieces[p].bytes;
    }
    x[node] = old;
  }
  cost = costBefore;
  excess = excessBefore;
}

void NeighborhoodSearch::sweep(int rounds) {
  for (int r = 0; r < rounds; ++r) {
    int start = random.below(core.nodes);
    int stride = 1 + random.below(7);
    for (int pass = 0; pass < stride; ++pass)
      for (int n = pass; n < core.nodes; n += stride)
        addToBlock((start + n) % core.nodes);
    orderBlock();
    gather();
    priceBlock();
    solveForest(1);
    evaluate();
    accept();
    if (low < high)
      std::fill(change.begin() + low, change.begin() + high + 1, 0);
    clearBlock();
  }
  recompute();
}

void NeighborhoodSearch::approach(int rounds, const std::function<bool()> &stop) {
  std::vector<int> bestX = x;
  Merit best = merit();
  sweep(4);
  double scale = std::fabs(cost) + 1, size = 0;
  for (double c : core.capacity)
    size = std::max(size, c);
  size = std::max(size, 1.0) * std::max(1, core.steps());
  double step = scale / size * 0.02;
  int fitting = 0;
  for (int r = 0; r < rounds && !stop(); ++r) {
    sweep(1);
    if (merit() < best) {
      best = merit();
      bestX = x;
    }
    fitting = excess == 0 ? fitting + 1 : 0;
    if (fitting > 12 || core.steps() == 0)
      break;
    for (int t = 0; t < core.steps(); ++t) {
      double load = (held[t] - core.capacity[t]) / std::max(1.0, core.capacity[t]);
      if (load > 0)
        price[t] = price[t] * (1 + std::min(1.0, 4 * load)) + step * (0.2 + std::min(1.0, 10 * load));
      else
        price[t] *= 1 - std::min(0.2, -load * 0.5);
    }
    refreshPrefix();
  }
  assign(bestX);
}

/// Where the current answer is over the limit, memory is too cheap.
void NeighborhoodSearch::raisePrices() {
  double size = 1;
  for (int t = 0; t < core.steps(); ++t)
    size = std::max(size, held[t]);
  double least = 1e-3 * (std::fabs(cost < kBig / 4 ? cost : 0) + 1) / size;
  for (int t = 0; t < core.steps(); ++t)
    if (held[t] > core.capacity[t])
      price[t] = std::min(1e15, 1.25 * price[t] + least);
  refreshPrefix();
}

void NeighborhoodSearch::improve(std::uint64_t work, const std::function<bool()> &stop) {
  std::uint64_t end = spent + work, ask = spent;
  int moves = 0;
  while (spent < end) {
    if (spent >= ask) {
      if (stop())
        break;
      ask = spent + 500000;
    }
    if (excess > 0 && moves++ % 64 == 0)
      raisePrices();
    if (kicks && excess == 0 && random.below(4) == 0)
      kick();
    else
      move();
    spent += 20;
  }
  recompute();
}

} // namespace colossal::search
