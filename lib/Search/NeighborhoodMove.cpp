// A move: solve the freed forest at several prices, keep what fits and costs less; and the kick, a forced
// change with repair around it.
#include "Neighborhood.h"

#include "MinPlus.h"

#include <algorithm>
#include <cmath>

namespace colossal::search {

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

SplitCost NeighborhoodSearch::outside(int i, int candidate) {
  SplitCost sum;
  sum.add(core.cost[core.first[i] + candidate]);
  const std::size_t count = core.candidates(i);
  for (int h = core.halfFirst[i]; h < core.halfFirst[i + 1]; ++h)
    if (const Core::Half &half = core.halves[h]; position[half.other] < 0)
      sum.add(half.from[x[half.other] * count + candidate]);
  spent += core.halfFirst[i + 1] - core.halfFirst[i];
  return sum;
}

Merit NeighborhoodSearch::evaluate() {
  changed = {};
  low = core.steps();
  high = 0;
  for (std::size_t n = 0; n < order.size(); ++n) {
    int i = order[n], to = choice[n], from = x[i];
    // Tree edges are charged at the child, with both ends' choices.
    if (parentHalf[i] >= 0) {
      const Core::Half &half = core.halves[parentHalf[i]];
      std::size_t count = core.candidates(i);
      changed.add(half.from[choice[position[half.other]] * count + to]);
      changed.subtract(half.from[x[half.other] * count + from]);
    }
    if (to == from)
      continue;
    const double after = base[baseFirst[n] + to], before = base[baseFirst[n] + from];
    if (isBig(after) || isBig(before)) {
      const SplitCost was = outside(i, from);
      changed += outside(i, to);
      changed += {-was.forbidden, -was.cost};
    } else {
      changed.cost += after - before;
    }
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
  Merit result{excess, total};
  result.total += changed;
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
  total += changed;
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

void NeighborhoodSearch::move() {
  chooseBlock();
  orderBlock();
  gather();
  if (!blockHoldsMemory || core.steps() == 0) {
    solveForest(0);
    evaluate();
    if (!(SplitCost{} < changed))
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
  for (int trial = 0; trial < 6; ++trial) {
    solveForest(scale);
    Merit now = evaluate();
    bool fits = excess > 0 ? now.excess < excess : now.excess <= 0;
    if ((fits || excess > 0) && (now < best || (!found && now == best))) {
      best = now;
      found = true;
      std::copy(choice.begin(), choice.begin() + order.size(), bestChoice.begin());
    }
    if (!fits && scale == 0 && worstStep >= 0 && price[worstStep] == 0) {
      // Nothing says that this step is scarce: say so, in proportion to what the move would win.
      double over = held[worstStep] + change[worstStep] - core.capacity[worstStep];
      double won = changed.forbidden < 0 ? std::fabs(total.cost) : -changed.cost;
      price[worstStep] += std::max(1.0, won) / std::max(1.0, over) * 0.25;
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
  if (found) { // better, or a step sideways
    std::copy(bestChoice.begin(), bestChoice.begin() + order.size(), choice.begin());
    evaluate();
    accept();
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
  bool allowed = changed.forbidden <= 0;
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
  total = before.total;
  excess = before.excess;
}

} // namespace colossal::search
