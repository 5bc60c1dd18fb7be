// Arenas on a device, and what the system says about the process's memory.
#include "runtime/execute/Memory.h"

#include <fstream>
#include <string>

namespace colossal::runtime {

Status Arenas::allocate(Device &device, const google::protobuf::RepeatedPtrField<plan::Arena> &stated) {
  for (const plan::Arena &arena : stated) {
    blocks.emplace_back();
    Status status = arena.space() == plan::Arena::PINNED_HOST
                        ? device.allocatePinned(arena.bytes(), blocks.back())
                        : device.allocate(arena.bytes(), arena.alignment(), blocks.back());
    if (!status.ok())
      return {status.code(), "cannot allocate " + std::to_string(arena.bytes()) + " bytes for arena '" +
                                 arena.name() + "': " + status.message()};
  }
  return {};
}

ProcessMemory processMemory() {
  ProcessMemory memory;
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    auto value = [&] { return std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10) * 1024; };
    if (line.rfind("RssAnon:", 0) == 0)
      memory.anonymous = value();
    else if (line.rfind("VmHWM:", 0) == 0)
      memory.peakResident = value();
  }
  return memory;
}

} // namespace colossal::runtime
