// Evaluation of the plan's expressions of mesh coordinates, arguments and repeat counters, and the numbering
// of ranks. Both halves use it: the compiler to verify what it emits, the runtime to resolve what differs by
// rank.
#ifndef COLOSSAL_PLAN_EXPR_H
#define COLOSSAL_PLAN_EXPR_H

#include "colossal/Plan/Plan.pb.h"
#include "colossal/Plan/Status.h"

#include <cstdint>
#include <vector>

namespace colossal::plan {

/// Deepest nesting of binary nodes that a loader accepts.
constexpr unsigned maxExprDepth = 32;

/// Most arguments of a function, most repeats around an instruction along all calls, and so the most values
/// that an instruction sees.
constexpr unsigned maxArguments = 64, maxRepeatDepth = 8, maxValues = maxArguments + maxRepeatDepth;
/// Most calls around an instruction.
constexpr unsigned maxCallDepth = 64;

/// The rank that an expression is evaluated for.
struct MeshPosition {
  std::vector<int64_t> coordinates; ///< in the stage's mesh
  int64_t rank = 0, stage = 0;
};

/// Checks form only: depth, known operators, positive constant divisors, coordinates < axes, indices of
/// values < values.
Status checkExpr(const Expr &expr, unsigned axes, unsigned values);

/// The value for a rank, of the given values (arguments, then counters). The expression must have passed
/// checkExpr; an arithmetic overflow is an error.
Status evaluateExpr(const Expr &expr, const MeshPosition &position, const int64_t *values, int64_t &value);

/// Whether it depends on an argument or a repeat's counter.
bool usesValues(const Expr &expr);
/// Marks the values that it depends on: values[i] of those seen.
void markValues(const Expr &expr, std::vector<bool> &values);
/// Adds the mesh axes that the value depends on to `axes` (one flag for each axis); a rank's own number
/// depends on all.
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
