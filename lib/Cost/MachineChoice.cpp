// Reads the environment and the host's limits. MachineChoice.h has the order.
#include "colossal/Cost/MachineChoice.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

namespace colossal::cost {

namespace {

constexpr const char *kHostName = "host";

std::string readFirstLine(const std::string &path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

/// "max" and unlimited values of the older interface, which are near 2^63, are none.
std::optional<double> readLimit(const std::string &text) {
  char *end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || !(value > 0) || value >= 0x1p62)
    return std::nullopt;
  return value;
}

/// Folders of the process's control group and of those around it; both interfaces, of which a host may have
/// either. The path of /proc is the host's where /sys shows a container's, so folders that are not there are
/// passed over, and the root always counts.
std::vector<std::string> listGroups(const std::string &root, const std::string &controller) {
  std::ifstream in(root + "/proc/self/cgroup");
  std::vector<std::string> folders;
  for (std::string line; std::getline(in, line);) {
    std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos)
      continue;
    std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    bool unified = names == ",,";
    if (!unified && names.find("," + controller + ",") == std::string::npos)
      continue;
    std::string base = root + "/sys/fs/cgroup" + (unified ? "" : "/" + controller);
    for (std::string path = line.substr(second + 1); path.size() > 1;
         path = path.substr(0, path.find_last_of('/')))
      folders.push_back(base + path);
    folders.push_back(base);
  }
  return folders;
}

void lower(double &limit, const std::optional<double> &found) {
  if (found)
    limit = std::min(limit, *found);
}

} // namespace

HostLimits measureHost(const std::string &root) {
  HostLimits limits;
  cpu_set_t set;
  CPU_ZERO(&set);
  double cores = ::sched_getaffinity(0, sizeof set, &set) == 0
                     ? CPU_COUNT(&set)
                     : std::max(1u, std::thread::hardware_concurrency());
  for (const std::string &folder : listGroups(root, "cpu")) {
    std::istringstream quota(readFirstLine(folder + "/cpu.max"));
    std::string most, period;
    if (!(quota >> most >> period)) {
      most = readFirstLine(folder + "/cpu.cfs_quota_us");
      period = readFirstLine(folder + "/cpu.cfs_period_us");
    }
    auto time = readLimit(most), every = readLimit(period);
    if (time && every)
      cores = std::min(cores, std::ceil(*time / *every));
  }
  limits.cores = std::max(1, static_cast<int>(cores));
  double memory = 0x1p62;
  std::ifstream in(root + "/proc/meminfo");
  for (std::string line; std::getline(in, line);)
    if (line.compare(0, 9, "MemTotal:") == 0)
      lower(memory, std::strtod(line.c_str() + 9, nullptr) * 1024);
  for (const std::string &folder : listGroups(root, "memory")) {
    lower(memory, readLimit(readFirstLine(folder + "/memory.max")));
    lower(memory, readLimit(readFirstLine(folder + "/memory.limit_in_bytes")));
  }
  if (memory < 0x1p62)
    limits.memoryBytes = static_cast<std::int64_t>(memory);
  return limits;
}

Machine describeHost(const HostLimits &limits) {
  Machine machine = loadMachine(kHostName).machine;
  Host &host = *machine.host;
  host.cores = limits.cores;
  // All cores together have a socket's bandwidth, fewer what they get one by one.
  host.memoryBandwidth = std::min(host.memoryBandwidth, limits.cores * machine.device.memoryBandwidth);
  if (limits.memoryBytes > 0)
    machine.device.memoryBytes = limits.memoryBytes;
  return machine;
}

std::string userMachinePath() {
  auto variable = [](const char *name) {
    const char *value = std::getenv(name);
    return std::string(value ? value : "");
  };
  std::string folder = variable("XDG_CONFIG_HOME");
  if (folder.empty() || folder[0] != '/') {
    folder = variable("HOME");
    if (folder.empty())
      return "";
    folder += "/.config";
  }
  return folder + "/colossal/machine.json";
}

MachineChoice chooseMachine(const std::string &nameOrPath) {
  MachineChoice choice;
  auto load = [&](const std::string &name, const std::string &blame, const std::string &origin) {
    MachineResult result = loadMachine(name);
    choice.machine = std::move(result.machine);
    choice.origin = origin;
    if (!result.error.empty())
      choice.error = blame + result.error;
    return choice;
  };
  auto host = [&] {
    choice.machine = describeHost(measureHost());
    std::ostringstream text;
    text.precision(3);
    text << "this host: " << choice.machine.host->cores
         << (choice.machine.host->cores == 1 ? " core, " : " cores, ")
         << static_cast<double>(choice.machine.device.memoryBytes) / 1073741824.0
         << " GiB; not calibrated (colossal-cost calibrate --default)";
    choice.origin = text.str();
    return choice;
  };
  const char *variable = std::getenv("COLOSSAL_MACHINE");
  std::string named = variable ? variable : "";
  if (nameOrPath == kHostName || (nameOrPath.empty() && named == kHostName))
    return host();
  if (!nameOrPath.empty())
    return load(nameOrPath, "", nameOrPath);
  if (!named.empty())
    return load(named, "COLOSSAL_MACHINE: ", named + " (COLOSSAL_MACHINE)");
  std::string path = userMachinePath();
  std::error_code ignored;
  if (!path.empty() && std::filesystem::exists(path, ignored))
    return load(path, "the user's configuration: ", path + " (the user's configuration)");
  return host();
}

} // namespace colossal::cost
