// Opens the plug-in with the CPU's library routines when a plan first calls one, and checks its sizes against
// the plan's buffers.
#include "runtime/cpu/Library.h"

#include "runtime/comm/Open.h"
#include "runtime/cpu/Convolution.h"

#include <cstdlib>
#include <dlfcn.h>
#include <mutex>

namespace colossal::runtime {

namespace {

struct Plugin {
  bool (*create)(const ConvolutionDescriptor &, unsigned, std::unique_ptr<ConvolutionRoutine> &,
                 Status &) = nullptr;
  ParallelRunner run = nullptr;
};

Status plugin(const Plugin *&opened) {
  static std::mutex mutex;
  static Plugin loaded;
  static Status status;
  static bool tried = false;
  std::lock_guard<std::mutex> lock(mutex);
  if (!tried) {
    tried = true;
    void *handle = nullptr;
    // Bound, the first thread of every rank would run on the same core. OpenMP reads this when it is loaded.
    const char *bound = std::getenv("OMP_PROC_BIND");
    const std::string before = bound ? bound : "";
    if (bound)
      ::setenv("OMP_PROC_BIND", "false", 1);
    status = openPlugin("colossal-cpu-routines", "the library of convolutions (oneDNN)", handle);
    if (bound)
      ::setenv("OMP_PROC_BIND", before.c_str(), 1);
    if (status.ok()) {
      loaded.create = reinterpret_cast<decltype(loaded.create)>(::dlsym(handle, "colossalCreateConvolution"));
      loaded.run = reinterpret_cast<ParallelRunner>(::dlsym(handle, "colossalRunOnLibraryThreads"));
      if (!loaded.create || !loaded.run)
        status = {Code::Unsupported, "the plug-in colossal-cpu-routines is of another version"};
    }
  }
  opened = &loaded;
  return status;
}

class ConvolutionCall : public CpuRoutine {
public:
  Status create(const plan::LibraryCall &call, unsigned threads) {
    const Plugin *opened = nullptr;
    COLOSSAL_RETURN_IF_ERROR(plugin(opened));
    Status status;
    if (!opened->create(describeConvolution(call.convolution()), threads, routine, status))
      return status;
    packs = call.routine() == "convolution.pack";
    hasBias = call.convolution().bias();
    if (routine->packedBytes() > call.buffers(1).bytes())
      return {Code::Unsupported, "the library's packed weight has " + std::to_string(routine->packedBytes()) +
                                     " bytes on this host, and the plan set aside " +
                                     std::to_string(call.buffers(1).bytes()) + "; compile it for this host"};
    // The need grows with the number of threads, which the compiler did not know.
    if (!packs && routine->scratchBytes() > call.buffers(hasBias ? 3 : 2).bytes()) {
      ownBytes = (routine->scratchBytes() + 63) / 64 * 64;
      own.reset(static_cast<std::byte *>(std::aligned_alloc(64, ownBytes)));
      if (!own)
        return {Code::OutOfMemory, "cannot allocate " + std::to_string(ownBytes) + " bytes of scratch"};
    }
    return {};
  }

  Status run(void *const *buffers) override {
    if (packs)
      return routine->pack(buffers[0], buffers[1]);
    void *const *rest = buffers + (hasBias ? 3 : 2);
    return routine->run(buffers[0], buffers[1], hasBias ? buffers[2] : nullptr, own ? own.get() : rest[0],
                        rest[1]);
  }

  uint64_t privateBytes() const override { return ownBytes; }

private:
  struct Free {
    void operator()(std::byte *bytes) const { std::free(bytes); }
  };
  std::unique_ptr<ConvolutionRoutine> routine;
  bool packs = false, hasBias = false;
  uint64_t ownBytes = 0;
  std::unique_ptr<std::byte, Free> own;
};

} // namespace

Status createCpuRoutine(const plan::LibraryCall &call, unsigned threads, std::unique_ptr<Routine> &routine) {
  auto made = std::make_unique<ConvolutionCall>();
  COLOSSAL_RETURN_IF_ERROR(made->create(call, threads));
  routine = std::move(made);
  return {};
}

ParallelRunner libraryThreads() {
  const Plugin *opened = nullptr;
  return plugin(opened).ok() ? opened->run : nullptr;
}

} // namespace colossal::runtime
