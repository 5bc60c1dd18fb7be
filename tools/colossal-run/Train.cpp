// colossal-run train: steps, one after the other, with data, step values, checkpoints and a log.
#include "Commands.h"
#include "Launchers.h"
#include "Options.h"
#include "Report.h"
#include "TrainLog.h"

#include "colossal/Plan/OutputFile.h"
#include "colossal/Plan/Training.h"
#include "runtime/execute/Memory.h"
#include "runtime/training/Checkpoint.h"
#include "runtime/training/CheckpointFolder.h"
#include "runtime/training/Data.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <iostream>
#include <unistd.h>

namespace colossal::runtime {

namespace {

using nlohmann::json;

constexpr int lossIsNoNumber = 8; // exit code

/// The signal that asks for an end after the step; 0: none.
volatile std::sig_atomic_t endAsked = 0;

void onEnd(int signal) {
  // Asked twice, or before the first step, the process just ends.
  if (endAsked != 0)
    ::_exit(EndedBySignal + signal);
  endAsked = signal;
}

double scalarOf(const Tensors &outputs, const char *name) {
  const auto found = outputs.find(name);
  return found == outputs.end() || found->second.bytes.empty() ? NAN : toDoubles(found->second)[0];
}

/// The loss scale where a checkpoint's run was; of a run that scaled no loss, the one that runs begin with.
/// Checkpoints of earlier versions do not say whether it did: their scale is 1 then.
void takeLossScale(const json &notes, LossScale &scale) {
  scale.skipped = notes.at("skipped").get<uint64_t>();
  const auto saved = notes.at("loss_scale").get<double>();
  if (!notes.value("scales_loss", saved != 1))
    return;
  scale.scale = saved;
  scale.good = notes.at("good_steps").get<uint64_t>();
}

/// What the processes of a run agree on after a step.
struct Agreement {
  double loss = 0, gradientNorm = 0, counted = 0;
  int signal = 0;        ///< that one of them has got
  bool logFails = false; ///< of the steps before
};

/// A run of training, in one of its processes.
class Trainer {
public:
  explicit Trainer(TrainOptions &options) : options(options) {}

  /// Returns the exit code of a run that came to an end that it could choose.
  Status run(int &exitCode);
  /// After an error: what was saved before stays, and what is being written is finished.
  void giveUp();
  Session *opened() { return session.get(); }

private:
  Status open();
  Status resume();
  using Arrays = std::map<std::string, std::shared_ptr<DataArray>>; ///< by input
  Status openArrays(const std::string &option, const std::vector<std::string> &arguments,
                    const plan::Program &program, Arrays &arrays);
  Status openData();
  Status checkOutputs() const;
  Status trainStep();
  Status runProgram(int program, const DataSet &data, Agreement &agreed);
  Status agree(Agreement &agreed);
  Status evaluate(double &loss);
  /// `wanted`: the command line says that this run saves there.
  Status openCheckpoints(bool wanted);
  Status save();
  /// Tells of the step; a log that fails ends the run, but not before what was done is saved.
  void report();
  Status finish(int &exitCode);
  /// What of the run is saved when it ends before its last step, and how to go on.
  std::string describeRest() const;
  /// Whether the log cannot be written, as all processes know at the same step.
  bool endsForLog() const { return session->holdsAllRanks() ? !logged.ok() : logFails; }
  /// What is printed in the end: for people, and as JSON.
  std::string describeSummary(double predicted, const std::vector<RankMemory> &memory) const;
  std::string printSummary(double predicted, const std::vector<RankMemory> &memory) const;
  /// What --resume goes on from after this run.
  std::string resumedFrom() const;
  bool root() const { return session->root(); }

