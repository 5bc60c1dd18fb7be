// Branch and bound over plans. Groups (mesh, microbatch, recompute, boundary) come in the order of a bound
// that needs no stages; inside a group, schedules and ZeRO stages in the order of a bound that does; what is
// left is simulated. Neighbours: JointSearch.h has the contract, Remedies.cpp says what helps where nothing
// fits.
#include "colossal/Planner/JointSearch.h"

#include "Remedies.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <queue>

namespace colossal::planner {

namespace {

std::vector<int> divisors(int n, double most) {
  std::vector<int> found;
  for (int d = 1; d <= n && d <= most; ++d)
    if (n % d == 0)
      found.push_back(d);
  return found;
}

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
    return "as fast, found later";
  return percent(slower) + " slower: " + most->first + " takes " + percent(most->second / best.seconds) +
         " more of the step";
}

struct Group {
  TrainingPlan plan;
  const Cell *cell = nullptr;
  double quick = 0;
};

class Search {
public:
  Search(PlanPricer &pricer, const TrainingTask &task, const SearchSpace &space,
         const std::function<void(const std::string &)> &progress)
      : pricer(pricer), task(task), space(space), progress(progress) {}

  SearchResult run() {
    result.error = checkTask(pricer, task);
    if (!result.error.empty())
      return result;
    gatherGroups();
    if (groups.empty()) {
      result.error = "no mesh of " + std::to_string(task.devices) +
                     " devices has a data axis that divides the global batch of " +
                     std::to_string(static_cast<long long>(task.globalBatch));
      return result;
    }
    std::stable_sort(groups.begin(), groups.end(),
                     [](const Group &a, const Group &b) { return a.quick < b.quick; });
    result.bound = groups.front().quick;
    result.roofline = roofline();
    result.bound = std::max(result.bound, result.roofline);
    for (const Group &group : groups)
      for (int zero : space.zero)
        result.plans += zero == 0 || group.plan.data * group.plan.context > 1
                            ? static_cast<long long>(schedules(group.plan).size())
                            : 0;
    tell(std::to_string(groups.size()) + " meshes with microbatch, recompute and boundary");
    explore();
    finish();
    return result;
  }

private:
  /// A group, or a plan of one (group -1). Least bound first, then first come.
  struct Entry {
    double bound;
    long long sequence;
    int group;
    TrainingPlan plan;
    bool operator<(const Entry &other) const {
      return bound != other.bound ? bound > other.bound : sequence > other.sequence;
    }
  };

  void tell(const std::string &text) {
    if (progress)
      progress(text);
  }
  double limit() const {
    return result.best ? result.best->price.seconds : std::numeric_limits<double>::infinity();
  }

  double straggler() const {
    const cost::Machine &machine = pricer.machine().machine();
    double nodes = static_cast<double>(task.devices) / machine.levels.front().units;
    return 1 + machine.fitted["straggler"] * std::log2(std::max(1.0, nodes));
  }

  double roofline() {
    double seconds = 0;
    for (int unit : pricer.graph().units)
      seconds += pricer.blocks().leastDeviceSeconds(unit);
    return seconds * task.globalBatch / task.devices * straggler();
  }

  void gatherGroups() {
    TrainingPlan plan;
    plan.task = task;
    plan.fusedAttention = space.fusedAttention;
    int units = static_cast<int>(pricer.graph().units.size());
    for (int tensor : divisors(task.devices, space.maxTensor))
      for (int context : divisors(task.devices / tensor, space.maxContext)) {
        if (context > 1 && pricer.graph().sequence / context < space.minContextLength)
          continue;
        std::vector<std::vector<int>> grids = {{tensor}};
        if (space.tensorGrids && context == 1)
          for (int outer : divisors(tensor, tensor))
            if (outer > 1 && tensor / outer >= outer)
              grids.push_back({outer, tensor / outer});
        for (const auto &grid : grids) {
          plan.context = context;
          plan.tensor = grid;
          tell("layouts of " + std::to_string(tensor) + " tensor and " + std::to_string(context) +
               " context ranks");
          gatherMesh(plan, task.devices / tensor / context, units);
        }
      }
  }

