//===- MeshSearch.cpp - which mesh for a number of devices ------------------===//
#include "MeshSearch.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <set>

namespace colossal {

/// As step::getStageMesh knows it.
static constexpr const char *kStageAxis = "stage";
/// Of how many meshes with one axis less an axis is split, from the third axis on.
static constexpr size_t kSplit = 4;
/// Beyond MeshSpace::sureAxes there is one more axis as long as the last one made the best mesh better by at
/// least kGain.
static constexpr size_t kMostAxes = 6;
static constexpr double kGain = 0.005;

using Sizes = std::vector<int64_t>;

/// What axes are called beside those of `fixed`.
static std::vector<std::string> nameFreeAxes(const MeshAxes &fixed, size_t count,
                                             std::vector<std::string> preferred) {
  for (size_t i = 0; i < count + fixed.size(); ++i)
    preferred.push_back("axis" + std::to_string(i));
  std::vector<std::string> names;
  for (const std::string &name : preferred)
    if (names.size() < count &&
        std::none_of(fixed.begin(), fixed.end(), [&](const MeshAxis &axis) { return axis.name == name; }))
      names.push_back(name);
  return names;
}

std::string printMesh(const MeshAxes &axes) {
  std::string text;
  for (const MeshAxis &axis : axes) {
    if (!text.empty())
      text += axis.name.empty() ? "x" : ",";
    text += (axis.name.empty() ? "" : axis.name + "=") + std::to_string(axis.size);
  }
  return text.empty() ? "1" : text;
}

/// The free sizes in place and name among the fixed axes, in every way that differs.
static std::vector<MeshAxes> placeAmong(const MeshSpace &space, const Sizes &free) {
  if (space.fixed.empty()) {
    MeshAxes axes;
    for (int64_t size : free)
      axes.push_back({"", size});
    return {axes};
  }
  std::vector<std::string> names = nameFreeAxes(space.fixed, free.size(), {"data", "model", "x", "y", "z"});
  // Which of the places are free ones; the free ones first. By custom `data` is the outermost.
  std::vector<char> isFree(free.size() + space.fixed.size(), 0);
  std::fill_n(isFree.begin(), free.size(), 1);
  std::vector<MeshAxes> meshes;
  do {
    MeshAxes axes;
    size_t ofFree = 0, ofFixed = 0;
    for (char place : isFree)
      if (place) {
        axes.push_back({names[ofFree], free[ofFree]});
        ++ofFree;
      } else {
        axes.push_back(space.fixed[ofFixed++]);
      }
    if (!space.isOrdered)
      std::stable_partition(axes.begin(), axes.end(),
                            [](const MeshAxis &axis) { return axis.name == "data"; });
    meshes.push_back(std::move(axes));
  } while (space.isOrdered && std::prev_permutation(isFree.begin(), isFree.end()));
  return meshes;
}

/// Every way to split one of the sizes into two.
static std::vector<Sizes> splitOne(const Sizes &sizes, bool isOrdered) {
  std::vector<Sizes> all;
  for (size_t i = 0; i < sizes.size(); ++i)
    for (int64_t outer = 2; outer <= sizes[i] / 2; ++outer) {
      if (sizes[i] % outer != 0)
        continue;
      Sizes split = sizes;
      split[i] = outer;
      split.insert(split.begin() + static_cast<ptrdiff_t>(i) + 1, sizes[i] / outer);
      if (!isOrdered)
        std::sort(split.begin(), split.end());
      all.push_back(std::move(split));
    }
  return all;
}

/// All products of `count` sizes above 1, in every order.
static std::vector<Sizes> factorize(int64_t product, unsigned count) {
  std::set<Sizes> level;
  if (count > 0 && product > 1)
    level.insert({product});
  for (unsigned axes = 1; axes < count; ++axes) {
    std::set<Sizes> next;
    for (const Sizes &sizes : level)
      for (Sizes &split : splitOne(sizes, true))
        next.insert(std::move(split));
    level = std::move(next);
  }
  return {level.begin(), level.end()};
}

/// Meshes of a layout of the papers: its axes, and the batch over the rest.
static std::vector<MeshAxes> listForRecipe(const MeshSpace &space, int64_t devices) {
  std::vector<std::pair<int64_t, MeshAxes>> found;
  auto isFixed = [&](const char *name) {
    return std::any_of(space.fixed.begin(), space.fixed.end(),
                       [&](const MeshAxis &axis) { return axis.name == name; });
  };
  bool hasData = isFixed("data");
  unsigned named = static_cast<unsigned>(space.fixed.size()) - hasData - isFixed(kStageAxis);
  for (int64_t data = 1; data <= devices; ++data) {
    if (devices % data != 0 || (hasData && data > 1))
      continue;
    unsigned wanted = *space.recipeAxes > named ? *space.recipeAxes - named : 0;
    std::vector<Sizes> all = factorize(devices / data, wanted);
    if (data == devices && (wanted == 0 || *space.recipeAxes <= 1))
      all = {{}};
    for (const Sizes &sizes : all) {
      MeshAxes axes;
      if (data > 1)
        axes.push_back({"data", data});
      axes.insert(axes.end(), space.fixed.begin(), space.fixed.end());
      std::vector<std::string> names(sizes.size()); // none where no other axis has one
      if (!axes.empty())
        names = nameFreeAxes(space.fixed, sizes.size(),
                             sizes.size() == 1 ? std::vector<std::string>{"model", "x"}
                                               : std::vector<std::string>{"x", "y", "z"});
      int64_t largest = 1;
      for (size_t i = 0; i < sizes.size(); ++i) {
        axes.push_back({names[i], sizes[i]});
        largest = std::max(largest, sizes[i]);
      }
      found.push_back({largest, std::move(axes)});
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto &a, const auto &b) { return a.first < b.first; });
  std::vector<MeshAxes> meshes;
  for (auto &[largest, axes] : found)
    meshes.push_back(std::move(axes));
  return meshes;
}

std::string searchMesh(CompileOptions &options, int64_t devices, bool isMeshGiven) {
  constexpr int64_t kMostRanks = 1 << 20;
  const std::string option = "--devices " + std::to_string(devices);
  const cost::Machine &machine = options.layout.machine;
  if (devices < 1 || devices > kMostRanks)
    return option + ": 1 to 2^20 devices can be given";
  if (devices > machine.devices())
    return option + ": machine '" + machine.name + "' has " + std::to_string(machine.devices()) +
           ": so many or fewer, or a --machine of more, would do (colossal-cost machines lists some)";
  if (!isMeshGiven)
    options.mesh.clear();
  const std::string given = option + " --mesh " + options.mesh;
  const bool isNamed = llvm::StringRef(options.mesh).contains('=');
  llvm::SmallVector<llvm::StringRef> axes;
  llvm::StringRef(options.mesh).split(axes, isNamed ? ',' : 'x', -1, false);
  int64_t ranks = 1;
  for (llvm::StringRef axis : axes) {
    int64_t size;
    if ((isNamed ? axis.split('=').second : axis).trim().getAsInteger(10, size) || size < 1 ||
        size > kMostRanks || (ranks *= size) > kMostRanks)
      return given + ": '" + axis.str() +
             "' is not an axis, as 2 in 2x4 or model=2, of a mesh of 2^20 ranks at most";
  }
  if (devices % ranks != 0) {
    const int64_t below = devices / ranks * ranks;
    return given + ": the axes make " + std::to_string(ranks) + " ranks, which do not divide " +
           std::to_string(devices) + " devices: --devices " +
           (below > 0 ? std::to_string(below) + " or " : "") + std::to_string(below + ranks) +
           ", or other sizes, would do";
  }
  const bool hasStages = llvm::any_of(axes, [&](llvm::StringRef axis) {
    auto [name, size] = axis.split('=');
    return isNamed && name.trim() == kStageAxis && size.trim() != "1";
  });
  if (isMeshGiven && ranks == devices && (!hasStages || (options.microbatches > 0 && options.chunks > 0)))
    return ""; // there is nothing to search
  if (isMeshGiven && !isNamed)
    return given + ": the axes make " + std::to_string(ranks) +
           " ranks; name them, as in --mesh model=" + std::to_string(ranks) +
           ", so that those that are not named are searched, or leave --mesh out";
  options.devices = devices;
  return "";
}

static double rateOf(const TriedMesh &mesh, Objective objective) {
  return objective == Objective::Latency ? 1 / mesh.seconds : mesh.runsPerSecond;
}

static bool isBetter(const TriedMesh &a, const TriedMesh &b, Objective objective) {
  auto rank = [](const TriedMesh &mesh) { return !mesh.isPossible ? 2 : mesh.neededBytes > 0 ? 1 : 0; };
  if (rank(a) != rank(b))
    return rank(a) < rank(b);
  if (rank(a) == 1)
    return a.neededBytes < b.neededBytes;
  return rank(a) == 0 && rateOf(a, objective) > rateOf(b, objective);
}

void rankMeshes(std::vector<TriedMesh> &meshes, Objective objective) {
  std::stable_sort(meshes.begin(), meshes.end(),
                   [&](const TriedMesh &a, const TriedMesh &b) { return isBetter(a, b, objective); });
}

/// Tries meshes of the devices that have no stages beside those that are fixed.
static std::vector<TriedMesh> searchAxes(const MeshSpace &space, Objective objective,
                                         const std::function<TriedMesh(const MeshAxes &)> &attempt) {
  int64_t left = space.devices;
  for (const MeshAxis &axis : space.fixed)
    left /= axis.size;
  std::vector<TriedMesh> tried;
  auto tryOne = [&](const MeshAxes &axes) {
    if (tried.size() < space.trials)
      tried.push_back(attempt(axes));
    return tried.size() < space.trials;
  };
  if (space.recipeAxes) {
    for (const MeshAxes &axes : listForRecipe(space, left))
      if (!tryOne(axes))
        break;
    return tried;
  }
  std::set<Sizes> level{left > 1 ? Sizes{left} : Sizes{}};
  std::optional<TriedMesh> best; // of fewer axes
  for (size_t axes = 1; !level.empty() && axes <= kMostAxes; ++axes) {
    std::vector<std::pair<TriedMesh, Sizes>> found;
    for (const Sizes &sizes : level)
      for (const MeshAxes &mesh : placeAmong(space, sizes)) {
        bool mayGoOn = tryOne(mesh);
        found.push_back({tried.back(), sizes});
        if (!mayGoOn)
          return tried;
      }
    std::stable_sort(found.begin(), found.end(),
                     [&](const auto &a, const auto &b) { return isBetter(a.first, b.first, objective); });
    const TriedMesh &now = found.front().first;
    // Where nothing fits yet, or nothing did before, more axes may be what it takes.
    auto fits = [](const TriedMesh &mesh) { return mesh.isPossible && mesh.neededBytes == 0; };
    bool helps = !best || !best->isPossible ||
                 (now.isPossible && (!fits(now) || !fits(*best) ||
                                     rateOf(now, objective) > (1 + kGain) * rateOf(*best, objective)));
    if (axes >= space.sureAxes && !helps)
      break;
    if (!best || isBetter(now, *best, objective))
      best = now;
    std::set<Sizes> next;
    std::set<Sizes> split;
    for (const auto &[mesh, sizes] : found)
      if (axes == 1 || split.size() < kSplit || split.count(sizes)) {
        split.insert(sizes);
        for (Sizes &finer : splitOne(sizes, space.isOrdered))
          next.insert(std::move(finer));
      }
    level = std::move(next);
  }
  return tried;
}

/// So many parts have rows where `rows` are cut into `count` equal ones.
static int64_t countFilled(int64_t rows, int64_t count) {
  const int64_t part = (rows + count - 1) / count;
  return (rows + part - 1) / part;
}

namespace {
class PipelineSearch {
public:
  PipelineSearch(const MeshSpace &space, Objective objective, const TryMesh &attempt)
      : space(space), objective(objective), attempt(attempt) {}
  std::vector<TriedMesh> run();

private:
  bool mayChoose(int64_t stages) const {
    return space.microbatches == 0 && space.rows > 1 && stages > 1 && objective == Objective::Latency;
  }
  /// The microbatches that a mesh of so many stages is first tried with.
  int64_t getFirstParts(int64_t stages) const {
    if (!mayChoose(stages))
      return std::max<int64_t>(1, space.microbatches);
    return countFilled(space.rows, std::min(space.rows, kPartsOfStage * stages));
  }
  int64_t getFirstChunks(int64_t stages) const { return stages > 1 ? std::max<int64_t>(1, space.chunks) : 1; }
  /// Tries meshes `axes` of one number of stages, and then other microbatches and chunks on the best of them.
  void searchStages(int64_t stages, const MeshSpace &inner, bool isNamed);
  TriedMesh searchParts(const TriedMesh &first);
  void searchChunks(TriedMesh best);
  void shrinkActivations();

