// Units cut into chunks.
#ifndef COLOSSAL_PLANNER_CHUNKBALANCE_H
#define COLOSSAL_PLANNER_CHUNKBALANCE_H

#include <vector>

namespace colossal::planner {

/// Units of each of `parts` chunks, at least one each, so that the slowest chunk is as fast as can be and, of
/// such cuts, the sum of squares is least. `prefix` has the seconds of the first 0, 1, ... units: one entry
/// more than there are units, of which there are at least `parts`.
std::vector<int> balanceChunks(const std::vector<double> &prefix, int parts);

} // namespace colossal::planner

#endif // COLOSSAL_PLANNER_CHUNKBALANCE_H
