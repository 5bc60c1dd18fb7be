// What computes a graph on a GPU: the library's engines, of which those that keep to the plan's arithmetic
// are taken.
#ifndef COLOSSAL_RUNTIME_CUDA_CUDNN_ENGINES_H
#define COLOSSAL_RUNTIME_CUDA_CUDNN_ENGINES_H

#include "runtime/cuda/Algorithms.h"
#include "runtime/cuda/cudnn/OperationGraph.h"

namespace colossal::runtime {

/// An engine with its knobs, and where it was finalized the library's plan for it.
struct CudnnEngine {
  Algorithms::Words words; ///< engine, then knob and value of each knob: equal for equal ones
  CudnnDescriptor config;
  CudnnDescriptor plan;
  uint64_t workspaceBytes = 0;
};

/// The GPU of a handle, or one that is described in the library's own words.
Status describeDevice(const CudnnLibrary &library, cudnn::Handle handle, CudnnDescriptor &device);
Status describeDevice(const CudnnLibrary &library, const std::string &json, CudnnDescriptor &device);

/// What engines may do to be taken. None adds up in less than the compute type, transforms its input (FFT,
/// Winograd) or gives other bits each time.
struct CudnnRules {
  bool rounds = false;   ///< factors, on tensor cores: of f32 to tf32
  bool compiles = false; ///< kernels when the plan is made, which takes a second and NVRTC
};

/// The engines that the library advises for the graph, best first, and behind them those that it has for what
/// it gives no advice on; those that the rules leave out are not among them.
Status listEngines(const CudnnLibrary &library, const CudnnGraph &graph, const CudnnDescriptor &device,
                   const CudnnRules &rules, std::vector<CudnnEngine> &engines);

/// Makes the engine's plan. Unsupported where the library cannot, or it needs more workspace than that.
Status finalizePlan(const CudnnLibrary &library, const CudnnDescriptor &device, uint64_t workspaceBytes,
                    CudnnEngine &engine);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_CUDA_CUDNN_ENGINES_H
