// colossal-cost: what a machine is, and what a model and a layout would take on it.
#include "Subcommands.h"

#include "colossal/Output/OutputFile.h"
#include "tools/manual/CommandLine.h"

#include <cstdio>

using namespace colossal::tool;

namespace {

constexpr const char *kIntroduction = "The cost model: machine descriptions, and predicted time and memory "
                                      "of training runs. docs/CostModel.md has the\n"
                                      "methods, and their errors against published measurements.";

constexpr const char *kExitCodes = "Run colossal-cost SUBCOMMAND --help for the options of one.\n\n"
                                   "Exit codes:\n"
                                   "  0  success                      3  a file cannot be read or written\n"
                                   "  1  a requested check failed     4  a table or machine file is refused\n"
                                   "  2  wrong options, such as an unknown machine\n"
                                   "  5  not possible on this machine\n"
                                   "  130, 143  interrupted, terminated";

} // namespace

int main(int argc, char **argv) {
  CLI::App app(kIntroduction, "colossal-cost");
  Action action;
  addMachines(app, action);
  addPredict(app, action);
#ifdef COLOSSAL_CALIBRATION
  addCalibrate(app, action);
#else
  app.add_subcommand("calibrate", "Not in this build: it compiles what it measures")->callback([&action] {
    action.run = [] {
      std::fprintf(stderr, "colossal-cost: this build has no compiler, which calibrate needs; configure with "
                           "-DCOLOSSAL_BUILD_COMPILER=ON\n");
      return NotSupported;
    };
  });
#endif
  app.require_subcommand(1);
  app.set_version_flag("--version", "colossal-cost " COLOSSAL_VERSION);
  app.footer(kExitCodes);
  int manualCode = 0;
  if (writesManual(argc, argv, app, "colossal-cost", COLOSSAL_VERSION, manualCode))
    return manualCode;
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &success) {
    return colossal::finishOutput("colossal-cost", app.exit(success));
  } catch (const CLI::ParseError &error) {
    std::fprintf(stderr, "colossal-cost: %s\nRun colossal-cost --help for the subcommands.\n", error.what());
    return BadUsage;
  }
  return colossal::finishOutput("colossal-cost", action.run());
}
