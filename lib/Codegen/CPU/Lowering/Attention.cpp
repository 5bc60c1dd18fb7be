//===- Attention.cpp - attention to its kernel ----------------------===//
//
// One kernel for each shape of attention; operands that lie in a way it cannot read are made dense first.
//
//===----------------------------------------------------------------------===//
#include "Lowerings.h"

#include "colossal/Codegen/CPU/AttentionKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::cpu;
using namespace colossal::schedule;

static KernelKey keyOf(const AttentionSpec &spec) {
  KernelKey key(kAttentionKernel);
  key.add(spec.type).add(spec.batch).add(spec.queryHeads).add(spec.keyHeads).add(spec.queries).add(spec.keys);
  key.add(spec.width).add(spec.valueWidth);
  for (const auto &strides : {spec.qStrides, spec.kStrides, spec.vStrides, spec.outStrides, spec.maskStrides})
    key.add(ArrayRef<int64_t>(strides));
  key.add(spec.scale).add(int64_t(spec.softcap.has_value())).add(spec.softcap.value_or(0.0));
  key.add(int64_t(spec.causal)).add(int64_t(spec.causalOffsetParam)).add(spec.causalOffset);
  key.add(static_cast<int64_t>(spec.mask)).add(spec.maskType).add(int64_t(spec.validKeysParam));
  key.add(static_cast<int64_t>(spec.emptyRow));
  return spec.statistics ? key.add(ArrayRef<int64_t>(spec.statisticStrides)) : key;
}

/// All of the spec but where operands and result lie.
static AttentionSpec describe(AttentionOp op) {
  ArrayRef<int64_t> query = shapeOf(op.getQuery()), key = shapeOf(op.getKey());
  AttentionSpec spec;
  spec.type = elementTypeOf(op.getQuery());
  spec.batch = query[0];
  spec.queryHeads = query[1];
  spec.keyHeads = key[1];
  spec.queries = query[2];
  spec.keys = key[2];
  spec.width = query[3];
  spec.valueWidth = shapeOf(op.getValue())[3];
  spec.scale = op.getScale().convertToDouble();
  if (double cap = op.getSoftcap().convertToDouble(); cap != 0)
    spec.softcap = cap;
  spec.causal = op.getCausal();
  spec.causalOffset = op.getCausalOffset();
  spec.causalOffsetParam = op.getCausal() && op.getQueryOffset();
  spec.validKeysParam = static_cast<bool>(op.getKeyCount());
  spec.statistics = static_cast<bool>(op.getStatistics());
  spec.emptyRow = op.getGuard() ? AttentionSpec::EmptyRow::Zero : AttentionSpec::EmptyRow::NaN;
  if (Value mask = op.getMask()) {
    spec.maskType = elementTypeOf(mask);
    spec.mask = spec.maskType.isInteger(1) ? AttentionSpec::Mask::Boolean : AttentionSpec::Mask::Additive;
  }
  return spec;
}

/// The kernel's parameters, in its order.
static SmallVector<Value> buildScalars(AttentionOp op, const AttentionSpec &spec) {
  SmallVector<Value> scalars;
  if (spec.causalOffsetParam) {
    OpBuilder b(op);
    Value offset = op.getQueryOffset();
    if (op.getCausalOffset())
      offset = arith::AddIOp::create(b, op.getLoc(), offset,
                                     arith::ConstantIndexOp::create(b, op.getLoc(), op.getCausalOffset()));
    scalars.push_back(offset);
  }
  if (spec.validKeysParam)
    scalars.push_back(op.getKeyCount());
  return scalars;
}

static std::array<int64_t, 4> stridesOf(const View &view) {
  std::array<int64_t, 4> strides;
  llvm::copy(view.strides, strides.begin());
  return strides;
}

/// Tries it with the operands where they lie, or copied to lie dense. Whether there was a kernel for it; if
/// not, `problem` says why.
static FailureOr<bool> tryAttention(const CpuTarget &target, LoweringContext &context, AttentionOp op,
                                    bool dense, std::string &problem) {
  auto lie = [&](Value value) { return dense ? context.denseViewOf(value) : context.viewOf(value); };
  auto q = lie(op.getQuery()), k = lie(op.getKey()), v = lie(op.getValue());
  if (failed(q) || failed(k) || failed(v))
    return failure();
  View out = context.allocate(op.getResult());
  AttentionSpec spec = describe(op);
  spec.qStrides = stridesOf(*q);
  spec.kStrides = stridesOf(*k);
  spec.vStrides = stridesOf(*v);
  spec.outStrides = stridesOf(out);
  SmallVector<Access> accesses{context.accessOf(*q, tensorOf(op.getQuery()), false),
                               context.accessOf(*k, tensorOf(op.getKey()), false),
                               context.accessOf(*v, tensorOf(op.getValue()), false)};
  SmallVector<Value> scalars = buildScalars(op, spec);
  if (Value mask = op.getMask()) {
    auto lies = lie(mask);
    if (failed(lies))
      return failure();
    RankedTensorType type = tensorOf(mask);
    for (int64_t d = 0; d < type.getRank(); ++d)
      spec.maskStrides[4 - type.getRank() + d] = type.getDimSize(d) == 1 ? 0 : lies->strides[d];
    accesses.push_back(context.accessOf(*lies, type, false));
  }
  accesses.push_back(context.accessOf(out, tensorOf(op.getResult()), true));
  if (Value statistics = op.getStatistics()) {
    View lies = context.allocate(statistics);
    std::copy_n(lies.strides.begin(), 3, spec.statisticStrides.begin());
    accesses.push_back(context.accessOf(lies, tensorOf(statistics), true));
  }
  const CachedKernel *kernel = context.getKernel(keyOf(spec), "attention", problem, [&] {
    return generateAttention(*context.mlirContext(), target.processor(), spec);
  });
  if (!kernel) {
    for (Value result : op->getResults())
      context.eraseView(result);
    return false;
  }
  Work work{Work::Kind::Attention, spec.batch * spec.queryHeads, spec.queries, spec.keys,
            (spec.width + spec.valueWidth) / 2};
  context.launch(*kernel, accesses, op->getNumResults(), scalars, op.getLoc(), work);
  return true;
}

LogicalResult cpu::lowerAttention(const CpuTarget &target, LoweringContext &context, FusionGroup &group) {
  auto op = dyn_cast<AttentionOp>(group.routine);
  if (!op)
    return group.routine->emitOpError("has no kernel: run colossal-partition, which makes it of other ops");
  if (tensorOf(op.getResult()).getNumElements() == 0) {
    for (Value result : op->getResults())
      context.allocate(result);
    return success();
  }
  std::string problem;
  for (bool dense : {false, true}) {
    FailureOr<bool> done = tryAttention(target, context, op, dense, problem);
    if (failed(done) || *done)
      return done;
  }
  return op.emitOpError("cannot be generated for this target: ") << problem;
}
