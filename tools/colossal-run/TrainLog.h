// What is told of each step: a line on standard output, a JSON object in a file, events for TensorBoard.
#ifndef COLOSSAL_TOOLS_COLOSSAL_RUN_TRAINLOG_H
#define COLOSSAL_TOOLS_COLOSSAL_RUN_TRAINLOG_H

#include "runtime/training/EventFile.h"

#include <optional>

namespace colossal::runtime {

struct StepReport {
  uint64_t step = 0, steps = 0; ///< steps: the one to end with
  double loss = 0, gradientNorm = 0, lr = 0, lossScale = 1;
  double seconds = 0;   ///< of this step
  uint64_t samples = 0; ///< so far
  uint64_t skipped = 0; ///< steps so far whose gradients overflowed
  double samplesPerSecond = 0,
         tokensPerSecond = 0; ///< of this step; the latter counts samples where there are no tokens
  bool tokens = false;        ///< samples are sequences of tokens
  double shareOfPeak = 0;     ///< of the machine's operations a second; 0: not known
  uint64_t memory = 0;        ///< of this process
  double secondsLeft = 0;
  std::optional<double> evaluationLoss;
};

/// "step 12/100  loss 4.231  ..."
std::string stepLine(const StepReport &report);

class TrainLog {
public:
  TrainLog() = default;
  TrainLog(const TrainLog &) = delete;
  TrainLog &operator=(const TrainLog &) = delete;
  ~TrainLog();

  /// Opens what paths are not empty. What a file says of steps after `resumedAt` is of a run that is not gone
  /// on from, and is removed, as is all of it where that is 0.
  Status open(const std::string &file, const std::string &eventFolder, uint64_t resumedAt);
  /// Writes to both, at once.
  Status add(const StepReport &report);

private:
  int descriptor = -1;
  std::string path;
  EventFile events;
};

} // namespace colossal::runtime

#endif // COLOSSAL_TOOLS_COLOSSAL_RUN_TRAINLOG_H
