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

Status loadImage(const std::byte *image, uint64_t bytes, void *&handle) {
  int fd = ::memfd_create("colossal-code", MFD_CLOEXEC | MFD_ALLOW_SEALING);
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
  ::close(fd);
  return status;
}

} // namespace

Modules::~Modules() {
  for (void *handle : handles)
    ::dlclose(handle);
}

Status Modules::load(const plan::Plan &plan, plan::ByteView code) {
  for (const plan::Module &module : plan.modules()) {
    void *handle = nullptr;
    COLOSSAL_RETURN_IF_ERROR(loadImage(code.data + module.offset(), module.bytes(), handle));
    handles.push_back(handle);
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