  TrainOptions &options;
  std::unique_ptr<Session> session;
  int stepProgram = -1, evaluateProgram = -1;
  DataSet data, evaluationData;
  std::vector<std::string> files; ///< that are read
  Hyperparameters parameters;
  Schedule schedule;
  LossScale scale;
  uint64_t step = 0, samples = 0, updates = 0; ///< done
  uint64_t firstStep = 0;                      ///< before this run
  StepReport last;
  std::vector<double> stepSeconds;
  bool warnedOfNan = false;
  std::unique_ptr<CheckpointWriter> checkpoints;
  uint64_t savedAt = 0;
  TrainLog log;
  Status logged;                    ///< why the log is not written any more
  bool logFails = false;            ///< agreed
  std::vector<RankTraffic> traffic; ///< of the last step, where --json tells of it
};

Status Trainer::open() {
  if (options.session.communicator.empty() || options.session.communicator == "local")
    warnOfCopies(options.session.communicator, options.plan);
  COLOSSAL_RETURN_IF_ERROR(Session::open(options.plan, options.session, session));
  const plan::Plan &plan = session->plan();
  if (!plan.has_training())
    return {Code::InvalidArgument,
            options.plan + " does not train: it was compiled without --training (colossal-compile MODEL "
                           "--training adamw --loss ... )"};
  COLOSSAL_RETURN_IF_ERROR(session->find(plan::stepProgram, stepProgram));
  if (root() && !session->warning().empty())
    std::cerr << "colossal-run: warning: " << session->warning() << '\n' << std::flush;
  const plan::Training &training = plan.training();
  for (const std::string &option :
       findUnread(options, {training.step_values().begin(), training.step_values().end()}))
    if (root())
      std::cerr << "colossal-run: warning: " + option + " has no effect: neither '" + training.optimizer() +
                       "', by which the plan trains, nor the learning rate's schedule takes it\n"
                << std::flush;
  return {};
}

Status Trainer::openArrays(const std::string &option, const std::vector<std::string> &arguments,
                           const plan::Program &program, Arrays &arrays) {
  for (const std::string &argument : arguments)
    if (Status status = runtime::openData(argument, program, session->plan().training(), arrays, files);
        !status.ok())
      return {status.code(), option + " " + argument + ": " + status.message()};
  return {};
}

Status Trainer::openData() {
  const auto of = [](const std::string &option, const Status &status) {
    return status.ok() ? Status() : Status(status.code(), option + ": " + status.message());
  };
  const plan::Plan &plan = session->plan();
  const plan::Program &program = plan.programs(stepProgram);
  Arrays arrays, others;
  COLOSSAL_RETURN_IF_ERROR(openArrays("--data", options.data, program, arrays));
  COLOSSAL_RETURN_IF_ERROR(of("--data", data.configure(program, plan.training(), arrays, options.shuffle)));
  if (options.evaluateData.empty())
    return {};
  COLOSSAL_RETURN_IF_ERROR(of("--evaluate-data", session->find(plan::evaluateProgram, evaluateProgram)));
  const plan::Program &evaluation = plan.programs(evaluateProgram);
  COLOSSAL_RETURN_IF_ERROR(openArrays("--evaluate-data", options.evaluateData, evaluation, others));
  // Masks and the like need not be said twice.
  for (const plan::Binding &input : evaluation.inputs())
    if (const auto same = arrays.find(input.name()); same != arrays.end() && same->second->isConstant())
      others.insert(*same);
  return of("--evaluate-data",
            evaluationData.configure(evaluation, plan.training(), std::move(others), std::nullopt));
}

Status Trainer::resume() {
  if (options.resume.empty())
    return {};
  std::unique_ptr<Checkpoint> checkpoint;
  COLOSSAL_RETURN_IF_ERROR(Checkpoint::open(options.resume, checkpoint));
  COLOSSAL_RETURN_IF_ERROR(checkpoint->compare(session->plan()));
  checkpoint->numberAs(session->plan());
  COLOSSAL_RETURN_IF_ERROR(putStates(*session, *checkpoint));
  step = firstStep = checkpoint->step();
  const json notes = json::parse(checkpoint->notes(), nullptr, false);
  if (!notes.is_object())
    return {Code::Io, "checkpoint " + checkpoint->path() +
                          " does not say where its run was: its manifest.json is damaged"};
  try {
    samples = notes.at("samples").get<uint64_t>();
    updates = notes.at("updates").get<uint64_t>();
    takeLossScale(notes, scale);
    takeOptions(notes.at("options"), options);
  } catch (const json::exception &) {
    return {Code::Io, "checkpoint " + checkpoint->path() +
                          " does not say all of where its run was: its manifest.json is damaged"};
  }
  if (const std::string option = session->otherWeights(); root() && !option.empty())
    std::cerr << "colossal-run: warning: " + option +
                     " has no effect on what is trained: --resume takes that from the checkpoint\n"
              << std::flush;
  if (root() && checkpoint->loss() != session->plan().training().loss())
    std::cerr << "colossal-run: warning: the checkpoint is of training with --loss " + checkpoint->loss() +
                     ", and the plan's is " + session->plan().training().loss() + "\n"
              << std::flush;
  if (step >= options.steps)
    return {Code::InvalidArgument, "checkpoint " + checkpoint->path() + " is of step " +
                                       std::to_string(step) + ": there is nothing to do up to --steps " +
                                       std::to_string(options.steps)};
  if (root())
    std::printf("going on after step %llu from %s\n", static_cast<unsigned long long>(step),
                checkpoint->path().c_str());
  return {};
}

Status Trainer::checkOutputs() const {
  std::vector<std::string> read = files;
  for (const std::string &file : session->files())
    read.push_back(file);
  for (const std::string &path : {options.log, options.trace})
    if (!path.empty())
      COLOSSAL_RETURN_IF_ERROR(plan::checkOutput(path, read));
  return {};
}

Status Trainer::run(int &exitCode) {
  COLOSSAL_RETURN_IF_ERROR(open());
  // Before it reads the options that a checkpoint keeps.
  COLOSSAL_RETURN_IF_ERROR(resume());
  if (!options.scheduleSteps)
    options.scheduleSteps = options.steps;
  schedule.kind = options.schedule.value_or(schedule.kind);
  schedule.warmup = options.warmup.value_or(0);
  schedule.steps = *options.scheduleSteps;
  schedule.power = options.power.value_or(schedule.power);
  schedule.gamma = options.gamma.value_or(schedule.gamma);
  schedule.milestones = options.milestones.value_or(schedule.milestones);
  parameters = options.parameters;
  const plan::Training &training = session->plan().training();
  COLOSSAL_RETURN_IF_ERROR(completeHyperparameters(training.optimizer(), parameters));
  if (!training.skips_overflow())
    scale.scale = 1;
  COLOSSAL_RETURN_IF_ERROR(openData());
  if (root())
    COLOSSAL_RETURN_IF_ERROR(checkOutputs());
  if (options.checkpoint.empty() && options.every > 0)
    options.checkpoint = runFolder(options.resume);
  if (!options.checkpoint.empty())
    COLOSSAL_RETURN_IF_ERROR(openCheckpoints(/*wanted=*/true));
  if (root())
    COLOSSAL_RETURN_IF_ERROR(log.open(options.log, options.tensorboard, firstStep));
  std::signal(SIGINT, onEnd);
  std::signal(SIGTERM, onEnd);
  int signal = 0;
  while (step < options.steps && signal == 0 && !endsForLog()) {
    const uint64_t number = step + 1;
    Status status = trainStep();
    if (!status.ok())
      return Status(status.code(), "step " + std::to_string(number) + ": " + status.message())
          .withRank(status.rank())
          .withInstruction(status.instruction());
    signal = endAsked;
    if (options.stopOnNan && !std::isfinite(last.loss)) {
      exitCode = lossIsNoNumber;
      break;
    }
    const bool endsEarly = signal != 0 || endsForLog(), isLast = step == options.steps || endsEarly;
    // What was done since would be lost, and nobody has chosen that.
    if (endsEarly && !checkpoints && !options.resume.empty()) {
      options.checkpoint = runFolder(options.resume);
      COLOSSAL_RETURN_IF_ERROR(openCheckpoints(/*wanted=*/false));
    }
    if (checkpoints && (isLast || (options.every > 0 && step % options.every == 0)))
      COLOSSAL_RETURN_IF_ERROR(save());
    if (checkpoints)
      COLOSSAL_RETURN_IF_ERROR(checkpoints->look());
  }
  if (signal != 0)
    exitCode = EndedBySignal + signal;
  return finish(exitCode);
}

Status Trainer::agree(Agreement &agreed) {
  agreed.signal = endAsked;
  agreed.logFails = !logged.ok();
  if (session->holdsAllRanks())
    return {};
  return session->onEachRank([&](Rank &rank) -> Status {
    std::vector<std::string> all;
    std::string text(reinterpret_cast<const char *>(&agreed), sizeof agreed);
    COLOSSAL_RETURN_IF_ERROR(rank.control().gather(text, all));
    for (const std::string &other : all) {
      Agreement read;
      std::memcpy(&read, other.data(), sizeof read);
      agreed.signal = std::max(agreed.signal, read.signal);
      agreed.logFails |= read.logFails;
    }
    text.assign(reinterpret_cast<const char *>(&agreed), sizeof agreed);
    COLOSSAL_RETURN_IF_ERROR(rank.control().broadcast(text));
    std::memcpy(&agreed, text.data(), sizeof agreed);
    endAsked = agreed.signal;
    logFails = agreed.logFails;
    return {};
  });
}

Status Trainer::runProgram(int program, const DataSet &set, Agreement &agreed) {
  Tensors inputs;
  const plan::Training &training = session->plan().training();
  if (program == stepProgram) {
    StepState at;
    at.step = step + 1, at.update = updates + 1, at.lossScale = scale.scale;
    at.lr = last.lr = schedule.rate(*parameters.lr, at.step);
    at.seed = options.seed.value_or(0);
    std::vector<double> values;
    COLOSSAL_RETURN_IF_ERROR(
        stepValues({training.step_values().begin(), training.step_values().end()}, parameters, at, values));
    Tensor &tensor = inputs[plan::stepValuesInput];
    for (const plan::Binding &input : session->plan().programs(program).inputs())
      if (input.name() == plan::stepValuesInput)
        tensor.type = input.type();
    tensor.shape = {values.size()};
    const bool wide = tensor.type == plan::F64;
    tensor.bytes.resize(values.size() * (wide ? 8 : 4));
    for (size_t v = 0; v < values.size(); ++v) {
      const auto narrow = static_cast<float>(values[v]);
      std::memcpy(tensor.bytes.data() + v * (wide ? 8 : 4),
                  wide ? static_cast<const void *>(&values[v]) : &narrow, wide ? 8 : 4);
    }
  }
  COLOSSAL_RETURN_IF_ERROR(session->accept(program, inputs, set.inputs()));
  COLOSSAL_RETURN_IF_ERROR(session->run(program, inputs, &last.seconds, 1, set.inputs()));
  Tensors outputs;
  COLOSSAL_RETURN_IF_ERROR(
      session->outputs(program, outputs, {plan::lossOutput, plan::gradientNormOutput, plan::countedOutput}));
  if (root()) {
    agreed.loss = scalarOf(outputs, plan::lossOutput);
    agreed.gradientNorm = scalarOf(outputs, plan::gradientNormOutput);
    agreed.counted = outputs.count(plan::countedOutput) ? scalarOf(outputs, plan::countedOutput) : 1;
  }
  return agree(agreed);
}

Status Trainer::trainStep() {
  const plan::Training &training = session->plan().training();
  last.evaluationLoss.reset();
  last.lossScale = scale.scale;
  data.setFirst(samples);
  Agreement agreed;
  COLOSSAL_RETURN_IF_ERROR(runProgram(stepProgram, data, agreed));
  ++step;
  if (options.json && step == options.steps) // an evaluation after it would be the last run
    COLOSSAL_RETURN_IF_ERROR(session->traffic(stepProgram, traffic));
  samples += training.global_batch();
  const double seconds = last.seconds;
  stepSeconds.push_back(seconds);
  last.loss = agreed.loss, last.gradientNorm = agreed.gradientNorm;
  const bool overflowed = training.skips_overflow() && !std::isfinite(agreed.gradientNorm);
  if (training.skips_overflow())
    scale.step(overflowed);
  if (!overflowed)
    ++updates;
  if (evaluateProgram >= 0 &&
      (step == options.steps || (options.evaluateEvery > 0 && step % options.evaluateEvery == 0))) {
    double loss = 0;
    COLOSSAL_RETURN_IF_ERROR(evaluate(loss));
    last.evaluationLoss = loss;
  }
  last.seconds = seconds;
  if (root())
    report();
  return {};
}

Status Trainer::evaluate(double &loss) {
  const uint64_t batch = session->plan().training().global_batch();
  const uint64_t batches = std::max<uint64_t>(1, evaluationData.samples() / batch);
  double sum = 0, counted = 0;
  for (uint64_t b = 0; b < batches; ++b) {
    evaluationData.setFirst(b * batch);
    Agreement agreed;
    COLOSSAL_RETURN_IF_ERROR(runProgram(evaluateProgram, evaluationData, agreed));
    if (agreed.counted > 0) // else its loss is no number
      sum += agreed.loss * agreed.counted;
    counted += agreed.counted;
  }
  loss = sum / counted;
  return {};
}

void Trainer::report() {
  const plan::Training &training = session->plan().training();
  last.step = step, last.steps = options.steps;
  last.samples = samples;
  last.skipped = scale.skipped;
  last.samplesPerSecond = static_cast<double>(training.global_batch()) / last.seconds;
  last.tokens = data.tokensInSample() > 1;
  last.tokensPerSecond = last.samplesPerSecond * static_cast<double>(data.tokensInSample());
  last.shareOfPeak = training.peak_flops() > 0 ? training.flops() / training.peak_flops() / last.seconds : 0;
  last.memory = processMemory().anonymous;
  const size_t recent = std::min<size_t>(20, stepSeconds.size());
  double sum = 0;
  for (size_t i = stepSeconds.size() - recent; i < stepSeconds.size(); ++i)
    sum += stepSeconds[i];
  last.secondsLeft = sum / static_cast<double>(recent) * static_cast<double>(options.steps - step);
  if (!options.json)
    std::cout << stepLine(last) + "\n" << std::flush;
  if (!std::isfinite(last.loss) && !warnedOfNan) {
    warnedOfNan = true;
    std::cerr << "colossal-run: " + std::string(options.stopOnNan ? "" : "warning: ") + "the loss is " +
                     (std::isnan(last.loss) ? "not a number (NaN)" : "infinite") + " in step " +
                     std::to_string(step) + (options.stopOnNan ? "" : "; --stop-on-nan ends the run there") +
                     "\n"
              << std::flush;
  }
  if (!logged.ok())
    return;
  logged = log.add(last);
  if (!logged.ok()) // at once: what is saved next may have no room, either
    std::cerr << "colossal-run: step " + std::to_string(step) + ": " + logged.message() +
                     "; the run is ended\n"
              << std::flush;
}

Status Trainer::openCheckpoints(bool wanted) {
  checkpoints = std::make_unique<CheckpointWriter>(*session, options.checkpoint, options.keep);
  COLOSSAL_RETURN_IF_ERROR(checkpoints->prepare());
  if (!wanted) // so that nobody has been warned
    return {};
  uint64_t newest = 0;
  COLOSSAL_RETURN_IF_ERROR(checkpoints->replaceLater(firstStep, newest));
  if (newest > 0)
    std::cerr << "colossal-run: warning: " + options.checkpoint + " holds step " + std::to_string(newest) +
                     " of an earlier run, and this run begins with step " + std::to_string(firstStep + 1) +
                     ": when it has saved its first checkpoint, later ones of the earlier run are removed. " +
                     "--resume " + options.checkpoint + " goes on with the earlier run, and another " +
                     "--checkpoint keeps it\n"
              << std::flush;
  return {};
}

Status Trainer::save() {
  json notes = {{"samples", samples},
                {"updates", updates},
                {"scales_loss", session->plan().training().skips_overflow()},
                {"loss_scale", scale.scale},
                {"good_steps", scale.good},
                {"skipped", scale.skipped},
                {"options", optionsJson(options)}};
  COLOSSAL_RETURN_IF_ERROR(checkpoints->save(step, notes.dump()));
  savedAt = step;
  return {};
}

std::string Trainer::describeSummary(double predicted, const std::vector<RankMemory> &memory) const {
  char line[256];
  std::snprintf(line, sizeof line, "%zu steps, median %.4g ms", stepSeconds.size(),
                1e3 * stepSeconds[stepSeconds.size() / 2]);
  std::string text = line;
  if (predicted > 0) {
    std::snprintf(line, sizeof line, " (predicted %.4g ms)", 1e3 * predicted);
    text += line;
  }
  if (savedAt == step && checkpoints)
    text += "; saved in " + options.checkpoint;
  text += "\n";
  for (const RankMemory &rank : memory)
    for (const RankMemory::Row &row : rank.rows)
      text += "rank " + std::to_string(rank.rank) + ": " + row.kind + ": planned " +
              std::to_string(row.planned) + ", measured " + std::to_string(row.measured) + " bytes\n";
  return text;
}

std::string Trainer::printSummary(double predicted, const std::vector<RankMemory> &memory) const {
  const auto number = [](double value) { return std::isfinite(value) ? json(value) : json(); };
  json sent = json::array(), held = json::array();
  for (const RankTraffic &row : traffic) {
    sent.push_back({{"rank", row.rank},
                    {"axes", row.axes},
                    {"kind", row.kind},
                    {"sent_bytes", row.sent},
                    {"planned_bytes", row.planned}});
    if (row.stage >= 0)
      sent.back()["stage"] = row.stage;
  }
  for (const RankMemory &rank : memory)
    for (const RankMemory::Row &row : rank.rows)
      held.push_back({{"rank", rank.rank},
                      {"kind", row.kind},
                      {"planned_bytes", row.planned},
                      {"measured_bytes", row.measured}});
  const json summary = {{"ranks", session->ranks()},
                        {"threads", session->threads()},
                        {"first_step", firstStep + 1},
                        {"last_step", step},
                        {"samples", samples},
                        {"loss", number(last.loss)},
                        {"grad_norm", number(last.gradientNorm)},
                        {"evaluation_loss", last.evaluationLoss ? number(*last.evaluationLoss) : json()},
                        {"min_s", stepSeconds.front()},
                        {"median_s", stepSeconds[stepSeconds.size() / 2]},
                        {"predicted_s", predicted > 0 ? json(predicted) : json()},
                        {"traffic", sent},
                        {"memory", held}};
  return summary.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

Status Trainer::finish(int &exitCode) {
  if (checkpoints)
    COLOSSAL_RETURN_IF_ERROR(checkpoints->finish());
  if (!options.trace.empty()) {
    Timeline timeline;
    COLOSSAL_RETURN_IF_ERROR(session->timeline(timeline));
    if (root())
      COLOSSAL_RETURN_IF_ERROR(plan::writeFile(options.trace, timeline.events()));
  }
  std::vector<RankMemory> memory;
  if (options.memory || options.json)
    COLOSSAL_RETURN_IF_ERROR(session->memory(memory));
  if (!root())
    return {};
  std::sort(stepSeconds.begin(), stepSeconds.end());
  const double predicted = session->plan().programs(stepProgram).predicted_seconds();
  std::cout << (options.json ? printSummary(predicted, memory) : describeSummary(predicted, memory));
  if (!logged.ok())
    return {logged.code(),
            "ended after step " + std::to_string(step) + ", as its log cannot be written" + describeRest()};
  if (exitCode > EndedBySignal)
    std::cerr << "colossal-run: interrupted after step " + std::to_string(step) + describeRest() + "\n"
              << std::flush;
  return plan::finishStandardOutput();
}

std::string Trainer::describeRest() const {
  if (savedAt != step)
    return checkpoints ? "" : "; nothing is saved, as there was no --checkpoint FOLDER";
  if (step == options.steps)
    return ", the last; saved";
  return "; saved. Go on with\n  " + resumingLine(options.arguments, resumedFrom());
}

std::string Trainer::resumedFrom() const {
  std::map<uint64_t, std::string> found;
  const bool isNewest =
      !listCheckpoints(options.checkpoint, found).ok() || found.empty() || found.rbegin()->first == savedAt;
  return isNewest ? options.checkpoint : options.checkpoint + "/" + checkpointName(savedAt);
}

void Trainer::giveUp() {
  std::cout << std::flush;
  checkpoints.reset();
}

} // namespace

int train(TrainOptions &options) {
  Trainer trainer(options);
  int exitCode = Success;
  Status status;
  try {
    status = trainer.run(exitCode);
  } catch (const std::bad_alloc &) {
    status = {Code::OutOfMemory, "out of memory"};
  } catch (const std::exception &error) {
    status = {Code::Internal, error.what()};
  }
  if (status.ok())
    return exitCode;
  // One write, so that the lines of several processes do not mix.
  std::cerr << "colossal-run: " + status.describe() + "\n" << std::flush;
  exitCode = colossal_exit_code(static_cast<colossal_status>(status.code()));
  trainer.giveUp();
  if (trainer.opened())
    trainer.opened()->terminateOthers(exitCode);
  ::_exit(exitCode);
}

} // namespace colossal::runtime
