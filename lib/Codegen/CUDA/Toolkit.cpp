// Folders, in turn.
#include "Toolkit.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"

#include <vector>

using namespace colossal;

namespace {

std::vector<std::string> folders(bool beforePath) {
  if (!beforePath)
    return {"/usr/local/cuda", COLOSSAL_CUDA_PACKAGES};
  std::vector<std::string> named;
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (auto folder = llvm::sys::Process::GetEnv(variable))
      named.push_back(*folder);
  return named;
}

std::string findIn(const std::vector<std::string> &roots, const char *file) {
  for (const std::string &root : roots)
    if (std::string path = root + file; !root.empty() && llvm::sys::fs::exists(path))
      return path;
  return {};
}

} // namespace

std::string nvidia::findAssembler() {
  if (std::string named = findIn(folders(true), "/bin/ptxas"); !named.empty())
    return named;
  if (auto program = llvm::sys::findProgramByName("ptxas"))
    return *program;
  return findIn(folders(false), "/bin/ptxas");
}

std::string nvidia::findLibdevice() {
  constexpr const char *file = "/nvvm/libdevice/libdevice.10.bc";
  std::string named = findIn(folders(true), file);
  return named.empty() ? findIn(folders(false), file) : named;
}
