// The communicator of ranks that are threads of one process: members read each other's buffers directly.
#ifndef COLOSSAL_RUNTIME_COMM_LOCAL_H
#define COLOSSAL_RUNTIME_COMM_LOCAL_H

#include "runtime/comm/Communicator.h"
#include "runtime/execute/Abort.h"

namespace colossal::runtime {

/// Makes the handles of all ranks. `spins`: how long a rank spins for the others before it sleeps. `abort`
/// ends all waits and outlives the handles; a wait longer than its timeout is a failure that names who is
/// missing.
std::vector<Communicator> createLocalCommunicators(uint32_t ranks, unsigned spins, Abort &abort);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_COMM_LOCAL_H
