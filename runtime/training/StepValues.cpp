// Defaults, schedules and the values of one step.
#include "runtime/training/StepValues.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

namespace colossal::runtime {

Status completeHyperparameters(const std::string &optimizer, Hyperparameters &parameters) {
  struct Defaults {
    double lr, weightDecay, beta1, beta2, eps, momentum;
  };
  static const std::map<std::string, Defaults> known = {
      {"sgd", {1e-3, 0, 0, 0, 0, 0}},
      {"adam", {1e-3, 0, 0.9, 0.999, 1e-8, 0}},
      {"adamw", {1e-3, 1e-2, 0.9, 0.999, 1e-8, 0}},
      {"adafactor", {1e-2, 0, 0, 0, 0x1p-23, 0}}, // the least difference from 1 in f32
      {"lamb", {1e-3, 1e-2, 0.9, 0.999, 1e-6, 0}},
      {"lars", {1e-1, 5e-4, 0, 0, 0, 0.9}},
      {"lion", {1e-4, 0, 0.9, 0.99, 0, 0}},
  };
  const auto found = known.find(optimizer);
  if (found == known.end())
    return {Code::Unsupported, "the plan trains by '" + optimizer + "', which this runtime does not know"};
  const Defaults &defaults = found->second;
  const auto complete = [](std::optional<double> &value, double otherwise) {
    value = value.value_or(otherwise);
  };
  complete(parameters.lr, defaults.lr);
  complete(parameters.weightDecay, defaults.weightDecay);
  complete(parameters.beta1, defaults.beta1);
  complete(parameters.beta2, defaults.beta2);
  complete(parameters.eps, defaults.eps);
  complete(parameters.momentum, defaults.momentum);
  complete(parameters.dampening, 0);
  complete(parameters.clip, INFINITY);
  complete(parameters.trust, 1e-3);
  complete(parameters.beta2Decay, -0.8);
  complete(parameters.eps2, 1e-3);
  complete(parameters.threshold, 1);
  parameters.nesterov = parameters.nesterov.value_or(false);
  const auto check = [](const char *option, double value, bool fits, const char *range) {
    return fits ? Status()
                : Status(Code::InvalidArgument,
                         std::string(option) + " is " + std::to_string(value) + "; it must be " + range);
  };
  COLOSSAL_RETURN_IF_ERROR(check("--lr", *parameters.lr, *parameters.lr >= 0, "0 or more"));
  COLOSSAL_RETURN_IF_ERROR(
      check("--weight-decay", *parameters.weightDecay, *parameters.weightDecay >= 0, "0 or more"));
  for (auto [option, value] :
       {std::pair("--beta1", *parameters.beta1), std::pair("--beta2", *parameters.beta2)})
    COLOSSAL_RETURN_IF_ERROR(check(option, value, value >= 0 && value < 1, "from 0 to below 1"));
  COLOSSAL_RETURN_IF_ERROR(check("--eps", *parameters.eps, *parameters.eps >= 0, "0 or more"));
  COLOSSAL_RETURN_IF_ERROR(check("--momentum", *parameters.momentum, *parameters.momentum >= 0, "0 or more"));
  COLOSSAL_RETURN_IF_ERROR(check("--clip", *parameters.clip, *parameters.clip > 0, "more than 0"));
  if (*parameters.nesterov && (*parameters.momentum <= 0 || *parameters.dampening != 0))
    return {Code::InvalidArgument, "--nesterov needs a --momentum, and no --dampening"};
  return {};
}

double Schedule::rate(double lr, uint64_t step) const {
  if (step <= warmup)
    return lr * static_cast<double>(step) / static_cast<double>(warmup);
  const uint64_t done = step - 1;
  const double progress =
      steps > warmup ? std::min(1.0, static_cast<double>(done - warmup) / static_cast<double>(steps - warmup))
                     : 1;
  if (kind == "linear")
    return lr * (1 - progress);
  if (kind == "cosine")
    return lr * (1 + std::cos(M_PI * progress)) / 2;
  if (kind == "polynomial")
    return lr * std::pow(1 - progress, power);
  if (kind == "multistep")
    return lr * std::pow(gamma, static_cast<double>(std::count_if(milestones.begin(), milestones.end(),
                                                                  [&](uint64_t m) { return m <= done; })));
  return lr;
}

Status stepValues(const std::vector<std::string> &names, const Hyperparameters &parameters,
                  const StepState &at, std::vector<double> &values) {
  const auto t = static_cast<double>(at.update);
  const auto part = [](uint64_t number, int index) {
    return static_cast<double>(number >> (16 * index) & 0xffff);
  };
  const std::map<std::string, std::function<double()>> known = {
      {"lr", [&] { return at.lr; }},
      {"weight_decay", [&] { return *parameters.weightDecay; }},
      {"momentum", [&] { return *parameters.momentum; }},
      {"nesterov", [&] { return *parameters.nesterov ? 1.0 : 0.0; }},
      {"dampening", [&] { return at.update == 1 ? 0 : *parameters.dampening; }},
      {"beta1", [&] { return *parameters.beta1; }},
      {"beta2", [&] { return *parameters.beta2; }},
      {"eps", [&] { return *parameters.eps; }},
      {"bias_correction1", [&] { return 1 - std::pow(*parameters.beta1, t); }},
      {"bias_correction2", [&] { return 1 - std::pow(*parameters.beta2, t); }},
      {"clip", [&] { return *parameters.clip; }},
      {"trust", [&] { return *parameters.trust; }},
      {"relative_lr", [&] { return std::min(at.lr, 1 / std::sqrt(t)); }},
      {"one_minus_beta2", [&] { return std::pow(t, *parameters.beta2Decay); }},
      {"eps2", [&] { return *parameters.eps2; }},
      {"threshold", [&] { return *parameters.threshold; }},
      {"loss_scale", [&] { return at.lossScale; }},
      {"step", [&] { return static_cast<double>(at.step); }},
      {"step0", [&] { return part(at.step, 0); }},
      {"step1", [&] { return part(at.step, 1); }},
      {"seed0", [&] { return part(at.seed, 0); }},
      {"seed1", [&] { return part(at.seed, 1); }},
      {"seed2", [&] { return part(at.seed, 2); }},
      {"seed3", [&] { return part(at.seed, 3); }},
  };
  values.clear();
  for (const std::string &name : names) {
    const auto found = known.find(name);
    if (found == known.end())
      return {Code::Unsupported,
              "the plan's steps take a value '" + name +
                  "', which this runtime does not know; run it with that of the compiler's version"};
    values.push_back(found->second());
  }
  return {};
}

void LossScale::step(bool overflowed) {
  constexpr uint64_t growAfter = 2000;
  if (overflowed) {
    scale = std::max(scale / 2, 1.0);
    good = 0;
    ++skipped;
  } else if (++good == growAfter) {
    scale *= 2;
    good = 0;
  }
}

} // namespace colossal::runtime
