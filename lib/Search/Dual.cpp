// Message passing and prices.
//
// Writing M[j->i] for the message that arrives at i from j, every answer x costs
//   sum_i theta_i(x_i) + sum_ij (T_ij(x_i, x_j) - M[j->i](x_i) - M[i->j](x_j)),  theta_i = cost_i + sum_j
//   M[j->i],
// whatever the messages are. Going backward, node i keeps (1 - lower_i * share_i) of theta_i and gives a
// share to each edge to a lower neighbour; the message over that edge is then chosen so that the edge's least
// cost is zero. The least cost of every node's remainder, and of every edge, add up to a bound.
#include "Dual.h"

#include "MinPlus.h"
#include "Reduction.h"

#include <algorithm>
#include <cmath>

namespace colossal::search {

namespace {
/// Work between questions whether to stop, about a millisecond.
constexpr std::uint64_t kAskStop = 2'000'000;
} // namespace

DualAscent::DualAscent(const Core &core)
    : core(core), price(core.steps(), 0), bestPrice(price), direction(core.steps(), 0), priced(core.cost),
      lower(core.nodes, 0), share(core.nodes, 1), prefix(core.steps() + 1, 0), held(core.steps() + 1, 0),
      labels(core.nodes, 0), frequency(core.cost.size(), 0), bestBound(-kBig) {
  std::int64_t size = 0;
  int most = 1;
  messageFirst.reserve(core.halves.size());
  for (int i = 0; i < core.nodes; ++i) {
    int upper = 0;
    for (int h = core.halfFirst[i]; h < core.halfFirst[i + 1]; ++h) {
      messageFirst.push_back(size);
      size += core.candidates(i);
      (core.halves[h].other < i ? lower[i] : upper) += 1;
    }
    share[i] = 1.0 / std::max(1, std::max(lower[i], upper));
    most = std::max(most, core.candidates(i));
  }
  messages.assign(size, 0);
  bestMessages = messages;
  theta.resize(most);
  part.resize(most);
}

void DualAscent::priceNodes() {
  for (int t = 0; t < core.steps(); ++t)
    prefix[t + 1] = prefix[t] + price[t];
  for (std::size_t c = 0; c < core.cost.size(); ++c) {
    double sum = core.cost[c];
    for (std::int64_t p = core.pieceFirst[c]; p < core.pieceFirst[c + 1]; ++p)
      sum += core.pieces[p].bytes * (prefix[core.pieces[p].end] - prefix[core.pieces[p].begin]);
    priced[c] = sum;
  }
  spent += core.cost.size() + core.pieces.size() + core.steps();
}

void DualAscent::gatherNode(int i, double *out) const {
  int count = core.candidates(i);
  std::copy_n(priced.data() + core.first[i], count, out);
  for (int h = core.halfFirst[i]; h < core.halfFirst[i + 1]; ++h) {
    const double *message = messages.data() + messageFirst[h];
    for (int k = 0; k < count; ++k)
      out[k] += message[k];
  }
}

double DualAscent::send(int i, int h) {
  const Core::Half &half = core.halves[h];
  const double *incoming = messages.data() + messageFirst[h];
  int rows = core.candidates(i), cols = core.candidates(half.other);
  for (int k = 0; k < rows; ++k)
    part[k] = share[i] * theta[k] - incoming[k];
  double *out = messages.data() + messageFirst[half.reverse];
  minPlus(part.data(), core.halves[half.reverse].from, rows, cols, out);
  double low = *std::min_element(out, out + cols);
  for (int l = 0; l < cols; ++l)
    out[l] -= low;
  spent += static_cast<std::uint64_t>(rows) * cols;
  return low;
}

void DualAscent::forward(const std::function<bool()> &stop) {
  std::uint64_t ask = spent + kAskStop;
  for (int i = 0; i < core.nodes; ++i) {
    if (spent > ask) {
      if (stop())
        return;
      ask = spent + kAskStop;
    }
    int rows = core.candidates(i);
    gatherNode(i, theta.data());
    // Decode: lower neighbours have chosen, upper ones speak through their messages.
    for (int k = 0; k < rows; ++k)
      part[k] = theta[k];
    for (int h = core.halfFirst[i]; h < core.halfFirst[i + 1]; ++h) {
      const Core::Half &half = core.halves[h];
      if (half.other > i)
        break;
      const double *row = half.from + static_cast<std::size_t>(labels[half.other]) * rows;
      const double *message = messages.data() + messageFirst[h];
      for (int k = 0; k < rows; ++k)
        part[k] += row[k] - message[k];
    }
    labels[i] = static_cast<int>(std::min_element(part.begin(), part.begin() + rows) - part.begin());
    for (int h = core.halfFirst[i]; h < core.halfFirst[i + 1]; ++h) {
      if (core.halves[h].other > i)
        send(i, h);
    }
  }
}

double DualAscent::backward(const std::function<bool()> &stop) {
  std::uint64_t ask = spent + kAskStop;
  double bound = core.offset;
  for (int i = core.nodes; i-- > 0;) {
    if (spent > ask) {
      if (stop())
        return -4 * kBig;
      ask = spent + kAskStop;
    }
    int rows = core.candidates(i);
    gatherNode(i, theta.data());
    double least = *std::min_element(theta.begin(), theta.begin() + rows);
    bound += (1 - lower[i] * share[i]) * least;
    for (int h = core.halfFirst[i]; h < core.halfFirst[i + 1]; ++h) {
      if (core.halves[h].other > i)
        break;
      bound += send(i, h);
    }
  }
  for (int t = 0; t < core.steps(); ++t)
    bound -= price[t] * core.capacity[t];
  return bound;
}

void DualAscent::movePrices(double bound, double target) {
  std::fill(held.begin(), held.end(), 0);
  for (int i = 0; i < core.nodes; ++i) {
    int c = core.first[i] + labels[i];
    for (std::int64_t p = core.pieceFirst[c]; p < core.pieceFirst[c + 1]; ++p) {
      held[core.pieces[p].begin] += core.pieces[p].bytes;
      held[core.pieces[p].end] -= core.pieces[p].bytes;
    }
  }
  double sum = 0, norm = 0, excess = 0;
  for (int t = 0; t < core.steps(); ++t) {
    sum += held[t];
    double g = sum - core.capacity[t];
    excess += std::max(0.0, g);
    direction[t] = 0.6 * direction[t] + 0.4 * g;
    // Prices at zero that would fall do not count.
    if (price[t] > 0 || direction[t] > 0)
      norm += direction[t] * direction[t];
  }
  if (closestExcess < 0 || excess < closestExcess) {
    closestExcess = excess;
    closest = labels;
  }
  if (norm == 0)
    return;
  double scale = std::fabs(bound) + 1;
  double reach = std::min(target - bound, 0.1 * scale);
  reach = std::max(reach, 1e-6 * scale);
  double step = stepFactor * reach / norm;
  for (int t = 0; t < core.steps(); ++t)
    price[t] = std::max(0.0, price[t] + step * direction[t]);
}

void DualAscent::run(std::uint64_t work, double target, const std::function<bool()> &stop) {
  std::uint64_t end = spent + work;
  while (spent < end && !stop()) {
    priceNodes();
    forward(stop);
    double bound = backward(stop);
    if (bound < -2 * kBig)
      break;
    ++count;
    for (double &f : frequency)
      f *= 0.98;
    for (int i = 0; i < core.nodes; ++i)
      frequency[core.first[i] + labels[i]] += 0.02;
    if (bound > bestBound) {
      if (bound > bestBound + 1e-6 * (std::fabs(bound) + 1))
        sinceBest = 0;
      bestBound = bound;
      bestPrice = price;
      bestMessages = messages;
    } else if (++sinceBest > 20 && core.steps() > 0) {
      sinceBest = 0;
      // Shorter steps, until they lead nowhere: then long ones again, which leave a stuck place now and then.
      stepFactor = stepFactor < 2e-3 ? 0.5 : stepFactor * 0.6;
      // Start again from the best prices; the messages are as good as any.
      price = bestPrice;
      messages = bestMessages;
      std::fill(direction.begin(), direction.end(), 0);
    }
    if (core.steps() > 0 && count > 3)
      movePrices(bound, target);
  }
}

const std::vector<int> &DualAscent::takeDecoded() {
  if (closestExcess < 0)
    return labels;
  closestExcess = -1;
  return closest;
}

void DualAscent::chargeMemory(std::vector<double> &charge) const {
  std::vector<double> sum(core.steps() + 1, 0);
  for (int t = 0; t < core.steps(); ++t)
    sum[t + 1] = sum[t] + bestPrice[t];
  for (std::size_t c = 0; c < charge.size(); ++c) {
    charge[c] = 0;
    for (std::int64_t p = core.pieceFirst[c]; p < core.pieceFirst[c + 1]; ++p)
      charge[c] += core.pieces[p].bytes * (sum[core.pieces[p].end] - sum[core.pieces[p].begin]);
  }
}

ExactDual DualAscent::exact() const {
  return ExactDual(core, bestMessages, bestPrice, share);
}

void DualAscent::inherit(const DualAscent &old, const Reduction &reduction) {
  const std::vector<int> &node = reduction.nodeOrigin(), &candidate = reduction.candidateOrigin();
  for (int t = 0; t < core.steps(); ++t)
    price[t] = old.bestPrice[reduction.stepOrigin()[t]];
  bestPrice = price;
  std::vector<int> number(old.core.nodes, -1); // half edge to each neighbour in the old core
  for (int i = 0; i < core.nodes; ++i) {
    const Core &from = old.core;
    for (int h = from.halfFirst[node[i]]; h < from.halfFirst[node[i] + 1]; ++h)
      number[from.halves[h].other] = h;
    for (int h = core.halfFirst[i]; h < core.halfFirst[i + 1]; ++h) {
      int known = number[node[core.halves[h].other]];
      if (known < 0)
        continue;
      for (int k = 0; k < core.candidates(i); ++k)
        messages[messageFirst[h] + k] =
            old.bestMessages[old.messageFirst[known] + candidate[core.first[i] + k]];
    }
    for (int h = from.halfFirst[node[i]]; h < from.halfFirst[node[i] + 1]; ++h)
      number[from.halves[h].other] = -1;
  }
  bestMessages = messages;
  stepFactor = old.stepFactor;
}

} // namespace colossal::search
