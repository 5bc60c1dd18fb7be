// The kinds of devices that this program has, by the name that a plan's target gives them.
#ifndef COLOSSAL_RUNTIME_DEVICE_REGISTRY_H
#define COLOSSAL_RUNTIME_DEVICE_REGISTRY_H

#include "runtime/device/Device.h"
#include "runtime/execute/Abort.h"

namespace colossal::runtime {

struct DeviceOptions {
  unsigned threads = 1; ///< host threads that compute for the rank, where the device is made of such
  unsigned spins = 0;   ///< how often a waiting host thread looks again before it sleeps
  /// Whether this host's ranks have more threads than it has cores.
  bool oversubscribed = false;
};

/// What a host has of one kind of device, for people.
struct Inventory {
  std::vector<std::pair<std::string, std::string>> versions; ///< of libraries, by name
  std::vector<std::string> found, missing;
  bool emulated = false; ///< whether what was found is executed by emulation
};

/// Makes the devices of one kind for the ranks of one process and one plan.
class Driver {
public:
  virtual ~Driver() = default;
  /// Whether this host can run a plan's code; the message lists all that is missing.
  virtual Status checkTarget(const plan::Target &target) = 0;
  /// `abort` ends waits and outlives the device, as the driver does.
  virtual Status createDevice(const DeviceOptions &options, Abort &abort,
                              std::unique_ptr<Device> &device) = 0;
  virtual Inventory inventory() = 0;
};

/// The kinds' names, in the order of the alphabet.
std::vector<std::string> deviceKinds();
/// A driver of the kind `name`; where there is none the message lists those that there are.
Status openDriver(const std::string &name, std::unique_ptr<Driver> &driver);

using DriverFactory = std::unique_ptr<Driver> (*)();
/// Adds a kind, or takes the place of the one that had the name: tests run plans for one device on another
/// so. Returns true; before main, or before any plan is opened.
bool registerDriver(const std::string &name, DriverFactory make);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_DEVICE_REGISTRY_H
