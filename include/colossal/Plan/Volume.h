// The closed formulas of what a member of a collective sends, for all who state, search by, price or check
// it. No schema and no IR: the runtime's plug-ins, the plan and the cost model include it alike.
//
// Ring and pairwise algorithms (Patarasuk and Yuan, 2009): an all-gather hands each block to the n - 1
// others, a reduce-scatter and an all-to-all hand each other member its block, and an all-reduce is both on
// slices.
#ifndef COLOSSAL_PLAN_VOLUME_H
#define COLOSSAL_PLAN_VOLUME_H

#include <cstdint>
#include <utility>

namespace colossal::plan {

/// The elements [first, second) that `member` of `members` reduces where an all-reduce of `elements` is cut
/// into slices, as even as whole elements allow.
inline std::pair<uint64_t, uint64_t> memberSlice(uint64_t elements, uint64_t member, uint64_t members) {
  const uint64_t each = elements / members, more = elements % members;
  const uint64_t begin = member * each + (member < more ? member : more);
  return {begin, begin + each + (member < more ? 1 : 0)};
}

/// All-gather, reduce-scatter and all-to-all in blocks of `block` bytes, and the root of a broadcast.
/// Example: 100 bytes to each of 3 others are 300.
template <class Number>
constexpr Number sentInBlocks(Number block, Number members) {
  return members > 1 ? block * (members - 1) : 0;
}

/// All-reduce of `block` bytes of which this member reduces `slice`: it sends the others theirs, and its own,
/// reduced, to each of them. With equal slices, 2 (n - 1) / n of the block. Example: of 10 bytes over 3
/// members, who reduce 4, 3 and 3, the first sends 6 + 8.
template <class Number>
constexpr Number sentInSlices(Number block, Number slice, Number members) {
  return members > 1 ? block - slice + (members - 1) * slice : 0;
}

/// What a collective moves, whatever its name is elsewhere.
enum class Pattern {
  AllReduce,     ///< of a tensor that each member holds whole
  AllGather,     ///< of blocks that make a tensor
  ReduceScatter, ///< to blocks that make a tensor
  AllToAll       ///< of a tensor that each member holds in as many blocks as there are members
};

/// Bytes that a member sends in the mean over all members, where the tensor has `bytes`.
inline double meanSentBytes(Pattern pattern, double bytes, double members) {
  if (members <= 1)
    return 0;
  const double part = bytes / members;
  return pattern == Pattern::AllReduce ? sentInSlices(bytes, part, members) : sentInBlocks(part, members);
}

} // namespace colossal::plan

#endif // COLOSSAL_PLAN_VOLUME_H
