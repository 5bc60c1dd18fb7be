// colossal-cost predict: a table of configurations in, the same table with predictions out.
// Configuration.h reads the rows, Training.h answers, Evidence.h says how far the answers can be trusted.
#include "Subcommands.h"

#include "colossal/Cost/Configuration.h"
#include "colossal/Cost/Evidence.h"
#include "colossal/Output/OutputFile.h"

#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <sstream>

namespace colossal::tool {

using namespace colossal::cost;

namespace {

struct Options {
  std::string table, machine = "a100-80-sxm", output;
  bool memory = false, quiet = false;
};

std::string print(double value) {
  std::ostringstream out;
  out.precision(9);
  out << value;
  return out.str();
}

/// The ready machine for a kind of device that a row names.
std::string machineFor(const std::string &device) {
  static const std::map<std::string, std::string> machines = {
      {"a100", "a100-80-sxm"}, {"h100", "h100"}, {"h200", "h200"}, {"v100", "v100-dgx1"}};
  auto found = machines.find(device);
  return found == machines.end() ? "" : found->second;
}

class Predictor {
public:
  explicit Predictor(const Options &options) : options(options) {}

  int run() {
    TableResult read = readTable(options.table);
    if (!read.error.empty())
      return fail(failureExitCode(BadInput), read.error);
    Table &table = read.table;
    for (const char *column : {"predicted_ms", "predicted_gib"})
      if (table.column(column) >= 0)
        return fail(BadInput, options.table + ": there is a column '" + column + "' already");
    ConfigurationReader reader(table);
    if (!reader.error().empty())
      return fail(BadInput, options.table + ": " + reader.error());
    if (const CostModel *model = machine(options.machine); !model)
      return machineExitCode(options.machine);
    if (OutputError error = checkOutput(options.output))
      return fail(error.exitCode(), error.message);
    memory = options.memory || reader.asksForMemory();
    answers.resize(table.rows.size());
    for (std::size_t i = 0; i < table.rows.size(); ++i)
      if (std::string error = answer(reader.read(i), answers[i]); !error.empty())
        return fail(BadInput, options.table + ": " + located(error, table.lines[i]));
    for (const auto &column : order)
      append(table, column);
    if (OutputError error = writeOutput(options.output, printTable(table)))
      return fail(error.exitCode(), error.message);
    report(reader);
    return Success;
  }

private:
  int fail(int code, const std::string &what) {
    std::fprintf(stderr, "colossal-cost: %s\n", what.c_str());
    return code;
  }

  /// Errors of the reader name their line already.
  static std::string located(const std::string &error, int line) {
    return error.compare(0, 5, "line ") == 0 ? error : "line " + std::to_string(line) + ": " + error;
  }

  const CostModel *machine(const std::string &name) {
    auto found = machines.find(name);
    if (found != machines.end())
      return &found->second;
    MachineResult result = loadMachine(name);
    if (!result.error.empty()) {
      fail(machineExitCode(name), result.error);
      return nullptr;
    }
    return &machines.emplace(name, CostModel(result.machine)).first->second;
  }

  /// The table's machine, unless the row names another kind of device.
  const CostModel *machineOf(const Configuration &row) {
    const CostModel *model = machine(options.machine);
    if (row.device.empty() || model->machine().name.compare(0, row.device.size(), row.device) == 0)
      return model;
    std::string other = machineFor(row.device);
    if (other.empty())
      return nullptr;
    notes["gpu"] = "rows of another device than " + options.machine + "'s use the ready description " + other;
    return machine(other);
  }

  void set(std::map<std::string, std::string> &answer, const char *column, const std::string &value) {
    if (std::find(order.begin(), order.end(), column) == order.end())
      order.push_back(column);
    answer[column] = value;
  }

  std::string answer(const Configuration &row, std::map<std::string, std::string> &out) {
    if (!row.error.empty())
      return row.error;
    set(out, "predicted_ms", "");
    const CostModel *model = machineOf(row);
    if (!model)
      return "column 'gpu': no ready machine has a '" + row.device + "'";
    switch (row.question) {
    case Question::Nothing:
      if (!row.note.empty())
        notes[row.note] = "rows without a prediction: " + row.note;
      return "";
    case Question::AllReduce:
      set(out, "predicted_ms",
          print(1e3 * model->seconds(Collective::AllReduce, row.bytes, Group{row.devices, 1, row.devices})));
      break;
    case Question::Layer: {
      LayerSeconds layer = predictLayer(*model, row.model, row.layout);
      set(out, "predicted_ms", print(1e3 * (layer.forward + layer.backward + layer.weightGradient)));
      set(out, "predicted_fwd_ms", print(1e3 * layer.forward));
      set(out, "predicted_bwd_ms", print(1e3 * (layer.backward + layer.weightGradient)));
      break;
    }
    case Question::StageMemory: {
      stageMemory(row, out);
      break;
    }
    case Question::Step:
      if (std::string error = step(row, *model, row.layout,
                                   row.network ? predictStep(*model, *row.network, row.layout)
                                               : predictStep(*model, row.model, row.layout),
                                   out);
          !error.empty())
        return error;
      break;
    case Question::BestStep: {
      PlanResult plan = row.network
                            ? bestUniformPlan(*model, *row.network, row.layout, row.devices, row.choices)
                            : bestUniformPlan(*model, row.model, row.layout, row.devices, row.choices);
      if (!plan.error.empty()) {
        notes[plan.error] = "rows without a prediction: " + plan.error;
        return "";
      }
      if (std::string error = step(row, *model, plan.layout, plan.step, out); !error.empty())
        return error;
      const TrainingLayout &best = plan.layout;
      set(out, "predicted_plan",
          "tp " + std::to_string(best.tensor) + ", dp " + std::to_string(best.data) + ", pp " +
              std::to_string(best.pipeline) + ", micro_batch " + print(best.microBatch) +
              (plan.fits ? "" : ", does not fit"));
      break;
    }
    }
    set(out, "predicted_error",
        describe(evidenceFor(row, model->machine()), row, model->machine(),
                 memory && row.question != Question::StageMemory));
    return "";
  }

