// Machine code from the plan's code section, brought into the process by the system's loader.
#ifndef COLOSSAL_RUNTIME_EXECUTE_MODULES_H
#define COLOSSAL_RUNTIME_EXECUTE_MODULES_H

#include "runtime/device/Device.h"

#include "colossal/Plan/Container.h"

#include <vector>

namespace colossal::runtime {

class Modules {
public:
  Modules() = default;
  Modules(const Modules &) = delete;
  Modules &operator=(const Modules &) = delete;
  ~Modules();

  /// Loads every module of a validated plan from memory (no file is written) and finds its kernels.
  Status load(const plan::Plan &plan, plan::ByteView code);
  KernelFunction kernel(uint32_t index) const { return functions[index]; }

private:
  std::vector<void *> handles;
  std::vector<int> files; // of the images, open as long as they are loaded
  std::vector<KernelFunction> functions;
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_EXECUTE_MODULES_H
