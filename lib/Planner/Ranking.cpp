// Plans by time, one a kind.
#include "Ranking.h"

#include <algorithm>

namespace colossal::planner {

bool isOnOneMesh(const TrainingPlan &a, const TrainingPlan &b) {
  auto axes = [](const TrainingPlan &plan) {
    std::vector<int> above;
    std::copy_if(plan.tensor.begin(), plan.tensor.end(), std::back_inserter(above),
                 [](int size) { return size > 1; });
    return above;
  };
  return a.pipeline == b.pipeline && a.data == b.data && a.context == b.context && axes(a) == axes(b);
}

bool isOfOneKind(const TrainingPlan &a, const TrainingPlan &b) {
  auto keepsTheSame = [&] {
    return !a.task.scoresInMemory || a.kept == b.kept || (a.kept && b.kept && *a.kept == *b.kept);
  };
  return isOnOneMesh(a, b) && a.recompute == b.recompute && (a.zero == b.zero || a.data * a.context == 1) &&
         (a.schedule == b.schedule || a.pipeline == 1) && keepsTheSame();
}

void Ranking::add(PricedPlan one) {
  auto same = [&](const PricedPlan &other) { return isOfOneKind(one.plan, other.plan); };
  auto known = std::find_if(plans.begin(), plans.end(), same);
  if (known != plans.end()) {
    if (known->price.seconds <= one.price.seconds)
      return;
    plans.erase(known);
  }
  auto slower = [](double seconds, const PricedPlan &other) { return seconds < other.price.seconds; };
  plans.insert(std::upper_bound(plans.begin(), plans.end(), one.price.seconds, slower), std::move(one));
  if (std::size_t listed = countListed())
    end = plans[listed].price.seconds;
}

/// How many runners-up are listed; 0 while there are not enough.
std::size_t Ranking::countListed() const {
  std::vector<const TrainingPlan *> other;
  for (std::size_t i = 1; i < plans.size(); ++i) {
    const TrainingPlan &plan = plans[i].plan;
    bool isKnown = isOnOneMesh(plan, plans.front().plan) ||
                   std::any_of(other.begin(), other.end(),
                               [&](const TrainingPlan *one) { return isOnOneMesh(plan, *one); });
    if (!isKnown)
      other.push_back(&plan);
    int count = static_cast<int>(i);
    if (count >= most || (count >= least && static_cast<int>(other.size()) >= meshes))
      return i;
  }
  return 0;
}

std::vector<PricedPlan> Ranking::others(const TrainingPlan &best) const {
  std::size_t listed = countListed();
  std::vector<PricedPlan> found;
  for (std::size_t i = 0; i < plans.size() && (listed == 0 || i <= listed); ++i)
    if (!isOfOneKind(plans[i].plan, best))
      found.push_back(plans[i]);
  return found;
}

} // namespace colossal::planner
