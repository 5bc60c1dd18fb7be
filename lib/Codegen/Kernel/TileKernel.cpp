// Scalar loops over the tiles of an op, which emits each.
#include "colossal/Codegen/Kernel/TileKernel.h"
#include "colossal/Codegen/Kernel/LoopEmitter.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::kernel;

namespace {

class TileGenerator final : public TileEmitter {
public:
  TileGenerator(const Team &team, Operation *op, ArrayRef<SmallVector<int64_t>> strides, bool isOnTop)
      : team(team), op(cast<TileEmissionOpInterface>(op)), strides(strides), isOnTop(isOnTop) {}

  llvm::Expected<GeneratedKernel> run(MLIRContext &context) {
    const bool updates = op.updatesFirstOperand();
    assert(!isOnTop || op.canAddToResult());
    SmallVector<Value> tensors(op->getOperands().drop_front(updates ? 1 : 0));
    llvm::append_range(tensors, op->getResults());
    SmallVector<BufferSpec> buffers;
    for (auto [i, tensor] : llvm::enumerate(tensors))
      buffers.push_back({storageType(elementTypeOf(tensor)), SmallVector<int64_t>(shapeOf(tensor)),
                         strides[i], !updates && !isOnTop});
    TilePlan plan = op.getTiles();
    GeneratedKernel result;
    result.buffers = buffers.size();
    result.scratchBytes = plan.scratchWords * 8;
    for (int64_t size : plan.shape)
      result.tiles *= size;
    std::unique_ptr<Frame> frame = team.open(context, buffers, 0, result.scratchBytes);
    unsigned bits = team.indexBits(std::max({largestOffset(buffers), plan.scratchWords, result.tiles}));
    LoopEmitter emitter(frame->builder(), frame->loc(), team.instructions(), 1, bits);
    e = &emitter;
    for (auto [i, tensor] : llvm::enumerate(tensors))
      views[tensor] = {frame->pointer(i), elementTypeOf(tensor), strides[i]};
    if (result.scratchBytes)
      scratch = {frame->scratch(), frame->builder().getI64Type(), {1}};
    frame->forEachTile([&](Value tile) {
      emitter.enterRegion();
      op.emitTile(*this, delinearize(emitter, emitter.uniform(tile), plan.shape));
      emitter.leaveRegion();
    });
    if (!emitter.error().empty())
      return llvm::createStringError(emitter.error());
    result.module = frame->take();
    return result;
  }

  ElementEmitter &elements() override { return *e; }
  Value read(Value tensor, ArrayRef<Lane> index) override { return e->read(views[tensor], index); }
  void write(Value value, Value result, ArrayRef<Lane> index) override {
    e->store(value, views[result], index);
  }
  bool addsToResult() const override { return isOnTop; }
  Value readScratch(Lane at) override { return e->read(scratch, at); }
  void writeScratch(Value word, Lane at) override { e->store(word, scratch, at); }

private:
  const Team &team;
  TileEmissionOpInterface op;
  ArrayRef<SmallVector<int64_t>> strides;
  bool isOnTop; ///< addsToResult()
  LoopEmitter *e = nullptr;
  llvm::DenseMap<Value, TensorView> views; ///< of operands and results
  TensorView scratch;
};

} // namespace

llvm::Expected<GeneratedKernel> kernel::generateTiles(MLIRContext &context, const Team &team, Operation *op,
                                                      ArrayRef<SmallVector<int64_t>> strides,
                                                      bool addsToResult) {
  for (Value tensor : op->getOperands())
    if (llvm::is_contained(shapeOf(tensor), 0))
      return llvm::createStringError("a kernel of tiles over an empty tensor");
  return TileGenerator(team.alone(), op, strides, addsToResult).run(context);
}
