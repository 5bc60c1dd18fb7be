// How much of a collective goes at once. Apart from the other formulas: communicators' plug-ins have it in
// themselves, and must not have the plan's schema, which registers itself once in a process.
#include "colossal/Plan/Traffic.h"

#include <algorithm>

namespace colossal::plan {

Staging stagingOf(Collective::Kind kind, uint64_t elements, uint64_t elementBytes, uint64_t members) {
  if (members <= 1 || elements == 0 || kind == Collective::EXCHANGE)
    return {elements, 0}; // copied in place; windows travel as they lie
  // What one element of the block takes: outgoing and incoming.
  uint64_t copies = 0;
  const bool slices =
      kind == Collective::ALL_REDUCE && members > 2 && elements * elementBytes > shortAllReduce;
  switch (kind) {
  case Collective::ALL_REDUCE: copies = slices ? 2 : members + 1; break;
  case Collective::ALL_GATHER: copies = members + 1; break;
  case Collective::REDUCE_SCATTER:
  case Collective::ALL_TO_ALL: copies = 2 * members; break;
  case Collective::BROADCAST: copies = 1; break;
  default: copies = 2; break;
  }
  uint64_t atOnce = std::max<uint64_t>(1, stagingLimit / (copies * elementBytes));
  // A member's slice of an all-reduce is a whole number of elements, the greatest ⌈elements / members⌉.
  auto bytes = [&](uint64_t piece) {
    return (slices ? piece + (piece + members - 1) / members * members : piece * copies) * elementBytes;
  };
  if (slices)
    atOnce = std::max(members, atOnce / members * members);
  const uint64_t piece = std::min(elements, atOnce);
  return {piece, bytes(piece)};
}

} // namespace colossal::plan
