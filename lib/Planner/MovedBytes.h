// What the ranks of a plan's first stage move in a step, in bytes by kind of collective.
#ifndef COLOSSAL_PLANNER_MOVEDBYTES_H
#define COLOSSAL_PLANNER_MOVEDBYTES_H

#include "StageCosts.h"

#include <map>
#include <set>
#include <string>

namespace colossal::planner {

/// Told of each unit, it adds up what a rank of the first stage sends. What units share counts once.
class MovedBytes {
public:
  MovedBytes(const StageCosts &costs, const TrainingPlan &plan, const std::vector<StageCosts::Stage> &stages,
             double microbatches);
  /// The next unit, in the order of the model.
  void add(int stage, const UnitCost &cost);
  /// Bytes by the name of a collective and, in parentheses, of the ranks between which it goes. `handed`:
  /// bytes of a microbatch that go to other stages.
  std::map<std::string, double> tell(double handed) const;

private:
  void addComputed(int stage, const UnitCost &cost);
  void tellTensorSums(std::map<std::string, double> &bytes) const;
  void tellStateMoves(std::map<std::string, double> &bytes) const;
  double summedOverTensor() const;
  /// How often what ZeRO 2 and 3 scatter and gather is moved.
  double turns() const { return movesOnce ? 1 : microbatches; }
  /// Elements of which the stage sends the sums to the one that updates them.
  double sentSums() const { return updatedLater - summedElsewhere; }

  const StageCosts &costs;
  const TrainingPlan &plan;
  const StageCosts::Stage &first;
  const double microbatches;
  const int ranks; ///< of data and context
  /// Context ranks have the same parameters: a program sums over them and the data ranks at once.
  const bool isAtOnce;
  const bool movesOnce;
  std::map<std::string, double> ofPasses;
  /// Elements of the first stage's parameters that later ones have, too, by number. The last of these updates
  /// them: the first sends it their gradients, and receives the parameters.
  std::map<int, double> later;
  double updatedLater = 0;
  std::set<int> summed; ///< and of them, elements of which another rank of the stage has the sum
  double summedElsewhere = 0;
  /// Elements of parameters that the backward pass reads again; and of those that products read, and of their
  /// narrow copies.
  double readAgain = 0, narrowedAgain = 0, narrowed = 0;
  std::set<int> known, knownAgain; ///< what units share is brought together for all of them at once
  std::map<int, double> multiplied, lookedUp; ///< elements whose masters other ranks have
  std::map<int, double> computed;             ///< bytes, of what is computed of parameters that units share
  double handedComputed = 0; ///< of them, that later stages read: each hands it on to the next
};

} // namespace colossal::planner

#endif // COLOSSAL_PLANNER_MOVEDBYTES_H
