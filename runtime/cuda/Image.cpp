// Modules, and which image becomes one.
#include "runtime/cuda/Image.h"

#include <cstdlib>

namespace colossal::runtime {

namespace {

/// 90 of "sm_90"; 0 of what is no plain architecture ("sm_90a" runs on that one only, and no plan has it).
int capabilityOf(const std::string &architecture) {
  if (architecture.rfind("sm_", 0) != 0)
    return 0;
  char *end = nullptr;
  const long number = std::strtol(architecture.c_str() + 3, &end, 10);
  return *end == 0 && number > 0 && number < 1000 ? static_cast<int>(number) : 0;
}

class CudaImage : public Image {
public:
  CudaImage(const CudaLibrary &library) : library(library) {}
  ~CudaImage() override {
    if (module)
      (void)library->cuModuleUnload(module);
  }

  Status load(plan::ByteView code) {
    char words[4096] = {};
    cuda::JitOption options[] = {cuda::JitErrorLogBuffer, cuda::JitErrorLogBufferSizeBytes};
    void *values[] = {words, pointerOf<void>(sizeof words - 1)};
    const cuda::Result result = library->cuModuleLoadDataEx(&module, code.data, 2, options, values);
    if (result == cuda::Success)
      return {};
    module = nullptr;
    Status status = library.check(result, "cuModuleLoadDataEx");
    return {status.code() == Code::OutOfMemory ? status.code() : Code::InvalidPlan,
            "the plan's code cannot be loaded: " + status.message() + (words[0] ? ": " : "") + words};
  }

  Status find(const std::string &symbol, Kernel &kernel) override {
    std::lock_guard<std::mutex> lock(mutex);
    CudaKernel &known = kernels[symbol];
    kernel = &known;
    if (known.function)
      return {};
    const cuda::Result result = library->cuModuleGetFunction(&known.function, module, symbol.c_str());
    if (result == cuda::NotFound)
      return {Code::InvalidPlan, "the plan's code has no kernel '" + symbol + "'"};
    COLOSSAL_RETURN_IF_ERROR(library.check(result, "cuModuleGetFunction"));
    int threads = 0;
    COLOSSAL_CUDA_CALL(library, cuFuncGetAttribute, &threads, cuda::FunctionMaxThreadsPerBlock,
                       known.function);
    known.threads = static_cast<unsigned>(threads);
    return {};
  }

private:
  const CudaLibrary &library;
  cuda::Module module = nullptr;
  std::mutex mutex;
  std::map<std::string, CudaKernel> kernels; // nodes stay where they are
};

} // namespace

Status chooseCudaImage(const Images &images, const Gpu &gpu, int &chosen) {
  const int own = 10 * gpu.major + gpu.minor;
  int best = 0;
  chosen = -1;
  for (int i = 0; i < images.size(); ++i) {
    const int capability = capabilityOf(images[i].architecture());
    const bool cubin = images[i].format() == plan::Image::CUBIN && !gpu.emulated;
    if (!capability || capability > own || (!cubin && images[i].format() != plan::Image::PTX) ||
        (cubin && capability / 10 != own / 10))
      continue;
    // Machine code before what has to be compiled, then the newest.
    if (const int rank = capability + (cubin ? 1000 : 0); rank > best)
      best = rank, chosen = i;
  }
  if (chosen >= 0)
    return {};
  return noImageFits(images, gpu.describe() + (gpu.emulated ? " executes PTX" : " runs cubins and PTX") +
                                 " for " + gpu.architecture() + " and older");
}

Status CudaImageCache::load(const CudaLibrary &library, const Gpu &gpu, plan::ByteView code,
                            std::shared_ptr<Image> &image) {
  std::lock_guard<std::mutex> lock(mutex);
  std::weak_ptr<Image> &known = loaded[{gpu.number, code.data}];
  image = known.lock();
  if (image)
    return {};
  auto made = std::make_shared<CudaImage>(library);
  COLOSSAL_RETURN_IF_ERROR(made->load(code));
  known = made;
  image = std::move(made);
  return {};
}

} // namespace colossal::runtime
