// An ELF image becomes a sealed memory file and is opened by its descriptor's path.
#include "runtime/execute/Modules.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace colossal::runtime {

namespace {

/// Leaves the file open: the loader takes a path that it knows for the module it knows, and a descriptor that
/// is closed gives its number, and so its path, to the next.
Status loadImage(const std::byte *image, uint64_t bytes, int &fd, void *&handle) {
  fd = ::memfd_create("colossal-code", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0)
    return {Code::Io, std::string("cannot create memory for the plan's code: ") + std::strerror(errno)};
  Status status;
  for (uint64_t done = 0; done < bytes && status.ok();) {
    ssize_t wrote = ::write(fd, image + done, bytes - done);
    if (wrote < 0 && errno != EINTR)
      status = {Code::OutOfMemory, std::string("cannot copy the plan's code: ") + std::strerror(errno)};
    done += wrote > 0 ? static_cast<uint64_t>(wrote) : 0;
  }
  if (status.ok()) {
    (void)::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    std::string path = "/proc/self/fd/" + std::to_string(fd);
    handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle)
      status = {Code::InvalidPlan, std::string("the plan's code cannot be loaded: ") + ::dlerror()};
  }
  return status;
}

} // namespace

Modules::~Modules() {
  for (void *handle : handles)
    if (handle)
      ::dlclose(handle);
  for (int file : files)
    ::close(file);
}

Status Modules::load(const plan::Plan &plan, plan::ByteView code) {
  for (const plan::Module &module : plan.modules()) {
    int file = -1;
    void *handle = nullptr;
    Status status = loadImage(code.data + module.offset(), module.bytes(), file, handle);
    handles.push_back(handle);
    if (file >= 0)
      files.push_back(file);
    COLOSSAL_RETURN_IF_ERROR(status);
  }
  for (const plan::Kernel &kernel : plan.kernels()) {
    void *address = ::dlsym(handles[kernel.module()], kernel.symbol().c_str());
    if (!address)
      return {Code::InvalidPlan, "the plan's code has no kernel '" + kernel.symbol() + "'"};
    functions.push_back(reinterpret_cast<KernelFunction>(address));
  }
  return {};
}

} // namespace colossal::runtime
