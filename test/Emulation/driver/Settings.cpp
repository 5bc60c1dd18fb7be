#include "Settings.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <thread>

namespace colossal::cuda {

namespace {

const char *variable(const char *name) {
  const char *value = std::getenv(name);
  return value && *value ? value : nullptr;
}

[[noreturn]] void refuse(const char *name, const char *value, const char *expected) {
  std::fprintf(stderr, "emulated GPU: %s=%s: expected %s\n", name, value, expected);
  std::_Exit(2);
}

std::uint64_t number(const char *name, std::uint64_t otherwise) {
  const char *value = variable(name);
  if (!value)
    return otherwise;
  char *end = nullptr;
  const std::uint64_t read = std::strtoull(value, &end, 10);
  if (*end || *value == '-')
    refuse(name, value, "a number");
  return read;
}

} // namespace

Settings Settings::read() {
  Settings settings;
  settings.gpus = static_cast<int>(number("COLOSSAL_EMULATED_GPUS", 1));
  settings.memory = number("COLOSSAL_EMULATED_GPU_MEMORY", settings.memory);
  settings.seed = number("COLOSSAL_EMULATED_GPU_SEED", 1);
  settings.checks = number("COLOSSAL_EMULATED_GPU_CHECKS", 1) != 0;
  settings.threads = static_cast<unsigned>(
      number("COLOSSAL_EMULATED_GPU_THREADS", std::max(1u, std::thread::hardware_concurrency())));
  if (const char *value = variable("COLOSSAL_EMULATED_GPU_ARCHITECTURE")) {
    if (std::sscanf(value, "sm_%d", &settings.capability) != 1)
      refuse("COLOSSAL_EMULATED_GPU_ARCHITECTURE", value, "sm_90, or another like it");
  }
  if (const char *value = variable("COLOSSAL_EMULATED_GPU_FAIL")) {
    std::istringstream list(value);
    for (std::string entry; std::getline(list, entry, ',');) {
      char name[64];
      unsigned call = 0, code = 0;
      if (std::sscanf(entry.c_str(), "%63[^@]@%u=%u", name, &call, &code) != 3 || call == 0)
        refuse("COLOSSAL_EMULATED_GPU_FAIL", value, "NAME@CALL=ERROR, separated by commas");
      settings.failures[name][call] = static_cast<Result>(code);
    }
  }
  return settings;
}

} // namespace colossal::cuda
