// Convolutions and attention on the host, as work of a stream of the emulated driver.
#ifndef COLOSSAL_EMULATION_CUDNN_WORK_H
#define COLOSSAL_EMULATION_CUDNN_WORK_H

#include "Rules.h"
#include "test/Emulation/driver/Hooks.h"

namespace colossal::cudnn {

/// A call that was found to be right. Descriptors may go after it.
struct Call {
  std::shared_ptr<const Graph> graph;
  Engine engine;
  cuda::DevicePointer x = 0, w = 0, bias = 0, y = 0, workspace = 0;
  // Of attention.
  cuda::DevicePointer q = 0, k = 0, v = 0, mask = 0, o = 0;
  float scale = 1, hidden = 0;
  std::int64_t offset = 0;
};

/// Adds it to the stream's work. BadParam where an operand lies in no memory of the GPU.
Result enqueueConvolution(const Call &call, Stream stream);
Result enqueueAttention(const Call &call, Stream stream);

} // namespace colossal::cudnn

#endif
