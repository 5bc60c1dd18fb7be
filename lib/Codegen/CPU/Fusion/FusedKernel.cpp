//===- FusedKernel.cpp - loops around a fusion group ------------------------===//
//
// Chooses the dimension of the vectors and the order of the loops, cuts the outer ones into tiles, and lets
// LoopEmitter and RowProgram fill in the code.
//
//===----------------------------------------------------------------------===//
#include "colossal/Codegen/CPU/FusedKernel.h"
#include "RowProgram.h"

#include "dialects/Colossal/Colossal.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::cpu;

namespace {
/// Elements that one tile should have: large enough to pay for its start, small enough to divide work.
constexpr int64_t tileElements = 16384;
/// Scratch that a row may take to keep values between its loops.
constexpr int64_t rowScratchLimit = 96 << 10;

class FusedGenerator {
public:
  FusedGenerator(MLIRContext &context, const Target &target, const FusedSpec &spec)
      : context(context), target(target), spec(spec), function(spec.function) {}

  llvm::Expected<GeneratedKernel> run();

private:
  std::string analyze();
  void chooseLane();
  void planScratch();
  void emitTiles(KernelFunction &kernel, LoopEmitter &e);
  void emitPoint(LoopEmitter &e, ArrayRef<Lane> index);
  void emitRow(LoopEmitter &e, RowProgram &rows, ArrayRef<Lane> index);
  void forLoop(LoopEmitter &e, Value low, Value high, int64_t step, llvm::function_ref<void(Value)> body);
  ValueRange results() {
    return cast<func::ReturnOp>(function.getBody().front().getTerminator()).getOperands();
  }
  bool isFull(Value output) { return shapeOf(output) == ArrayRef<int64_t>(shape); }
  int64_t cost(Value value, llvm::SmallPtrSetImpl<Operation *> &seen);

  MLIRContext &context;
  const Target &target;
  const FusedSpec &spec;
  func::FuncOp function;

  SmallVector<int64_t> shape;
  std::optional<RowSpace> space;
  SmallVector<Operation *> rowOps;
  int lane = -1;
  unsigned width = 1;
  SmallVector<unsigned> order; // kept dimensions, outermost first; the lane last if it is one of them
  SmallVector<TensorView> outputViews;
  struct Slot {
    Value tensor;
    int64_t offset;
    Type element;
  };
  SmallVector<Slot> slots;
  int64_t scratchBytes = 0;
  std::unique_ptr<RowProgram> rows;
  // Tiling: dimensions before order[cut] are tile indices, order[cut] is cut into chunks.
  unsigned cut = 0;
  int64_t chunk = 1, chunks = 1, tiles = 1;
};
} // namespace

std::string FusedGenerator::analyze() {
  for (Operation &op : function.getBody().front()) {
    auto found = getRowSpace(&op);
    if (!found)
      continue;
    if (space && (space->shape != found->shape || space->reduced != found->reduced))
      return "row ops over different rows";
    space = found;
    rowOps.push_back(&op);
  }
  if (results().empty())
    return "a group without results";
  shape = space ? space->shape : SmallVector<int64_t>(shapeOf(results().front()));
  for (Value output : results()) {
    if (isFull(output))
      continue;
    if (!space)
      return "results of different shapes";
    SmallVector<int64_t> kept, ones;
    for (unsigned d = 0; d < shape.size(); ++d) {
      if (!space->reduced[d])
        kept.push_back(shape[d]);
      ones.push_back(space->reduced[d] ? 1 : shape[d]);
    }
    if (shapeOf(output) != ArrayRef<int64_t>(kept) && shapeOf(output) != ArrayRef<int64_t>(ones))
      return "a result that is neither a row's elements nor its statistics";
  }
  return "";
}

