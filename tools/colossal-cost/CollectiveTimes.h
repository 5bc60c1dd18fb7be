// Times of the local communicator's collectives: ranks as threads of this process, as colossal-run has them.
#ifndef COLOSSAL_TOOLS_COLOSSAL_COST_COLLECTIVETIMES_H
#define COLOSSAL_TOOLS_COLOSSAL_COST_COLLECTIVETIMES_H

#include <cstddef>
#include <string>

namespace colossal::tool {

enum class TimedCollective { AllReduce, AllGather, ReduceScatter };

/// Seconds per call of `bytes` (of the whole tensor) over `ranks` ranks that do nothing else, in the quieter
/// windows of calls. Waiting ranks spin where each has one of the `cores`, as the runtime decides it.
double timeCollective(TimedCollective kind, std::size_t bytes, unsigned ranks, unsigned cores,
                      std::string &error);

} // namespace colossal::tool

#endif // COLOSSAL_TOOLS_COLOSSAL_COST_COLLECTIVETIMES_H
