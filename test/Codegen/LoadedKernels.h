// Runs generated kernels in this process: compiles, links, opens the object and calls its symbols.
#ifndef COLOSSAL_TEST_CODEGEN_LOADEDKERNELS_H
#define COLOSSAL_TEST_CODEGEN_LOADEDKERNELS_H

#include "colossal/Codegen/CPU/KernelCompiler.h"
#include "colossal/Codegen/CPU/KernelFunction.h"
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace colossal::cpu::test {

using KernelPointer = void (*)(void *const *, const int64_t *, int64_t, int64_t);

/// The processor that tests generate for: this host, or the CPU of COLOSSAL_TEST_CPU (which the host must be
/// able to run).
inline Processor testTarget() {
  const char *cpu = std::getenv("COLOSSAL_TEST_CPU");
  return llvm::cantFail(Processor::create(cpu ? cpu : "host"));
}

/// A shared object opened from memory.
class LoadedKernels {
public:
  explicit LoadedKernels(const std::string &image) {
    // For reading what was generated: objdump -d $COLOSSAL_SAVE_KERNELS.
    if (const char *path = std::getenv("COLOSSAL_SAVE_KERNELS")) {
      std::FILE *copy = std::fopen(path, "wb");
      if (!copy || std::fwrite(image.data(), 1, image.size(), copy) != image.size())
        throw std::runtime_error(std::string("cannot write ") + path);
      std::fclose(copy);
    }
    file = memfd_create("kernels", 0);
    if (file < 0 || write(file, image.data(), image.size()) != ssize_t(image.size()))
      throw std::runtime_error("cannot write the kernels to memory");
    handle = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle)
      throw std::runtime_error(dlerror());
  }
  LoadedKernels(const LoadedKernels &) = delete;
  ~LoadedKernels() {
    dlclose(handle);
    close(file);
  }
  KernelPointer get(const std::string &symbol) const {
    void *address = dlsym(handle, symbol.c_str());
    if (!address)
      throw std::runtime_error("no kernel " + symbol);
    return reinterpret_cast<KernelPointer>(address);
  }

private:
  void *handle;
  int file; ///< open as long: dlopen takes two objects of one path for the same
};

/// One kernel, ready to run.
class RunnableKernel {
public:
  RunnableKernel(GeneratedKernel generated, const Processor &processor)
      : tiles(generated.tiles), scratchBytes(generated.scratchBytes), symbol(),
        kernels(link(generated, processor, symbol)) {
    entry = kernels.get(symbol);
  }
  /// Runs all tiles in `parts` calls, the last part first, so that an order assumed between tiles shows.
  void run(std::vector<void *> buffers, std::vector<int64_t> params = {}, int64_t parts = 1) const {
    void *scratch = nullptr;
    if (scratchBytes) {
      scratch = std::aligned_alloc(64, (scratchBytes + 63) / 64 * 64);
      buffers.push_back(scratch);
    }
    for (int64_t part = parts; part-- > 0;)
      entry(buffers.data(), params.data(), tiles * part / parts, tiles * (part + 1) / parts);
    std::free(scratch);
  }

  int64_t tiles, scratchBytes;
  KernelPointer entry;

private:
  static std::string link(GeneratedKernel &generated, const Processor &processor, std::string &symbol) {
    KernelCompiler compiler(processor, 0);
    symbol = compiler.add(*generated.module, "test");
    llvm::Expected<std::string> image = compiler.finish();
    if (!image)
      throw std::runtime_error(llvm::toString(image.takeError()));
    return *image;
  }
  std::string symbol;
  LoadedKernels kernels;
};

} // namespace colossal::cpu::test

#endif // COLOSSAL_TEST_CODEGEN_LOADEDKERNELS_H
