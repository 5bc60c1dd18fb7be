// Makes the ranks' devices.
#include "runtime/cpu/Driver.h"

#include "runtime/cpu/Device.h"
#include "runtime/cpu/Target.h"

#include <cstdlib>
#include <thread>

namespace colossal::runtime {

namespace {

class CpuDriver : public Driver {
public:
  Status checkTarget(const plan::Target &target) override { return checkCpuTarget(target); }

  Status createDevice(const DeviceOptions &options, Abort &abort, std::unique_ptr<Device> &device) override {
    // The library's threads read this when they are made.
    if (options.oversubscribed)
      ::setenv("OMP_WAIT_POLICY", "passive", 0);
    device = std::make_unique<CpuDevice>(options.threads, options.spins, abort, images);
    return {};
  }

  Inventory inventory() override {
    Inventory inventory;
    inventory.found.push_back(std::to_string(std::thread::hardware_concurrency()) + " cores of " +
                              hostArchitecture());
    return inventory;
  }

private:
  std::shared_ptr<ImageCache> images = std::make_shared<ImageCache>();
};

} // namespace

std::unique_ptr<Driver> createCpuDriver() {
  return std::make_unique<CpuDriver>();
}

} // namespace colossal::runtime