  void gatherMesh(TrainingPlan plan, int rest, int units) {
    std::vector<Boundary> boundaries;
    for (const Boundary &boundary : pricer.blocks().boundaries(tensorAxes(plan)))
      // A context axis splits the sequence, the first dimension after the batch.
      if (plan.context == 1 || (boundary.front() && boundary.front()->dim == 1))
        boundaries.push_back(boundary);
    std::map<std::tuple<double, int, std::size_t, int>, Group> cells;
    bool isSplit = !tensorAxes(plan).empty();
    for (int pipeline : divisors(rest, units)) {
      plan.pipeline = pipeline;
      plan.data = rest / pipeline;
      if (std::fmod(task.globalBatch, plan.data) != 0)
        continue;
      for (int microbatch : divisors(static_cast<int>(task.globalBatch / plan.data), space.maxMicrobatch))
        for (std::size_t r = 0; r < space.recompute.size(); ++r)
          for (std::size_t choice = 0; choice < boundaries.size() * (isSplit ? 3 : 1); ++choice) {
            std::size_t b = choice % boundaries.size();
            int lean = static_cast<int>(choice / boundaries.size());
            Group &known = cells[{microbatch, static_cast<int>(r), b, lean}];
            if (!known.cell) {
              known.plan = plan;
              known.plan.lean = lean;
              known.plan.microbatch = microbatch;
              known.plan.recompute = space.recompute[r];
              known.plan.boundary = boundaries[b];
              known.cell = &pricer.cell(known.plan);
              for (int unit : pricer.graph().units)
                if (known.cell->error.empty()) {
                  const UnitCost &cost = known.cell->kinds[unit];
                  known.quick += cost.forward + cost.backward + cost.weightGradient;
                }
            }
            if (!known.cell->error.empty() ||
                (lean &&
                 known.cell->layouts == cells[{microbatch, static_cast<int>(r), b, lean - 1}].cell->layouts))
              continue;
            Group group = known;
            group.plan.pipeline = pipeline;
            group.plan.data = plan.data;
            group.quick = known.quick * group.plan.microbatches() / pipeline * straggler();
            groups.push_back(std::move(group));
          }
    }
  }

  std::vector<std::pair<cost::Schedule, int>> schedules(const TrainingPlan &plan) const {
    return schedulesOf(plan, space, static_cast<int>(pricer.graph().units.size()));
  }

  /// Adds the group's plans to the queue.
  void expand(const Group &group) {
    for (auto [schedule, chunks] : schedules(group.plan)) {
      TrainingPlan plan = group.plan;
      plan.schedule = schedule;
      plan.chunks = chunks;
      plan.parts = pricer.balance(plan, *group.cell);
      plan.zero = plan.data * plan.context > 1 ? 1 : 0; // the shortest: a bound for every stage of ZeRO
      PlanOutline outline = pricer.outline(plan, *group.cell);
      for (int zero : space.zero) {
        if (zero > 0 && plan.data * plan.context == 1)
          continue;
        plan.zero = zero;
        double bytes = pricer.leastBytes(plan, outline);
        if (bytes > pricer.limitBytes()) {
          noteTooLarge(plan, bytes, outline.bound);
          continue;
        }
        // What is gathered or scattered at each use takes time that this stage alone has.
        double bound =
            zero < 2 || outline.bound >= limit() ? outline.bound : pricer.outline(plan, *group.cell).bound;
        if (bound < limit())
          queue.push({bound, ++sequence, -1, plan});
      }
    }
  }

  /// Best first: groups and plans in the order of their bounds.
  void explore() {
    for (std::size_t g = 0; g < groups.size(); ++g)
      queue.push({groups[g].quick, ++sequence, static_cast<int>(g), {}});
    while (!queue.empty() && queue.top().bound < limit()) {
      Entry entry = queue.top();
      queue.pop();
      if (entry.group >= 0) {
        expand(groups[entry.group]);
        continue;
      }
      long long passes =
          static_cast<long long>(entry.plan.pipeline) * entry.plan.chunks * entry.plan.microbatches();
      if (spent > space.passes) {
        result.complete = false;
        return;
      }
      spent += passes;
      simulate(entry.plan);
    }
  }

  void simulate(const TrainingPlan &plan) {
    ++result.simulated;
    PlanPrice price = pricer.price(plan);
    if (!price.error.empty())
      return;
    if (!price.fits()) {
      noteTooLarge(plan, price.peakBytes, price.seconds);
      return;
    }
    keepRunner({plan, price, ""});
    if (price.seconds < limit()) {
      result.best = PricedPlan{plan, price, ""};
      char text[160];
      std::snprintf(text, sizeof text,
                    "%.4g s a step: pipeline %d, data %d, context %d, tensor %d, microbatch %.0f, %s",
                    price.seconds, plan.pipeline, plan.data, plan.context, plan.tensorSize(), plan.microbatch,
                    cost::toString(plan.schedule));
      tell(text);
    }
  }

