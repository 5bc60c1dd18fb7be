// Coordinate descent over the constants of a host.
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
  const char *key, *unit, *meaning;
};
constexpr Range kRanges[] = {
    {&Host::contractionFill, 0.1, 1000, "contraction_fill", "elements of k",
     "what each tile of a contraction loses"},
    {&Host::deepFactor, 1, 4, "deep_factor", "1",
     "time of a multiply beyond deep_contraction over one before"},
    {&Host::exposedMemory, 0.01, 1, "exposed_memory", "1",
     "part of the shorter of computing and reading that shows"},
    {&Host::convolutionEfficiency, 0.05, 4, "convolution_efficiency", "1", "rate over that of contractions"},
    {&Host::convolutionFill, 0.1, 1000, "convolution_fill", "elements of k",
     "what each tile of a convolution loses"},
    {&Host::convolutionExposedMemory, 0.01, 1, "convolution_exposed_memory", "1",
     "as exposed_memory, of convolutions"},
    {&Host::attentionEfficiency, 0.02, 4, "attention_efficiency", "1", "rate over that of contractions"},
    {&Host::cacheBandwidth, 1e8, 1e13, "cache_bandwidth", "B/s",
     "streaming kernels on data in a core's cache"},
    {&Host::elementSeconds, 1e-12, 1e-7, "element_seconds", "s",
     "one operation on one element in a fused kernel"},
    {&Host::forkSeconds, 1e-7, 1e-3, "fork_seconds", "s", "to start threads on a kernel and to join them"},
    {&Host::parallelEfficiency, 0.2, 1.1, "parallel_efficiency", "1",
     "rate of a core among busy ones over one alone"}};
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
  std::string source = "colossal-cost calibrate: " + std::to_string(samples.size()) + " kernels";
  machine.fittedKeys = {
      {"device.peak_flops.f32", "FLOP/s", "rate of large contractions on one core", source}};
  for (const Range &range : kRanges)
    machine.fittedKeys.push_back({std::string("host.") + range.key, range.unit, range.meaning, source});
}

} // namespace colossal::tool
