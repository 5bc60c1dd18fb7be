// Functions of a library that a test opens by its path, as the runtime opens it by its name.
#ifndef COLOSSAL_EMULATION_RESOLVE_H
#define COLOSSAL_EMULATION_RESOLVE_H

#include <gtest/gtest.h>

#include <cstring>
#include <dlfcn.h>

namespace colossal::emulation {

inline void *open(const char *path) {
  void *handle = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  EXPECT_TRUE(handle) << ::dlerror();
  return handle;
}

template <class Function>
void resolve(void *handle, const char *symbol, Function &function) {
  void *address = ::dlsym(handle, symbol);
  EXPECT_TRUE(address) << symbol;
  std::memcpy(&function, &address, sizeof address);
}

} // namespace colossal::emulation

#endif
