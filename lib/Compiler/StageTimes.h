//===- StageTimes.h - how long a run takes through stages -------------------===//
//
// Stages work one after the other on a run, each on one microbatch while others work on others; or, where
// runs overlap, each on a run of its own. Numbers only.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_COMPILER_STAGETIMES_H
#define COLOSSAL_LIB_COMPILER_STAGETIMES_H

#include "colossal/Compiler/Compiler.h"
#include "dialects/Dist/Pipeline.h"

namespace colossal {

/// Seconds of what a stage does in a run while no other stage works.
struct StageWork {
  struct Chunk {
    double computing = 0; ///< of all microbatches, without what it sends
    double sending = 0;   ///< of all microbatches
  };
  double once = 0;           ///< before its first microbatch
  std::vector<Chunk> chunks; ///< of all stages as many
  double total() const {
    double seconds = once;
    for (const Chunk &chunk : chunks)
      seconds += chunk.computing + chunk.sending;
    return seconds;
  }
};

struct StageTimes {
  double seconds = 0;  ///< of one run, from the first input to the last output
  double interval = 0; ///< from one run to the next, where they overlap: the slowest stage's time
  std::vector<std::vector<StagePass>> passes; ///< by stage, in their order
};

/// Of `stages` in the order in which a run goes through them, in so many microbatches, by cost::simulate with
/// GPipe's order, or of several chunks the interleaved one. `slowdown`: entry b - 1 is how many times as long
/// all takes while b stages work, as they share processors; empty where they do not.
StageTimes simulateStages(const std::vector<StageWork> &stages, int64_t microbatches,
                          const std::vector<double> &slowdown);

/// The same of a training program, whose passes go as `pipeline` and `schedule` say. Its chunks come in the
/// pipeline's numbers; what they do behind the microbatches counts as done once.
StageTimes simulatePasses(const std::vector<StageWork> &stages, const dist::Pipeline &pipeline,
                          cost::Schedule schedule, int64_t microbatches, const std::vector<double> &slowdown);

} // namespace colossal

#endif // COLOSSAL_LIB_COMPILER_STAGETIMES_H
