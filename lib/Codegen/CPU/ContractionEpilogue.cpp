// Access to tensors at the place where an epilogue stands: consecutive lanes where the layout allows, else
// gathers.
#include "colossal/Codegen/CPU/ContractionKernel.h"
#include "colossal/Codegen/Kernel/VectorMemory.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace colossal::cpu {

static Value offsetAt(VectorMemory &memory, const EpilogueStrides &strides, const EpilogueIndex &index,
                      bool withLanes) {
  Value row = memory.linearize(index.m, strides.m);
  Value offset = memory.add(memory.linearize(index.batch, strides.batch), row);
  return withLanes ? memory.add(offset, memory.linearize(index.n, strides.n)) : offset;
}

/// Offsets of lanes (vector of i64) relative to the row, where they are not consecutive.
static Value laneOffsets(OpBuilder &b, Location loc, VectorMemory &memory, const EpilogueStrides &strides,
                         const EpilogueIndex &index) {
  Type type = VectorMemory::vectorOf(b.getI64Type(), index.width);
  Value sum;
  for (auto [position, stride] : llvm::enumerate(strides.n)) {
    Value lanes;
    if (!index.laneN.empty()) {
      lanes = index.laneN[position];
    } else {
      lanes = memory.splat(index.n[position], index.width);
      if (position + 1 == strides.n.size()) {
        SmallVector<int64_t> steps = llvm::to_vector(llvm::seq<int64_t>(0, index.width));
        Value step = arith::ConstantOp::create(
            b, loc, DenseElementsAttr::get(cast<VectorType>(type), ArrayRef<int64_t>(steps)));
        lanes = arith::AddIOp::create(b, loc, lanes, step);
      }
    }
    lanes = arith::MulIOp::create(b, loc, lanes, memory.constantLike(type, double(stride)));
    sum = sum ? arith::AddIOp::create(b, loc, sum, lanes).getResult() : lanes;
  }
  return sum ? sum : memory.constantLike(type, 0);
}

Value loadAt(OpBuilder &b, Location loc, const Processor &processor, Value pointer, Type element,
             const EpilogueStrides &strides, const EpilogueIndex &index) {
  VectorMemory memory(b, loc, processor);
  bool constantAlongN = llvm::all_of(strides.n, [](int64_t stride) { return stride == 0; });
  if (constantAlongN) {
    Value scalar =
        memory.load(memory.address(pointer, element, offsetAt(memory, strides, index, false)), element, 1);
    return memory.splat(scalar, index.width);
  }
  if (index.laneN.empty() && strides.n.back() == 1)
    return memory.load(memory.address(pointer, element, offsetAt(memory, strides, index, true)), element,
                       index.width, index.mask);
  if (index.laneN.empty() && strides.n.back() == 0) {
    Value scalar =
        memory.load(memory.address(pointer, element, offsetAt(memory, strides, index, true)), element, 1);
    return memory.splat(scalar, index.width);
  }
  Value row = memory.address(pointer, element, offsetAt(memory, strides, index, false));
  return memory.gather(row, element, laneOffsets(b, loc, memory, strides, index), index.mask);
}

void storeAt(OpBuilder &b, Location loc, const Processor &processor, Value value, Value pointer,
             const EpilogueStrides &strides, const EpilogueIndex &index) {
  VectorMemory memory(b, loc, processor);
  Type element = getElementTypeOrSelf(value);
  if (index.laneN.empty() && (strides.n.empty() || strides.n.back() == 1))
    return memory.store(value, memory.address(pointer, element, offsetAt(memory, strides, index, true)),
                        index.mask);
  Value row = memory.address(pointer, element, offsetAt(memory, strides, index, false));
  memory.scatter(value, row, laneOffsets(b, loc, memory, strides, index), index.mask);
}

} // namespace colossal::cpu
