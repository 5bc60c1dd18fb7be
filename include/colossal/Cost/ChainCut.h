// A model as a chain of parts, cut into pipeline stages so that the slowest stage is as fast as it can be.
#ifndef COLOSSAL_COST_CHAINCUT_H
#define COLOSSAL_COST_CHAINCUT_H

#include <cstddef>
#include <vector>

namespace colossal::cost {

/// What stays together on one stage.
struct ChainPart {
  double seconds = 0;        ///< of one microbatch
  double stateBytes = 0;     ///< parameters, gradients, optimizer
  double keptBytes = 0;      ///< activations of one microbatch until its backward pass
  double transientBytes = 0; ///< on top while a part of the stage runs backward
};

/// The first part of each stage, of `stages` contiguous ones with at least one part each, such that the
/// longest stage is shortest among the cuts whose stages fit `memoryBytes`: the state of their parts, what
/// they keep of min(stages - s, microbatches) microbatches (1F1B), and the largest transient. Where none
/// fits, the shortest without regard to memory. Empty if there are fewer parts than stages.
std::vector<std::size_t> cutChain(const std::vector<ChainPart> &parts, int stages, int microbatches,
                                  double memoryBytes);

} // namespace colossal::cost

#endif // COLOSSAL_COST_CHAINCUT_H
