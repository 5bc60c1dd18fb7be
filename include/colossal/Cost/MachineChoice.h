// Which machine a program works with, found once where it starts: what the user typed, what the environment
// or the user's configuration names, or the host itself. From there on a machine travels as a value.
#ifndef COLOSSAL_COST_MACHINECHOICE_H
#define COLOSSAL_COST_MACHINECHOICE_H

#include "colossal/Cost/Machine.h"

#include <cstdint>
#include <string>

namespace colossal::cost {

/// What this process may use of the host.
struct HostLimits {
  int cores = 1;
  std::int64_t memoryBytes = 0;
};

/// Cores: those that the process may be scheduled on, and no more than its control groups' quota, rounded up.
/// Memory: all that the host has (MemTotal), or the least limit of its control groups. Not what is free at
/// the moment: that changes by the second, and equal inputs are to give equal plans. `root` stands before all
/// paths of /proc and /sys, for tests.
HostLimits measureHost(const std::string &root = "");

/// The built-in description of a CPU's cores ("host"), with the cores and the memory of this host.
Machine describeHost(const HostLimits &limits);

struct MachineChoice {
  Machine machine;
  /// For the user: "h100", "/home/me/.config/colossal/machine.json (the user's configuration)", "this host: 2
  /// cores, 23.4 GiB; ...".
  std::string origin;
  /// Empty on success; otherwise what is wrong with which of them.
  std::string error;
};

/// 1. `nameOrPath`, if it is not empty: a name or a file as for loadMachine, or "host";
/// 2. COLOSSAL_MACHINE likewise, if it is set and not empty;
/// 3. $XDG_CONFIG_HOME/colossal/machine.json, or ~/.config/colossal/machine.json where that variable is not
/// an
///    absolute path, if there is such a file;
/// 4. describeHost(measureHost()).
/// What is there and wrong is an error: nothing falls through to the next.
MachineChoice chooseMachine(const std::string &nameOrPath);

/// The file of step 3, whether it is there or not; empty where neither variable says where.
std::string userMachinePath();

} // namespace colossal::cost

#endif // COLOSSAL_COST_MACHINECHOICE_H
