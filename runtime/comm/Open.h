// Communicators by name. `local` is built in; the others are plug-ins, opened only when asked for, so that a
// program starts where their libraries are missing.
#ifndef COLOSSAL_RUNTIME_COMM_OPEN_H
#define COLOSSAL_RUNTIME_COMM_OPEN_H

#include "runtime/comm/Communicator.h"
#include "runtime/execute/Abort.h"

#include <functional>
#include <string>

namespace colossal::runtime {

/// The handles of the ranks that this process holds: all of them for "local", one for "mpi" and "nccl".
/// `ranks` is the plan's number; a launcher that started another number of processes is an error. `ordered`:
/// reductions are taken in the order of the ranks also where a library has an order of its own.
Status openCommunicators(const std::string &name, uint32_t ranks, unsigned spins, Abort &abort,
                         std::vector<Communicator> &communicators, bool ordered = false);

/// What moves the tensors of a plan for `device` where nobody says: "nccl" for GPUs in several processes,
/// else "local".
std::string defaultCommunicator(const std::string &device);

/// Wraps what moves tensors between the ranks of `local`: tests give it the freedom that other communicators
/// take. Before any plan is opened; an empty one takes it away.
using WrapTransfers =
    std::function<std::unique_ptr<Transfers>(std::unique_ptr<Transfers> transfers, uint32_t rank)>;
bool wrapLocalTransfers(WrapTransfers wrap);

/// Opens lib<name>.so beside this program or library, in ../lib, where this was installed, or where the
/// system looks.
Status openPlugin(const std::string &name, const std::string &purpose, void *&handle);

/// A plug-in exports this under the name colossalCreateCommunicator. It is called once.
using CreateCommunicator = Status (*)(uint32_t ranks, Abort &abort, Communicator &communicator);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_COMM_OPEN_H