void FusedGenerator::chooseLane() {
  ArrayRef<int64_t> strides;
  auto consider = [&](Value tensor, const FusedBuffer &buffer) {
    if (strides.empty() && isa<RankedTensorType>(tensor.getType()) && isFull(tensor))
      strides = buffer.strides;
  };
  for (auto [output, buffer] : llvm::zip(results(), spec.outputs))
    consider(output, buffer);
  unsigned next = 0;
  for (BlockArgument argument : function.getArguments())
    if (isa<RankedTensorType>(argument.getType()))
      consider(argument, spec.inputs[next++]);
  SmallVector<int64_t> rowMajor(shape.size(), 1);
  for (int d = (int)shape.size() - 2; d >= 0; --d)
    rowMajor[d] = rowMajor[d + 1] * shape[d + 1];
  if (strides.empty())
    strides = rowMajor;
  for (unsigned d = 0; d < shape.size(); ++d)
    if (shape[d] > 1 && (lane < 0 || strides[d] <= strides[lane]))
      lane = d;
  for (unsigned d = 0; d < shape.size(); ++d)
    if (!(space && space->reduced[d]) && (int)d != lane)
      order.push_back(d);
  llvm::stable_sort(order, [&](unsigned a, unsigned b) { return strides[a] > strides[b]; });
  if (lane >= 0) {
    width = std::min<int64_t>(target.vectorBytes() / 4, llvm::PowerOf2Ceil(shape[lane]));
    if (!(space && space->reduced[lane]))
      order.push_back(lane);
  }
}

int64_t FusedGenerator::cost(Value value, llvm::SmallPtrSetImpl<Operation *> &seen) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return isa<RankedTensorType>(value.getType()) && isFull(value) ? 1 : 0;
  if (!seen.insert(op).second)
    return 0;
  int64_t total = 0;
  if (auto elementwise = dyn_cast<ElementwiseOp>(op)) {
    switch (elementwise.getKind()) {
    case ElementwiseKind::Exp:
    case ElementwiseKind::Log:
    case ElementwiseKind::Erf:
    case ElementwiseKind::Sin:
    case ElementwiseKind::Cos:
    case ElementwiseKind::Tan:
    case ElementwiseKind::Tanh:
    case ElementwiseKind::Sigmoid:
    case ElementwiseKind::Gelu:
    case ElementwiseKind::GeluTanh:
    case ElementwiseKind::Swish:
    case ElementwiseKind::Mish:
    case ElementwiseKind::Pow:
    case ElementwiseKind::Softplus: total = 4; break;
    default: break;
    }
  } else if (!isa<BroadcastOp, ReshapeOp, TransposeOp, ConstantOp, IotaOp>(op)) {
    total = 4;
  }
  for (Value operand : op->getOperands())
    total += cost(operand, seen);
  return total;
}

void FusedGenerator::planScratch() {
  if (!space || lane < 0 || !space->reduced[lane])
    return;
  int64_t row = 1;
  for (unsigned d = 0; d < shape.size(); ++d)
    row *= space->reduced[d] ? shape[d] : 1;
  auto add = [&](Value tensor, Type element) {
    int64_t bytes = llvm::alignTo(row * elementBytes(element), 64);
    if (scratchBytes + bytes > rowScratchLimit ||
        llvm::any_of(slots, [&](Slot &s) { return s.tensor == tensor; }))
      return;
    slots.push_back({tensor, scratchBytes, element});
    scratchBytes += bytes;
  };
  for (Operation *op : rowOps) {
    Value input = op->getOperand(0);
    llvm::SmallPtrSet<Operation *, 8> seen;
    bool reread = !isa<ReduceOp>(op) || llvm::range_size(input.getUsers()) > 1;
    if (input.getDefiningOp() && reread && !getRowSpace(input.getDefiningOp()) &&
        !llvm::is_contained(results(), input) && cost(input, seen) >= 3)
      add(input, elementTypeOf(input));
    if (auto softmax = dyn_cast<SoftmaxOp>(op); softmax && !softmax.getLog())
      add(softmax.getResult(), computeType(elementTypeOf(softmax.getResult())));
  }
}

void FusedGenerator::forLoop(LoopEmitter &e, Value low, Value high, int64_t step,
                             llvm::function_ref<void(Value)> body) {
  OpBuilder &b = e.builder();
  auto loop = scf::ForOp::create(b, e.loc(), low, high, e.vectorMemory().constant(step));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  e.enterRegion();
  body(loop.getInductionVar());
  e.leaveRegion();
}

