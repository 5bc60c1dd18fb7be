// Tensor ranks, then data and context ranks, then stages.
#include "MovedBytes.h"

#include <algorithm>

namespace colossal::planner {

using cost::Collective;
using cost::CostModel;

MovedBytes::MovedBytes(const StageCosts &costs, const TrainingPlan &plan,
                       const std::vector<StageCosts::Stage> &stages, double microbatches)
    : costs(costs), plan(plan), first(stages.front()), microbatches(microbatches),
      ranks(plan.data * plan.context), isAtOnce(plan.zero > 0 || plan.task.scoresInMemory),
      movesOnce(costs.shape(plan).movesStateOnce()) {
  for (const auto &[number, held] : first.shared)
    if (std::any_of(stages.begin() + 1, stages.end(), [number = number](const StageCosts::Stage &stage) {
          return stage.shared.count(number) > 0;
        })) {
      later[number] = held;
      updatedLater += held;
    }
}

void MovedBytes::addComputed(int stage, const UnitCost &cost) {
  for (const auto &[number, bytes] : cost.sharedComputed) {
    // Stages hand on in 16 bits what is wide where it is read.
    const double all = (bytes.once + bytes.perMicrobatch * microbatches) *
                       (costs.types.narrow > 0 ? costs.types.narrow / costs.types.gradient : 1);
    if (stage == 0) {
      computed.try_emplace(number, all);
    } else if (auto made = computed.find(number); made != computed.end()) {
      handedComputed += made->second;
      made->second = 0;
    }
  }
}

void MovedBytes::add(int stage, const UnitCost &cost) {
  addComputed(stage, cost);
  if (stage != 0)
    return;
  readAgain += cost.readAgain;
  narrowedAgain += cost.narrowedAgain;
  narrowed += cost.narrowed;
  for (auto [number, copied] : cost.sharedNarrowed)
    narrowed -= known.insert(number).second ? 0 : copied;
  for (auto [number, again] : cost.sharedReadAgain)
    if (!knownAgain.insert(number).second) {
      readAgain -= again;
      const auto narrow = cost.sharedNarrowedAgain.find(number);
      narrowedAgain -= narrow == cost.sharedNarrowedAgain.end() ? 0 : narrow->second;
    }
  for (auto [number, elsewhere] : cost.sharedElsewhere)
    (cost.sharedByProducts.count(number) ? multiplied : lookedUp)[number] = elsewhere;
  for (const auto &[number, sum] : cost.sharedReduction)
    if (plan.task.scoresInMemory && later.count(number) && summed.insert(number).second)
      summedElsewhere += (sum.elsewhere + sum.spread) / costs.types.reduced;
  for (const auto &[name, bytes] : cost.bytesByCollective)
    ofPasses[name + " (tensor)"] += bytes * microbatches;
}

double MovedBytes::summedOverTensor() const {
  return first.reduction.bytes - (isAtOnce ? first.reduction.contextBytes : 0);
}

/// Each rank updates what it has the sums of, which passes read whole, products in 16 bits; data ranks that
/// keep parts of parameters bring together those of theirs. A later stage sends what it updates. Ranks that
/// keep pieces of gradients alone sum them up in each turn.
void MovedBytes::tellTensorSums(std::map<std::string, double> &bytes) const {
  const double sums = summedOverTensor(), spread = first.reduction.spread;
  if (sums + spread <= 0)
    return;
  if (!plan.task.scoresInMemory) {
    bytes["all-reduce (tensor)"] += sums;
    return;
  }
  bytes["reduce-scatter (tensor)"] += sums / 2 * (plan.zero >= 2 ? turns() : 1);
  const double brought = std::max(0.0, (sums / 2 + spread) / costs.types.reduced - summedElsewhere),
               narrowBrought = std::clamp(first.elsewhere - summedElsewhere, 0.0, brought);
  // In a step of one microbatch the lookup and the product of a tied table have narrow copies of their own.
  double twice = 0;
  if (costs.types.narrow > 0 && costs.shape(plan).isOnce())
    for (const auto &[number, elsewhere] : multiplied)
      twice += lookedUp.count(number) ? elsewhere : 0;
  bytes["all-gather (tensor)"] +=
      (costs.types.gathered * brought - costs.types.narrowGathered() * narrowBrought +
       costs.types.narrow * twice) /
      (plan.zero >= 3 ? ranks : 1);
}

/// A program adds up the gradients of all microbatches on a rank before it moves them, but for those of which
/// it keeps pieces. What is read of parameters has gradients, and is gathered for the passes; all of them are
/// updated.
void MovedBytes::tellStateMoves(std::map<std::string, double> &bytes) const {
  // Elements of gradients that a rank has none of when data ranks share theirs.
  const double elsewhere = plan.task.scoresInMemory && summedOverTensor() > 0
                               ? (first.reduction.elsewhere + first.reduction.spread) / costs.types.reduced
                               : 0;
  const double read = first.parameters - first.unread;
  const double gradients = costs.types.reduced * (read - elsewhere) * (plan.zero >= 2 ? turns() : 1);
  if (plan.zero > 0) {
    double gathered = first.parameters - sentSums() - elsewhere, narrow = 0;
    if (plan.zero >= 3) {
      const double frozen = first.frozen - first.idleFrozen;
      gathered = turns() * (read + frozen + (movesOnce ? 0 : readAgain));
      narrow = turns() * (narrowed + frozen + (movesOnce ? 0 : narrowedAgain));
    }
    const double parameters = costs.types.gathered * gathered - costs.types.narrowGathered() * narrow;
    bytes["reduce-scatter (data)"] = CostModel::bytesMoved(Collective::ReduceScatter, gradients, ranks);
    bytes["all-gather (data)"] = CostModel::bytesMoved(Collective::AllGather, parameters, ranks);
    return;
  }
  // The stage that updates a parameter for others needs parts of their sums, not whole ones.
  const double scattered = costs.types.reduced * sentSums();
  const double context = plan.context, moved = context > 1 ? 2 * (context - 1) / context : 1;
  const double sumsOverBoth = isAtOnce ? first.reduction.contextBytes / moved : 0;
  const double overBoth = sumsOverBoth > 0 ? sumsOverBoth - scattered : 0;
  bytes["all-reduce (data)"] =
      CostModel::bytesMoved(Collective::AllReduce, overBoth, ranks) +
      CostModel::bytesMoved(Collective::AllReduce, gradients - scattered - overBoth, plan.data);
  if (scattered > 0)
    bytes["reduce-scatter (data)"] =
        CostModel::bytesMoved(Collective::ReduceScatter, scattered, sumsOverBoth > 0 ? ranks : plan.data);
}

std::map<std::string, double> MovedBytes::tell(double handed) const {
  std::map<std::string, double> bytes = ofPasses;
  tellTensorSums(bytes);
  if (ranks > 1)
    tellStateMoves(bytes);
  // Context ranks send the parts they have the sums of, data ranks these to each of theirs.
  if (plan.pipeline > 1)
    bytes["send (pipeline)"] = handed * microbatches + handedComputed +
                               costs.types.reduced * sentSums() / (plan.zero > 0 ? ranks : plan.context);
  return bytes;
}

} // namespace colossal::planner
