// What a step is told beside its data: learning rate, betas, bias corrections and the like, computed on the
// host in f64 in every step, from what the user asks for and from the step's number. docs/PlanFormat.md lists
// the names.
#ifndef COLOSSAL_RUNTIME_TRAINING_STEPVALUES_H
#define COLOSSAL_RUNTIME_TRAINING_STEPVALUES_H

#include "colossal/Plan/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace colossal::runtime {

using plan::Code;
using plan::Status;

/// What an optimizer is asked for; what is not given is the optimizer's default.
struct Hyperparameters {
  std::optional<double> lr, weightDecay, beta1, beta2, eps, momentum, dampening, clip, trust, beta2Decay,
      eps2, threshold;
  std::optional<bool> nesterov;
};

/// The defaults: PyTorch's where PyTorch has the optimizer, else the paper's (docs/Training.md). Fails where
/// the optimizer is none of those known, or something is out of range.
Status completeHyperparameters(const std::string &optimizer, Hyperparameters &parameters);

/// The learning rate over the steps. With k = step - 1 (steps begin with 1), W warm-up steps, T steps in all,
/// and progress p = min(1, (k - W) / (T - W)): in the first W steps lr * step / W, and then
///   constant    lr
///   linear      lr (1 - p)
///   cosine      lr (1 + cos(pi p)) / 2
///   polynomial  lr (1 - p)^power
///   multistep   lr gamma^m, with m of the milestones at most k
struct Schedule {
  std::string kind = "constant";
  uint64_t warmup = 0;
  uint64_t steps = 0; ///< T
  double power = 1, gamma = 0.1;
  std::vector<uint64_t> milestones;

  double rate(double lr, uint64_t step) const;
};

/// What changes from step to step.
struct StepState {
  uint64_t step = 1;   ///< from 1 on
  uint64_t update = 1; ///< the same less those that were skipped
  double lr = 0;       ///< by the schedule
  double lossScale = 1;
  uint64_t seed = 0;
};

/// The values of the given names. `parameters` must be complete. Fails at a name that is not known.
Status stepValues(const std::vector<std::string> &names, const Hyperparameters &parameters,
                  const StepState &at, std::vector<double> &values);

/// The scale of the loss where small gradients would vanish: halved when a step overflowed, doubled after
/// 2,000 that did not, as PyTorch's GradScaler does; begins with 65,536.
struct LossScale {
  double scale = 65536;
  uint64_t good = 0;    ///< steps since the last change
  uint64_t skipped = 0; ///< steps in all

  void step(bool overflowed);
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_TRAINING_STEPVALUES_H
