// Evaluation of the plan's expressions of mesh coordinates and repeat counters, and the numbering of ranks.
// Both halves use it: the compiler to verify what it emits, the runtime to resolve what differs by rank.
#ifndef COLOSSAL_PLAN_EXPR_H
#define COLOSSAL_PLAN_EXPR_H

#include "colossal/Plan/Plan.pb.h"
#include "colossal/Plan/Status.h"

#include <cstdint>
#include <vector>

namespace colossal::plan {

/// Deepest nesting of binary nodes that a loader accepts.
constexpr unsigned maxExprDepth = 32;

/// Checks form only: depth, known operators, positive constant divisors, coordinates < axes, counters <
/// counters.
Status checkExpr(const Expr &expr, unsigned axes, unsigned counters);

/// The value at the given coordinates and counters. The expression must have passed checkExpr; an arithmetic
/// overflow is an error.
Status evaluateExpr(const Expr &expr, const std::vector<int64_t> &coordinates,
                    const std::vector<int64_t> &counters, int64_t &value);

/// Whether the value depends on a repeat's counter.
bool usesCounters(const Expr &expr);
/// Adds the mesh axes that the value depends on to `axes` (one flag for each axis).
void markCoordinates(const Expr &expr, std::vector<bool> &axes);

/// Number of ranks; 0 if it overflows 32 bits or an axis is empty. A mesh without axes has one rank.
uint64_t meshRanks(const Mesh &mesh);
/// Row-major coordinates of a rank: the last axis varies fastest.
std::vector<int64_t> meshCoordinates(const Mesh &mesh, uint64_t rank);
/// The ranks that share all coordinates of `rank` but those along `axes`, ranked row-major over `axes` in
/// their order.
std::vector<uint32_t> groupMembers(const Mesh &mesh, const std::vector<uint32_t> &axes, uint64_t rank);

} // namespace colossal::plan

#endif // COLOSSAL_PLAN_EXPR_H
