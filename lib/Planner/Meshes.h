// The meshes of a task and what may go through each: sizes of the axes, microbatches, recompute, layout of
// the residual stream. Devices and batches of any number: what divides nothing leaves devices idle or pads
// the batch, and pays for it.
#ifndef COLOSSAL_PLANNER_MESHES_H
#define COLOSSAL_PLANNER_MESHES_H

#include "colossal/Planner/JointSearch.h"

#include <cstdint>

namespace colossal::planner {

/// The axes that units are laid out over, with the layouts of the residual stream that suit them.
struct UnitAxes {
  int context = 1;
  std::vector<int> tensor;
  std::vector<Boundary> boundaries;
  int size() const;
};

/// Plans that have all but schedule, chunks and ZeRO stage in common.
struct PlanFamily {
  std::uint16_t axes = 0, boundary = 0;
  std::uint8_t recompute = 0, lean = 0; ///< `recompute`: of the space, then the choices by value
  int pipeline = 1, data = 1;
  int microbatch = 1, microbatches = 1; ///< sequences of each, and how many a rank has at least
  const Cell *cell = nullptr;           ///< null: not measured yet, and the bound is that of another
  int active = 0;                       ///< ranks that the cell was found for, as far as they matter to it
  double bound = 0;                     ///< s; no plan of the family takes less
};

/// A schedule, its chunks, and how many microbatches a rank has (schedules may need a multiple of the
/// stages).
struct Scheduling {
  cost::Schedule schedule;
  int chunks, microbatches;
};

class Meshes {
public:
  Meshes(PlanPricer &pricer, const TrainingTask &task, const SearchSpace &space);

  const std::vector<UnitAxes> &axes() const { return all; }
  /// Groups on these axes, on as many devices as they can use. Threads may ask for different axes.
  std::vector<PlanFamily> families(std::size_t axes);
  /// Stages for units on these axes.
  std::vector<int> pipelines(const UnitAxes &axes) const;
  /// Data ranks beside them: those that are fixed, or as many as there are, and divisors of the global batch,
  /// downward.
  std::vector<int> datas(const UnitAxes &axes, int pipeline) const;
  /// The same family on the next smaller divisor of the global batch as data ranks; none if there is none.
  std::vector<PlanFamily> withFewerDevices(const PlanFamily &family);
  /// Of a family that keeps all, those that keep some values only; they are not measured.
  std::vector<PlanFamily> keepingLess(const PlanFamily &family);
  /// Fills cell (unless it is the right one), microbatches and bound; false where no layout meets the
  /// boundary.
  bool measure(PlanFamily &family);

  /// A plan of the family, one-forward-one-backward and without ZeRO.
  TrainingPlan plan(const PlanFamily &family) const;
  TrainingPlan plan(const PlanFamily &family, const Scheduling &scheduling, int zero) const;
  std::vector<Scheduling> schedulings(const PlanFamily &family) const;
  int countSchedulings(const PlanFamily &family) const {
    return static_cast<int>(schedulings(family).size());
  }

private:
  bool hasThrees() const;
  void addAxes(int tensor, int context);
  /// Those of the space that have such axes.
  std::vector<MeshSizes> meshesWith(const UnitAxes &axes) const;
  bool isDataFixed() const;
  /// Whether families on fewer data ranks are found one from the other.
  bool hasFewer() const;
  /// Interleaved: microbatches in whole rounds over the stages, and chunks; 1 where the rounds are too much
  /// padding.
  int inRounds(const PlanFamily &family) const;
  int mostChunks(const PlanFamily &family) const;
  /// Sizes of microbatches for so many sequences of a rank: divisors of the global batch and powers of two
  /// that take little padding.
  std::vector<int> microbatches(int sequences) const;
  std::vector<int> batchDivisors; ///< of the global batch, up to the number of devices
  std::vector<int> microbatchSizes;

  PlanPricer &pricer;
  const TrainingTask &task;
  const SearchSpace &space;
  std::vector<UnitAxes> all;
  std::optional<std::vector<std::shared_ptr<const KeptOperations>>> kept; ///< none: not looked for yet
};

} // namespace colossal::planner

#endif // COLOSSAL_PLANNER_MESHES_H