  std::string step(const Configuration &row, const CostModel &model, const TrainingLayout &layout,
                   const StepPrediction &step, std::map<std::string, std::string> &out) {
    if (!step.error.empty())
      return step.error;
    double gib = 1073741824.0;
    set(out, "predicted_ms", print(1e3 * step.seconds));
    if (memory) {
      double needed = step.peakBytes + model.machine().fitted["reserved_bytes"];
      set(out, "predicted_gib", print(step.peakBytes / gib));
      set(out, "predicted_fit",
          needed <= static_cast<double>(model.machine().device.memoryBytes) ? "yes" : "no");
    }
    if (layout.pipeline > 1)
      set(out, "predicted_bubble", print(step.bubble));
    // As published: of transformers with the recomputed pass, of convolutional networks without.
    double recomputed = layout.recompute == Recompute::Full ? 4.0 / 3 : 1;
    double flops = row.network ? row.network->flopsPerStep(layout.globalBatch)
                               : row.model.flopsPerStep(layout.globalBatch) * recomputed;
    set(out, "predicted_tflops_per_gpu", print(flops / step.seconds / row.devices / 1e12));
    return "";
  }

  void stageMemory(const Configuration &row, std::map<std::string, std::string> &out) {
    double gib = 1073741824.0;
    TrainingLayout layout = row.layout;
    auto activations = [&](Recompute recompute, bool sequenceParallel) {
      layout.recompute = recompute;
      layout.sequenceParallel = sequenceParallel;
      return firstStageActivationBytes(row.model, layout);
    };
    double none = activations(Recompute::None, false);
    double unit = row.percent ? none / 100 : gib;
    double state = firstStageStateBytes(row.model, row.layout);
    set(out, "predicted_gib", print((state + none) / gib));
    set(out, "predicted_params_and_optimizer", row.percent ? "" : print(state / gib));
    set(out, "predicted_act_none", print(none / unit));
    set(out, "predicted_act_seqpar", print(activations(Recompute::None, true) / unit));
    set(out, "predicted_act_selective", print(activations(Recompute::Selective, false) / unit));
    set(out, "predicted_act_seq_and_selective", print(activations(Recompute::Selective, true) / unit));
    set(out, "predicted_act_full_recompute", print(activations(Recompute::Full, false) / unit));
  }

  void append(Table &table, const std::string &column) {
    table.columns.push_back(column);
    for (std::size_t i = 0; i < table.rows.size(); ++i)
      table.rows[i].push_back(answers[i].count(column) ? answers[i][column] : "");
  }

  void report(const ConfigurationReader &reader) {
    if (options.quiet)
      return;
    // Where the table goes to standard output, it goes alone.
    std::FILE *out = isStandardOutput(options.output) ? stderr : stdout;
    std::fprintf(out, "%s: %zu rows, machine %s\n", options.table.c_str(), answers.size(),
                 machine(options.machine)->machine().name.c_str());
    if (!reader.describesAnything())
      std::fprintf(out, "no column describes a model and a layout: nothing is predicted\n");
    for (const auto &[column, value] : reader.defaults())
      std::fprintf(out, "default: %s = %s\n", column.c_str(), value.c_str());
    for (const auto &[topic, note] : notes)
      std::fprintf(out, "note: %s\n", note.c_str());
    std::map<std::string, int> errors;
    for (auto &answer : answers)
      if (answer.count("predicted_error"))
        ++errors[answer["predicted_error"]];
    for (const auto &[text, rows] : errors)
      std::fprintf(out, "error of %d rows: %s\n", rows, text.c_str());
  }

  const Options &options;
  bool memory = false;
  std::map<std::string, CostModel> machines;
  std::vector<std::map<std::string, std::string>> answers;
  std::vector<std::string> order;
  std::map<std::string, std::string> notes;
};

} // namespace

void addPredict(CLI::App &app, Action &action) {
  CLI::App *command =
      app.add_subcommand("predict", "Predict time and memory for every row of a table of models and layouts");
  auto options = std::make_shared<Options>();
  command->add_option("--table", options->table, "comma-separated values; columns are known by name")
      ->required();
  command->add_option("--machine", options->machine,
                      "a ready description by name or by a beginning that no other has, or a file (default "
                      "a100-80-sxm)");
  command
      ->add_option("-o,--output", options->output,
                   "the table with predicted_ms and more; - is standard output")
      ->required();
  command->add_flag("--memory", options->memory, "predict memory too, though no column asks for it");
  command->add_flag("-q,--quiet", options->quiet, "print neither defaults nor errors");
  std::string columns = "Columns:\n";
  for (const ColumnInfo &info : knownColumns())
    if (!info.measured)
      columns += "  " + std::string(info.name) + std::string(22 - std::string(info.name).size(), ' ') +
                 info.meaning + "\n";
  command->footer(
      columns +
      "Measured columns of published tables are carried through. A missing column is defaulted, and the "
      "default printed.");
  command->callback([options, &action] { action.run = [options] { return Predictor(*options).run(); }; });
}

} // namespace colossal::tool
