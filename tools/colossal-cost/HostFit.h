// The constants of a host's kernels, fitted to times of kernels.
#ifndef COLOSSAL_TOOLS_COLOSSAL_COST_HOSTFIT_H
#define COLOSSAL_TOOLS_COLOSSAL_COST_HOSTFIT_H

#include "colossal/Cost/HostCost.h"

#include <string>
#include <vector>

namespace colossal::tool {

/// One kernel that is timed: what it is to the model, and its seconds with one thread and with one a core.
struct Sample {
  std::string name;
  cost::OpWork work;
  double operations = 0;
  double alone = 0, together = 0;

  /// By the model, with one thread on one core or with a thread on each.
  double predict(const cost::Machine &machine, bool isTogether) const;
};

/// Changes the rate of f32, and the host's fills, efficiencies and seconds, from where they stand to where
/// the mean squared logarithm of predicted over measured is least, by steps along one constant after the
/// other that shrink. Single samples that are far off count no more than those off by half. Bandwidths of
/// main memory stay as they are. Notes in `machine.fittedKeys` what was fitted.
void fitHost(const std::vector<Sample> &samples, cost::Machine &machine);

} // namespace colossal::tool

#endif // COLOSSAL_TOOLS_COLOSSAL_COST_HOSTFIT_H
