// Expressions of mesh coordinates and values: form check and overflow-checked evaluation.
#include "colossal/Plan/Expr.h"

#include <algorithm>

namespace colossal::plan {

namespace {

Status bad(std::string message) {
  return {Code::InvalidPlan, "expression: " + std::move(message)};
}

Status checkAt(const Expr &expr, unsigned axes, unsigned values, unsigned depth) {
  if (depth > maxExprDepth)
    return bad("nested deeper than " + std::to_string(maxExprDepth));
  switch (expr.kind_case()) {
  case Expr::kConstant: return {};
  case Expr::kCoordinate:
    if (expr.coordinate() >= axes)
      return bad("coordinate " + std::to_string(expr.coordinate()) + " of a mesh with " +
                 std::to_string(axes) + " axes");
    return {};
  case Expr::kCounter:
    if (expr.counter() >= values)
      return bad("counter " + std::to_string(expr.counter()) + " where " + std::to_string(values) +
                 " arguments and counters are seen");
    return {};
  case Expr::kBinary: {
    const Expr::Binary &binary = expr.binary();
    if (binary.op() < Expr::ADD || binary.op() > Expr::MAX)
      return bad("unknown operator " + std::to_string(binary.op()));
    if (!binary.has_lhs() || !binary.has_rhs())
      return bad("an operand is missing");
    if (binary.op() == Expr::FLOOR_DIV || binary.op() == Expr::MOD)
      if (binary.rhs().kind_case() != Expr::kConstant || binary.rhs().constant() <= 0)
        return bad("the divisor must be a positive constant");
    COLOSSAL_RETURN_IF_ERROR(checkAt(binary.lhs(), axes, values, depth + 1));
    return checkAt(binary.rhs(), axes, values, depth + 1);
  }
  case Expr::kOwn:
    if (expr.own() != Expr::RANK && expr.own() != Expr::STAGE)
      return bad("unknown property " + std::to_string(expr.own()) + " of a rank");
    return {};
  case Expr::KIND_NOT_SET: break;
  }
  return bad("empty");
}

/// Returns false on overflow.
bool evaluate(const Expr &expr, const MeshPosition &position, const int64_t *values, int64_t &value) {
  switch (expr.kind_case()) {
  case Expr::kConstant: value = expr.constant(); return true;
  case Expr::kCoordinate: value = position.coordinates[expr.coordinate()]; return true;
  case Expr::kOwn: value = expr.own() == Expr::RANK ? position.rank : position.stage; return true;
  case Expr::kCounter: value = values[expr.counter()]; return true;
  default: break;
  }
  const Expr::Binary &binary = expr.binary();
  int64_t lhs, rhs;
  if (!evaluate(binary.lhs(), position, values, lhs) || !evaluate(binary.rhs(), position, values, rhs))
    return false;
  switch (binary.op()) {
  case Expr::ADD: return !__builtin_add_overflow(lhs, rhs, &value);
  case Expr::SUB: return !__builtin_sub_overflow(lhs, rhs, &value);
  case Expr::MUL: return !__builtin_mul_overflow(lhs, rhs, &value);
  case Expr::FLOOR_DIV: value = lhs / rhs - (lhs % rhs < 0); return true;
  case Expr::MOD:
    value = lhs % rhs;
    value += value < 0 ? rhs : 0;
    return true;
  case Expr::MIN: value = std::min(lhs, rhs); return true;
  case Expr::MAX: value = std::max(lhs, rhs); return true;
  default: return false;
  }
}

} // namespace

Status checkExpr(const Expr &expr, unsigned axes, unsigned values) {
  return checkAt(expr, axes, values, 0);
}

Status evaluateExpr(const Expr &expr, const MeshPosition &position, const int64_t *values, int64_t &value) {
  if (!evaluate(expr, position, values, value))
    return bad("its value overflows 64 bits");
  return {};
}

bool usesValues(const Expr &expr) {
  if (expr.kind_case() == Expr::kCounter)
    return true;
  return expr.kind_case() == Expr::kBinary &&
         (usesValues(expr.binary().lhs()) || usesValues(expr.binary().rhs()));
}

void markValues(const Expr &expr, std::vector<bool> &values) {
  if (expr.kind_case() == Expr::kCounter && expr.counter() < values.size())
    values[expr.counter()] = true;
  if (expr.kind_case() == Expr::kBinary) {
    markValues(expr.binary().lhs(), values);
    markValues(expr.binary().rhs(), values);
  }
}

void markCoordinates(const Expr &expr, std::vector<bool> &axes) {
  if (expr.kind_case() == Expr::kCoordinate && expr.coordinate() < axes.size())
    axes[expr.coordinate()] = true;
  if (expr.kind_case() == Expr::kOwn && expr.own() == Expr::RANK)
    axes.assign(axes.size(), true);
  if (expr.kind_case() == Expr::kBinary) {
    markCoordinates(expr.binary().lhs(), axes);
    markCoordinates(expr.binary().rhs(), axes);
  }
}

uint64_t meshRanks(const Mesh &mesh) {
  uint64_t ranks = 1;
  for (const MeshAxis &axis : mesh.axes()) {
    ranks *= axis.size();
    if (ranks == 0 || ranks > UINT32_MAX)
      return 0;
  }
  return ranks;
}

std::vector<int64_t> meshCoordinates(const Mesh &mesh, uint64_t rank) {
  std::vector<int64_t> coordinates(mesh.axes_size());
  for (int axis = mesh.axes_size() - 1; axis >= 0; --axis) {
    coordinates[axis] = static_cast<int64_t>(rank % mesh.axes(axis).size());
    rank /= mesh.axes(axis).size();
  }
  return coordinates;
}

std::vector<uint32_t> groupMembers(const Mesh &mesh, const std::vector<uint32_t> &axes, uint64_t rank) {
  std::vector<uint64_t> strides(mesh.axes_size(), 1);
  for (int axis = mesh.axes_size() - 2; axis >= 0; --axis)
    strides[axis] = strides[axis + 1] * mesh.axes(axis + 1).size();
  std::vector<int64_t> coordinates = meshCoordinates(mesh, rank);
  uint64_t base = rank;
  for (uint32_t axis : axes)
    base -= static_cast<uint64_t>(coordinates[axis]) * strides[axis];
  std::vector<uint32_t> members = {static_cast<uint32_t>(base)};
  for (uint32_t axis : axes) {
    std::vector<uint32_t> wider;
    wider.reserve(members.size() * mesh.axes(axis).size());
    for (uint32_t member : members)
      for (uint32_t index = 0; index < mesh.axes(axis).size(); ++index)
        wider.push_back(static_cast<uint32_t>(member + index * strides[axis]));
    members = std::move(wider);
  }
  return members;
}

} // namespace colossal::plan
