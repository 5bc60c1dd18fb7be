// The command line of colossal-run train.
#ifndef COLOSSAL_TOOLS_COLOSSAL_RUN_TRAINOPTIONS_H
#define COLOSSAL_TOOLS_COLOSSAL_RUN_TRAINOPTIONS_H

#include "runtime/execute/Session.h"
#include "runtime/training/StepValues.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Validator;
} // namespace CLI

namespace colossal::runtime {

struct TrainOptions {
  std::string plan;
  SessionOptions session;
  std::vector<std::string> data, evaluateData;
  uint64_t steps = 0;
  Hyperparameters parameters;
  // What is not given is as the checkpoint has it, and else as the comment says.
  std::optional<std::string> schedule;           // constant
  std::optional<uint64_t> warmup, scheduleSteps; // 0, `steps`
  std::optional<double> power, gamma;            // 1, 0.1
  std::optional<std::vector<uint64_t>> milestones;
  std::optional<uint64_t> shuffle; // in order
  std::optional<uint64_t> seed;    // 0
  std::string log, checkpoint, resume, tensorboard, trace;
  uint64_t every = 0, keep = 0, evaluateEvery = 0;
  bool stopOnNan = false, memory = false, json = false;
  std::string timeout;                ///< as Deadline::parse reads it; empty: its default
  std::vector<std::string> arguments; ///< the command line, to say how to go on
};

/// Of numbers without a sign: the parser would take -1, and what is too large, for the greatest.
CLI::Validator isWholeNumber();

/// Adds the subcommand; `run` is called when it was chosen and all of it was read.
void addTrainOptions(CLI::App &app, TrainOptions &options);
/// What parsing cannot see: which options need which others.
Status checkTrainOptions(TrainOptions &options);

/// Options that are given and that nothing would read, as they are typed: of another optimizer than that of a
/// plan whose step reads `stepValues`, or of another schedule.
std::vector<std::string> findUnread(const TrainOptions &options, const std::vector<std::string> &stepValues);

/// The command line `arguments`, as a shell reads it back, with --resume `from` in place of another, or
/// added.
std::string resumingLine(std::vector<std::string> arguments, const std::string &from);

/// What a run that goes on later needs of the options, and that those that were not given are taken from
/// there.
nlohmann::json optionsJson(const TrainOptions &options);
void takeOptions(const nlohmann::json &saved, TrainOptions &options);

} // namespace colossal::runtime

#endif // COLOSSAL_TOOLS_COLOSSAL_RUN_TRAINOPTIONS_H