  /// Remembers the least of those that do not fit, and the fastest by its bound.
  void noteTooLarge(const TrainingPlan &plan, double bytes, double seconds) {
    if (!tooLarge || seconds < tooLargeSeconds) {
      tooLarge = plan;
      tooLargeSeconds = seconds;
    }
    (void)bytes;
  }

  /// The best plan of each mesh and schedule.
  void keepRunner(PricedPlan one) {
    auto same = [&](const PricedPlan &other) {
      return other.plan.pipeline == one.plan.pipeline && other.plan.data == one.plan.data &&
             other.plan.context == one.plan.context && other.plan.tensor == one.plan.tensor &&
             (other.plan.schedule == one.plan.schedule || one.plan.pipeline == 1);
    };
    auto known = std::find_if(runners.begin(), runners.end(), same);
    if (known == runners.end())
      runners.push_back(std::move(one));
    else if (one.price.seconds < known->price.seconds)
      *known = std::move(one);
  }

  void finish() {
    if (!result.best) {
      explain(pricer, task, space, result);
      return;
    }
    // More to compare with: the best of further meshes.
    auto isKnown = [&](const TrainingPlan &plan) {
      return std::any_of(runners.begin(), runners.end(), [&](const PricedPlan &other) {
        return other.plan.pipeline == plan.pipeline && other.plan.data == plan.data &&
               other.plan.context == plan.context && other.plan.tensor == plan.tensor;
      });
    };
    int tries = 0;
    for (std::size_t g = 0;
         g < groups.size() && static_cast<int>(runners.size()) <= space.runnersUp && tries < 40; ++g) {
      TrainingPlan plan = groups[g].plan;
      if (isKnown(plan))
        continue;
      ++tries;
      plan.zero = plan.data * plan.context > 1 ? 1 : 0;
      PlanPrice price = pricer.price(plan);
      if (price.fits())
        keepRunner({plan, price, ""});
    }
    std::stable_sort(runners.begin(), runners.end(), [](const PricedPlan &a, const PricedPlan &b) {
      return a.price.seconds < b.price.seconds;
    });
    result.best->price = pricer.price(result.best->plan, true);
    result.best->plan.parts = result.best->price.parts;
    for (PricedPlan &one : runners) {
      bool isBest = one.price.seconds == result.best->price.seconds &&
                    one.plan.pipeline == result.best->plan.pipeline &&
                    one.plan.tensor == result.best->plan.tensor &&
                    one.plan.schedule == result.best->plan.schedule;
      if (isBest || static_cast<int>(result.runnersUp.size()) >= space.runnersUp)
        continue;
      one.price = pricer.price(one.plan, true);
      one.reason = compare(result.best->price, one.price);
      result.runnersUp.push_back(one);
    }
    if (tooLarge) {
      PlanPrice price = pricer.price(*tooLarge, true);
      if (price.error.empty() && price.seconds < result.best->price.seconds && !price.fits()) {
        char text[128];
        std::snprintf(text, sizeof text, "%s faster, but needs %.1f GiB of %.1f",
                      percent(1 - price.seconds / result.best->price.seconds).c_str(),
                      price.peakBytes / (1 << 30), price.limitBytes / (1 << 30));
        result.fasterButTooLarge = PricedPlan{*tooLarge, price, text};
      }
    }
  }

  PlanPricer &pricer;
  const TrainingTask &task;
  const SearchSpace &space;
  const std::function<void(const std::string &)> &progress;
  SearchResult result;
  std::vector<Group> groups;
  std::vector<PricedPlan> runners;
  std::optional<TrainingPlan> tooLarge;
  double tooLargeSeconds = 0;
  std::priority_queue<Entry> queue;
  long long sequence = 0, spent = 0;
};

} // namespace

SearchResult searchPlans(PlanPricer &pricer, const TrainingTask &task, const SearchSpace &space,
                         const std::function<void(const std::string &)> &progress) {
  return Search(pricer, task, space, progress).run();
}

} // namespace colossal::planner
