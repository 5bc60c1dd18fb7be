// Bounds over all ranks and iterations: affine references exactly, expressions by enumeration of what they
// depend on.
#include "runtime/validate/Checker.h"

#include "colossal/Plan/DataType.h"

#include <algorithm>

namespace colossal::runtime {

namespace {
// Evaluations that one plan may cost in all; far above what a real plan needs, and a second or two of time.
constexpr uint64_t maxWork = uint64_t(1) << 27;
// Iterations that the exact overlap test walks.
constexpr uint64_t maxIterations = 1 << 16;

uint64_t iterations(const Counts &counts, size_t depth) {
  return std::max<uint64_t>(1, counts[depth]);
}

std::pair<__int128, __int128> hull(const plan::BufferRef &ref, const Counts &counts) {
  __int128 low = ref.offset(), high = ref.offset();
  for (int depth = 0; depth < ref.strides_size(); ++depth) {
    __int128 span = static_cast<__int128>(ref.strides(depth)) * (iterations(counts, depth) - 1);
    (span < 0 ? low : high) += span;
  }
  return {low, high + ref.bytes()};
}
} // namespace

Status Checker::spend(uint64_t work) {
  worked += std::min(work, maxWork + 1);
  if (worked > maxWork)
    return invalid("the plan is too large or too deeply nested to be validated");
  return {};
}

Status Checker::checkRef(const plan::BufferRef &ref, const std::string &what, const Scope &scope,
                         bool written, Extent *extent) {
  if (ref.arena() >= static_cast<uint32_t>(plan.arenas_size()))
    return invalid(what + " refers to arena " + std::to_string(ref.arena()) + " of " +
                   std::to_string(plan.arenas_size()));
  if (static_cast<size_t>(ref.strides_size()) > scope.counts.size())
    return invalid(what + " has " + std::to_string(ref.strides_size()) + " strides inside " +
                   std::to_string(scope.counts.size()) + " repeats");
  const plan::Arena &arena = plan.arenas(static_cast<int>(ref.arena()));
  auto [low, high] = hull(ref, scope.counts);
  if (ref.offset() > maxExtent || ref.bytes() > maxExtent || low < 0 || high > arena.bytes())
    return invalid(what + ": " + std::to_string(ref.bytes()) + " bytes at offset " +
                   std::to_string(ref.offset()) + " do not lie within arena '" + arena.name() + "' of " +
                   std::to_string(arena.bytes()) + " bytes");
  if (written && arena.life() == plan::Arena::WEIGHTS && !scope.loading)
    return invalid(what + " would write to the weights, which only the load program may");
  if (extent)
    *extent = {ref.arena(), static_cast<uint64_t>(low), static_cast<uint64_t>(high)};
  return {};
}

bool Checker::overlap(const plan::BufferRef &a, const plan::BufferRef &b, const Counts &counts) const {
  if (a.arena() != b.arena() || a.bytes() == 0 || b.bytes() == 0)
    return false;
  auto [aLow, aHigh] = hull(a, counts);
  auto [bLow, bHigh] = hull(b, counts);
  if (aHigh <= bLow || bHigh <= aLow)
    return false;
  // The hulls meet. With equal strides the distance is constant; otherwise every iteration is looked at.
  std::vector<int64_t> difference;
  std::vector<uint64_t> count;
  uint64_t total = 1;
  for (int depth = 0; depth < std::max(a.strides_size(), b.strides_size()); ++depth) {
    int64_t aStride = depth < a.strides_size() ? a.strides(depth) : 0;
    int64_t bStride = depth < b.strides_size() ? b.strides(depth) : 0;
    if (aStride == bStride)
      continue;
    difference.push_back(aStride - bStride);
    count.push_back(iterations(counts, depth));
    total = std::min(total * count.back(), maxIterations + 1);
  }
  if (total > maxIterations)
    return true;
  for (uint64_t iteration = 0; iteration < total; ++iteration) {
    __int128 distance = static_cast<__int128>(a.offset()) - b.offset();
    uint64_t rest = iteration;
    for (size_t d = 0; d < count.size(); ++d) {
      distance += static_cast<__int128>(difference[d]) * (rest % count[d]);
      rest /= count[d];
    }
    if (distance < static_cast<__int128>(b.bytes()) && -distance < static_cast<__int128>(a.bytes()))
      return true;
  }
  return false;
}

Status Checker::forAll(const std::vector<const plan::Expr *> &exprs, const Counts &counts,
                       const std::function<Status(const std::vector<int64_t> &)> &check) {
  std::vector<bool> axes(plan.mesh().axes_size());
  bool counters = false;
  for (const plan::Expr *expr : exprs) {
    COLOSSAL_RETURN_IF_ERROR(
        plan::checkExpr(*expr, static_cast<unsigned>(axes.size()), static_cast<unsigned>(counts.size())));
    plan::markCoordinates(*expr, axes);
    counters |= plan::usesCounters(*expr);
  }
  std::vector<uint64_t> sizes; // of the coordinates, then of the counters; 1 where nothing depends on it
  for (size_t axis = 0; axis < axes.size(); ++axis)
    sizes.push_back(axes[axis] ? plan.mesh().axes(static_cast<int>(axis)).size() : 1);
  for (size_t depth = 0; depth < counts.size(); ++depth)
    sizes.push_back(counters ? iterations(counts, depth) : 1);
  uint64_t points;
  if (!productWithin(sizes, points))
    points = maxWork;
  COLOSSAL_RETURN_IF_ERROR(spend(points * exprs.size()));

  std::vector<int64_t> coordinates(axes.size()), iteration(counts.size()), values(exprs.size());
  for (uint64_t point = 0; point < points; ++point) {
    uint64_t rest = point;
    for (size_t i = sizes.size(); i-- > 0;) {
      (i < axes.size() ? coordinates[i] : iteration[i - axes.size()]) = static_cast<int64_t>(rest % sizes[i]);
      rest /= sizes[i];
    }
    for (size_t i = 0; i < exprs.size(); ++i)
      COLOSSAL_RETURN_IF_ERROR(plan::evaluateExpr(*exprs[i], coordinates, iteration, values[i]));
    COLOSSAL_RETURN_IF_ERROR(check(values));
  }
  return {};
}

Status Checker::checkBox(const plan::Box &box, const google::protobuf::RepeatedField<uint64_t> &shape,
                         plan::DataType type, const plan::BufferRef &buffer, const Counts &counts) {
  if (box.dims_size() > maxDims || shape.size() > maxDims)
    return invalid("a box has more than " + std::to_string(maxDims) + " dimensions");
  std::vector<uint64_t> global, local;
  for (const plan::BoxDim &dim : box.dims()) {
    global.push_back(dim.global());
    local.push_back(dim.local());
  }
  uint64_t shapeElements, globalElements, localElements;
  if (!productWithin(shape, shapeElements) || !productWithin(global, globalElements) ||
      !productWithin(local, localElements))
    return invalid("a box is too large");
  if (globalElements != shapeElements)
    return invalid("a box of " + std::to_string(globalElements) + " elements does not refine a tensor of " +
                   std::to_string(shapeElements));
  // Each dimension of the tensor must end where a refined one ends.
  if (globalElements != 0) {
    uint64_t refined = 1, whole = 1;
    size_t next = 0;
    for (uint64_t extent : shape) {
      whole *= extent;
      while (refined < whole && next < global.size())
        refined *= global[next++];
      if (refined != whole)
        return invalid("a box's refined dimensions do not multiply to the tensor's dimensions");
    }
  }
  if (localElements > maxExtent / 8 || localElements * plan::elementBytes(type) > buffer.bytes())
    return invalid("a box of " + std::to_string(localElements) +
                   " local elements does not fit its buffer of " + std::to_string(buffer.bytes()) + " bytes");
  for (const plan::BoxDim &dim : box.dims()) {
    COLOSSAL_RETURN_IF_ERROR(
        forAll({&dim.start(), &dim.valid()}, counts, [&](const std::vector<int64_t> &values) {
          int64_t start = values[0], valid = values[1];
          if (valid < 0 || static_cast<uint64_t>(valid) > dim.local())
            return invalid("a box holds " + std::to_string(valid) + " valid elements of " +
                           std::to_string(dim.local()));
          if (valid > 0 && (start < 0 || static_cast<uint64_t>(start) > dim.global() ||
                            static_cast<uint64_t>(valid) > dim.global() - static_cast<uint64_t>(start)))
            return invalid("a box begins at " + std::to_string(start) + " with " + std::to_string(valid) +
                           " elements of an extent of " + std::to_string(dim.global()));
          return Status();
        }));
  }
  return {};
}

} // namespace colossal::runtime
