// How what a view shows is aligned.
#ifndef COLOSSAL_LIB_CODEGEN_CUDA_VIEWALIGNMENT_H
#define COLOSSAL_LIB_CODEGEN_CUDA_VIEWALIGNMENT_H

#include "BlockTeam.h"

#include "colossal/Schedule/Views.h"

#include <numeric>

namespace colossal::nvidia {

/// Bytes of which the address of element [0, ..., 0] is a multiple, in every turn; elements have `bytes`.
inline int64_t alignmentOf(const schedule::View &view, int64_t bytes) {
  return std::gcd(std::gcd(storageAlignment, view.offset * bytes), view.turn * bytes);
}

} // namespace colossal::nvidia

#endif // COLOSSAL_LIB_CODEGEN_CUDA_VIEWALIGNMENT_H
