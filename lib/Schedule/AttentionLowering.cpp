//===- AttentionLowering.cpp - attention to its kernel ----------------------===//
//
// One kernel for each shape of attention; operands that lie in a way it cannot read are made dense first.
//
//===----------------------------------------------------------------------===//
#include "FunctionLowering.h"

#include "colossal/Codegen/CPU/AttentionKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

LogicalResult FunctionLowering::lowerAttention(AttentionOp op, Place &place) {
  RankedTensorType queryType = tensorOf(op.getQuery()), keyType = tensorOf(op.getKey());
  RankedTensorType valueType = tensorOf(op.getValue()), resultType = tensorOf(op.getResult());
  if (resultType.getNumElements() == 0) {
    allocate(op.getResult(), place);
    return success();
  }
  std::string problem;
  for (bool dense : {false, true}) {
    auto lie = [&](Value value) { return dense ? denseViewOf(value, place) : viewOf(value, place); };
    auto q = lie(op.getQuery()), k = lie(op.getKey()), v = lie(op.getValue());
    if (failed(q) || failed(k) || failed(v))
      return failure();
    View out = allocate(op.getResult(), place);
    cpu::AttentionSpec spec;
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
    spec.emptyRow = op.getGuard() ? cpu::AttentionSpec::EmptyRow::Zero : cpu::AttentionSpec::EmptyRow::NaN;
    SmallVector<Access> accesses{accessOf(*q, queryType, false), accessOf(*k, keyType, false),
                                 accessOf(*v, valueType, false)};
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
      spec.mask = type.getElementType().isInteger(1) ? cpu::AttentionSpec::Mask::Boolean
                                                     : cpu::AttentionSpec::Mask::Additive;
      spec.maskType = type.getElementType();
      for (int64_t d = 0; d < type.getRank(); ++d)
        spec.maskStrides[4 - type.getRank() + d] = type.getDimSize(d) == 1 ? 0 : lies->strides[d];
      accesses.push_back(accessOf(*lies, type, false));
    }
    accesses.push_back(accessOf(out, resultType, true));
    const CachedKernel *kernel =
        getKernel(KernelKey(KernelKey::Kind::Attention).add(spec), "attention", problem,
                  [&] { return cpu::generateAttention(*context, shared.target, spec); });
    if (!kernel) {
      place.views.erase(op.getResult());
      continue;
    }
    launch(*kernel, accesses, 1, scalars, op.getLoc(), place);
    place.program->steps.back().work = {Work::Kind::Attention, spec.batch * spec.queryHeads, spec.queries,
                                        spec.keys, (spec.width + spec.valueWidth) / 2};
    return success();
  }
  return op.emitOpError("cannot be generated for this target: ") << problem;
}
