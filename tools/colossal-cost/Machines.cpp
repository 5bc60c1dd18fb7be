// colossal-cost machines: the machine descriptions that are built in, one of them as JSON, or the check of a
// file.
#include "Subcommands.h"

#include "colossal/Cost/MachineChoice.h"

#include <cstdio>
#include <memory>
#include <string>

namespace colossal::tool {

namespace {

int list() {
  for (const std::string &name : cost::machineNames()) {
    cost::MachineResult result = cost::loadMachine(name);
    if (!result.error.empty()) {
      std::fprintf(stderr, "colossal-cost: %s: %s\n", name.c_str(), result.error.c_str());
      return BadInput;
    }
    std::printf("%-18s %s\n", name.c_str(), result.machine.description.c_str());
  }
  cost::MachineChoice choice = cost::chooseMachine("");
  if (!choice.error.empty()) {
    std::fprintf(stderr, "colossal-cost: %s\n", choice.error.c_str());
    return BadInput;
  }
  std::printf("compiled for where no --machine is given: %s\n", choice.origin.c_str());
  return Success;
}

int print(const std::string &name) {
  cost::MachineChoice result = cost::chooseMachine(name);
  if (!result.error.empty()) {
    std::fprintf(stderr, "colossal-cost: %s\n", result.error.c_str());
    return machineExitCode(name);
  }
  std::fputs(cost::printMachine(result.machine).c_str(), stdout);
  return Success;
}

} // namespace

void addMachines(CLI::App &app, Action &action) {
  CLI::App *command =
      app.add_subcommand("machines", "List the built-in machine descriptions, or check and print one");
  auto name = std::make_shared<std::string>();
  command->add_option("MACHINE", *name, "a built-in name, or a file: it is checked and printed as JSON");
  command->callback(
      [name, &action] { action.run = [name] { return name->empty() ? list() : print(*name); }; });
}

} // namespace colossal::tool
