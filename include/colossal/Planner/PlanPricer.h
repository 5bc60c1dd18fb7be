// What a training plan takes: time by part, and memory by kind, stage and time. Units are priced once a cell
// (axes, microbatch, recompute, boundary) and put into time by simulation.
#ifndef COLOSSAL_PLANNER_PLANPRICER_H
#define COLOSSAL_PLANNER_PLANPRICER_H

#include "colossal/Planner/TrainingPlan.h"

namespace colossal::planner {

using cost::Communication;
using cost::StageMemory;

/// Bytes held at a time of the step, on the stage that holds the most.
struct MemoryPoint {
  double seconds = 0, bytes = 0;
};

struct PlanPrice {
  double seconds = 0; ///< of a step
  /// Where they go, on the stage that ends last.
  double pipeline = 0, reduction = 0, optimizer = 0;
  double bubble = 0;               ///< part of the pipeline's time in which the busiest stage waits
  double collective = 0;           ///< s of communication inside the busiest stage's passes
  std::vector<int> parts;          ///< units of each chunk
  std::vector<StageMemory> memory; ///< by stage
  double peakBytes = 0;            ///< the largest total
  double limitBytes = 0;           ///< of a device, without what its runtime reserves
  std::vector<MemoryPoint> curve;  ///< if asked for
  int curveStage = 0;
  double flops = 0; ///< of a step, as the model's contractions count, without recompute
  std::map<std::string, double> bytesByCollective; ///< a rank of the first stage, in a step
  std::vector<cost::PipelineEvent> passes;         ///< of all stages; if asked for, and there are several
  /// Under recompute of a compiled step: the operations with which segments of the forward pass begin, but
  /// for the first, as FactorGraph::ids has them (-1: the loss); if asked for.
  std::vector<int> segments;
  int lastStage = 0;                        ///< the one that ends last
  std::vector<Communication> communication; ///< of a rank of it; if asked for
  double straggler = 1;                     ///< factor of the step for nodes that wait for the slowest
  std::string error;                        ///< why the plan makes no sense; the rest is empty then

  bool fits() const { return error.empty() && peakBytes <= limitBytes; }
};

/// The figures of a price that a plan's text keeps.
struct PriceSummary {
  double seconds = 0, pipeline = 0, bubble = 0, collective = 0, reduction = 0, optimizer = 0, peakBytes = 0;
  PriceSummary() = default;
  explicit PriceSummary(const PlanPrice &price)
      : seconds(price.seconds), pipeline(price.pipeline), bubble(price.bubble), collective(price.collective),
        reduction(price.reduction), optimizer(price.optimizer), peakBytes(price.peakBytes) {}
};

/// Costs of all kinds of unit under one choice of axes, microbatch, recompute and boundary.
struct Cell {
  /// By kind; behind them those of units of which a step under recompute keeps something else.
  std::vector<UnitCost> kinds;
  std::vector<int> units; ///< which of `kinds` each unit is
  /// Under recompute, which one each is where it makes nothing again, as in the last pipeline part of
  /// schedules that split the backward pass. Else empty.
  std::vector<int> keeping;
  std::vector<UnitLayout> layouts;
  double seconds = 0, largest = 0; ///< of one microbatch through all units, and through the slowest
  double parameters = 0;           ///< elements on a rank that has all units
  double slots = 0;                ///< of each of the optimizer's, likewise
  double frozen = 0;               ///< of parameters that stay as they are, likewise
  double saved = 0;                ///< bytes of a microbatch in all units
  std::string error;               ///< no layout meets the boundary
};

/// A plan's stages, and a time that no order of its passes undercuts.
struct PlanEstimate {
  using Stage = cost::StageState;
  std::vector<Stage> stages;
  std::vector<double> saved; ///< bytes of a microbatch, by chunk in the model's order
  double bound = 0;
};

/// Threads may share a pricer; those that ask for new cells (`cell`, `price`) must ask for different axes.
class PlanPricer {
public:
  PlanPricer(const FactorGraph &graph, const cost::CostModel &machine, const TrainingTask &task);
  ~PlanPricer();

  /// The plan's price; `detailed` also fills the curve and the bytes by collective.
  PlanPrice price(const TrainingPlan &plan, bool detailed = false);
  /// The cell of a plan, found or given by its layouts.
  const Cell &cell(const TrainingPlan &plan);
  /// Units of each chunk so that the slowest chunk is as fast as can be, and the others even. What ZeRO adds
  /// is not counted.
  std::vector<int> balance(const TrainingPlan &plan, const Cell &cell) const;

  /// What is known of a plan (with its parts) before it is simulated.
  PlanEstimate estimate(const TrainingPlan &plan, const Cell &cell) const;
  /// Bytes that the plan holds at least: state, and what a stage takes in until its first gradient arrives.
  double leastBytes(const TrainingPlan &plan, const PlanEstimate &estimate) const;
  /// Less than what any schedule and cut into stages needs: the average over the stages.
  double leastBytes(const TrainingPlan &plan, const Cell &cell) const;
  double limitBytes() const;
  /// Factor of a step for the nodes that it waits for.
  double straggler(int ranks) const;
  /// Cells are the same for as many of these.
  int activeRanks(int ranks) const;

  BlockPlanner &blocks();
  const cost::CostModel &machine() const;
  const FactorGraph &graph() const;
  const TrainingTypes &types() const;

private:
  struct Parts;
  std::unique_ptr<Parts> p;
};

} // namespace colossal::planner

#endif // COLOSSAL_PLANNER_PLANPRICER_H
