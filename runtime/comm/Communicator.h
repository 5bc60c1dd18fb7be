// A communicator: one rank's connection to the others, in two halves that need not come from the same
// library. NCCL, for one, moves tensors and leaves it to others how hosts find each other.
#ifndef COLOSSAL_RUNTIME_COMM_COMMUNICATOR_H
#define COLOSSAL_RUNTIME_COMM_COMMUNICATOR_H

#include "runtime/comm/Control.h"
#include "runtime/comm/Transfers.h"

#include <memory>

namespace colossal::runtime {

struct Communicator {
  std::unique_ptr<Control> control; // before the transfers: it goes last
  std::unique_ptr<Transfers> transfers;
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_COMM_COMMUNICATOR_H
