#include "DualExact.h"

#include "MinPlus.h"

#include <algorithm>
#include <cmath>

namespace colossal::search {

namespace {
/// Sums of a few numbers below this are exact in doubles.
constexpr double kExact = 0x1p51;
} // namespace

ExactDual::ExactDual(const Core &core, const std::vector<double> &messages, const std::vector<double> &price,
                     const std::vector<double> &share)
    : core(core), W(messages.size()), theta(core.cost), edgeLow(core.halves.size(), 0) {
  std::int64_t size = 0;
  int most = 1;
  for (int i = 0; i < core.nodes; ++i) {
    most = std::max(most, core.candidates(i));
    for (int h = core.halfFirst[i]; h < core.halfFirst[i + 1]; ++h) {
      messageFirst.push_back(size);
      size += core.candidates(i);
    }
  }
  in.resize(most);
  out.resize(most);
  // Any messages give a bound: those that a forbidden candidate has made huge are cut.
  for (std::size_t m = 0; m < W.size(); ++m)
    W[m] = std::clamp(std::floor(messages[m]), -kExact / 16, kExact / 16);
  // A forbidden candidate that is still here may count as a dear one.
  for (double &cost : theta)
    cost = std::min(cost, kExact / 4);
  if (exact)
    chargeMemory(price);
  if (exact)
    giveToLower(share);
}

void ExactDual::chargeMemory(const std::vector<double> &price) {
  // Prices as whole multiples of 2^-fraction.
  double largest = 1;
  for (double p : price)
    largest += p;
  int fraction = std::min(40, 58 - std::ilogb(largest));
  if (fraction < 0) {
    exact = false;
    return;
  }
  std::vector<__int128> sum(core.steps() + 1, 0);
  __int128 paid = 0;
  for (int t = 0; t < core.steps(); ++t) {
    __int128 p = static_cast<std::int64_t>(std::ldexp(price[t], fraction));
    sum[t + 1] = sum[t] + p;
    paid += p * static_cast<__int128>(core.capacity[t]);
  }
  total = static_cast<__int128>(core.offset) - ((paid + (__int128{1} << fraction) - 1) >> fraction);
  for (std::size_t c = 0; c < theta.size(); ++c) {
    __int128 memory = 0;
    for (std::int64_t p = core.pieceFirst[c]; p < core.pieceFirst[c + 1]; ++p)
      memory +=
          static_cast<__int128>(core.pieces[p].bytes) * (sum[core.pieces[p].end] - sum[core.pieces[p].begin]);
    // Charging less than the price keeps the bound a bound.
    theta[c] += static_cast<double>(std::min<__int128>(memory >> fraction, __int128{1} << 50));
  }
}

double ExactDual::lowest(int i) const {
  return *std::min_element(theta.begin() + core.first[i], theta.begin() + core.first[i + 1]);
}

/// Takes the messages into theta, and splits theta over the edges to lower neighbours, as TRW-S does going
/// backward.
void ExactDual::giveToLower(const std::vector<double> &share) {
  for (int i = 0; i < core.nodes; ++i) {
    int count = core.candidates(i);
    double *mine = theta.data() + core.first[i];
    for (int h = core.halfFirst[i]; h < core.halfFirst[i + 1]; ++h)
      for (int k = 0; k < count; ++k)
        mine[k] += W[messageFirst[h] + k];
    for (int k = 0; k < count; ++k) {
      exact &= std::fabs(mine[k]) < kExact;
      out[k] = std::floor(share[i] * mine[k]);
    }
    for (int h = core.halfFirst[i]; h < core.halfFirst[i + 1] && core.halves[h].other < i; ++h)
      for (int k = 0; k < count; ++k) {
        mine[k] -= out[k];
        W[messageFirst[h] + k] -= out[k];
      }
    total += static_cast<__int128>(lowest(i));
  }
  for (int i = 0; i < core.nodes && exact; ++i)
    for (int h = core.halfFirst[i]; h < core.halfFirst[i + 1] && core.halves[h].other < i; ++h) {
      const Core::Half &half = core.halves[h];
      int rows = core.candidates(i), cols = core.candidates(half.other);
      for (int k = 0; k < rows; ++k)
        in[k] = -W[messageFirst[h] + k];
      minPlus(in.data(), core.halves[half.reverse].from, rows, cols, out.data());
      double low = 4 * kBig;
      for (int l = 0; l < cols; ++l)
        low = std::min(low, out[l] - W[messageFirst[half.reverse] + l]);
      edgeLow[h] = low;
      total += static_cast<__int128>(low);
    }
}

/// Brings all that its edges owe to node i into theta, drops what is too dear, and hands theta on.
int ExactDual::fixNode(int i, __int128 upper, std::vector<char> &keep, bool forward) {
  int count = core.candidates(i), dropped = 0, next = 0;
  double *mine = theta.data() + core.first[i];
  total -= static_cast<__int128>(lowest(i));
  for (int h = core.halfFirst[i]; h < core.halfFirst[i + 1]; ++h) {
    const Core::Half &half = core.halves[h];
    int rows = core.candidates(half.other);
    const double *theirs = W.data() + messageFirst[half.reverse];
    double *own = W.data() + messageFirst[h];
    for (int l = 0; l < rows; ++l)
      in[l] = -theirs[l];
    minPlus(in.data(), half.from, rows, count, out.data());
    for (int k = 0; k < count; ++k) {
      if (!keep[core.first[i] + k])
        continue;
      // Moving less than is owed is allowed too, and keeps the numbers small.
      double owed = std::min(out[k] - own[k], kExact);
      mine[k] = std::min(mine[k] + owed, kExact);
      own[k] += owed;
      exact &= std::fabs(own[k]) < 2 * kExact && mine[k] > -kExact;
    }
    double &low = edgeLow[half.other < i ? h : half.reverse];
    total -= static_cast<__int128>(low);
    low = 0;
    next += forward == (half.other > i);
  }
  double least = lowest(i);
  total += static_cast<__int128>(least);
  for (int k = 0; k < count && exact; ++k) {
    if (!keep[core.first[i] + k] || total + static_cast<__int128>(mine[k] - least) <= upper)
      continue;
    keep[core.first[i] + k] = 0;
    ++dropped;
    mine[k] = kBig;
    // Closed to its neighbours too.
    for (int h = core.halfFirst[i]; h < core.halfFirst[i + 1]; ++h)
      W[messageFirst[h] + k] = -kBig;
  }
  if (next == 0 || !exact || lowest(i) >= kBig)
    return dropped;
  total -= static_cast<__int128>(least);
  for (int h = core.halfFirst[i]; h < core.halfFirst[i + 1]; ++h) {
    const Core::Half &half = core.halves[h];
    if (forward != (half.other > i))
      continue;
    double low = 4 * kBig;
    for (int k = 0; k < count; ++k) {
      if (!keep[core.first[i] + k])
        continue;
      double given = std::floor((mine[k]) / next);
      mine[k] -= given;
      W[messageFirst[h] + k] -= given;
      low = std::min(low, given);
    }
    --next;
    edgeLow[half.other < i ? h : half.reverse] = low;
    total += static_cast<__int128>(low);
  }
  total += static_cast<__int128>(lowest(i));
  return dropped;
}

int ExactDual::fix(__int128 upper, std::vector<char> &keep) {
  int dropped = 0;
  for (int i = 0; i < core.nodes && exact; ++i)
    dropped += fixNode(i, upper, keep, true);
  for (int i = core.nodes; i-- > 0 && exact;)
    dropped += fixNode(i, upper, keep, false);
  return dropped;
}

} // namespace colossal::search
