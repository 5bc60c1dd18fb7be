// Rounds of tasks and what they tell each other.
#include "Portfolio.h"

#include "Reduction.h"
#include "colossal/Search/Parallel.h"

#include <algorithm>
#include <cmath>

namespace colossal::search {

namespace {

/// Exact search is tried on cores of up to this many candidates.
constexpr std::size_t kBranchable = 20'000;
/// The dual's work in a round, in works of one search. It walks tables in order and so takes half the time
/// for a unit. Until an allowed answer is known, the searches need the time more.
constexpr std::uint64_t kDualWeight = 7, kEarlyDualWeight = 1;
/// Leaves looked at in one round, more than there are threads so that all stay busy.
constexpr int kLeaves = 6;
/// Two from the best answer, one from what is decoded anew each round, one trial of many rounds.
constexpr int kSearches = 4, kDecoded = 2;
/// Passes of the dual before anything is searched, and the part of the cost from which on nothing is left to.
constexpr int kFirstPasses = 8;
constexpr double kClosedGap = 1e-9;

} // namespace

Portfolio::Portfolio(const Core &core, const Budget &budget, std::function<bool()> stop)
    : core(core), budget(budget), stop(std::move(stop)), dual(core), bestX(core.nodes, 0), lastBound(-kBig),
      slice(10 * core.cost.size() + 200'000) {
  searches.resize(kSearches);
  searches[kDecoded] = makeSearch(kDecoded);
  bestMerit = searches[kDecoded]->merit(); // all begin with the same answer
}

std::unique_ptr<NeighborhoodSearch> Portfolio::makeSearch(std::uint64_t k) const {
  return std::make_unique<NeighborhoodSearch>(core, budget.seed * 0x9e3779b97f4a7c15ULL + k);
}

void Portfolio::startSearches() {
  for (std::size_t k = 0; k < searches.size(); ++k)
    if (!searches[k])
      searches[k] = makeSearch(k);
}

std::uint64_t Portfolio::work() const {
  std::uint64_t sum = dual.work();
  for (const auto &search : searches)
    sum += search ? search->work() : 0;
  return sum + (branching ? branching->work() : 0);
}

std::optional<__int128> Portfolio::exactBound() const {
  if (!branching)
    return dual.exact().bound();
  std::optional<__int128> least = branching->bound();
  return least ? least : kClosed;
}

/// Exact search beside one local search from the best answer, or two.
void Portfolio::branchRound(std::uint64_t part, __int128 upper) {
  std::optional<__int128> before = branching->bound();
  int leaves = branching->pick(kLeaves);
  parallelFor(leaves + 2, budget.threads, [&](std::size_t i) {
    const int task = static_cast<int>(i);
    if (task < leaves)
      branching->process(task, part / 2, upper, stop);
    else
      searches[task - leaves]->improve(part, stop);
  });
  branching->merge();
  std::optional<__int128> after = branching->bound();
  exchange();
  rose = !after || *after > *before;
  if (!branching->answer().empty()) {
    searches[kDecoded]->assign(branching->answer());
    if (searches[kDecoded]->merit() < bestMerit) {
      bestMerit = searches[kDecoded]->merit();
      bestX = searches[kDecoded]->current();
      improved = true;
    }
  }
}

void Portfolio::inherit(const Portfolio &old, const Reduction &reduction) {
  dual.inherit(old.dual, reduction);
  bestX = reduction.narrow(old.bestX);
  startSearches();
  for (auto &search : searches) {
    search->setPrices(dual.currentPrices());
    search->assign(bestX);
  }
  bestMerit = searches[0]->merit();
  slice = std::min(old.slice, 20 * slice);
}

/// Where no memory is limited, what the dual decodes is often the best answer, and always a start: searches
/// are for what it leaves open.
void Portfolio::decodeFirst(std::uint64_t work) {
  NeighborhoodSearch &start = *searches[kDecoded];
  const std::uint64_t before = dual.work();
  for (int pass = 0; pass < kFirstPasses && dual.work() < before + work && !stop() && !isClosed; ++pass) {
    dual.run(1, std::numeric_limits<double>::infinity(), stop);
    start.assign(dual.decoded());
    isClosed = start.merit().allowed() &&
               start.merit().total.cost - dual.bound() <= kClosedGap * std::fabs(start.merit().total.cost);
  }
  if (!isClosed) {
    exchange();
    ++rounds;
    return;
  }
  // Nobody will ask for another round, but where rounding leaves a gap: searches learn of this one then.
  rose = dual.bound() > lastBound;
  improved = start.merit() < bestMerit;
  if (improved) {
    bestMerit = start.merit();
    bestX = start.current();
  }
}

void Portfolio::round(std::uint64_t work, std::optional<__int128> upper) {
  if (rounds == 0 && core.steps() == 0 && !isClosed) {
    decodeFirst(work);
    return;
  }
  startSearches();
  if (isClosed) {
    exchange();
    ++rounds;
    isClosed = false;
  }
  const std::uint64_t weight = bestMerit.allowed() ? kDualWeight : kEarlyDualWeight;
  std::uint64_t part = std::max<std::uint64_t>(1, std::min(slice, work / (searches.size() + weight)));
  double target = bestMerit.allowed() ? bestMerit.total.cost : std::numeric_limits<double>::infinity();
  if (!branching && upper && dualSlow >= 10 && core.cost.size() <= kBranchable)
    if (auto bound = dual.exact().bound())
      branching = std::make_unique<Branching>(core, dual, *bound);
  if (branching && upper) {
    branchRound(part, *upper);
    ++rounds;
    slice = std::min<std::uint64_t>(slice + slice / 10, 40'000'000);
    return;
  }
  // A dual that has stopped rising gets every eighth round.
  const bool ascend = dualQuiet < 30 || rounds % 8 == 0;
  const int first = ascend ? 1 : 0, count = static_cast<int>(searches.size());
  parallelFor(first + count, budget.threads, [&](std::size_t i) {
    const int task = static_cast<int>(i);
    if (task < first)
      dual.run(weight * part, target, stop);
    else
      searches[task - first]->improve(part, stop);
  });
  exchange();
  ++rounds;
  slice = std::min<std::uint64_t>(slice + slice / 10, 40'000'000);
}

void Portfolio::exchange() {
  startSearches();
  rose = dual.bound() > lastBound;
  const double gap = bestMerit.allowed() ? std::max(0.0, bestMerit.total.cost - lastBound) : 0;
  dualSlow = dual.bound() > lastBound + std::max(1e-6 * std::fabs(lastBound), 1e-3 * gap) ? 0 : dualSlow + 1;
  dualQuiet = dual.bound() > lastBound + 1e-6 * std::fabs(lastBound) ? 0 : dualQuiet + 1;
  lastBound = dual.bound();

  improved = false;
  for (auto &search : searches)
    if (search->merit() < bestMerit) {
      bestMerit = search->merit();
      bestX = search->current();
      improved = true;
    }
  searches[0]->setPrices(dual.currentPrices());
  if (searches[0]->current() != bestX)
    searches[0]->assign(bestX);
  // The second search starts from where the first stands, with other random choices; what both find is put
  // together.
  if (rounds > 0 && searches[1]->merit().excess == 0)
    searches[0]->absorb(searches[1]->current());
  if (searches[0]->merit() < bestMerit) {
    bestMerit = searches[0]->merit();
    bestX = searches[0]->current();
    improved = true;
  }
  searches[1]->setPrices(dual.currentPrices());
  searches[1]->assign(bestX);
  // The third starts from what the dual decodes; where that has not led anywhere for a while, from the best
  // answer.
  failedStarts = searches[kDecoded]->merit() == bestMerit ? 0 : failedStarts + 1;
  searches[kDecoded]->setPrices(dual.currentPrices());
  if (failedStarts < 8 || rounds % 4 == 0) {
    searches[kDecoded]->assign(dual.decoded());
  } else {
    searches[0]->absorb(searches[kDecoded]->current());
    searches[kDecoded]->assign(bestX);
  }
  NeighborhoodSearch &trial = *searches[3];
  trial.setPrices(dual.prices());
  if (trial.merit() == bestMerit || !trialPromises()) {
    searches[0]->absorb(trial.current());
    trial.assign(dual.takeDecoded());
    trialStart = trial.work();
    trialStage = 0;
  }
}

/// Whether the trial is to go on: at 1, 2, 4... times a unit of work it must be about as good as the best of
/// the others were then.
bool Portfolio::trialPromises() {
  const Merit now = searches[3]->merit();
  const std::uint64_t age = searches[3]->work() - trialStart, unit = 200 * core.cost.size() + 1'000'000;
  for (; age >= unit << trialStage; ++trialStage) {
    if (trialStage == stages.size()) {
      stages.push_back(now); // none was as old; others may do better
      return false;
    }
    Merit &wanted = stages[trialStage];
    if (wanted < now) {
      // Less is asked of the next, so that none is turned away by a lucky one for ever.
      wanted.excess += 0.1 * (now.excess - wanted.excess);
      wanted.total.forbidden += (now.total.forbidden - wanted.total.forbidden) / 8;
      wanted.total.cost += 0.1 * (now.total.cost - wanted.total.cost);
      return false;
    }
    wanted = now;
  }
  return true;
}

} // namespace colossal::search
