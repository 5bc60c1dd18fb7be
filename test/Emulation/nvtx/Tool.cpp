// A tool that attaches as profilers do and writes the ranges that it is told of to the file that
// COLOSSAL_EMULATED_NVTX_RECORD names, a line each: the thread's number, "push" or "pop", the depth
// afterwards, and of a push the domain and the name.
//
// It is strict where profilers may be: it attaches only where all modules have all their callbacks, and
// writes "error" for a pop without a push, attributes of another size, and a domain that was not created.
#include "runtime/cuda/nvtx/Abi.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

namespace colossal::nvtx {

struct DomainHandle {
  std::string name;
};

namespace {

std::FILE *file = nullptr;
std::mutex mutex;

struct Thread {
  unsigned number;
  int depth = 0;
};

Thread &thread() {
  static std::atomic<unsigned> threads{0};
  thread_local Thread own{threads++};
  return own;
}

void write(const char *what, const std::string &more) {
  std::lock_guard<std::mutex> lock(mutex);
  std::fprintf(file, "%u %s %d %s\n", thread().number, what, thread().depth, more.c_str());
  std::fflush(file);
}

Domain create(const char *name) {
  return new DomainHandle{name}; // as long as the process
}

int push(Domain domain, const EventAttributes *attributes) {
  ++thread().depth;
  if (!domain || attributes->version != Version || attributes->size != sizeof *attributes ||
      attributes->messageType != MessageAscii || !attributes->message)
    write("error", "what a range is called cannot be read");
  else
    write("push", domain->name + " " + attributes->message);
  return thread().depth - 1;
}

int pop(Domain domain) {
  if (!domain || thread().depth == 0) {
    write("error", "a range ends that did not begin");
    return -1;
  }
  --thread().depth;
  write("pop", domain->name);
  return thread().depth;
}

template <class Function>
void give(FunctionTable table, CallbackCore2 callback, Function function) {
  *table[callback] = reinterpret_cast<FunctionPointer>(function);
}

} // namespace
} // namespace colossal::nvtx

using namespace colossal::nvtx;

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(GetExportTable getTable) {
  const auto *version = static_cast<const VersionInfoTable *>(getTable(TableVersionInfo));
  const auto *callbacks = static_cast<const CallbacksTable *>(getTable(TableCallbacks));
  if (!version || version->size < sizeof *version || version->version != Version || !callbacks ||
      callbacks->size < sizeof *callbacks || getTable(0))
    return 0;
  version->setInjectionVersion(Version);
  FunctionTable core2 = nullptr;
  for (unsigned module = 0; module < moduleCount; ++module) {
    FunctionTable table = nullptr;
    unsigned count = 0;
    const bool is = callbacks->getModuleFunctionTable(static_cast<Module>(module), &table, &count) != 0;
    if (is != (module != 0) || count < callbackCounts[module])
      return 0;
    for (unsigned callback = 1; callback < callbackCounts[module]; ++callback)
      if (!table[callback])
        return 0;
    if (module == ModuleCore2)
      core2 = table;
  }
  const char *path = std::getenv("COLOSSAL_EMULATED_NVTX_RECORD");
  if (!path || !(file = std::fopen(path, "a")))
    return 0;
  give(core2, DomainCreateA, create);
  give(core2, DomainRangePushEx, push);
  give(core2, DomainRangePop, pop);
  return 1;
}
