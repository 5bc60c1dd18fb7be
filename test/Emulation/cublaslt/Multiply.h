// A product on the host, as work of a stream of the emulated driver.
#ifndef COLOSSAL_EMULATION_CUBLASLT_MULTIPLY_H
#define COLOSSAL_EMULATION_CUBLASLT_MULTIPLY_H

#include "Rules.h"
#include "test/Emulation/driver/Hooks.h"

namespace colossal::cublaslt {

/// A call that was found to be right. Descriptors may go after it.
struct Product {
  MatmulDescHandle operation;
  MatrixLayoutHandle a, b, d;
  Way way;
  double alpha = 1;
  cuda::DevicePointer first = 0, second = 0, result = 0, workspace = 0;
};

/// Adds it to the stream's work. InvalidValue where an operand lies in no memory of the GPU.
Result enqueue(const Product &product, Stream stream);

} // namespace colossal::cublaslt

#endif
