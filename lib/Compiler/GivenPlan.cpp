//===- GivenPlan.cpp - training plans that are given as files ---------------===//
#include "GivenPlan.h"

#include "colossal/Output/OutputFile.h"
#include "colossal/Planner/PlanReport.h"

#include <array>
#include <fstream>
#include <sstream>

using namespace mlir;

namespace colossal {

/// A file's text, of at most 64 MiB; none with a diagnostic.
static FailureOr<std::string> readText(MLIRContext *context, const std::string &path) {
  noteInput(path);
  std::ifstream file(path, std::ios::binary);
  constexpr std::streamoff kMost = 64 << 20;
  file.seekg(0, std::ios::end);
  if (!file || file.tellg() > kMost) {
    noteUnusableInput();
    return emitError(UnknownLoc::get(context))
           << "'" << path << "' cannot be read" << (file ? ": more than 64 MiB" : "");
  }
  file.seekg(0);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) {
    noteUnusableInput();
    return emitError(UnknownLoc::get(context)) << "'" << path << "' cannot be read";
  }
  return text.str();
}

FailureOr<GivenPlan> priceOne(MLIRContext *context, const PlanTrainingOptions &options,
                              const factors::FactorGraph &graph, const std::string &path) {
  Location loc = UnknownLoc::get(context);
  FailureOr<std::string> text = readText(context, path);
  if (failed(text))
    return failure();
  GivenPlan given{planner::parsePlan(*text, graph), {}, {}, "", "", ""};
  planner::PlanReadResult &read = given.read;
  if (!read.error.empty()) {
    InFlightDiagnostic diagnostic = emitError(loc) << path << ": " << read.error;
    diagnostic.attachNote()
        << "a training plan is JSON that --plan-only writes, {\"format\": "
           "\"colossal-training-plan\", \"version\": 1, \"devices\": 8, \"global_batch\": 64, "
           "\"mesh\": {\"data\": 8}, \"microbatch\": 8}; \"The plan's text\" in docs/Search.md has "
           "all keys";
    return diagnostic;
  }
  const PlanTrainingOptions::Asked &asked = options.asked;
  const planner::TrainingTask &task = read.plan.task;
  auto number = [](double value) { return std::to_string(static_cast<long long>(value)); };
  auto asText = [&](double value) { return value > 0 ? number(value) : std::string(); };
  const std::array<std::string, 4> pairs[] = {
      {"--devices", asText(asked.devices), "devices", number(task.devices)},
      {"--global-batch", asText(asked.globalBatch), "global_batch", number(task.globalBatch)},
      {"--machine", read.machine.empty() ? "" : asked.machine, "machine", read.machine},
      {"--training", asked.optimizer, "training", task.optimizer},
      {"--precision", asked.precision, "precision", task.precision},
      {"--attention", asked.attention, "attention", read.plan.fusedAttention ? "fused" : "unfused"}};
  for (const auto &[option, wanted, key, stated] : pairs)
    if (!wanted.empty() && wanted != stated)
      return emitError(loc) << option << ": is " << wanted << ", but " << key << " in " << path << " is "
                            << stated << ": change the plan, or leave " << option << " out";
  if (read.sequence > 0 && graph.sequence > 0 && read.sequence != graph.sequence)
    emitWarning(loc) << path << ": the plan was made for " << number(read.sequence)
                     << " tokens a sequence and is priced for " << number(graph.sequence)
                     << "; --dim binds the length";
  // The plan's machine is known when the plan was read, which is its door.
  cost::Machine machine = options.machine;
  if (!read.machine.empty()) {
    cost::MachineResult stated = cost::loadMachine(read.machine);
    if (!stated.error.empty())
      return emitError(loc) << path << ": machine: " << stated.error;
    machine = std::move(stated.machine);
  }
  if (read.plan.task.devices > machine.devices())
    return emitError(loc) << path << ": devices: machine '" << machine.name << "' has " << machine.devices();
  if (read.plan.task.memoryBytes <= 0)
    read.plan.task.memoryBytes = options.task.memoryBytes;
  read.plan.task.scoresInMemory = options.task.scoresInMemory;
  read.plan.task.copiedBytes = options.task.copiedBytes;
  read.plan.task.convolutionBytes = options.task.convolutionBytes;
  read.plan.task.addsInPlace = options.task.addsInPlace;
  cost::CostModel model(machine);
  planner::PlanPricer pricer(graph, model, read.plan.task);
  given.price = pricer.price(read.plan, true);
  if (!given.price.error.empty())
    return emitError(loc) << path << ": " << given.price.error;
  given.layouts = pricer.cell(read.plan).layouts;
  given.machine = machine.name;
  given.report = planner::printPrice(read.plan, given.price, pricer);
  if (read.predicted)
    given.report += "difference to the prediction that " + path + " holds:\n" +
                    planner::printDifference(*read.predicted, planner::PriceSummary(given.price));
  given.json = planner::printPriced(read, given.price, pricer,
                                    read.machine.empty() ? options.machineName : read.machine);
  return given;
}

} // namespace colossal