void FusedGenerator::emitPoint(LoopEmitter &e, ArrayRef<Lane> index) {
  SmallVector<std::pair<Value, unsigned>> values;
  for (auto [i, output] : llvm::enumerate(results()))
    if (isFull(output))
      values.push_back({e.load(output, index), i});
  for (auto [value, i] : values)
    e.store(value, outputViews[i], index);
}

void FusedGenerator::emitRow(LoopEmitter &e, RowProgram &rows, ArrayRef<Lane> index) {
  rows.beginRow(index);
  for (Operation *op : rowOps)
    rows.emit(op);
  if (llvm::any_of(results(), [&](Value v) { return isFull(v); }))
    rows.forEach([&](ArrayRef<Lane> at) { emitPoint(e, at); });
  for (auto [output, view] : llvm::zip(results(), outputViews)) {
    if (isFull(output))
      continue;
    SmallVector<Lane> at = rows.rowIndex(shapeOf(output));
    e.store(e.load(output, at), view, at);
  }
}

void FusedGenerator::emitTiles(KernelFunction &kernel, LoopEmitter &e) {
  VectorMemory &m = e.vectorMemory();
  forLoop(e, kernel.begin(), kernel.end(), 1, [&](Value tile) {
    SmallVector<Lane> index(shape.size());
    for (unsigned d = 0; d < shape.size(); ++d)
      if (!(space && space->reduced[d]))
        index[d] = e.constant(0);
    auto body = [&] {
      if (rows)
        emitRow(e, *rows, index);
      else
        emitPoint(e, index);
    };
    if (order.empty())
      return body();
    SmallVector<int64_t> sizes;
    for (unsigned i = 0; i < cut; ++i)
      sizes.push_back(shape[order[i]]);
    sizes.push_back(chunks);
    SmallVector<Value> at = m.delinearize(tile, sizes);
    for (unsigned i = 0; i < cut; ++i)
      index[order[i]] = {at[i], 0, {}, 1};
    Value chunkLow = m.mulConstant(at[cut], chunk), chunkHigh;
    if (chunks > 1)
      chunkHigh = m.minConstant(m.addConstant(chunkLow, chunk), shape[order[cut]]);

    auto nest = [&](auto self, unsigned depth) -> void {
      if (depth == order.size())
        return body();
      unsigned d = order[depth];
      bool chunked = depth == cut && chunks > 1;
      if ((int)d != lane || width == 1) {
        if (!chunked && shape[d] == 1) {
          index[d] = e.constant(0);
          return self(self, depth + 1);
        }
        return forLoop(e, chunked ? chunkLow : m.constant(0), chunked ? chunkHigh : m.constant(shape[d]), 1,
                       [&](Value counter) {
                         index[d] = {counter, 0, {}, 1};
                         self(self, depth + 1);
                       });
      }
      int64_t whole = shape[d] / width * width, rest = shape[d] - whole;
      auto vectors = [&](Value low, Value high) {
        forLoop(e, low, high, width, [&](Value counter) {
          index[d] = {counter, 1, {}, (int64_t)width};
          self(self, depth + 1);
        });
      };
      auto tail = [&] {
        e.enterRegion();
        index[d] = {m.constant(whole), 1, {}, whole};
        e.setMask(m.prefixMask(width, rest));
        self(self, depth + 1);
        e.setMask(nullptr);
        e.leaveRegion();
      };
      if (!chunked) {
        if (whole)
          vectors(m.constant(0), m.constant(whole));
        if (rest)
          tail();
        return;
      }
      vectors(chunkLow, m.minConstant(chunkHigh, whole));
      if (!rest)
        return;
      Value last = arith::CmpIOp::create(e.builder(), e.loc(), arith::CmpIPredicate::eq, at[cut],
                                         m.constant(chunks - 1));
      auto branch = scf::IfOp::create(e.builder(), e.loc(), last);
      OpBuilder::InsertionGuard guard(e.builder());
      e.builder().setInsertionPointToStart(&branch.getThenRegion().front());
      tail();
    };
    nest(nest, cut);
  });
}

