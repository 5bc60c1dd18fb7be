// The subcommands of colossal-cost. Each has a file of its own: it adds itself to the program's options and,
// when it is chosen, sets `run`, which main calls once all options are read.
#ifndef COLOSSAL_TOOLS_COLOSSAL_COST_SUBCOMMANDS_H
#define COLOSSAL_TOOLS_COLOSSAL_COST_SUBCOMMANDS_H

#include "colossal/Output/OutputFile.h"

#include <CLI/CLI.hpp>

#include <functional>
#include <string>

namespace colossal::tool {

enum ExitCode {
  Success = 0,
  Failed = 1,       ///< a check that was asked for did not hold
  BadUsage = 2,     ///< wrong options, unknown machines
  FileProblem = 3,  ///< a file cannot be read or written
  BadInput = 4,     ///< a table or a machine file is refused; the message names the place
  NotSupported = 5, ///< not possible on this machine
};

/// What a machine that cannot be loaded is: a wrong name, or a file (as cost::loadMachine tells them apart)
/// that cannot be read or is refused.
inline int machineExitCode(const std::string &nameOrPath) {
  bool isFile = nameOrPath.find('/') != std::string::npos ||
                (nameOrPath.size() > 5 && nameOrPath.compare(nameOrPath.size() - 5, 5, ".json") == 0);
  return isFile ? failureExitCode(BadInput) : BadUsage;
}

struct Action {
  /// Does the work of the chosen subcommand and returns an exit code.
  std::function<int()> run;
};

void addMachines(CLI::App &app, Action &action);
/// Where it is built without the compiler, `calibrate` says so.
void addCalibrate(CLI::App &app, Action &action);
void addPredict(CLI::App &app, Action &action);

} // namespace colossal::tool

#endif // COLOSSAL_TOOLS_COLOSSAL_COST_SUBCOMMANDS_H
