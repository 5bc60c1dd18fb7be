// Collectives: blocks within their buffers, blocks apart from one another, windows and peers of all members.
#include "runtime/validate/Checker.h"

#include "colossal/Plan/DataType.h"

#include <algorithm>

namespace colossal::runtime {

namespace {

using C = plan::Collective;

struct Dim {
  uint64_t size, stride;
};

/// Elements from the first to one past the last of a strided block; false if out of range.
bool span(const std::vector<Dim> &dims, uint64_t &elements) {
  unsigned __int128 last = 0;
  for (const Dim &dim : dims) {
    if (dim.size == 0) {
      elements = 0;
      return true;
    }
    if (dim.size > maxExtent || dim.stride > maxExtent)
      return false;
    last += static_cast<unsigned __int128>(dim.size - 1) * dim.stride;
  }
  if (last >= maxExtent)
    return false;
  elements = static_cast<uint64_t>(last) + 1;
  return true;
}

/// Whether no two indices address the same element: each stride passes over all that smaller strides reach.
bool distinct(std::vector<Dim> dims) {
  std::sort(dims.begin(), dims.end(), [](const Dim &a, const Dim &b) { return a.stride < b.stride; });
  unsigned __int128 reach = 1;
  for (const Dim &dim : dims) {
    if (dim.size <= 1)
      continue;
    if (dim.stride < reach)
      return false;
    reach += static_cast<unsigned __int128>(dim.size - 1) * dim.stride;
  }
  return true;
}

} // namespace

Status Checker::checkCollective(const plan::Collective &collective, const Scope &scope) {
  if (scope.predicated)
    return invalid("a predicate must not hold collectives");
  uint64_t members = 1;
  std::set<uint32_t> axes;
  for (uint32_t axis : collective.axes()) {
    if (axis >= static_cast<uint32_t>(stage->mesh->axes_size()) || !axes.insert(axis).second)
      return invalid("axis " + std::to_string(axis) + " is not of the mesh, or named twice");
    members *= stage->mesh->axes(static_cast<int>(axis)).size();
  }
  const uint64_t size = plan::elementBytes(collective.type());
  if (size == 0)
    return invalid("its type is not valid");
  const bool reduces = collective.kind() == C::ALL_REDUCE || collective.kind() == C::REDUCE_SCATTER;
  if (reduces) {
    bool logical = collective.reduction() == C::AND || collective.reduction() == C::OR;
    bool ordered = collective.reduction() == C::MAX || collective.reduction() == C::MIN;
    bool arithmetic = collective.reduction() == C::SUM || collective.reduction() == C::PROD;
    if (plan::isNarrow(collective.type()) || collective.type() == plan::STRING ||
        (!ordered && !(collective.type() == plan::BOOL ? logical : arithmetic)))
      return invalid("reduction " + std::to_string(collective.reduction()) + " is not for type " +
                     plan::dataTypeName(collective.type()));
  }
  COLOSSAL_RETURN_IF_ERROR(checkRef(collective.src(), "its source", scope, false));
  COLOSSAL_RETURN_IF_ERROR(checkRef(collective.dst(), "its destination", scope, true));
  if (!isAligned(collective.src(), size, scope) || !isAligned(collective.dst(), size, scope))
    return invalid("its buffers are not aligned to its elements");
  if (collective.has_scratch())
    COLOSSAL_RETURN_IF_ERROR(checkRef(collective.scratch(), "its scratch", scope, true));

  const plan::BufferRef &src = collective.src(), &dst = collective.dst();
  bool same =
      src.arena() == dst.arena() && src.offset() == dst.offset() &&
      std::equal(src.strides().begin(), src.strides().end(), dst.strides().begin(), dst.strides().end()) &&
      std::equal(collective.src_strides().begin(), collective.src_strides().end(),
                 collective.dst_strides().begin(), collective.dst_strides().end());
  bool mayBeSame = collective.kind() == C::ALL_REDUCE || collective.kind() == C::BROADCAST;
  if (overlap(src, dst, scope) && !(same && mayBeSame))
    return invalid("its source and destination overlap");
  if (collective.has_scratch() &&
      (overlap(collective.scratch(), src, scope) || overlap(collective.scratch(), dst, scope)))
    return invalid("its scratch overlaps its source or destination");

  if (collective.kind() == C::BROADCAST && collective.root() >= members)
    return invalid("root " + std::to_string(collective.root()) + " of " + std::to_string(members) +
                   " members");
  if (collective.kind() == C::PERMUTE)
    COLOSSAL_RETURN_IF_ERROR(forAll({&collective.source()}, scope, [&](const std::vector<int64_t> &values) {
      return values[0] < static_cast<int64_t>(members)
                 ? Status()
                 : invalid("source " + std::to_string(values[0]) + " of " + std::to_string(members) +
                           " members");
    }));
  if (collective.kind() == C::EXCHANGE)
    return checkWindow(collective, scope);
  return checkBlocks(collective, members, scope);
}

Status Checker::checkBlocks(const plan::Collective &collective, uint64_t members, const Scope &scope) {
  if (collective.kind() < C::ALL_REDUCE || collective.kind() > C::PERMUTE)
    return {Code::Unsupported, "a collective of a kind that this runtime does not know"};
  const bool srcBlocks = collective.kind() == C::REDUCE_SCATTER || collective.kind() == C::ALL_TO_ALL;
  const bool dstBlocks = collective.kind() == C::ALL_GATHER || collective.kind() == C::ALL_TO_ALL;
  if ((!srcBlocks && collective.src_peer_stride() != 0) || (!dstBlocks && collective.dst_peer_stride() != 0))
    return invalid("a peer stride that this kind does not take");
  const int dims = collective.sizes_size();
  if (dims > maxDims || collective.src_strides_size() != dims || collective.dst_strides_size() != dims)
    return invalid("its sizes and strides differ in number");
  std::vector<Dim> src, dst;
  for (int d = 0; d < dims; ++d) {
    src.push_back({collective.sizes(d), collective.src_strides(d)});
    dst.push_back({collective.sizes(d), collective.dst_strides(d)});
  }
  if (srcBlocks)
    src.push_back({members, collective.src_peer_stride()});
  if (dstBlocks)
    dst.push_back({members, collective.dst_peer_stride()});
  const uint64_t size = plan::elementBytes(collective.type());
  uint64_t srcSpan, dstSpan, elements;
  if (!span(src, srcSpan) || !span(dst, dstSpan) || !productWithin(collective.sizes(), elements) ||
      srcSpan > maxExtent / 8 || dstSpan > maxExtent / 8)
    return invalid("its blocks are out of range");
  if (srcSpan * size > collective.src().bytes() || dstSpan * size > collective.dst().bytes())
    return invalid("its blocks span " + std::to_string(srcSpan * size) + " and " +
                   std::to_string(dstSpan * size) + " bytes of buffers of " +
                   std::to_string(collective.src().bytes()) + " and " +
                   std::to_string(collective.dst().bytes()));
  if (dstSpan != 0 && !distinct(dst))
    return invalid("its destination blocks overlap one another");
  return {};
}

Status Checker::checkWindow(const plan::Collective &collective, const Scope &scope) {
  if (!collective.has_window())
    return invalid("it has no window");
  const C::Window &window = collective.window();
  const uint64_t size = plan::elementBytes(collective.type());
  uint64_t srcElements, dstElements;
  if (!productWithin(std::vector<uint64_t>{window.outer(), window.src_extent(), window.inner()},
                     srcElements) ||
      !productWithin(std::vector<uint64_t>{window.outer(), window.dst_extent(), window.inner()},
                     dstElements) ||
      window.src_extent() > maxExtent || window.dst_extent() > maxExtent || srcElements > maxExtent / 8 ||
      dstElements > maxExtent / 8)
    return invalid("its window is out of range");
  if (srcElements * size > collective.src().bytes() || dstElements * size > collective.dst().bytes())
    return invalid("its window needs " + std::to_string(srcElements * size) + " and " +
                   std::to_string(dstElements * size) + " bytes of buffers of " +
                   std::to_string(collective.src().bytes()) + " and " +
                   std::to_string(collective.dst().bytes()));
  const auto limit = static_cast<int64_t>(maxExtent);
  return forAll({&window.src_start(), &window.src_valid(), &window.dst_start()}, scope,
                [&](const std::vector<int64_t> &values) {
                  if (values[1] < 0 || static_cast<uint64_t>(values[1]) > window.src_extent())
                    return invalid("a member holds " + std::to_string(values[1]) + " valid places of " +
                                   std::to_string(window.src_extent()));
                  if (values[0] < -limit || values[0] > limit || values[2] < -limit || values[2] > limit)
                    return invalid("a window begins out of range");
                  return Status();
                });
}

} // namespace colossal::runtime