  static constexpr int64_t kPartsOfStage = 4;
  const MeshSpace &space;
  const Objective objective;
  const TryMesh &attempt;
  std::vector<TriedMesh> tried;
};
} // namespace

/// `axes` with names, behind an axis of stages.
static MeshAxes putIntoStages(MeshAxes axes, int64_t stages, const MeshAxes &fixed) {
  std::vector<std::string> names =
      nameFreeAxes(fixed, axes.size(),
                   axes.size() == 1 ? std::vector<std::string>{"model", "data"}
                                    : std::vector<std::string>{"data", "model", "x", "y", "z"});
  size_t next = 0;
  for (MeshAxis &axis : axes)
    if (axis.name.empty())
      axis.name = names[next++];
  axes.insert(axes.begin(), {kStageAxis, stages});
  return axes;
}

void PipelineSearch::searchStages(int64_t stages, const MeshSpace &inner, bool isNamed) {
  const int64_t parts = getFirstParts(stages);
  std::vector<TriedMesh> found = searchAxes(inner, objective, [&](const MeshAxes &axes) {
    return attempt(printMesh(isNamed ? axes : putIntoStages(axes, stages, inner.fixed)), parts,
                   getFirstChunks(stages));
  });
  tried.insert(tried.end(), found.begin(), found.end());
  if (found.empty() || stages == 1 || objective != Objective::Latency)
    return;
  rankMeshes(found, objective);
  const TriedMesh best = mayChoose(stages) ? searchParts(found.front()) : found.front();
  if (space.chunks == 0)
    searchChunks(best);
}

TriedMesh PipelineSearch::searchParts(const TriedMesh &first) {
  TriedMesh best = first;
  auto step = [&](int64_t parts) {
    tried.push_back(attempt(best.mesh, parts, best.chunks));
    const bool isGain = isBetter(tried.back(), best, objective);
    if (isGain)
      best = tried.back();
    return isGain;
  };
  auto more = [&] { return countFilled(space.rows, std::min(space.rows, 2 * best.microbatches)); };
  auto fewer = [&] { return countFilled(space.rows, std::max<int64_t>(1, best.microbatches / 2)); };
  while (more() > best.microbatches && step(more()))
    ;
  if (best.microbatches == first.microbatches)
    while (fewer() < best.microbatches && step(fewer()))
      ;
  return best;
}

void PipelineSearch::searchChunks(TriedMesh best) {
  // With one microbatch a run goes through the parts one after the other, whoever has them.
  if (best.microbatches == 1)
    return;
  for (bool isGain = true; isGain && best.isPossible;) {
    tried.push_back(attempt(best.mesh, best.microbatches, 2 * best.chunks));
    isGain = isBetter(tried.back(), best, objective);
    if (isGain)
      best = tried.back();
  }
}

void PipelineSearch::shrinkActivations() {
  constexpr size_t kMeshes = 2;
  std::vector<TriedMesh> least;
  for (const TriedMesh &mesh : tried)
    if (mesh.isPossible && mesh.microbatches == 1)
      least.push_back(mesh);
  rankMeshes(least, objective);
  if (least.size() > kMeshes)
    least.resize(kMeshes);
  for (int64_t parts = 2;; parts *= 2) {
    const int64_t filled = countFilled(space.rows, std::min(space.rows, parts));
    bool isEnough = filled == space.rows;
    for (const TriedMesh &mesh : least) {
      tried.push_back(attempt(mesh.mesh, filled, 1));
      isEnough |= tried.back().isPossible && tried.back().neededBytes == 0;
    }
    if (isEnough)
      return;
  }
}

std::vector<TriedMesh> PipelineSearch::run() {
  int64_t left = space.devices, given = 1;
  bool isFixed = false;
  for (const MeshAxis &axis : space.fixed) {
    left /= axis.size;
    if (axis.name == kStageAxis) {
      isFixed = true;
      given = axis.size;
    }
  }
  searchStages(given, space, /*isNamed=*/true);
  std::vector<int64_t> counts;
  for (int64_t stages = 2; stages <= std::min(left, space.mostStages); ++stages)
    if (left % stages == 0 && !isFixed && !space.recipeAxes)
      counts.push_back(stages);
  for (int64_t stages : counts) {
    MeshSpace inner = space;
    inner.devices /= stages;
    inner.sureAxes = 2;
    inner.trials = std::max<unsigned>(1, space.trials / static_cast<unsigned>(counts.size()));
    searchStages(stages, inner, /*isNamed=*/false);
  }
  const bool fits = std::any_of(tried.begin(), tried.end(), [](const TriedMesh &mesh) {
    return mesh.isPossible && mesh.neededBytes == 0;
  });
  if (!fits && space.microbatches == 0 && space.rows > 1)
    shrinkActivations();
  return tried;
}

std::vector<TriedMesh> searchMeshes(const MeshSpace &space, Objective objective, const TryMesh &attempt) {
  return PipelineSearch(space, objective, attempt).run();
}

} // namespace colossal
