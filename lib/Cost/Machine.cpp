// What follows from a machine's description, and the descriptions that are built in.
#include "colossal/Cost/Machine.h"

#include "EmbeddedMachines.h"
#include "colossal/Output/OutputFile.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace colossal::cost {

double Device::flops(DataType type) const {
  auto found = peakFlops.find(type);
  if (found == peakFlops.end())
    found = peakFlops.find(DataType::F32);
  return found == peakFlops.end() ? 0 : found->second;
}

std::int64_t Machine::devices() const {
  std::int64_t count = 1;
  for (const Level &level : levels)
    count *= level.units;
  return count;
}

std::int64_t Machine::ranksOnHost(std::int64_t ranks) const {
  if (!host)
    return 1;
  return levels.empty() ? ranks : std::clamp<std::int64_t>(ranks, 1, levels.front().units);
}

std::int64_t Machine::memoryOfRank(std::int64_t ranks) const {
  return device.memoryBytes / ranksOnHost(ranks);
}

bool Machine::areRanksAlike(std::int64_t ranks) const {
  // Places matter between units of the first level, and on its links.
  return levels.empty() || (levels[0].links.empty() && (levels.size() == 1 || levels[0].units >= ranks));
}

MachineResult loadMachine(const std::string &nameOrPath) {
  bool isPath = nameOrPath.find('/') != std::string::npos ||
                (nameOrPath.size() > 5 && nameOrPath.compare(nameOrPath.size() - 5, 5, ".json") == 0);
  MachineResult result;
  if (isPath) {
    noteInput(nameOrPath);
    std::ifstream in(nameOrPath, std::ios::binary);
    std::ostringstream text;
    in.peek(); // a folder can be opened, and gives nothing
    if (in.is_open() && !in.bad())
      text << in.rdbuf();
    if (!in.is_open() || in.bad() || text.bad()) {
      noteUnusableInput();
      result.error = "cannot be read";
    } else
      result = parseMachine(text.str());
    if (!result.error.empty())
      result.error = nameOrPath + ": " + result.error;
    return result;
  }
  std::string candidates;
  int begun = 0, chosen = -1;
  for (int k = 0; k < embeddedMachineCount; ++k) {
    std::string name = embeddedMachines[k].name;
    if (nameOrPath == name)
      return parseMachine(embeddedMachines[k].json);
    if (!nameOrPath.empty() && name.compare(0, nameOrPath.size(), nameOrPath) == 0) {
      candidates += (begun++ ? ", " : "") + name;
      chosen = k;
    }
  }
  if (begun == 1)
    return parseMachine(embeddedMachines[chosen].json);
  if (begun > 1) {
    result.error = "'" + nameOrPath + "' may be " + candidates + "; name one of them";
    return result;
  }
  result.error =
      "no machine is named '" + nameOrPath + "', and no file of that name ends in .json; there are";
  for (const std::string &name : machineNames())
    result.error += " " + name;
  return result;
}

Machine genericMachine() {
  return loadMachine("cpu").machine;
}

std::vector<std::string> machineNames() {
  std::vector<std::string> names;
  for (int k = 0; k < embeddedMachineCount; ++k)
    names.push_back(embeddedMachines[k].name);
  std::sort(names.begin(), names.end());
  return names;
}

} // namespace colossal::cost
