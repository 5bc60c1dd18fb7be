// Transfers that reach host memory only, for a device whose memory the host cannot touch.
//
// Every transfer becomes three pieces of one queue's work: download what is sent to pinned memory, transfer
// there, upload what came. As a queue's work is in order, one pair of pinned buffers a queue is enough.
#ifndef COLOSSAL_RUNTIME_COMM_STAGEDTRANSFERS_H
#define COLOSSAL_RUNTIME_COMM_STAGEDTRANSFERS_H

#include "runtime/comm/Transfers.h"

namespace colossal::runtime {

/// `transfers` as they are where they reach the device's memory, else through pinned memory. `device`
/// outlives what comes back.
std::unique_ptr<Transfers> reachDevice(std::unique_ptr<Transfers> transfers, Device &device);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_COMM_STAGEDTRANSFERS_H
