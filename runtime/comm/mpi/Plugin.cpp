// The communicator of processes under mpirun or srun: one rank a process. A plug-in, so that the runtime
// starts where MPI is not installed.
#include "runtime/comm/Open.h"
#include "runtime/comm/mpi/Mpi.h"

#include <dlfcn.h>

namespace colossal::runtime {

extern "C" __attribute__((visibility("default"))) Status
colossalCreateCommunicator(uint32_t ranks, Abort &abort, Communicator &communicator) {
  // Open MPI's own plug-ins expect its symbols in the global scope.
  Dl_info info;
  if (::dladdr(reinterpret_cast<void *>(&MPI_Init_thread), &info) != 0 && info.dli_fname)
    (void)::dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
  int provided = 0;
  COLOSSAL_MPI(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided));
  int count = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  Status status;
  if (provided < MPI_THREAD_MULTIPLE)
    status = {Code::Unsupported, "this MPI does not allow calls from several threads (MPI_THREAD_MULTIPLE)"};
  else if (static_cast<uint32_t>(count) != ranks)
    status = {Code::InvalidArgument, "the plan is for " + std::to_string(ranks) + " ranks, and MPI started " +
                                         std::to_string(count) + " processes (mpirun -n " +
                                         std::to_string(ranks) + ")"};
  if (!status.ok()) {
    MPI_Finalize();
    return status;
  }
  communicator = {createMpiControl(), createMpiTransfers(abort)};
  return {};
}

} // namespace colossal::runtime
