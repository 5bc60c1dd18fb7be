//===- LocalOps.cpp ---------------------------------------------------------===//
//
// Of masked padding, the refined index of an element tells whether it is padding; of a slice, the element is
// the input's, so much further on.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/LocalOps.h"

#include "dialects/Colossal/Colossal.h"
#include "dialects/Colossal/Reduction/Accumulate.h"
#include "dialects/Dist/Dist.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"

using namespace mlir;
using namespace colossal;

/// `fill` as an element of `type`: beyond an integer's range its least or greatest value, for i1 true unless
/// 0.
static Element makeFill(ElementEmitter &emitter, Type type, double fill) {
  if (type.isInteger(1))
    fill = fill != 0;
  if (isa<FloatType>(type))
    return {emitter, emitter.scalar(type, fill), type};
  Element highest = highestOf(emitter, type);
  unsigned digits = type.getIntOrFloatBitWidth() - (type.isUnsignedInteger() || type.isInteger(1) ? 0 : 1);
  if (fill >= std::ldexp(1.0, digits))
    return highest;
  return {emitter, emitter.scalar(type, std::max(fill, lowestOf(type))), type};
}

namespace {
struct MaskPaddingEmission
    : ElementEmissionOpInterface::ExternalModel<MaskPaddingEmission, dist::MaskPaddingOp> {
  Value emitElement(Operation *operation, ElementEmitter &emitter, unsigned, ArrayRef<Lane> index) const {
    auto op = cast<dist::MaskPaddingOp>(operation);
    Type type = elementTypeOf(op.getInput()), i64 = emitter.builder().getI64Type();
    SmallVector<Lane> refined = reshapeIndex(emitter, index, shapeOf(op.getInput()), op.getExtents());
    std::optional<Element> inside;
    for (auto [dim, valid] : llvm::zip_equal(op.getMasked(), op.getValid())) {
      Element at(emitter, emitter.toValue(refined[dim], i64), i64);
      Element here = at < Element(emitter, emitter.scalarOperand(valid), i64);
      inside = inside ? *inside & here : here;
    }
    auto read = [&] { return emitter.load(op.getInput(), index); };
    if (!inside)
      return read();
    return emitter.choose(inside->get(), read,
                          [&] { return makeFill(emitter, type, op.getFill().convertToDouble()).get(); });
  }
};

struct MaskPaddingKernel : KernelOpInterface::ExternalModel<MaskPaddingKernel, dist::MaskPaddingOp> {
  // What makes the shard may fill its padding, or the fill be written over what is there.
  bool readsAtOwnIndex(Operation *) const { return true; }
};

struct AllSliceEmission : ElementEmissionOpInterface::ExternalModel<AllSliceEmission, shard::AllSliceOp> {
  Value emitElement(Operation *operation, ElementEmitter &emitter, unsigned, ArrayRef<Lane> index) const {
    auto op = cast<shard::AllSliceOp>(operation);
    SmallVector<Lane> in(index);
    Lane &along = in[op.getSliceAxis().getZExtValue()];
    along = emitter.add(along, emitter.uniform(emitter.scalarOperand(op.getResult())));
    return emitter.load(op.getInput(), in);
  }
};
} // namespace

void colossal::attachLocalEmission(MLIRContext &context) {
  dist::MaskPaddingOp::attachInterface<MaskPaddingEmission, MaskPaddingKernel>(context);
  shard::AllSliceOp::attachInterface<AllSliceEmission>(context);
}
