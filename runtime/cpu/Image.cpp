// An ELF image becomes a sealed memory file and is opened by its descriptor's path.
#include "runtime/cpu/Image.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace colossal::runtime {

namespace {

class ElfImage : public Image {
public:
  ~ElfImage() override {
    if (handle)
      ::dlclose(handle);
    if (file >= 0)
      ::close(file);
  }

  Status load(plan::ByteView code) {
    file = ::memfd_create("colossal-code", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0)
      return {Code::Io, std::string("cannot create memory for the plan's code: ") + std::strerror(errno)};
    for (uint64_t done = 0; done < code.size;) {
      ssize_t wrote = ::write(file, code.data + done, code.size - done);
      if (wrote < 0 && errno != EINTR)
        return {Code::OutOfMemory, std::string("cannot copy the plan's code: ") + std::strerror(errno)};
      done += wrote > 0 ? static_cast<uint64_t>(wrote) : 0;
    }
    (void)::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    const std::string path = "/proc/self/fd/" + std::to_string(file);
    handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle)
      return {Code::InvalidPlan, std::string("the plan's code cannot be loaded: ") + ::dlerror()};
    return {};
  }

  Status find(const std::string &symbol, Kernel &kernel) override {
    kernel = ::dlsym(handle, symbol.c_str());
    if (!kernel)
      return {Code::InvalidPlan, "the plan's code has no kernel '" + symbol + "'"};
    return {};
  }

private:
  void *handle = nullptr;
  /// Open as long as the code is loaded: the loader takes a path that it knows for the module it knows, and a
  /// descriptor that is closed gives its number, and so its path, to the next.
  int file = -1;
};

} // namespace

Status ImageCache::load(plan::ByteView code, std::shared_ptr<Image> &image) {
  std::lock_guard<std::mutex> lock(mutex);
  std::weak_ptr<Image> &known = loaded[{code.data, code.size}];
  image = known.lock();
  if (image)
    return {};
  auto made = std::make_shared<ElfImage>();
  COLOSSAL_RETURN_IF_ERROR(made->load(code));
  known = made;
  image = std::move(made);
  return {};
}

} // namespace colossal::runtime
