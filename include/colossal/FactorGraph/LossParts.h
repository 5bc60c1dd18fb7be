// In which parts a program computes a loss over many classes: what cuts it, and what foresees its memory,
// agree by this.
#ifndef COLOSSAL_FACTORGRAPH_LOSSPARTS_H
#define COLOSSAL_FACTORGRAPH_LOSSPARTS_H

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace colossal::factors {

/// In how many equal parts a rank computes logits of `bytes` in `rows` rows, of which `size` can be told
/// apart: of 64 MiB or so each, as many as divide `size`, and none of fewer than 512 rows, as each part reads
/// the weights of all classes and adds to their gradient. 1: all at once.
inline int64_t lossParts(int64_t size, double rows, double bytes) {
  constexpr double kPartBytes = 64 << 20, kLeastRows = 512;
  const double most = std::floor(rows / kLeastRows), wanted = std::ceil(bytes / kPartBytes);
  auto parts = static_cast<int64_t>(std::min({most, wanted, static_cast<double>(size)}));
  while (parts > 1 && size % parts != 0)
    --parts;
  return std::max<int64_t>(parts, 1);
}

} // namespace colossal::factors

#endif // COLOSSAL_FACTORGRAPH_LOSSPARTS_H
