// The suite that every communicator must pass. It knows the interface only: expected results are written out
// element by element from Plan.proto's definitions, on every rank for itself.
#ifndef COLOSSAL_TEST_RUNTIME_CONFORMANCE_H
#define COLOSSAL_TEST_RUNTIME_CONFORMANCE_H

#include "runtime/comm/Communicator.h"

#include <string>
#include <vector>

namespace colossal::runtime {

/// Called by every rank at the same time with its own handle, queue and event; `axes` are the extents of the
/// mesh, whose product is the number of ranks. Returns what is wrong, empty if nothing. `checks` counts the
/// collectives run.
std::string runConformance(Communicator &communicator, Device &device, Queue &queue,
                           const std::vector<uint32_t> &axes, uint64_t &checks);

} // namespace colossal::runtime

#endif // COLOSSAL_TEST_RUNTIME_CONFORMANCE_H
