// Elementwise reductions of contiguous elements over members, in the order given: the arithmetic that all
// communicators share, so that they agree to the bit.
#ifndef COLOSSAL_RUNTIME_COMM_REDUCE_H
#define COLOSSAL_RUNTIME_COMM_REDUCE_H

#include "runtime/comm/Communicator.h"

namespace colossal::runtime {

/// Elements that reduceElements handles at once; its callers cut longer runs.
constexpr uint64_t reduceChunk = 1024;

/// dst[e] = sources[0][e] op sources[1][e] op ..., for e < count <= reduceChunk. dst may be one of the
/// sources. F16 and BF16 are reduced in f32 and rounded once. MAX and MIN give NaN where any operand is NaN.
void reduceElements(ElementType type, Reduction op, const std::byte *const *sources, uint32_t members,
                    std::byte *dst, uint64_t count);

/// dst[e] = value, converted to the type (integers saturate).
void fillElements(ElementType type, double value, std::byte *dst, uint64_t count);

/// Of floats of eight and four bits, a byte each; to them rounded to nearest even and saturated, to powers of
/// two (F8E8M0) up.
float narrowToFloat(ElementType type, uint8_t bits);
uint8_t floatToNarrow(ElementType type, float value);
float halfToFloat(uint16_t half);
/// Rounds to nearest, ties to even.
uint16_t floatToHalf(float value);
float bfloatToFloat(uint16_t value);
uint16_t floatToBfloat(float value);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_COMM_REDUCE_H
