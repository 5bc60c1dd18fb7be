// One search over everything that decides a training step: the mesh (pipeline, data, context, tensor),
// layouts of the units, the residual stream's layout, microbatch, schedule and chunks, stages, ZeRO stage and
// recompute. Branch and bound over simulated plans.
#ifndef COLOSSAL_PLANNER_JOINTSEARCH_H
#define COLOSSAL_PLANNER_JOINTSEARCH_H

#include "colossal/Planner/PlanPricer.h"

#include <functional>
#include <limits>
#include <optional>

namespace colossal::planner {

/// Sizes of a mesh's axes; 0: searched.
struct MeshSizes {
  int pipeline = 0, data = 0, context = 0, tensor = 0;
};

/// Choices of kept values for a step that is compiled, of few ranks: a device's memory is used to within an
/// eighth of what can be made again.
constexpr int kCompiledKeptChoices = 7;

/// What is tried. The defaults are wide; tests and fixed parts (FixedParts.h) make them narrow.
struct SearchSpace {
  int maxTensor = 64; ///< ranks of all tensor axes
  int maxContext = 16;
  double minContextLength = 1024; ///< tokens that a context rank keeps
  double maxMicrobatch = 64;
  int maxChunks = 8;
  bool tensorGrids = true; ///< two tensor axes, for 2D layouts
  std::vector<cost::Schedule> schedules = {cost::Schedule::OneFOneB,     cost::Schedule::Interleaved,
                                           cost::Schedule::ZeroBubbleH1, cost::Schedule::ZeroBubbleV,
                                           cost::Schedule::ZeroBubble1p, cost::Schedule::ZeroBubbleH2,
                                           cost::Schedule::ZeroBubble2p, cost::Schedule::GPipe};
  std::vector<Recompute> recompute = {Recompute::None, Recompute::Selective, Recompute::Full};
  /// Where a mesh has no room for all that is saved, so many choices of single values that are kept: 0 for
  /// none.
  int keptChoices = 3;
  std::vector<int> zero = {1, 2, 3, 0};
  bool fusedAttention = true;
  /// Numbers of microbatches that do not divide the global batch, whose last ones hold padding. Programs have
  /// turns of equally many samples.
  bool unevenMicrobatches = true;
  std::vector<MeshSizes> meshes; ///< the mesh is one of these; empty: any
  int microbatches = 0;          ///< of a rank, in a step; 0: any number
  int chunks = 0;                ///< of a stage; 0: any number that the schedule takes
  /// Passes of a microbatch through a chunk that are simulated before the search gives the best plan so far:
  /// about a microsecond each.
  long long passes = 4000000;
  /// The same for plans that can only be runners-up; those of the best plan count.
  long long runnerPasses = 1000000;
  /// Runners-up: at least so many, and as many more as it takes to show so many other meshes, but no more
  /// than the most.
  int runnersUp = 5, otherMeshes = 3, mostRunnersUp = 12;
  int threads = 0; ///< 0: as many as there are cores; the answer is the same for any number
};

struct PricedPlan {
  TrainingPlan plan;
  PlanPrice price;
  std::string reason; ///< why it lost
};

/// Plans are of one kind if mesh, ZeRO stage, recompute and pipeline schedule are the same: they differ in
/// microbatch, chunks, stages and layouts only. With one stage no schedule, and without data and context
/// ranks no stage of ZeRO, makes a difference. Where a step is compiled, those that keep other values are of
/// other kinds: of those whose program does not fit, the next may.
bool isOfOneKind(const TrainingPlan &a, const TrainingPlan &b);
bool isOnOneMesh(const TrainingPlan &a, const TrainingPlan &b);

struct SearchResult {
  /// The fastest plan that fits; none if none does.
  std::optional<PricedPlan> best;
  /// No plan of the space takes less: each was simulated, or excluded by a bound of its own, or for its
  /// memory. The best plan's time, unless the search ended early: then the least bound that was left.
  double bound = 0;
  /// What the search began with: every stage as busy as the average, without waiting, memory unlimited.
  double relaxed = 0;
  /// No layout on these devices takes less: every operation at the rate of the largest one, perfectly spread.
  double roofline = 0;
  /// The best plan of each of the fastest kinds (isOfOneKind) but the best plan's own, by time. Every plan of
  /// the space that fits and takes less than the last one is of a kind that is listed, and takes no less than
  /// the one listed; of those that take `unexplored` or more this is not known.
  std::vector<PricedPlan> runnersUp;
  /// s; every plan that can take less was simulated or excluded. Infinite where the search was not cut short.
  double unexplored = std::numeric_limits<double>::infinity();
  std::optional<PricedPlan> fasterButTooLarge;
  /// Where nothing fits: the plan that needs the least memory, and what would help.
  std::optional<PricedPlan> smallest;
  std::vector<std::string> remedies;
  std::vector<std::string> useless; ///< what was tried and does not help
  long long plans = 0;              ///< of the space
  long long simulated = 0;          ///< the others are excluded by their bounds
  bool complete = true;             ///< no better plan was left out for lack of simulations
  std::string error;                ///< the task makes no sense, or the space has no plan
  std::string fixed;                ///< the options that narrowed the space, for reports

  double gap() const {
    return best && best->price.seconds > 0 ? (best->price.seconds - bound) / best->price.seconds : 0;
  }
};

/// Empty, or what is wrong with the task itself, by the options that state it.
std::string checkTask(const PlanPricer &pricer, const TrainingTask &task);

/// The plan that needs the least memory, of those of one sequence a microbatch where that is left open; none
/// if the space has none.
std::optional<PricedPlan> findSmallest(PlanPricer &pricer, const TrainingTask &task,
                                       const SearchSpace &space);

/// Deterministic. `progress` is told what is done, now and then.
SearchResult searchPlans(PlanPricer &pricer, const TrainingTask &task, const SearchSpace &space,
                         const std::function<void(const std::string &)> &progress = nullptr);

} // namespace colossal::planner

#endif // COLOSSAL_PLANNER_JOINTSEARCH_H