llvm::Expected<GeneratedKernel> FusedGenerator::run() {
  if (std::string problem = analyze(); !problem.empty())
    return llvm::createStringError(problem);
  chooseLane();
  planScratch();

  // Inner loops up to a tile's size; then the next dimension in chunks.
  int64_t inner = 1;
  for (unsigned d = 0; space && d < shape.size(); ++d)
    inner *= space->reduced[d] ? shape[d] : 1;
  cut = order.size();
  while (cut > 0 && inner * shape[order[cut - 1]] <= tileElements)
    inner *= shape[order[--cut]];
  if (cut > 0) {
    unsigned d = order[--cut];
    int64_t unit = (int)d == lane ? width : 1;
    chunk = std::clamp<int64_t>(llvm::alignTo(std::max<int64_t>(tileElements / inner, 1), unit), unit,
                                llvm::alignTo(shape[d], unit));
    chunks = llvm::divideCeil(shape[d], chunk);
  } else if (!order.empty()) {
    chunk = shape[order[0]];
  }
  tiles = chunks;
  for (unsigned i = 0; i < cut; ++i)
    tiles *= shape[order[i]];

  SmallVector<BufferSpec> buffers;
  auto addBuffer = [&](Type type, const FusedBuffer &buffer) {
    auto tensor = cast<RankedTensorType>(type);
    buffers.push_back({storageType(tensor.getElementType()), SmallVector<int64_t>(tensor.getShape()),
                       buffer.strides, buffer.noalias});
  };
  unsigned params = 0, next = 0;
  for (BlockArgument argument : function.getArguments()) {
    if (isa<RankedTensorType>(argument.getType()))
      addBuffer(argument.getType(), spec.inputs[next++]);
    else
      ++params;
  }
  for (auto [output, buffer] : llvm::zip(results(), spec.outputs))
    addBuffer(output.getType(), buffer);
  KernelFunction kernel(context, buffers, params, scratchBytes);
  LoopEmitter e(kernel.builder(), kernel.loc(), target, width);
  unsigned buffer = 0, param = 0;
  for (BlockArgument argument : function.getArguments()) {
    if (isa<RankedTensorType>(argument.getType())) {
      e.bindMemory(argument, {kernel.pointer(buffer), elementTypeOf(argument), spec.inputs[buffer].strides});
      ++buffer;
    } else {
      e.bindScalar(argument, kernel.param(param++));
    }
  }
  for (Operation &op : function.getBody().front())
    if (auto start = op.getAttrOfType<IntegerAttr>("start_argument"))
      e.bindScalar(op.getResult(0), kernel.param(start.getInt()));
  for (auto [output, place] : llvm::zip(results(), spec.outputs))
    outputViews.push_back({kernel.pointer(buffer++), elementTypeOf(output), place.strides});
  if (space) {
    // Without a dimension of more than one element the last one stands for the lane.
    rows = std::make_unique<RowProgram>(e, *space, lane >= 0 ? lane : shape.size() - 1);
    for (Operation *op : rowOps) {
      Value input = op->getOperand(0);
      for (auto [i, output] : llvm::enumerate(results()))
        if (output == input && input.getDefiningOp() && spec.outputs[i].noalias &&
            !getRowSpace(input.getDefiningOp()))
          rows->keep(input, outputViews[i]);
    }
    for (Slot &slot : slots) {
      SmallVector<int64_t> strides(shape.size(), 0);
      strides[lane] = 1;
      int64_t stride = shape[lane];
      for (int d = (int)shape.size() - 1; d >= 0; --d)
        if (space->reduced[d] && d != lane) {
          strides[d] = stride;
          stride *= shape[d];
        }
      Value pointer = e.vectorMemory().address(kernel.scratch(), e.builder().getI8Type(), slot.offset);
      rows->keep(slot.tensor, {pointer, slot.element, strides});
    }
  }
  emitTiles(kernel, e);
  if (!e.error().empty())
    return llvm::createStringError(e.error());
  GeneratedKernel result;
  result.tiles = tiles;
  result.scratchBytes = scratchBytes;
  result.buffers = buffers.size();
  result.params = params;
  result.module = kernel.take();
  return result;
}

llvm::Expected<GeneratedKernel> cpu::generateFused(MLIRContext &context, const Target &target,
                                                   const FusedSpec &spec) {
  return FusedGenerator(context, target, spec).run();
}
