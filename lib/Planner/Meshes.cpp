// Enumeration of meshes.
#include "Meshes.h"

#include "KeptValues.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace colossal::planner {

namespace {

/// A batch or a number of microbatches is padded by at most this part for the sake of microbatches and
/// schedules.
constexpr double kMostPadding = 0.25;

std::vector<int> divisors(int n, double most) {
  std::vector<int> found;
  for (int d = 1; d <= n && d <= most; ++d)
    if (n % d == 0)
      found.push_back(d);
  return found;
}

/// Sizes of microbatches differ by this factor at least.
constexpr double kMicrobatchStep = 1.25;

/// Of more than a few devices at least this part is used, unless the search finds that fewer are faster.
constexpr double kLeastUsed = 0.25;

/// Up to this many devices more sizes of axes are tried than those that divide them.
constexpr int kFewDevices = 32;

/// Divisors of n, powers of two up to it, and, where `threes`, three times those.
std::vector<int> sizes(int n, double most, bool threes = false) {
  std::vector<int> found = divisors(n, most);
  for (int first = 1; first <= (threes ? 3 : 1); first += 2)
    for (int d = first; d <= n && d <= most; d *= 2)
      found.push_back(d);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

int up(double number) {
  return static_cast<int>(std::ceil(number));
}

} // namespace

int UnitAxes::size() const {
  int product = context;
  for (int size : tensor)
    product *= size;
  return product;
}

bool Meshes::hasThrees() const {
  return task.devices <= kFewDevices || (task.devices & (task.devices - 1)) != 0;
}

Meshes::Meshes(PlanPricer &pricer, const TrainingTask &task, const SearchSpace &space)
    : pricer(pricer), task(task), space(space) {
  for (int d = 1; d <= task.devices && d <= task.globalBatch; ++d)
    if (std::fmod(task.globalBatch, d) == 0)
      batchDivisors.push_back(d);
  int most = static_cast<int>(std::min(task.globalBatch, space.maxMicrobatch));
  for (int size = 1; size <= most; ++size)
    if ((std::fmod(task.globalBatch, size) == 0 || (size & (size - 1)) == 0) &&
        (microbatchSizes.empty() || size >= kMicrobatchStep * microbatchSizes.back()))
      microbatchSizes.push_back(size);
  // Groups that begin in one node and end in another wait for what all others need not.
  int node = pricer.machine().machine().levels.front().units;
  std::set<std::pair<int, int>> found;
  for (const MeshSizes &mesh : space.meshes.empty() ? std::vector<MeshSizes>(1) : space.meshes) {
    int left = task.devices / std::max(1, mesh.pipeline) / std::max(1, mesh.data);
    int most = left / std::max(1, mesh.context);
    for (int tensor : mesh.tensor ? std::vector<int>{mesh.tensor} : sizes(most, space.maxTensor, hasThrees()))
      for (int context :
           mesh.context ? std::vector<int>{mesh.context} : sizes(left / tensor, space.maxContext)) {
        int size = tensor * context;
        bool isLoose = !mesh.tensor && !mesh.context && task.devices > node;
        if ((isLoose && node % size != 0 && size % node != 0) ||
            (!mesh.context && context > 1 && pricer.graph().sequence / context < space.minContextLength))
          continue;
        found.insert({tensor, context});
      }
  }
  for (auto [tensor, context] : found)
    addAxes(tensor, context);
}

void Meshes::addAxes(int tensor, int context) {
  std::vector<std::vector<int>> grids = {{tensor}};
  if (space.tensorGrids && context == 1)
    for (int outer : divisors(tensor, tensor))
      if (outer > 1 && tensor / outer >= outer)
        grids.push_back({outer, tensor / outer});
  for (const auto &grid : grids) {
    UnitAxes axes{context, grid, {}};
    TrainingPlan plan;
    plan.context = context;
    plan.tensor = grid;
    for (const Boundary &boundary : pricer.blocks().boundaries(tensorAxes(plan)))
      // A context axis splits the sequence, the first dimension after the batch.
      if (context == 1 || (boundary.front() && boundary.front()->dim == 1))
        axes.boundaries.push_back(boundary);
    all.push_back(std::move(axes));
  }
}

std::vector<MeshSizes> Meshes::meshesWith(const UnitAxes &axes) const {
  if (space.meshes.empty())
    return {MeshSizes()};
  std::vector<MeshSizes> found;
  int tensor = axes.size() / axes.context;
  for (const MeshSizes &mesh : space.meshes)
    if ((!mesh.tensor || mesh.tensor == tensor) && (!mesh.context || mesh.context == axes.context))
      found.push_back(mesh);
  return found;
}

bool Meshes::isDataFixed() const {
  return std::any_of(space.meshes.begin(), space.meshes.end(),
                     [](const MeshSizes &mesh) { return mesh.data > 0; });
}

std::vector<int> Meshes::pipelines(const UnitAxes &axes) const {
  int units = static_cast<int>(pricer.graph().units.size());
  std::set<int> found;
  for (const MeshSizes &mesh : meshesWith(axes)) {
    int most = task.devices / axes.size() / std::max(1, mesh.data);
    if (!mesh.pipeline)
      for (int pipeline : sizes(most, units, hasThrees()))
        found.insert(pipeline);
    else if (mesh.pipeline <= std::min(most, units))
      found.insert(mesh.pipeline);
  }
  return {found.begin(), found.end()};
}

std::vector<int> Meshes::datas(const UnitAxes &axes, int pipeline) const {
  int most = task.devices / (axes.size() * pipeline);
  std::set<int, std::greater<>> found;
  for (const MeshSizes &mesh : meshesWith(axes)) {
    if (mesh.pipeline && mesh.pipeline != pipeline)
      continue;
    if (mesh.data) {
      if (mesh.data <= most)
        found.insert(mesh.data);
      continue;
    }
    for (int data : batchDivisors)
      if (data <= most)
        found.insert(data);
    if (most > 0 && std::fmod(task.globalBatch, most) != 0) {
      // Ranks beyond ceil(batch / ceil(batch / ranks)) have only padding, but their part of the state.
      for (int data : sizes(most, most, true))
        found.insert(data);
      found.insert(up(task.globalBatch / std::ceil(task.globalBatch / most)));
    }
  }
  return {found.begin(), found.end()};
}

std::vector<int> Meshes::microbatches(int sequences) const {
  auto isLittle = [&](double padded) { return padded <= sequences * (1 + kMostPadding); };
  if (space.microbatches > 0) {
    int size = up(static_cast<double>(sequences) / space.microbatches);
    return isLittle(static_cast<double>(size) * space.microbatches) ? std::vector<int>{size}
                                                                    : std::vector<int>();
  }
  std::vector<int> found;
  for (int size : microbatchSizes)
    if (size <= sequences && isLittle(up(static_cast<double>(sequences) / size) * static_cast<double>(size)))
      found.push_back(size);
  return found;
}

TrainingPlan Meshes::plan(const PlanFamily &family) const {
  TrainingPlan plan;
  plan.task = task;
  plan.fusedAttention = space.fusedAttention;
  plan.pipeline = family.pipeline;
  plan.data = family.data;
  plan.context = all[family.axes].context;
  plan.tensor = all[family.axes].tensor;
  plan.idle = task.devices - plan.ranks();
  plan.microbatch = family.microbatch;
  plan.padding =
      static_cast<double>(family.data) * family.microbatch * family.microbatches - task.globalBatch;
  if (family.recompute < space.recompute.size()) {
    plan.recompute = space.recompute[family.recompute];
  } else {
    plan.recompute = Recompute::ByValue;
    plan.kept = (*kept)[family.recompute - space.recompute.size()];
  }
  plan.boundary = all[family.axes].boundaries[family.boundary];
  plan.lean = family.lean;
  return plan;
}

TrainingPlan Meshes::plan(const PlanFamily &family, const Scheduling &scheduling, int zero) const {
  PlanFamily padded = family;
  padded.microbatches = scheduling.microbatches;
  TrainingPlan result = plan(padded);
  result.schedule = scheduling.schedule;
  result.chunks = scheduling.chunks;
  result.zero = zero;
  return result;
}

bool Meshes::measure(PlanFamily &family) {
  family.microbatches = space.microbatches > 0
                            ? space.microbatches
                            : up(std::ceil(task.globalBatch / family.data) / family.microbatch);
  int ranks = all[family.axes].size() * family.pipeline * family.data, active = pricer.activeRanks(ranks);
  if (!family.cell || family.active != active) {
    family.cell = &pricer.cell(plan(family));
    family.active = active;
  }
  if (!family.cell->error.empty())
    return false;
  // Each stage as busy as the average, and one as its largest unit. With padding, fewer devices may do the
  // same, and wait for fewer nodes.
  bool isPadded =
      static_cast<double>(family.data) * family.microbatch * family.microbatches > task.globalBatch;
  family.bound = std::max(family.cell->seconds / family.pipeline, family.cell->largest) *
                 family.microbatches * (isPadded ? 1 : pricer.straggler(ranks));
  return true;
}

std::vector<PlanFamily> Meshes::families(std::size_t axes) {
  std::vector<PlanFamily> found;
  const UnitAxes &own = all[axes];
  bool isSplit = own.size() > 1;
  std::map<std::tuple<int, int, std::size_t, std::size_t, int>, const Cell *> cells;
  for (int pipeline : pipelines(own)) {
    std::set<int> tried;
    for (int data : datas(own, pipeline)) {
      if (task.devices > kFewDevices && !isDataFixed() &&
          static_cast<double>(data) * own.size() * pipeline < task.devices * kLeastUsed)
        break;
      for (int microbatch : microbatches(up(task.globalBatch / data))) {
        if (hasFewer() && std::fmod(task.globalBatch, data) == 0 && !tried.insert(microbatch).second)
          continue; // found from more data ranks, by withFewerDevices
        for (std::size_t recompute = 0; recompute < space.recompute.size(); ++recompute)
          for (std::size_t boundary = 0; boundary < own.boundaries.size(); ++boundary) {
            const Cell *before = nullptr;
            for (int lean = 0; lean < (isSplit ? 3 : 1); ++lean) {
              PlanFamily family;
              family.axes = static_cast<std::uint16_t>(axes);
              family.boundary = static_cast<std::uint16_t>(boundary);
              family.recompute = static_cast<std::uint8_t>(recompute);
              family.lean = static_cast<std::uint8_t>(lean);
              family.pipeline = pipeline;
              family.data = data;
              family.microbatch = microbatch;
              family.active = pricer.activeRanks(own.size() * pipeline * data);
              const Cell *&cell = cells[{family.active, microbatch, recompute, boundary, lean}];
              family.cell = cell;
              bool isNew = measure(family) && (!before || family.cell->layouts != before->layouts);
              before = cell = family.cell;
              if (isNew)
                found.push_back(family);
            }
          }
      }
    }
  }
  return found;
}

bool Meshes::hasFewer() const {
  return !isDataFixed() && space.microbatches == 0;
}

std::vector<PlanFamily> Meshes::withFewerDevices(const PlanFamily &family) {
  if (!hasFewer())
    return {};
  auto above = std::lower_bound(batchDivisors.begin(), batchDivisors.end(), family.data);
  if (above == batchDivisors.begin() || above == batchDivisors.end() || *above != family.data)
    return {};
  PlanFamily fewer = family;
  fewer.data = *--above;
  return measure(fewer) ? std::vector<PlanFamily>{fewer} : std::vector<PlanFamily>();
}

std::vector<PlanFamily> Meshes::keepingLess(const PlanFamily &family) {
  if (space.keptChoices == 0 || family.recompute >= space.recompute.size() ||
      space.recompute[family.recompute] != Recompute::None)
    return {};
  if (!kept)
    kept = findKeptChoices(pricer.graph(), pricer.blocks(), pricer.types(), space.keptChoices);
  std::vector<PlanFamily> found;
  for (std::size_t choice = 0; choice < kept->size(); ++choice) {
    PlanFamily &less = found.emplace_back(family);
    less.recompute = static_cast<std::uint8_t>(space.recompute.size() + choice);
    less.cell = nullptr;
  }
  return found;
}

std::vector<Scheduling> Meshes::schedulings(const PlanFamily &family) const {
  auto isAsked = [&](int chunks) { return space.chunks == 0 || space.chunks == chunks; };
  auto isTaken = [&](int microbatches) {
    return space.unevenMicrobatches || std::fmod(task.globalBatch, microbatches) == 0;
  };
  const bool isEven = isTaken(family.microbatches);
  if (family.pipeline == 1) {
    for (cost::Schedule schedule : {cost::Schedule::OneFOneB, cost::Schedule::GPipe})
      if (isEven && isAsked(1) && std::count(space.schedules.begin(), space.schedules.end(), schedule))
        return {{schedule, 1, family.microbatches}};
    return {};
  }
  int units = static_cast<int>(pricer.graph().units.size());
  std::vector<Scheduling> found;
  for (cost::Schedule schedule : space.schedules) {
    if (schedule == cost::Schedule::Interleaved) {
      for (int chunks = 2; chunks <= mostChunks(family); ++chunks)
        if (isAsked(chunks) && isTaken(inRounds(family)))
          found.push_back({schedule, chunks, inRounds(family)});
    } else if (schedule != cost::Schedule::ZeroBubbleV) {
      if (isAsked(1) && isEven)
        found.push_back({schedule, 1, family.microbatches});
    } else if (2 * family.pipeline <= units && isAsked(2) && isEven) {
      found.push_back({schedule, 2, family.microbatches});
    }
  }
  return found;
}

int Meshes::inRounds(const PlanFamily &family) const {
  double rounds = std::ceil(static_cast<double>(family.microbatches) / family.pipeline);
  return up(std::min(rounds * family.pipeline, 1e9));
}

int Meshes::mostChunks(const PlanFamily &family) const {
  if (inRounds(family) > family.microbatches * (1 + (space.microbatches > 0 ? 0 : kMostPadding)))
    return 1;
  return std::min(std::max(space.maxChunks, space.chunks),
                  static_cast<int>(pricer.graph().units.size()) / family.pipeline);
}

} // namespace colossal::planner
