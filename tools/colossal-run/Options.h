// colossal-run's command line.
#ifndef COLOSSAL_TOOLS_COLOSSAL_RUN_OPTIONS_H
#define COLOSSAL_TOOLS_COLOSSAL_RUN_OPTIONS_H

#include "Commands.h"

#include "runtime/include/colossal-runtime.h"
#include "runtime/io/Tensor.h"

#include <optional>
#include <string>
#include <vector>

namespace colossal::runtime {

struct Options {
  std::string plan;
  std::string communicator, weights, timeout; // what `session` points to
  colossal_options session = {};
  std::vector<std::string> inputs; // FILE.npz, NAME=FILE.npy or NAME=FILE.pb
  std::string output, expect, trace, program;
  double rtol = 1e-4, atol = 1e-6;
  std::optional<uint64_t> randomInputs;
  unsigned benchmark = 0;
  std::string objective; ///< of the benchmark; empty: what the plan was compiled for
  std::optional<unsigned> warmUps;
  bool memory = false, dumpPlan = false, json = false, printInputs = false;
  bool devices = false; // what this host has; no plan is read
};

/// What the process returns beside colossal_exit_code of an error; `--help` lists all.
enum ExitCode : int {
  Success = 0,
  OutputsDiffer = 1,
  BadUsage = 2,
  FileProblem = 3,
  RunFailed = 6,
  EndedBySignal = 128 ///< and the signal's number: 130 Ctrl-C, 143 SIGTERM
};

/// What the command line asks for, with the options of each command.
struct CommandLine {
  enum Command { Run, Train, Export } command = Run;
  Options run;
  TrainOptions train;
  ExportOptions exports;
};

/// Reads the command line; `run.session` points into `run`. Returns false where the process is to end with
/// `exitCode` at once (--help, errors).
bool parseOptions(int argc, char **argv, CommandLine &commandLine, int &exitCode);

/// Reads all --input arguments; `files` gets the paths that they name.
Status readInputs(const std::vector<std::string> &arguments, Tensors &inputs,
                  std::vector<std::string> &files);

} // namespace colossal::runtime

#endif // COLOSSAL_TOOLS_COLOSSAL_RUN_OPTIONS_H
