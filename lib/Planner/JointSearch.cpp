// Branch and bound over plans. Groups (mesh, microbatch, recompute, boundary) come in the order of a bound
// that needs no stages; inside a family, schedules and ZeRO stages in the order of a bound that does; what is
// left is simulated, until nothing can be better than the last runner-up. JointSearch.h has the contract,
// Remedies.cpp says what helps where nothing fits.
#include "colossal/Planner/JointSearch.h"

#include "Meshes.h"
#include "Ranking.h"
#include "Remedies.h"
#include "colossal/Cost/ByteSize.h"
#include "colossal/Search/Parallel.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <queue>
#include <set>

namespace colossal::planner {

namespace {

std::string percent(double part) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * part);
  return text;
}

/// Why `other` is slower than `best`: the part of the step that differs most.
std::string compare(const PlanPrice &best, const PlanPrice &other) {
  auto rest = [](const PlanPrice &price) { return price.pipeline * (1 - price.bubble) - price.collective; };
  const std::pair<const char *, double> parts[] = {
      {"waiting in the pipeline", other.pipeline * other.bubble - best.pipeline * best.bubble},
      {"communication inside units", other.collective - best.collective},
      {"kernels (recompute, smaller or repeated work)", rest(other) - rest(best)},
      {"gradient reduction and optimizer",
       other.reduction + other.optimizer - best.reduction - best.optimizer}};
  auto most = std::max_element(std::begin(parts), std::end(parts),
                               [](const auto &a, const auto &b) { return a.second < b.second; });
  double slower = other.seconds / best.seconds - 1;
  if (slower <= 1e-9)
    return other.peakBytes > best.peakBytes ? "as fast, with more memory" : "as fast, found later";
  return percent(slower) + " slower: " + most->first + " takes " + percent(most->second / best.seconds) +
         " more of the step";
}

/// How many families, or plans, are looked at in one go: the same number whatever the threads, so that the
/// answer is.
constexpr std::size_t kGroupsAtOnce = 64, kPlansAtOnce = 8;
/// Plans without room of which the fastest is told.
constexpr std::size_t kTooLarge = 8;

class Search {
public:
  Search(PlanPricer &pricer, const TrainingTask &task, const SearchSpace &space,
         const std::function<void(const std::string &)> &progress)
      : pricer(pricer), task(task), space(space), progress(progress), meshes(pricer, task, space),
        ranking(space.runnersUp, space.otherMeshes, space.mostRunnersUp) {}

  SearchResult run() {
    gatherGroups();
    for (std::size_t g = 0; g < families.size(); ++g)
      push(families[g].bound, true, g);
    result.roofline = roofline();
    result.relaxed = families.empty() ? 0 : std::max(queue.top().bound, result.roofline);
    for (const PlanFamily &family : families)
      result.plans += static_cast<long long>(zeroStages(family).size()) * meshes.countSchedulings(family);
    tell(std::to_string(families.size()) + " meshes with microbatch, recompute and boundary");
    explore();
    finish();
    return result;
  }

private:
  /// A plan of a family before it is simulated.
  struct Planned {
    std::size_t family;
    Scheduling scheduling;
    int zero;
    double bound;
  };
  /// A family or a plan, by its number. Least bound first, then first come.
  struct Entry {
    double bound;
    long long sequence;
    bool isGroup;
    std::size_t number;
    bool operator<(const Entry &other) const {
      return bound != other.bound ? bound > other.bound : sequence > other.sequence;
    }
  };
  struct TooLarge {
    double seconds;
    TrainingPlan plan;
  };

  void tell(const std::string &text) {
    if (progress)
      progress(text);
  }
  /// Only plans below it matter: they may be the best, or runners-up.
  double limit() const { return ranking.limit(); }
  double bestSeconds() const {
    return result.best ? result.best->price.seconds : std::numeric_limits<double>::infinity();
  }
  void push(double bound, bool isGroup, std::size_t number) {
    queue.push({bound, ++sequence, isGroup, number});
  }

  double roofline() {
    double seconds = 0;
    for (int unit : pricer.graph().units)
      seconds += pricer.blocks().leastDeviceSeconds(unit);
    // Fewer devices wait for fewer nodes, which never makes up for the work.
    return seconds * task.globalBatch / task.devices * pricer.straggler(task.devices);
  }

