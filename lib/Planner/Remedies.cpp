// Probes for plans that need little memory: full recompute, one sequence a microbatch, state over all data
// ranks.
#include "Remedies.h"

#include "Meshes.h"
#include "colossal/Cost/ByteSize.h"
#include "colossal/Search/Parallel.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>

namespace colossal::planner {

std::string checkTask(const PlanPricer &pricer, const TrainingTask &task) {
  const cost::Machine &machine = pricer.machine().machine();
  if (task.devices < 1 || task.devices > machine.devices())
    return "--devices: machine '" + machine.name + "' has 1 to " + std::to_string(machine.devices()) +
           ", not " + std::to_string(task.devices);
  if (!(task.globalBatch >= 1) || task.globalBatch > 1e9 || task.globalBatch != std::floor(task.globalBatch))
    return "--global-batch: must be a whole number from 1 to 10^9";
  if (pricer.limitBytes() <= 0)
    return "--memory: the runtime reserves more than a device has";
  return "";
}

namespace {

/// Rounded up to two digits after the point.
std::string printSize(double bytes) {
  const cost::ByteUnit unit = cost::findByteUnit(bytes);
  char text[64];
  std::snprintf(text, sizeof text, "%.2f %s", std::ceil(unit.of(bytes) * 100) / 100, unit.name);
  return text;
}

struct Thrifty {
  double bytes; ///< at least
  TrainingPlan plan;
};

} // namespace

std::optional<PricedPlan> findSmallest(PlanPricer &pricer, const TrainingTask &task,
                                       const SearchSpace &space) {
  SearchSpace thrifty = space;
  thrifty.maxMicrobatch = 1;
  thrifty.tensorGrids = false;
  Meshes meshes(pricer, task, thrifty);
  std::vector<std::vector<Thrifty>> found(meshes.axes().size());
  search::parallelFor(found.size(), space.threads, [&](std::size_t axes) {
    for (const PlanFamily &family : meshes.families(axes))
      for (const Scheduling &scheduling : meshes.schedulings(family)) {
        TrainingPlan plan = meshes.plan(family, scheduling, 0);
        plan.parts = pricer.balance(plan, *family.cell);
        PlanEstimate estimate = pricer.estimate(plan, *family.cell);
        bool isShared = plan.data * plan.context > 1;
        int least = *std::min_element(space.zero.begin(), space.zero.end());
        for (int zero : isShared ? space.zero : std::vector<int>{least}) {
          plan.zero = zero;
          found[axes].push_back({pricer.leastBytes(plan, estimate), plan});
        }
      }
  });
  std::vector<Thrifty> plans;
  for (std::vector<Thrifty> &some : found)
    plans.insert(plans.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
  std::stable_sort(plans.begin(), plans.end(),
                   [](const Thrifty &a, const Thrifty &b) { return a.bytes < b.bytes; });
  std::optional<PricedPlan> best;
  int simulated = 0;
  for (const Thrifty &one : plans) {
    if ((best && one.bytes >= best->price.peakBytes) || simulated++ > 400)
      break;
    PlanPrice price = pricer.price(one.plan);
    if (price.error.empty() && (!best || price.peakBytes < best->price.peakBytes))
      best = PricedPlan{one.plan, price, ""};
  }
  return best;
}

namespace {

/// What would make a plan fit, each remedy tried as it is told.
class Remedies {
public:
  Remedies(PlanPricer &pricer, const TrainingTask &task, const SearchSpace &space, SearchResult &result)
      : pricer(pricer), machine(pricer.machine().machine()), task(task), space(space), result(result),
        needed(result.smallest->price.peakBytes) {}

  void tellMoreMemory();
  void tellLargerMachine();
  void tryMoreDevices();
  void trySmallerBatch();

private:
  std::optional<PricedPlan> fits(const TrainingTask &other) const {
    std::optional<PricedPlan> found = findSmallest(pricer, other, space);
    return found && found->price.fits() ? found : std::nullopt;
  }
  /// "WHAT (N GiB of LIMIT GiB)"
  void tell(const std::string &what, double bytes, double limit) const {
    result.remedies.push_back(what + " (" + printSize(bytes) + " of " + printSize(limit) + ")");
  }

  PlanPricer &pricer;
  const cost::Machine &machine;
  const TrainingTask &task;
  const SearchSpace &space;
  SearchResult &result;
  double needed; ///< bytes
};

void Remedies::tellMoreMemory() {
  double limit = pricer.limitBytes(), device = static_cast<double>(machine.memoryOfRank(task.devices));
  // What is said must be enough: rounded up.
  double reserved = task.memoryBytes > 0 ? 0 : device - limit;
  cost::ByteSize memory = cost::roundUpBytes(needed);
  std::string with = "--memory " + memory.text + " (" + printSize(needed - limit) + " more)";
  if (reserved > 0)
    with += ": devices with " + cost::roundUpBytes(static_cast<double>(memory.bytes) + reserved).text +
            ", of which the runtime reserves " + cost::roundUpBytes(reserved).text;
  result.remedies.push_back(with);
}

/// The smallest of the ready machines that have the memory that it takes.
void Remedies::tellLargerMachine() {
  if (task.memoryBytes > 0)
    return;
  std::vector<std::pair<double, std::string>> larger;
  for (const std::string &name : cost::machineNames()) {
    cost::Machine other = cost::loadMachine(name).machine;
    double room = static_cast<double>(other.device.memoryBytes) - other.fitted["reserved_bytes"];
    if (!other.host && other.devices() >= task.devices && room >= needed)
      larger.push_back({room, name});
  }
  std::sort(larger.begin(), larger.end());
  if (!larger.empty())
    tell("--machine " + larger.front().second, needed, larger.front().first);
}

/// Twice as many until it fits, then whole nodes between the last that was too small and that.
void Remedies::tryMoreDevices() {
  // A whole mesh that is given has no place for more devices.
  bool isMeshFixed = std::any_of(space.meshes.begin(), space.meshes.end(), [](const MeshSizes &mesh) {
    return mesh.pipeline && mesh.data && mesh.context && mesh.tensor;
  });
  // And more ranks of one host share what memory it has.
  isMeshFixed |= task.memoryBytes <= 0 && machine.host && task.devices < machine.levels.front().units;
  TrainingTask other = task;
  int most = static_cast<int>(std::min<long long>(machine.devices(), 64LL * task.devices)),
      least = isMeshFixed ? most : task.devices;
  std::optional<PricedPlan> enough;
  while (!enough && least < most) {
    other.devices = std::min(most, 2 * least);
    if (!(enough = fits(other)))
      least = other.devices;
  }
  int node = std::max(1, machine.levels.front().units), step = least % node == 0 ? node : 1;
  for (int tries = 0; enough && tries < 6; ++tries) {
    int high = enough->plan.task.devices, middle = least + (high - least) / 2 / step * step;
    if (middle <= least || middle >= high)
      break;
    other.devices = middle;
    if (std::optional<PricedPlan> fewer = fits(other))
      enough = fewer;
    else
      least = middle;
  }
  if (enough)
    tell(std::to_string(enough->plan.task.devices) + " devices", enough->price.peakBytes,
         pricer.limitBytes());
  else if (!isMeshFixed && most > task.devices)
    result.useless.push_back("more devices, up to " + std::to_string(most));
}

/// Half as large until it fits, then between that and the last that was too large.
void Remedies::trySmallerBatch() {
  TrainingTask other = task;
  double large = task.globalBatch;
  std::optional<PricedPlan> enough;
  while (!enough && large > 1) {
    other.globalBatch = std::floor(large / 2);
    if (!(enough = fits(other)))
      large = other.globalBatch;
  }
  for (int tries = 0; enough && tries < 6; ++tries) {
    double middle = std::floor((large + enough->plan.task.globalBatch) / 2);
    if (middle >= large || middle <= enough->plan.task.globalBatch)
      break;
    other.globalBatch = middle;
    if (std::optional<PricedPlan> more = fits(other))
      enough = more;
    else
      large = middle;
  }
  if (enough)
    tell("a global batch of " + std::to_string(static_cast<long long>(enough->plan.task.globalBatch)),
         enough->price.peakBytes, pricer.limitBytes());
  else if (task.globalBatch > 1)
    result.useless.push_back("a smaller global batch");
}

} // namespace

void explain(PlanPricer &pricer, const TrainingTask &task, const SearchSpace &space, SearchResult &result) {
  result.smallest = findSmallest(pricer, task, space);
  if (!result.smallest)
    return;
  Remedies remedies(pricer, task, space, result);
  remedies.tellMoreMemory();
  remedies.tellLargerMachine();
  remedies.tryMoreDevices();
  remedies.trySmallerBatch();
}

} // namespace colossal::planner
