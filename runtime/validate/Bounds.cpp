// Bounds over all ranks and iterations: affine references exactly, expressions by enumeration of what they
// depend on.
#include "runtime/validate/Checker.h"

#include "colossal/Plan/DataType.h"

#include <algorithm>

namespace colossal::runtime {

namespace {
// Evaluations that one plan may cost in all; far above what a real plan needs, and a second or two of time.
constexpr uint64_t maxWork = uint64_t(1) << 27;
} // namespace

Status Checker::spend(uint64_t work) {
  worked += std::min(work, maxWork + 1);
  if (worked > maxWork)
    return invalid("the plan is too large or too deeply nested to be validated");
  return {};
}

Status Checker::needVersion(uint32_t version, const std::string &what) const {
  return plan.version() >= version ? Status()
                                   : invalid("the plan has version " + std::to_string(plan.version()) +
                                             ", and " + what + " need " + std::to_string(version));
}

Status Checker::checkRef(const plan::BufferRef &ref, const std::string &what, const Scope &scope,
                         bool written) {
  if (ref.arena() >= static_cast<uint32_t>(stage->arenas->size()))
    return invalid(what + " refers to arena " + std::to_string(ref.arena()) + " of " +
                   std::to_string(stage->arenas->size()));
  if (static_cast<unsigned>(ref.strides_size()) > scope.environment.visible())
    return invalid(what + " has " + std::to_string(ref.strides_size()) + " strides where " +
                   std::to_string(scope.environment.visible()) + " arguments and counters are seen");
  const plan::Arena &arena = stage->arenas->Get(static_cast<int>(ref.arena()));
  const Range begin = scope.environment.range(scope.environment.address(ref.offset(), ref.strides()));
  if (ref.offset() > maxExtent || ref.bytes() > maxExtent || begin.least < 0 ||
      begin.greatest + ref.bytes() > arena.bytes())
    return invalid(what + ": " + std::to_string(ref.bytes()) + " bytes at offset " +
                   std::to_string(ref.offset()) + " do not lie within arena '" + arena.name() + "' of " +
                   std::to_string(arena.bytes()) + " bytes");
  if (written && arena.life() == plan::Arena::WEIGHTS && !scope.loading)
    return invalid(what + " would write to the weights, which only the load program may");
  return {};
}

bool Checker::overlap(const plan::BufferRef &a, const plan::BufferRef &b, const Scope &scope) {
  if (a.arena() != b.arena() || a.bytes() == 0 || b.bytes() == 0)
    return false;
  Affine distance = scope.environment.address(a.offset(), a.strides());
  distance.add(scope.environment.address(b.offset(), b.strides()), -1);
  return scope.environment.mayLieIn(distance, 1 - static_cast<__int128>(a.bytes()),
                                    static_cast<__int128>(b.bytes()) - 1);
}

bool Checker::isAligned(const plan::BufferRef &ref, uint64_t bytes, const Scope &scope) {
  return Environment::isMultiple(scope.environment.address(ref.offset(), ref.strides()), bytes);
}

Status Checker::forAll(const std::vector<const plan::Expr *> &exprs, const Scope &scope,
                       const std::function<Status(const std::vector<int64_t> &)> &check) {
  return scope.environment.forAll(exprs, [this](uint64_t work) { return spend(work); }, check);
}

Status Checker::checkBox(const plan::Box &box, const google::protobuf::RepeatedField<uint64_t> &shape,
                         plan::DataType type, const plan::BufferRef &buffer, const Scope &scope) {
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
        forAll({&dim.start(), &dim.valid()}, scope, [&](const std::vector<int64_t> &values) {
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

bool isInjective(const std::vector<uint64_t> &sizes,
                 const google::protobuf::RepeatedField<uint64_t> &strides) {
  std::vector<std::pair<uint64_t, uint64_t>> dims;
  for (size_t d = 0; d < sizes.size(); ++d)
    dims.emplace_back(strides[static_cast<int>(d)], sizes[d]);
  std::sort(dims.begin(), dims.end());
  unsigned __int128 reach = 0;
  for (auto [stride, size] : dims) {
    if (size > 1 && stride <= reach)
      return false;
    reach += static_cast<unsigned __int128>(size - 1) * stride;
  }
  return true;
}

} // namespace colossal::runtime
