// Plug-ins: where they are looked for, and what is said where they are missing.
#include "runtime/comm/Open.h"

#include "runtime/comm/Local.h"
#include "runtime/comm/nccl/Nccl.h"

#include <cstdlib>
#include <dlfcn.h>
#include <unistd.h>

namespace colossal::runtime {

namespace {
WrapTransfers &localWrap() {
  static WrapTransfers wrap;
  return wrap;
}
} // namespace

bool wrapLocalTransfers(WrapTransfers wrap) {
  localWrap() = std::move(wrap);
  return true;
}

Status openPlugin(const std::string &name, const std::string &purpose, void *&handle) {
  std::string file = "lib" + name + ".so";
  std::vector<std::string> candidates;
  Dl_info info;
  if (::dladdr(reinterpret_cast<void *>(&openPlugin), &info) != 0 && info.dli_fname) {
    std::string self = info.dli_fname;
    // A program found by way of PATH is known here by its bare name.
    char path[4096];
    if (self.find('/') == std::string::npos)
      if (ssize_t length = ::readlink("/proc/self/exe", path, sizeof path); length > 0)
        self.assign(path, length);
    // The plug-ins lie beside the file itself, not beside a link to it.
    if (char *resolved = ::realpath(self.c_str(), nullptr)) {
      self = resolved;
      ::free(resolved);
    }
    if (size_t slash = self.rfind('/'); slash != std::string::npos)
      candidates = {self.substr(0, slash) + "/" + file, self.substr(0, slash) + "/../lib/" + file};
  }
  candidates.push_back(std::string(COLOSSAL_PLUGIN_FOLDER) + "/" + file);
  candidates.push_back(file);
  std::string reasons;
  for (const std::string &candidate : candidates) {
    handle = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle)
      return {};
    std::string reason = ::dlerror();
    // "No such file" of the plug-in itself says nothing; a missing library under it does.
    if (reason.rfind(candidate, 0) != 0 || candidate == file)
      reasons += (reasons.empty() ? "" : "; ") + reason;
  }
  return {Code::Unsupported, purpose + " cannot be used here: " + reasons};
}

namespace {
Status openNccl(uint32_t ranks, bool ordered, Abort &abort, Communicator &communicator) {
  Launch launch;
  COLOSSAL_RETURN_IF_ERROR(findLaunch(launch));
  if (launch.size != ranks)
    return {Code::InvalidArgument,
            "the plan is for " + std::to_string(ranks) + " ranks, and " +
                (launch.by.empty()
                     ? "no launcher's variables say which of several processes this is (torchrun, "
                       "mpirun, srun, or COLOSSAL_RANK and COLOSSAL_SIZE)"
                     : launch.by + " started " + std::to_string(launch.size))};
  std::unique_ptr<TcpControl> control;
  COLOSSAL_RETURN_IF_ERROR(createTcpControl(launch, abort, control));
  // Only now, so that the others need not wait for one that lacks it.
  const NcclLibrary *library = nullptr;
  if (Status status = NcclLibrary::open(library); !status.ok()) {
    abort.raise(status);
    return status;
  }
  communicator.transfers = createNcclTransfers(*library, ordered, *control, *control, abort);
  communicator.control = std::move(control);
  return {};
}
} // namespace

std::string defaultCommunicator(const std::string &device) {
  Launch launch;
  return device == "cuda" && (!findLaunch(launch).ok() || launch.size > 1) ? "nccl" : "local";
}

Status openCommunicators(const std::string &name, uint32_t ranks, unsigned spins, Abort &abort,
                         std::vector<Communicator> &communicators, bool ordered) {
  if (name == "local") {
    communicators = createLocalCommunicators(ranks, spins, abort);
    if (const WrapTransfers &wrap = localWrap())
      for (uint32_t rank = 0; rank < ranks; ++rank)
        communicators[rank].transfers = wrap(std::move(communicators[rank].transfers), rank);
    return {};
  }
  if (name == "nccl") {
    communicators.resize(1);
    return openNccl(ranks, ordered, abort, communicators[0]);
  }
  if (name != "mpi")
    return {Code::InvalidArgument, "there is no communicator '" + name + "'; there are: local, mpi, nccl"};
  void *handle = nullptr;
  COLOSSAL_RETURN_IF_ERROR(openPlugin("colossal-comm-" + name, "communicator '" + name + "'", handle));
  auto create = reinterpret_cast<CreateCommunicator>(::dlsym(handle, "colossalCreateCommunicator"));
  if (!create)
    return {Code::Unsupported, "the plug-in of communicator '" + name + "' is of another version"};
  communicators.resize(1);
  return create(ranks, abort, communicators[0]);
}

} // namespace colossal::runtime
