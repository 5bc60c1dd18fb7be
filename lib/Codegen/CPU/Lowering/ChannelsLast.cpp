//===- ChannelsLast.cpp - the order that convolutions want ------------------===//
//
// What a convolution reads and writes lies with the channels innermost, and so does what is computed between
// convolutions.
//
//===----------------------------------------------------------------------===//
#include "Lowerings.h"

#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::cpu;

namespace {
class ChannelsLast final : public codegen::MemoryOrders {
public:
  explicit ChannelsLast(const CpuTarget &target) : target(target) {}

  std::optional<SmallVector<unsigned>> orderOf(Value value) override {
    const bool hasBatchLast =
        llvm::any_of(value.getUses(), [&](OpOperand &use) { return readsBatchLast(use); });
    if (!hasBatchLast && !isChannelsLast(value))
      return std::nullopt;
    SmallVector<unsigned> order{hasBatchLast ? 1u : 0u};
    for (int64_t d = 2; d < schedule::tensorOf(value).getRank(); ++d)
      order.push_back(d);
    order.push_back(hasBatchLast ? 0 : 1);
    return order;
  }

private:
  bool readsBatchLast(OpOperand &use) {
    auto convolution = dyn_cast<ConvOp>(use.getOwner());
    return convolution && use.getOperandNumber() == 0 && hasPlacesAsColumns(target, convolution);
  }
  /// Whether it makes other channels of an image's.
  static bool isPointwise(ContractOp op) {
    ArrayRef<int64_t> from = op.getLhsDims(), to = op.getResultDims();
    return from.size() >= 3 && from.size() == to.size() && from[0] == to[0] && from[1] != to[1] &&
           from.drop_front(2) == to.drop_front(2) && !llvm::is_contained(from, to[1]);
  }
  bool isChannelsLast(Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || type.getRank() < 3 || type.getRank() > 5)
      return false;
    if (auto found = known.find(value); found != known.end())
      return found->second;
    known[value] = false;
    bool result = decide(value, type.getRank());
    return known[value] = result;
  }

  bool decide(Value value, int64_t rank) {
    for (OpOperand &use : value.getUses())
      if ((isa<ConvOp, ConvTransposeOp>(use.getOwner()) || schedule::isPadding(use.getOwner())) &&
          use.getOperandNumber() == 0)
        return true;
    Operation *op = value.getDefiningOp();
    if (!op)
      return false;
    if (isa<ConvOp, ConvTransposeOp>(op))
      return true;
    if (auto contract = dyn_cast<ContractOp>(op))
      return isPointwise(contract) && isChannelsLast(contract.getLhs());
    if (isa<PoolOp, PoolTapsOp, PoolGradientOp, PadOp, ResizeOp>(op))
      return isChannelsLast(op->getOperand(0));
    if (isa<ElementwiseOp, ConcatOp>(op))
      return llvm::any_of(op->getOperands(), [&](Value operand) {
        return schedule::tensorOf(operand).getRank() == rank && isChannelsLast(operand);
      });
    return false;
  }

  const CpuTarget &target;
  llvm::DenseMap<Value, bool> known;
};
} // namespace

std::unique_ptr<codegen::MemoryOrders> CpuTarget::createMemoryOrders() const {
  return std::make_unique<ChannelsLast>(*this);
}

SmallVector<int64_t> cpu::channelsLastStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size());
  strides[1] = 1;
  int64_t stride = shape[1];
  for (int d = (int)shape.size() - 1; d >= 0; --d) {
    if (d == 1)
      continue;
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
}
