// The tables that a tool fills, and ranges by what it put there.
#include "runtime/cuda/nvtx/Ranges.h"

#include <cstdlib>
#include <dlfcn.h>

namespace colossal::runtime {

namespace {

constexpr size_t mostCallbacks = 16;

/// All modules are there in full: tools may insist on those that this runtime never calls.
struct Tables {
  nvtx::FunctionPointer functions[nvtx::moduleCount][mostCallbacks] = {};
  nvtx::FunctionPointer *places[nvtx::moduleCount][mostCallbacks + 1] = {}; // a null behind the last

  Tables() {
    for (unsigned module = 1; module < nvtx::moduleCount; ++module)
      for (unsigned callback = 1; callback < nvtx::callbackCounts[module]; ++callback)
        places[module][callback] = &functions[module][callback];
  }

  static Tables &ofProcess() {
    static Tables tables;
    return tables;
  }

  template <class Function>
  Function core2(nvtx::CallbackCore2 callback) const {
    return reinterpret_cast<Function>(functions[nvtx::ModuleCore2][callback]);
  }
};

int getModuleFunctionTable(nvtx::Module module, nvtx::FunctionTable *table, unsigned *count) {
  if (module == 0 || module >= nvtx::moduleCount)
    return 0;
  if (table)
    *table = Tables::ofProcess().places[module];
  if (count)
    *count = nvtx::callbackCounts[module];
  return 1;
}

void setInjectionVersion(uint32_t) {}

const void *getExportTable(uint32_t table) {
  static const nvtx::CallbacksTable callbacks = {sizeof(nvtx::CallbacksTable), getModuleFunctionTable};
  static const nvtx::VersionInfoTable version = {sizeof(nvtx::VersionInfoTable), nvtx::Version, 0,
                                                 setInjectionVersion};
  switch (table) {
  case nvtx::TableCallbacks: return &callbacks;
  case nvtx::TableVersionInfo: return &version;
  default: return nullptr;
  }
}

/// Whether a tool is named, there, and attaches.
bool attach() {
  const char *path = std::getenv(nvtx::injectionVariable);
  if (!path || !*path)
    return false;
  // NOLINTNEXTLINE(clang-analyzer-optin.taint.GenericTaint): the tool is named by who starts the process
  void *tool = ::dlopen(path, RTLD_LAZY);
  if (!tool)
    return false; // as in every other process that uses NVTX: a profiler's business, no error of the run
  auto initialize = reinterpret_cast<nvtx::InitializeInjection>(::dlsym(tool, nvtx::initializerName));
  if (initialize && initialize(getExportTable) != 0)
    return true;
  ::dlclose(tool);
  return false;
}

} // namespace

NvtxRanges *NvtxRanges::attached() {
  static NvtxRanges ranges;
  static NvtxRanges *const result = []() -> NvtxRanges * {
    if (!attach())
      return nullptr;
    const Tables &tables = Tables::ofProcess();
    ranges.push = tables.core2<nvtx::DomainRangePushExFunction>(nvtx::DomainRangePushEx);
    ranges.pop = tables.core2<nvtx::DomainRangePopFunction>(nvtx::DomainRangePop);
    if (!ranges.push || !ranges.pop)
      return nullptr; // it does not want ranges
    if (auto create = tables.core2<nvtx::DomainCreateAFunction>(nvtx::DomainCreateA))
      ranges.domain = create("colossal");
    return &ranges;
  }();
  return result;
}

void NvtxRanges::begin(const std::string &name) {
  nvtx::EventAttributes attributes = {};
  attributes.version = nvtx::Version;
  attributes.size = sizeof attributes;
  attributes.messageType = nvtx::MessageAscii;
  attributes.message = name.c_str();
  (void)push(domain, &attributes);
}

void NvtxRanges::end() {
  (void)pop(domain);
}

} // namespace colossal::runtime
