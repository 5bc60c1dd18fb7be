// colossal-run's command line.
#ifndef COLOSSAL_TOOLS_COLOSSAL_RUN_OPTIONS_H
#define COLOSSAL_TOOLS_COLOSSAL_RUN_OPTIONS_H

#include "runtime/execute/Session.h"

#include <optional>
#include <string>
#include <vector>

namespace colossal::runtime {

struct Options {
  std::string plan;
  SessionOptions session;
  std::vector<std::string> inputs; // FILE.npz, NAME=FILE.npy or NAME=FILE.pb
  std::string output, expect, trace, program;
  double rtol = 1e-4, atol = 1e-6;
  std::optional<uint64_t> randomInputs;
  unsigned benchmark = 0;
  bool memory = false, dumpPlan = false, json = false, printInputs = false;
};

/// What the process returns; `--help` lists them.
enum ExitCode : int {
  Success = 0,
  OutputsDiffer = 1,
  BadUsage = 2,       // options, or inputs that fit no program
  FileProblem = 3,    // a file is missing or cannot be read or written
  PlanRefused = 4,    // damaged, invalid, or may be written by others
  NotSupported = 5,   // version, CPU feature, library, communicator
  RunFailed = 6,      // a rank failed, or memory ran out
  RunHung = 7,        // no progress within --timeout
  WasInterrupted = 130
};
ExitCode exitCodeOf(const Status &status);

/// Reads the command line. Returns false where the process is to end with `exitCode` at once (--help, errors).
bool parseOptions(int argc, char **argv, Options &options, int &exitCode);

/// Reads all --input arguments.
Status readInputs(const std::vector<std::string> &arguments, Tensors &inputs);

} // namespace colossal::runtime

#endif // COLOSSAL_TOOLS_COLOSSAL_RUN_OPTIONS_H
