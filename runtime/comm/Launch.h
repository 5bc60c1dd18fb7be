// Who this process is among those that a launcher started, as environment variables tell it.
#ifndef COLOSSAL_RUNTIME_COMM_LAUNCH_H
#define COLOSSAL_RUNTIME_COMM_LAUNCH_H

#include "colossal/Plan/Status.h"

#include <cstdint>
#include <functional>
#include <string>

namespace colossal::runtime {

using plan::Code;
using plan::Status;

struct Launch {
  uint32_t rank = 0, size = 1;
  uint32_t localRank = 0, localSize = 1; ///< among the processes of this host
  std::string by;                        ///< "torchrun (RANK=2, WORLD_SIZE=4)"; empty: nobody started several
  // Where rank 0 listens for the others, and the word by which they know each other.
  std::string host; ///< empty: nothing tells
  uint16_t port = 0;
  std::string token;
};

/// Reads, in this order, COLOSSAL_RANK and COLOSSAL_SIZE, torchrun's, Open MPI's, PMI's and Slurm's
/// variables. The first that is there wins. One launcher may have started another (srun, and torchrun on each
/// node); two that cannot both be right are an error that names them. `variable` gives a variable, or null.
Status findLaunch(Launch &launch, const std::function<const char *(const char *)> &variable);
/// Of this process.
Status findLaunch(Launch &launch);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_COMM_LAUNCH_H
