// Entry points: modules and functions.
#include "Entry.h"

#include <cstdio>
#include <cstring>

namespace colossal::cuda {

namespace {

/// Where a caller wants to read why a module cannot be loaded.
struct Log {
  char *buffer = nullptr;
  std::size_t size = 0;

  Log(unsigned count, const JitOption *options, void **values) {
    for (unsigned i = 0; i < count; ++i) {
      if (options[i] == JitErrorLogBuffer)
        buffer = static_cast<char *>(values[i]);
      else if (options[i] == JitErrorLogBufferSizeBytes)
        size = reinterpret_cast<std::uintptr_t>(values[i]);
    }
  }
  void write(const std::string &text) const {
    if (buffer && size)
      std::snprintf(buffer, size, "%s", text.c_str());
  }
};

/// 90 of ".target sm_90"; 0 where there is none.
int targetOf(const char *text) {
  int target = 0;
  const char *line = std::strstr(text, "\n.target sm_");
  return line && std::sscanf(line, "\n.target sm_%d", &target) == 1 ? target : 0;
}

} // namespace

Result cuModuleLoadDataEx(Module *module, const void *image, unsigned count, JitOption *options,
                          void **values) {
  Call call("cuModuleLoadDataEx", Call::Context | Call::OutsideCapture);
  if (!call)
    return call.refused;
  if (!image)
    return InvalidValue;
  const auto *text = static_cast<const char *>(image);
  const Log log(count, options, values);
  constexpr char elf[] = "\177ELF", fatBinary[] = "\x50\xed\x55\xba";
  // Machine code is for other GPUs than this, whichever they are.
  if (!std::memcmp(text, elf, 4) || !std::memcmp(text, fatBinary, 4))
    return NoBinaryForGpu;
  const int target = targetOf(text), own = Machine::get().settings.capability;
  if (target > own) {
    log.write("the code is for sm_" + std::to_string(target) + ", the GPU is an sm_" + std::to_string(own));
    return InvalidPtx;
  }
  Gpu *gpu = &call.gpu();
  call.lock.unlock();
  ptx::Module::Diagnostics diagnostics;
  std::shared_ptr<ptx::Module> loaded = ptx::Module::load(text, diagnostics);
  if (!loaded) {
    std::string words;
    for (const ptx::Module::Diagnostic &diagnostic : diagnostics)
      words +=
          "line " + std::to_string(diagnostic.line) + ": " + diagnostic.what + ": " + diagnostic.text + "\n";
    log.write(words);
    return InvalidPtx;
  }
  call.lock.lock();
  *module = new ModuleHandle{gpu, std::move(loaded), {}};
  Machine::get().modules.insert(*module);
  return Success;
}

Result cuModuleUnload(Module module) {
  Call call("cuModuleUnload", Call::Context | Call::EvenAfterErrors);
  if (!call)
    return call.refused;
  if (!Machine::get().modules.erase(module))
    return InvalidHandle;
  delete module;
  return Success;
}

Result cuModuleGetFunction(Function *function, Module module, const char *name) {
  Call call("cuModuleGetFunction", Call::Context);
  if (!call)
    return call.refused;
  if (!Machine::get().modules.count(module))
    return InvalidHandle;
  const ptx::Kernel *kernel = module->module->find(name);
  if (!kernel)
    return NotFound;
  std::unique_ptr<FunctionHandle> &known = module->functions[name];
  if (!known)
    known = std::make_unique<FunctionHandle>(FunctionHandle{module->module, kernel});
  *function = known.get();
  return Success;
}

Result cuFuncGetAttribute(int *value, FunctionAttribute attribute, Function function) {
  Call call("cuFuncGetAttribute", Call::Context);
  if (!call)
    return call.refused;
  if (attribute != FunctionMaxThreadsPerBlock)
    return NotSupported;
  const ptx::Kernel &kernel = *function->kernel;
  *value = static_cast<int>(kernel.requiredBlock ? kernel.requiredBlock->count()
                                                 : kernel.maximalThreads.value_or(1024));
  return Success;
}

} // namespace colossal::cuda