  void gatherGroups() {
    const std::vector<UnitAxes> &axes = meshes.axes();
    // The largest first: they take the longest.
    std::vector<std::size_t> order(axes.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return axes[a].boundaries.size() * axes[a].tensor.size() >
             axes[b].boundaries.size() * axes[b].tensor.size();
    });
    tell("layouts on " + std::to_string(axes.size()) + " kinds of tensor and context axes");
    std::vector<std::vector<PlanFamily>> found(axes.size());
    search::parallelFor(axes.size(), space.threads,
                        [&](std::size_t i) { found[order[i]] = meshes.families(order[i]); });
    for (std::vector<PlanFamily> &some : found)
      families.insert(families.end(), some.begin(), some.end());
  }

  /// Without ranks to share state, all stages of ZeRO are one.
  std::vector<int> zeroStages(const PlanFamily &family) const {
    if (family.data * meshes.axes()[family.axes].context > 1)
      return space.zero;
    return {*std::min_element(space.zero.begin(), space.zero.end())};
  }
  /// The stage of ZeRO that takes the least time.
  int fastestZero(const std::vector<int> &stages) const {
    return *std::min_element(stages.begin(), stages.end(), [](int a, int b) {
      auto rank = [](int zero) { return zero == 1 ? 0 : zero == 0 ? 1 : zero; };
      return rank(a) < rank(b);
    });
  }

  /// The family's plans that can be faster than `limit` and may fit; whether others have no room.
  bool expand(std::size_t number, double limit, std::vector<Planned> &plans, std::vector<TooLarge> &large) {
    const PlanFamily &family = families[number];
    TrainingPlan plan = meshes.plan(family);
    std::vector<int> all = zeroStages(family), stages;
    int fastest = fastestZero(all);
    bool isTight = false;
    // Stage 0 takes as long as stage 1, and more memory: without room for it nothing is lost.
    auto matters = [&](int zero) { return zero > 0 || zero == fastest; };
    for (int zero : all) {
      plan.zero = zero;
      if (pricer.leastBytes(plan, *family.cell) <= pricer.limitBytes())
        stages.push_back(zero);
      else
        isTight |= matters(zero);
    }
    if (stages.empty()) {
      if (tooLarge.size() < kTooLarge || family.bound < tooLarge.back().seconds) {
        plan.zero = fastest;
        plan.parts = pricer.balance(plan, *family.cell);
        noteTooLarge(large, pricer.estimate(plan, *family.cell).bound, plan);
      }
      return true;
    }
    for (const Scheduling &scheduling : meshes.schedulings(family)) {
      plan = meshes.plan(family, scheduling, 0);
      plan.parts = pricer.balance(plan, *family.cell);
      plan.zero = fastest; // a bound for every stage of ZeRO
      PlanEstimate estimate = pricer.estimate(plan, *family.cell);
      if (estimate.bound >= limit)
        continue;
      for (int zero : stages) {
        plan.zero = zero;
        if (pricer.leastBytes(plan, estimate) > pricer.limitBytes()) {
          if (matters(zero)) {
            noteTooLarge(large, estimate.bound, plan);
            isTight = true;
          }
          continue;
        }
        // What is gathered or scattered at each use takes time that this stage alone has.
        double bound = zero == fastest ? estimate.bound : pricer.estimate(plan, *family.cell).bound;
        if (bound < limit)
          plans.push_back({number, scheduling, zero, bound});
      }
    }
    return isTight;
  }

  /// Best first: families and plans in the order of their bounds.
  void explore() {
    while (!queue.empty() && queue.top().bound < limit()) {
      bool isGroup = queue.top().isGroup;
      std::vector<std::size_t> batch;
      while (!queue.empty() && queue.top().isGroup == isGroup && queue.top().bound < limit() &&
             batch.size() < (isGroup ? kGroupsAtOnce : kPlansAtOnce)) {
        const std::size_t number = queue.top().number;
        queue.pop();
        if (isGroup && !families[number].cell)
          measure(number);
        else
          batch.push_back(number);
      }
      if (isGroup)
        expandAll(batch);
      else if (!simulateAll(batch))
        return;
    }
  }

  /// A family that keeps all has plans without room: what keeps less may have it, and takes no less time.
  void keepLess(std::size_t number) {
    if (!tight.insert(number).second)
      return;
    for (const PlanFamily &less : meshes.keepingLess(families[number])) {
      push(less.bound, true, families.size());
      families.push_back(less);
    }
  }

  /// Puts a family back with a bound of its own.
  void measure(std::size_t number) {
    PlanFamily &family = families[number];
    if (!meshes.measure(family))
      return;
    result.plans += static_cast<long long>(zeroStages(family).size()) * meshes.countSchedulings(family);
    push(family.bound, true, number);
  }

  void expandAll(const std::vector<std::size_t> &batch) {
    std::vector<std::vector<Planned>> plans(batch.size());
    std::vector<std::vector<TooLarge>> large(batch.size());
    std::vector<char> isTight(batch.size(), false);
    double limit = this->limit();
    search::parallelFor(batch.size(), space.threads,
                        [&](std::size_t i) { isTight[i] = expand(batch[i], limit, plans[i], large[i]); });
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (isTight[i])
        keepLess(batch[i]);
      for (const Planned &one : plans[i]) {
        push(one.bound, false, planned.size());
        planned.push_back(one);
      }
      for (const TooLarge &one : large[i])
        noteTooLarge(tooLarge, one.seconds, one.plan);
      for (const PlanFamily &fewer : meshes.withFewerDevices(families[batch[i]])) {
        push(fewer.bound, true, families.size());
        families.push_back(fewer);
      }
    }
  }

  /// False once the passes that may be simulated are spent.
  bool simulateAll(const std::vector<std::size_t> &batch) {
    std::vector<TrainingPlan> plans;
    bool isSpent = false;
    for (std::size_t number : batch) {
      const Planned &one = planned[number];
      TrainingPlan plan = meshes.plan(families[one.family], one.scheduling, one.zero);
      long long passes = static_cast<long long>(plan.pipeline) * plan.chunks * plan.microbatches();
      if (spent > (one.bound < bestSeconds() ? space.passes : space.runnerPasses)) {
        result.unexplored = one.bound; // what follows has no lower one
        isSpent = true;
        break;
      }
      spent += passes;
      plans.push_back(std::move(plan));
    }
    std::vector<PlanPrice> prices(plans.size());
    search::parallelFor(plans.size(), space.threads,
                        [&](std::size_t i) { prices[i] = pricer.price(plans[i]); });
    for (std::size_t i = 0; i < plans.size(); ++i) {
      take(plans[i], prices[i]);
      if (prices[i].error.empty() && !prices[i].fits())
        keepLess(planned[batch[i]].family);
    }
    return !isSpent;
  }

  void take(const TrainingPlan &plan, const PlanPrice &price) {
    ++result.simulated;
    if (!price.error.empty())
      return;
    if (!price.fits()) {
      noteTooLarge(tooLarge, price.seconds, plan);
      return;
    }
    ranking.add({plan, price, ""});
    if (price.seconds < bestSeconds()) {
      result.best = PricedPlan{plan, price, ""};
      char text[160];
      std::snprintf(text, sizeof text,
                    "%.4g s a step: pipeline %d, data %d, context %d, tensor %d, microbatch %.0f, %s",
                    price.seconds, plan.pipeline, plan.data, plan.context, plan.tensorSize(), plan.microbatch,
                    cost::toString(plan.schedule));
      tell(text);
    }
  }

  /// Remembers the fastest of those that do not fit.
  static void noteTooLarge(std::vector<TooLarge> &known, double seconds, const TrainingPlan &plan) {
    if (known.size() == kTooLarge && known.back().seconds <= seconds)
      return;
    auto at =
        std::find_if(known.begin(), known.end(), [&](const TooLarge &one) { return one.seconds > seconds; });
    known.insert(at, {seconds, plan});
    if (known.size() > kTooLarge)
      known.pop_back();
  }

  void finish() {
    // Where many plans nearly fit the search may end before it sees one that does.
    if (!result.best && spent > space.passes)
      if (std::optional<PricedPlan> least = findSmallest(pricer, task, space); least && least->price.fits())
        take(least->plan, least->price);
    if (!result.best) {
      explain(pricer, task, space, result);
      if (!result.smallest)
        result.error = "the model has no plan on these devices with what is fixed";
      return;
    }
    result.complete = result.unexplored >= bestSeconds();
    result.bound = std::min(bestSeconds(), std::max(result.relaxed, result.unexplored));
    result.best->price = pricer.price(result.best->plan, true);
    result.best->plan.parts = result.best->price.parts;
    for (PricedPlan one : ranking.others(result.best->plan)) {
      one.price = pricer.price(one.plan, true);
      one.plan.parts = one.price.parts;
      one.reason = compare(result.best->price, one.price);
      result.runnersUp.push_back(std::move(one));
    }
    for (const TooLarge &one : tooLarge) {
      PlanPrice price = pricer.price(one.plan, true);
      double least =
          result.fasterButTooLarge ? result.fasterButTooLarge->price.seconds : result.best->price.seconds;
      if (!price.error.empty() || price.seconds >= least || price.fits())
        continue;
      char text[128];
      const cost::ByteUnit unit = cost::findByteUnit(price.peakBytes);
      std::snprintf(text, sizeof text, "%s faster, but needs %.1f %s of %.1f",
                    percent(1 - price.seconds / result.best->price.seconds).c_str(), unit.of(price.peakBytes),
                    unit.name, unit.of(price.limitBytes));
      result.fasterButTooLarge = PricedPlan{one.plan, price, text};
    }
  }

  PlanPricer &pricer;
  const TrainingTask &task;
  const SearchSpace &space;
  const std::function<void(const std::string &)> &progress;
  Meshes meshes;
  Ranking ranking;
  SearchResult result;
  std::vector<PlanFamily> families; ///< those on fewer devices come during the search
  std::vector<Planned> planned;
  std::set<std::size_t> tight;    ///< families for which what keeps less is in the queue
  std::vector<TooLarge> tooLarge; ///< fastest first
  std::priority_queue<Entry> queue;
  long long sequence = 0, spent = 0;
};

} // namespace

SearchResult searchPlans(PlanPricer &pricer, const TrainingTask &task, const SearchSpace &space,
                         const std::function<void(const std::string &)> &progress) {
  SearchResult result;
  result.error = checkTask(pricer, task);
  return result.error.empty() ? Search(pricer, task, space, progress).run() : result;
}

} // namespace colossal::planner
