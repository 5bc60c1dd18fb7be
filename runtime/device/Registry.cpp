// The table of drivers. What is always there is in it from the start.
#include "runtime/device/Registry.h"

#include "runtime/cpu/Driver.h"
#include "runtime/cuda/Driver.h"

#include <map>

namespace colossal::runtime {

static std::map<std::string, DriverFactory> &drivers() {
  static std::map<std::string, DriverFactory> table = {{"cpu", createCpuDriver}, {"cuda", createCudaDriver}};
  return table;
}

bool registerDriver(const std::string &name, DriverFactory make) {
  drivers()[name] = make;
  return true;
}

std::vector<std::string> deviceKinds() {
  std::vector<std::string> names;
  for (const auto &[name, make] : drivers())
    names.push_back(name);
  return names;
}

Status openDriver(const std::string &name, std::unique_ptr<Driver> &driver) {
  auto found = drivers().find(name);
  if (found != drivers().end()) {
    driver = found->second();
    return {};
  }
  std::string names;
  for (const std::string &known : deviceKinds())
    names += (names.empty() ? "" : ", ") + known;
  return {Code::Unsupported, "the plan is for device '" + name + "'; this runtime has: " + names};
}

} // namespace colossal::runtime
