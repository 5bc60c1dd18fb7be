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
  return key.add(static_cast<int64_t>(spec.emptyRow));
}

LogicalResult cpu::lowerAttention(const CpuTarget &target, LoweringContext &context, FusionGroup &group) {
  auto op = cast<AttentionOp>(group.routine);
  RankedTensorType queryType = tensorOf(op.getQuery()), keyType = tensorOf(op.getKey());
  RankedTensorType valueType = tensorOf(op.getValue()), resultType = tensorOf(op.getResult());
  if (resultType.getNumElements() == 0) {
    context.allocate(op.getResult());
    return success();
  }
  std::string problem;
  for (bool dense : {false, true}) {
    auto lie = [&](Value value) { return dense ? context.denseViewOf(value) : context.viewOf(value); };
    auto q = lie(op.getQuery()), k = lie(op.getKey()), v = lie(op.getValue());
    if (failed(q) || failed(k) || failed(v))
      return failure();
    View out = context.allocate(op.getResult());
    AttentionSpec spec;
    spec.type = queryType.getElementType();
    spec.batch = queryType.getDimSize(0);
    spec.queryHeads = queryType.getDimSize(1);
    spec.keyHeads = keyType.getDimSize(1);
    spec.queries = queryType.getDimSize(2);
    spec.keys = keyType.getDimSize(2);
    spec.width = queryType.getDimSize(3);
    spec.valueWidth = valueType.getDimSize(3);
    auto strides = [](const View &view) {
      std::array<int64_t, 4> result;
      llvm::copy(view.strides, result.begin());
      return result;
    };
    spec.qStrides = strides(*q);
    spec.kStrides = strides(*k);
    spec.vStrides = strides(*v);
    spec.outStrides = strides(out);
    spec.scale = op.getScale().convertToDouble();
    if (double cap = op.getSoftcap().convertToDouble(); cap != 0)
      spec.softcap = cap;
    spec.causal = op.getCausal();
    spec.causalOffset = op.getCausalOffset();
    spec.emptyRow = op.getGuard() ? AttentionSpec::EmptyRow::Zero : AttentionSpec::EmptyRow::NaN;
    SmallVector<Access> accesses{context.accessOf(*q, queryType, false), context.accessOf(*k, keyType, false),
                                 context.accessOf(*v, valueType, false)};
    SmallVector<Value> scalars;
    if (op.getCausal() && op.getQueryOffset()) {
      spec.causalOffsetParam = true;
      OpBuilder b(op);
      Value offset = op.getQueryOffset();
      if (op.getCausalOffset())
        offset = arith::AddIOp::create(b, op.getLoc(), offset,
                                       arith::ConstantIndexOp::create(b, op.getLoc(), op.getCausalOffset()));
      scalars.push_back(offset);
    }
    if (op.getKeyCount()) {
      spec.validKeysParam = true;
      scalars.push_back(op.getKeyCount());
    }
    if (Value mask = op.getMask()) {
      auto lies = lie(mask);
      if (failed(lies))
        return failure();
      RankedTensorType type = tensorOf(mask);
      spec.mask =
          type.getElementType().isInteger(1) ? AttentionSpec::Mask::Boolean : AttentionSpec::Mask::Additive;
      spec.maskType = type.getElementType();
      for (int64_t d = 0; d < type.getRank(); ++d)
        spec.maskStrides[4 - type.getRank() + d] = type.getDimSize(d) == 1 ? 0 : lies->strides[d];
      accesses.push_back(context.accessOf(*lies, type, false));
    }
    accesses.push_back(context.accessOf(out, resultType, true));
    const CachedKernel *kernel = context.getKernel(keyOf(spec), "attention", problem, [&] {
      return generateAttention(*context.mlirContext(), target.processor(), spec);
    });
    if (!kernel) {
      context.eraseView(op.getResult());
      continue;
    }
    Work work{Work::Kind::Attention, spec.batch * spec.queryHeads, spec.queries, spec.keys,
              (spec.width + spec.valueWidth) / 2};
    context.launch(*kernel, accesses, 1, scalars, op.getLoc(), work);
    return success();
  }
  return op.emitOpError("cannot be generated for this target: ") << problem;
}
