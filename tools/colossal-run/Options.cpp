// The options, their help, and the files that --input names.
#include "Options.h"

#include "colossal/Plan/Container.h"
#include "colossal/Plan/OutputFile.h"
#include "runtime/execute/Deadline.h"
#include "runtime/io/Npy.h"
#include "runtime/io/TensorProto.h"
#include "tools/manual/CommandLine.h"

#include <CLI/CLI.hpp>

#include <iostream>
#include <unistd.h>

namespace colossal::runtime {

namespace {

constexpr const char *introduction = "Runs a plan that colossal-compile made: loads each rank's shards, "
                                     "gives them the inputs, runs the program whose\n"
                                     "input shapes match, and collects the outputs.\n\n"
                                     "A plan holds machine code, so whoever runs a plan runs a program: it "
                                     "is refused if others may write to it.";

constexpr const char *closing =
    "Examples:\n"
    "  colossal-run gpt2.cplan --print-inputs\n"
    "  colossal-run gpt2.cplan --input inputs.npz --output outputs.npz\n"
    "  colossal-run gpt2.cplan --input inputs.npz --expect outputs.npz --rtol 1e-4\n"
    "  colossal-run gpt2.cplan --random-inputs 1 --random-weights 1 --benchmark 50 --json\n"
    "  mpirun -n 4 colossal-run gpt2.cplan --comm mpi --input inputs.npz --output outputs.npz\n"
    "  colossal-run train step.cplan --data input_ids=tokens.npy --steps 100 --lr 1e-3 --checkpoint ckpt\n"
    "  colossal-run export ckpt --onnx trained.onnx\n\n"
    "Exit codes:\n"
    "  0    success                        5    not supported here (version, CPU, library)\n"
    "  1    outputs differ from --expect   6    a rank failed, or memory ran out\n"
    "  2    wrong options or inputs        7    no progress within --timeout\n"
    "  3    a file cannot be used          130  interrupted (Ctrl-C)\n"
    "  4    the plan is refused            143  terminated (SIGTERM)";

bool endsWith(const std::string &text, const std::string &end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

CLI::Validator isFileName() {
  return CLI::Validator(
      [](const std::string &text) {
        return text.empty()  ? "must not be empty"
               : text == "-" ? "standard output has the results as text; give a file's name (./- is a file "
                               "of that name)"
                             : std::string();
      },
      "");
}

/// Of numbers without a sign, the parser would take -1 for the greatest.
CLI::Validator isNotNegative() {
  return CLI::Validator(
      [](const std::string &text) { return text[0] == '-' ? "must not be negative" : std::string(); }, "");
}

CLI::Validator isDeadline() {
  return CLI::Validator(
      [](const std::string &text) {
        Deadline deadline;
        return Deadline::parse(text, deadline).message();
      },
      "");
}

/// What is filled with numbers, where its option is given.
struct Seeds {
  uint64_t weights = 0, inputs = 0;
};

/// The plan, what it is given and what it is compared with.
void addDataOptions(CLI::App &app, Options &options, Seeds &seeds) {
  // That it is needed is seen after parsing: one that is required would take a command's name.
  app.add_option("PLAN", options.plan, "The plan file");
  app.add_option("--comm", options.communicator,
                 "How ranks talk: local (threads of this process), mpi (one process a rank, under mpirun or "
                 "srun), or nccl\n"
                 "(one process a rank, each with a GPU, under torchrun, mpirun or srun). Default: nccl for a "
                 "plan for GPUs\n"
                 "in one of several processes, else local")
      ->check(CLI::IsMember({"local", "mpi", "nccl"}));
  app.add_option(
         "--input", options.inputs,
         "Inputs: FILE.npz (all arrays of it), NAME=FILE.npy, or NAME=FILE.pb (TensorProto); repeatable")
      ->allow_extra_args(false);
  app.add_option("--output", options.output, "Write the outputs to this .npz file")->check(isFileName());
  app.add_option(
      "--expect", options.expect,
      "Compare the outputs with the arrays of this .npz file and print the worst error of each. An output\n"
      "passes if |got - want| <= atol + rtol * max|want| everywhere, the maximum being over the tensor");
  app.add_option("--rtol", options.rtol, "Relative tolerance for --expect")
      ->check(isNotNegative())
      ->capture_default_str();
  app.add_option("--atol", options.atol, "Absolute tolerance for --expect")
      ->check(isNotNegative())
      ->capture_default_str();
  app.add_option("--weights", options.weights,
                 "Where the weight files lie now: their folder, or the file itself if it is the only one; or "
                 "a .safetensors "
                 "file\n"
                 "of other values, under the names of the model's file");
  app.add_option("--random-weights", seeds.weights,
                 "Fill weights from this seed instead of files; equal on any mesh")
      ->check(isWholeNumber());
  app.add_option("--random-inputs", seeds.inputs,
                 "Fill the inputs that are not given from this seed (integers are 0 or 1)")
      ->check(isWholeNumber());
}

/// How it is run, and what is told of that.
void addRunOptions(CLI::App &app, Options &options) {
  app.add_option("--program", options.program,
                 "The program to run, where inputs are random and several would do");
  app.add_option("--threads", options.session.threads,
                 "Threads of each rank (default: this machine's cores / its ranks)")
      ->check(CLI::Range(1u, 1024u));
  app.add_option(
         "--benchmark", options.benchmark,
         "Run this many times after a warm-up; print percentiles, throughput and the dearest operators")
      ->check(CLI::Range(1u, 100000000u));
  app.add_option("--objective", options.objective,
                 "What --benchmark measures: latency, one run after the other, or throughput, where a rank "
                 "begins with\n"
                 "the next run when it has ended one (default: what the plan was compiled for)")
      ->check(CLI::IsMember({"latency", "throughput"}));
  app.add_option("--warm-up", options.warmUps,
                 "Runs before those that count (default with --benchmark: 1 to 5, by its number; else 0)")
      ->check(CLI::Range(0u, 100000000u));
  app.add_option(
         "--timeout", options.timeout,
         "Time without progress after which all ranks are ended: SECONDS; FACTORx, so many times what the\n"
         "plan predicts of an instruction, or of the program where a rank waits for others; "
         "FACTORx,SECONDS,\n"
         "the same and no less than that (else 120); or never. In a program's first run, and where\n"
         "nothing is predicted, five times as long (default: 100x; on emulated devices 600)")
      ->check(isDeadline());
  app.add_option("--trace", options.trace,
                 "Write when each instruction of each run ran, as JSON for ui.perfetto.dev")
      ->check(isFileName());
  app.add_flag("--memory", options.memory, "Print planned and measured memory of each rank by kind");
  app.add_flag("--eager", options.session.eager,
               "Enqueue each instruction in every run, also where a device could replay a recording");
  app.add_flag(
      "--ordered", options.session.ordered,
      "Add up among ranks in their order, with the bits of --comm local, where NCCL has an order of its own");
  app.add_flag("--devices", options.devices,
               "Print which devices this host has, versions, and what is missing, and end; takes no plan");
  app.add_flag("--dump-plan", options.dumpPlan, "Print the plan as text and end; nothing is loaded");
  app.add_flag("--print-inputs", options.printInputs, "Print the inputs and outputs of each program and end");
  app.add_flag(
      "--json", options.json,
      "Print the results, or what --dump-plan, --print-inputs or --devices tells, as one JSON object");
}

void addCommands(CLI::App &app, CommandLine &commandLine) {
  struct Entry {
    CommandLine::Command command;
    const char *name, *text;
  };
  for (const Entry &entry :
       {Entry{CommandLine::Train, "train",
              "Trains: runs the steps of a plan that was compiled with --training"},
        Entry{CommandLine::Export, "export", "Writes the parameters of a checkpoint into a model"}}) {
    CLI::App &command = *app.add_subcommand(entry.name, entry.text);
    if (entry.command == CommandLine::Train)
      addTrainOptions(command, commandLine.train);
    else
      addExportOptions(command, commandLine.exports);
    command.callback([&commandLine, entry] { commandLine.command = entry.command; });
  }
  app.require_subcommand(0, 1);
}

} // namespace

bool parseOptions(int argc, char **argv, CommandLine &commandLine, int &exitCode) {
  Options &options = commandLine.run;
  CLI::App app(introduction, "colossal-run");
  app.footer(closing);
  app.set_version_flag("--version", std::string("colossal-run ") + COLOSSAL_VERSION +
                                        ", reads plans up to version " + std::to_string(plan::schemaVersion));
  Seeds seeds;
  addDataOptions(app, options, seeds);
  addRunOptions(app, options);
  addCommands(app, commandLine);
  if (tool::writesManual(argc, argv, app, "colossal-run", COLOSSAL_VERSION, exitCode))
    return false;
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &success) {
    exitCode = app.exit(success);
    if (Status status = plan::finishStandardOutput(); !status.ok()) {
      std::cerr << "colossal-run: " + status.message() + "\n";
      exitCode = FileProblem;
    }
    return false;
  } catch (const CLI::ParseError &error) {
    const std::vector<CLI::App *> commands = app.get_subcommands();
    std::cerr << "colossal-run: " + std::string(error.what()) + "\nRun colossal-run " +
                     (commands.empty() ? "" : commands.front()->get_name() + " ") +
                     "--help for the options.\n";
    exitCode = BadUsage;
    return false;
  }
  if (commandLine.command == CommandLine::Run && options.plan.empty() && !options.devices) {
    std::cerr << "colossal-run: PLAN is required\nRun colossal-run --help for the options.\n";
    exitCode = BadUsage;
    return false;
  }
  if (commandLine.command == CommandLine::Train) {
    commandLine.train.arguments.assign(argv, argv + argc);
    if (Status status = checkTrainOptions(commandLine.train); !status.ok()) {
      std::cerr << "colossal-run: " + status.message() + "\nRun colossal-run train --help for the options.\n";
      exitCode = BadUsage;
      return false;
    }
  }
  options.session.size = sizeof options.session;
  options.session.communicator = options.communicator.empty() ? nullptr : options.communicator.c_str();
  options.session.weights = options.weights.empty() ? nullptr : options.weights.c_str();
  options.session.timeout = options.timeout.empty() ? nullptr : options.timeout.c_str();
  options.session.trace = !options.trace.empty();
  options.session.fill_weights = app.count("--random-weights") > 0;
  options.session.weights_seed = seeds.weights;
  if (app.count("--random-inputs") > 0)
    options.randomInputs = seeds.inputs;
  return true;
}

Status readInputs(const std::vector<std::string> &arguments, Tensors &inputs,
                  std::vector<std::string> &files) {
  for (const std::string &argument : arguments) {
    // A name may hold '=' (few do), a path as well; the file's ending decides.
    size_t equals = argument.find('=');
    if (endsWith(argument, ".npz") &&
        (equals == std::string::npos || ::access(argument.c_str(), F_OK) == 0)) {
      Tensors read;
      files.push_back(argument);
      COLOSSAL_RETURN_IF_ERROR(readNpz(argument, read));
      for (auto &[name, tensor] : read)
        if (!inputs.emplace(name, std::move(tensor)).second)
          return {Code::InvalidArgument, "input '" + name + "' is given twice"};
      continue;
    }
    if (equals == std::string::npos || (!endsWith(argument, ".npy") && !endsWith(argument, ".pb")))
      return {Code::InvalidArgument,
              "--input " + argument + ": expected FILE.npz, NAME=FILE.npy or NAME=FILE.pb"};
    std::string name = argument.substr(0, equals), path = argument.substr(equals + 1);
    Tensor tensor;
    files.push_back(path);
    COLOSSAL_RETURN_IF_ERROR(endsWith(path, ".npy") ? readNpy(path, tensor) : readTensorProto(path, tensor));
    if (!inputs.emplace(name, std::move(tensor)).second)
      return {Code::InvalidArgument, "input '" + name + "' is given twice"};
  }
  return {};
}

} // namespace colossal::runtime
