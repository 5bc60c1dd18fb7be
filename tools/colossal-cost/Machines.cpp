// colossal-cost machines: the machine descriptions that are built in, one of them as JSON, or the check of a
// file.
#include "Subcommands.h"

#include "colossal/Cost/MachineChoice.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <memory>
#include <string>

namespace colossal::tool {

namespace {

nlohmann::ordered_json describe(const cost::Machine &machine) {
  return {{"name", machine.name},
          {"description", machine.description},
          {"target", machine.target},
          {"device", machine.device.name},
          {"memory_bytes", machine.device.memoryBytes},
          {"devices", machine.devices()}};
}

int list(bool asJson) {
  nlohmann::ordered_json told = {{"machines", nlohmann::ordered_json::array()}};
  std::string text;
  for (const std::string &name : cost::machineNames()) {
    cost::MachineResult result = cost::loadMachine(name);
    if (!result.error.empty()) {
      std::fprintf(stderr, "colossal-cost: %s: %s\n", name.c_str(), result.error.c_str());
      return BadInput;
    }
    char line[32];
    std::snprintf(line, sizeof line, "%-18s ", name.c_str());
    text += line + result.machine.description + "\n";
    told["machines"].push_back(describe(result.machine));
  }
  cost::MachineChoice choice = cost::chooseMachine("");
  if (!choice.error.empty()) {
    std::fprintf(stderr, "colossal-cost: %s\n", choice.error.c_str());
    return failureExitCode(BadInput);
  }
  text += "compiled for where no --machine is given: " + choice.origin + "\n";
  told["default"] = describe(choice.machine);
  told["default"]["origin"] = choice.origin;
  std::fputs(asJson ? (told.dump(1) + "\n").c_str() : text.c_str(), stdout);
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
  auto asJson = std::make_shared<bool>(false);
  command->add_flag("--json", *asJson,
                    "list them as one JSON object: machines, and the default, which is compiled for where no "
                    "--machine is given (one machine is printed as JSON in any case)");
  command->callback([name, asJson, &action] {
    action.run = [name, asJson] { return name->empty() ? list(*asJson) : print(*name); };
  });
}

} // namespace colossal::tool
