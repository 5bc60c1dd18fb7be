//===- StageCut.cpp - where a chain of work is cut into stages --------------===//
//
// Dynamic programming over (stages, places), three times: for the least that the heaviest stage must hold,
// for the least time of the slowest among the cuts that hold about so much, and for the fewest bytes among
// those. Once for all places, and once for those where fewer bytes cross than around them, between the blocks
// of a model: what is cut there keeps its fused kernels, and its stages are easier to understand.
//
//===----------------------------------------------------------------------===//
#include "colossal/Step/StageCut.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

namespace colossal::step {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// Places that are looked at; with more, those that fewest bytes cross.
constexpr std::size_t kMostPlaces = 1000;
/// How much slower the slowest stage may be for the sake of fewer bytes, and of narrow places.
constexpr double kSlack = 1.02, kNarrowSlack = 1.1;

/// What a stage may hold of the weights, where there is a cut that keeps to it.
double evenWeights(const CutProblem &problem) {
  return std::accumulate(problem.weightBytes.begin(), problem.weightBytes.end(), 0.0) * problem.unevenness /
         problem.stages;
}

class Cutter {
public:
  Cutter(const CutProblem &problem, bool onlyNarrow)
      : problem(problem), stages(static_cast<std::size_t>(problem.stages)) {
    choosePlaces(onlyNarrow);
    weigh();
    time.push_back(0);
    for (const CutUnit &unit : problem.units)
      time.push_back(time.back() + unit.seconds);
  }

  StageCut cut() {
    StageCut found;
    if (places.size() <= stages)
      return found;
    auto any = [](std::size_t, std::size_t) { return true; };
    auto held = [&](std::size_t i, std::size_t j) { return weightOf(i, j); };
    auto larger = [](double a, double b) { return std::max(a, b); };
    double must = solve(held, larger, any).first;
    if (must == kNever)
      return found;
    double limit = std::max(evenWeights(problem), must);
    if (problem.memoryBytes > 0)
      limit = std::max(must, std::min(limit, problem.memoryBytes));
    limit *= 1 + 1e-9;
    auto fits = [&](std::size_t i, std::size_t j) { return weightOf(i, j) <= limit; };
    auto takes = [&](std::size_t i, std::size_t j) { return secondsOf(i, j); };
    double slowest = solve(takes, larger, fits).first * kSlack;
    std::vector<std::size_t> chosen =
        solve([&](std::size_t i, std::size_t) { return problem.crossingBytes[places[i]]; }, std::plus<>(),
              [&](std::size_t i, std::size_t j) { return fits(i, j) && takes(i, j) <= slowest; })
            .second;
    for (std::size_t s = 0; s < stages; ++s) {
      const std::size_t end = s + 1 < stages ? chosen[s + 1] : places.size() - 1;
      found.firsts.push_back(places[chosen[s]]);
      found.seconds.push_back(secondsOf(chosen[s], end));
      found.weightBytes.push_back(weightOf(chosen[s], end));
    }
    return found;
  }

private:
  /// The least of `join` over stages of `cost`, among stages that are `allowed`, and the place where each
  /// begins. Places are indices of `places`.
  std::pair<double, std::vector<std::size_t>>
  solve(const std::function<double(std::size_t, std::size_t)> &cost,
        const std::function<double(double, double)> &join,
        const std::function<bool(std::size_t, std::size_t)> &allowed) const {
    const std::size_t count = places.size();
    std::vector<double> before(count, kNever), now(count, kNever);
    std::vector<std::vector<std::size_t>> from(stages, std::vector<std::size_t>(count, 0));
    before[0] = 0;
    for (std::size_t s = 0; s < stages; ++s) {
      std::fill(now.begin(), now.end(), kNever);
      for (std::size_t j = s + 1; j < count; ++j)
        for (std::size_t i = j; i-- > s;) {
          if (!mayStand(i, j, static_cast<int>(s)))
            break; // nor with more before it
          if (before[i] == kNever || !allowed(i, j))
            continue;
          double value = join(before[i], cost(i, j));
          if (value < now[j]) {
            now[j] = value;
            from[s][j] = i;
          }
        }
      std::swap(before, now);
    }
    std::pair<double, std::vector<std::size_t>> found{before[count - 1], std::vector<std::size_t>(stages)};
    std::size_t end = count - 1;
    for (std::size_t s = stages; s-- > 0;)
      found.second[s] = end = from[s][end];
    return found;
  }

  /// Whether the units of [i, j) may stand in stage s. As bounds never fall, the outermost say it.
  bool mayStand(std::size_t i, std::size_t j, int s) const {
    return problem.units[places[j] - 1].least <= s && s <= problem.units[places[i]].greatest;
  }

  /// Whether more bytes cross before and behind the run of equal places that i belongs to, or nothing is
  /// there.
  bool isNarrow(std::size_t i) const {
    const std::vector<double> &bytes = problem.crossingBytes;
    std::size_t before = i, behind = i;
    while (before > 0 && bytes[before] == bytes[i])
      --before;
    while (behind < problem.units.size() && bytes[behind] == bytes[i])
      ++behind;
    return (before == 0 || bytes[before] > bytes[i]) &&
           (behind == problem.units.size() || bytes[behind] > bytes[i]);
  }

