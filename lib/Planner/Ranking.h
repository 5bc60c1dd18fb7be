// The fastest plan of each kind, and up to which time plans matter.
#ifndef COLOSSAL_PLANNER_RANKING_H
#define COLOSSAL_PLANNER_RANKING_H

#include "colossal/Planner/JointSearch.h"

namespace colossal::planner {

/// Of equally fast plans of a kind the one that came first stays.
class Ranking {
public:
  /// `least` runners-up, more until `meshes` meshes other than the best plan's are among them, at most
  /// `most`.
  Ranking(int least, int meshes, int most) : least(least), meshes(meshes), most(most) {}

  void add(PricedPlan plan);
  /// s; plans that take as long or longer would not be listed. Infinite until there are enough. Never rises.
  double limit() const { return end; }
  /// The runners-up of `best`, by time.
  std::vector<PricedPlan> others(const TrainingPlan &best) const;

private:
  std::size_t countListed() const;
  int least, meshes, most;
  std::vector<PricedPlan> plans; ///< by time, one a kind
  double end = std::numeric_limits<double>::infinity();
};

} // namespace colossal::planner

#endif // COLOSSAL_PLANNER_RANKING_H
