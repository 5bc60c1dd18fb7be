// Machine code from a plan, brought into the process by the system's loader.
#ifndef COLOSSAL_RUNTIME_CPU_IMAGE_H
#define COLOSSAL_RUNTIME_CPU_IMAGE_H

#include "runtime/device/Device.h"

#include <map>
#include <mutex>

namespace colossal::runtime {

/// The signature of generated kernels: computes tiles [begin, end).
using KernelFunction = void (*)(void *const *buffers, const int64_t *params, int64_t begin, int64_t end);

/// Ranks of one process load the same bytes; the first brings them in.
class ImageCache {
public:
  /// Loads an ELF shared object from memory; no file is written. Any thread may call it.
  Status load(plan::ByteView code, std::shared_ptr<Image> &image);

private:
  std::mutex mutex;
  std::map<std::pair<const std::byte *, size_t>, std::weak_ptr<Image>> loaded; // by the code's place
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_CPU_IMAGE_H