  void choosePlaces(bool onlyNarrow) {
    const std::size_t count = problem.units.size();
    std::vector<std::size_t> inner;
    auto changes = [&](std::size_t i) {
      const CutUnit &before = problem.units[i - 1], &after = problem.units[i];
      return before.least != after.least || before.greatest != after.greatest;
    };
    for (std::size_t i = 1; i < count; ++i)
      if (!onlyNarrow || isNarrow(i) || changes(i))
        inner.push_back(i);
    if (inner.size() > kMostPlaces)
      inner = choosePlaces(inner, changes);
    places = {0};
    places.insert(places.end(), inner.begin(), inner.end());
    places.push_back(count);
  }

  /// kMostPlaces of `all`: those that must be there, then those that fewest bytes cross, and of those that as
  /// many cross some everywhere.
  std::vector<std::size_t> choosePlaces(const std::vector<std::size_t> &all,
                                        const std::function<bool(std::size_t)> &isNeeded) const {
    std::map<double, std::vector<std::size_t>> byBytes;
    for (std::size_t i : all)
      byBytes[isNeeded(i) ? -1 : problem.crossingBytes[i]].push_back(i);
    std::vector<std::size_t> chosen;
    for (const auto &[bytes, equal] : byBytes) {
      const std::size_t room = std::min(kMostPlaces - chosen.size(), equal.size());
      for (std::size_t n = 0; n < room; ++n)
        chosen.push_back(equal[n * equal.size() / room]);
    }
    std::sort(chosen.begin(), chosen.end());
    return chosen;
  }

  /// Bytes of the weights that units between two places read, each once.
  void weigh() {
    weights.assign(places.size() * places.size(), 0);
    for (std::size_t j = 1; j < places.size(); ++j) {
      std::vector<bool> seen(problem.weightBytes.size());
      double bytes = 0;
      for (std::size_t i = j; i-- > 0;) {
        for (std::size_t u = places[i]; u < places[i + 1]; ++u)
          for (unsigned weight : problem.units[u].weights)
            if (!seen[weight]) {
              seen[weight] = true;
              bytes += problem.weightBytes[weight];
            }
        weights[i * places.size() + j] = bytes;
      }
    }
  }
  double weightOf(std::size_t i, std::size_t j) const { return weights[i * places.size() + j]; }
  double secondsOf(std::size_t i, std::size_t j) const {
    return time[places[j]] - time[places[i]] + (i ? problem.crossingSeconds[places[i]] : 0);
  }

  const CutProblem &problem;
  const std::size_t stages;
  std::vector<std::size_t> places; ///< before which units it may be cut, with both ends
  std::vector<double> weights, time;
};

} // namespace

StageCut cutStages(const CutProblem &problem) {
  StageCut any = Cutter(problem, false).cut(), narrow = Cutter(problem, true).cut();
  auto worst = [](const std::vector<double> &values) {
    return *std::max_element(values.begin(), values.end());
  };
  if (any.firsts.empty())
    return any;
  CutProblem unlimited = problem;
  unlimited.unevenness = problem.stages;
  unlimited.memoryBytes = 0;
  any.slowestAnywhere = narrow.slowestAnywhere = worst(any.seconds);
  any.slowestUnlimited = narrow.slowestUnlimited = worst(Cutter(unlimited, false).cut().seconds);
  if (narrow.firsts.empty())
    return any;
  const bool isAsGood =
      worst(narrow.seconds) <= worst(any.seconds) * kNarrowSlack &&
      worst(narrow.weightBytes) <= std::max(worst(any.weightBytes), evenWeights(problem)) * (1 + 1e-9);
  return isAsGood ? narrow : any;
}

std::vector<int> followCut(const CutProblem &problem, const std::vector<int> &wanted) {
  const auto stages = static_cast<std::size_t>(problem.stages);
  const std::size_t count = problem.units.size();
  std::vector<double> costs(stages, 0);
  std::vector<std::vector<int>> from(count, std::vector<int>(stages, 0));
  for (std::size_t u = 0; u < count; ++u) {
    const CutUnit &unit = problem.units[u];
    double bytes = 1;
    for (unsigned weight : unit.weights)
      bytes += problem.weightBytes[weight];
    std::vector<double> next(stages, kNever);
    for (std::size_t s = 0; s < stages; ++s) {
      int stage = static_cast<int>(s);
      if (stage < unit.least || stage > unit.greatest)
        continue;
      std::size_t best = 0;
      for (std::size_t p = 1; p <= s; ++p)
        if (costs[p] < costs[best])
          best = p;
      next[s] = costs[best] + (wanted[u] < 0 || wanted[u] == stage ? 0 : bytes);
      from[u][s] = static_cast<int>(best);
    }
    costs = std::move(next);
  }
  auto last = std::min_element(costs.begin(), costs.end());
  if (last == costs.end() || *last == kNever)
    return {};
  std::vector<int> chosen(count);
  int stage = static_cast<int>(last - costs.begin());
  for (std::size_t u = count; u-- > 0;) {
    chosen[u] = stage;
    stage = from[u][static_cast<std::size_t>(stage)];
  }
  return chosen;
}

} // namespace colossal::step
