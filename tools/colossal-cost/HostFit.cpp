// Coordinate descent over the constants of a host. Neighbour: HostFit.h.
#include "HostFit.h"

#include <algorithm>
#include <cmath>

namespace colossal::tool {

using cost::Host;
using cost::Machine;

double Sample::predict(const Machine &machine, bool isTogether) const {
  if (isTogether)
    return cost::HostCost(machine, 1).kernelSeconds(work, operations);
  Machine one = machine;
  one.host->cores = 1;
  return cost::HostCost(one, 1).kernelSeconds(work, operations);
}

namespace {

struct Range {
  double Host::*field;
  double low, high;
};
constexpr Range kRanges[] = {{&Host::contractionFill, 0.1, 1000},
                             {&Host::deepFactor, 1, 4},
                             {&Host::exposedMemory, 0.01, 1},
                             {&Host::convolutionEfficiency, 0.05, 4},
                             {&Host::convolutionFill, 0.1, 1000},
                             {&Host::convolutionExposedMemory, 0.01, 1},
                             {&Host::attentionEfficiency, 0.02, 4},
                             {&Host::cacheBandwidth, 1e8, 1e13},
                             {&Host::elementSeconds, 1e-12, 1e-7},
                             {&Host::forkSeconds, 1e-7, 1e-3},
                             {&Host::parallelEfficiency, 0.2, 1.1}};
constexpr double kFarOff = 0.5, kFirstStep = 0.4, kLastStep = 0.003;

double error(const std::vector<Sample> &samples, const Machine &machine) {
  Machine one = machine;
  one.host->cores = 1;
  cost::HostCost alone(one, 1), together(machine, 1);
  double sum = 0;
  auto add = [&](const cost::HostCost &model, const Sample &sample, double measured) {
    if (measured <= 0)
      return;
    double off = std::log(model.kernelSeconds(sample.work, sample.operations) / measured);
    sum += std::min(off * off, kFarOff * kFarOff);
  };
  for (const Sample &sample : samples) {
    add(alone, sample, sample.alone);
    add(together, sample, sample.together);
  }
  return sum;
}

} // namespace

void fitHost(const std::vector<Sample> &samples, Machine &machine) {
  auto value = [&](std::size_t i) -> double & {
    return i == 0 ? machine.device.peakFlops[cost::DataType::F32] : (*machine.host).*kRanges[i - 1].field;
  };
  double least = error(samples, machine);
  for (double step = kFirstStep; step > kLastStep;) {
    bool improved = false;
    for (std::size_t i = 0; i <= std::size(kRanges); ++i) {
      double low = i == 0 ? 1e6 : kRanges[i - 1].low, high = i == 0 ? 1e16 : kRanges[i - 1].high;
      for (double factor : {1 + step, 1 / (1 + step)}) {
        double before = value(i);
        value(i) = std::clamp(std::max(before, low) * factor, low, high);
        double now = error(samples, machine);
        if (now < least) {
          least = now;
          improved = true;
        } else {
          value(i) = before;
        }
      }
    }
    if (!improved)
      step /= 2;
  }
}

} // namespace colossal::tool
