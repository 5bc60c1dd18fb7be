// Attention to its kernel: one for each shape, and way to lie.
#include "Attention.h"
#include "LibraryAttention.h"
#include "TensorCores.h"
#include "ViewAlignment.h"

#include "colossal/Codegen/Kernel/VectorMemory.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::nvidia;
using namespace colossal::schedule;

namespace {

KernelKey keyOf(const AttentionSpec &spec) {
  KernelKey key(1u);
  key.add(spec.type).add(spec.batch).add(spec.queryHeads).add(spec.keyHeads).add(spec.queries).add(spec.keys);
  key.add(spec.width).add(spec.valueWidth);
  for (const auto *strides :
       {&spec.q, &spec.k, &spec.v, &spec.out, &spec.mask, &spec.statistics, &spec.alignment})
    key.add(ArrayRef<int64_t>(*strides));
  key.add(int64_t(spec.maskType != nullptr));
  if (spec.maskType)
    key.add(spec.maskType);
  key.add(spec.scale).add(spec.softcap).add(spec.causalOffset);
  for (bool flag :
       {spec.causal, spec.guard, spec.isRounded, spec.hasStatistics, spec.hasOffset, spec.hasCount})
    key.add(int64_t(flag));
  return key;
}

std::array<int64_t, 4> stridesOf(const View &view) {
  std::array<int64_t, 4> strides;
  llvm::copy(view.strides, strides.begin());
  return strides;
}

} // namespace

AttentionSpec nvidia::describeAttention(AttentionOp op) {
  ArrayRef<int64_t> query = shapeOf(op.getQuery()), key = shapeOf(op.getKey());
  AttentionSpec spec;
  spec.type = elementTypeOf(op.getQuery());
  spec.batch = query[0], spec.queryHeads = query[1], spec.queries = query[2], spec.width = query[3];
  spec.keyHeads = key[1], spec.keys = key[2], spec.valueWidth = shapeOf(op.getValue())[3];
  spec.scale = op.getScale().convertToDouble();
  spec.softcap = op.getSoftcap().convertToDouble();
  spec.causal = op.getCausal();
  spec.causalOffset = op.getCausal() ? op.getCausalOffset() : 0;
  spec.guard = op.getGuard();
  spec.hasStatistics = bool(op.getStatistics());
  spec.hasOffset = op.getCausal() && op.getQueryOffset();
  spec.hasCount = bool(op.getKeyCount());
  spec.isRounded = roundsToTf32(op);
  if (Value mask = op.getMask())
    spec.maskType = elementTypeOf(mask);
  return spec;
}

LogicalResult nvidia::lowerAttention(const BlockTeam &team, LoweringContext &context, FusionGroup &group,
                                     bool byLibrary) {
  auto op = dyn_cast<AttentionOp>(group.routine);
  if (!op)
    return group.routine->emitOpError("has no kernel: run colossal-partition, which makes it of other ops");
  if (byLibrary && group.ops.size() == 1) {
    auto called = callAttention(context, op);
    if (failed(called) || *called)
      return success(succeeded(called));
  }
  AttentionSpec spec = describeAttention(op);
  if (!(hasKernel(spec) || hasTensorKernel(spec)) || tensorOf(op.getResult()).getNumElements() == 0 ||
      spec.keys == 0 || spec.width == 0)
    return context.lowerSeparately(group);
  SmallVector<Access> accesses;
  auto read = [&](Value value, std::array<int64_t, 4> &strides) -> LogicalResult {
    auto view = context.viewOf(value);
    if (failed(view))
      return failure();
    RankedTensorType type = tensorOf(value);
    for (int64_t d = 0; d < type.getRank(); ++d) // a mask broadcasts, right-aligned
      strides[4 - type.getRank() + d] = type.getDimSize(d) == 1 ? 0 : view->strides[d];
    if (accesses.size() < 3)
      spec.alignment[accesses.size()] = alignmentOf(*view, kernel::elementBytes(type.getElementType()));
    accesses.push_back(context.accessOf(*view, type, false));
    return success();
  };
  if (failed(read(op.getQuery(), spec.q)) || failed(read(op.getKey(), spec.k)) ||
      failed(read(op.getValue(), spec.v)) || (op.getMask() && failed(read(op.getMask(), spec.mask))))
    return failure();
  for (Value result : op->getResults()) {
    View view = context.allocate(result);
    context.setView(result, view);
    (result == op.getResult() ? spec.out : spec.statistics) = stridesOf(view);
    if (result == op.getResult())
      spec.alignment[3] = alignmentOf(view, kernel::elementBytes(spec.type));
    accesses.push_back(context.accessOf(view, tensorOf(result), true));
  }
  SmallVector<Value> scalars;
  if (spec.hasOffset)
    scalars.push_back(op.getQueryOffset());
  if (spec.hasCount)
    scalars.push_back(op.getKeyCount());
  std::string problem;
  const CachedKernel *kernel =
      context.getKernel(keyOf(spec), "attention", problem, [&]() -> llvm::Expected<kernel::GeneratedKernel> {
        return hasTensorKernel(spec) ? generateTensorAttention(*context.mlirContext(), team, spec)
                                     : generateAttention(*context.mlirContext(), team, spec);
      });
  Work work{Work::Kind::Attention,
            spec.batch * spec.queryHeads,
            spec.queries,
            spec.keys,
            (spec.width + spec.valueWidth) / 2,
            0};
  context.launch(*kernel, accesses, op->getNumResults(), scalars, op.getLoc(), work);
  return success();
}
