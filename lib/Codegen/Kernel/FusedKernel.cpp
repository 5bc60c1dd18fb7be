//===- FusedKernel.cpp - loops around a fusion group ------------------------===//
//
// Chooses the dimension of the vectors and the order of the loops, cuts the outer ones into tiles, and lets
// LoopEmitter and RowProgram fill in the code.
//
//===----------------------------------------------------------------------===//
#include "colossal/Codegen/Kernel/FusedKernel.h"
#include "RowProgram.h"

#include "colossal/Codegen/Kernel/Alignment.h"

#include "dialects/Colossal/Colossal.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace colossal;
using namespace colossal::kernel;

namespace {
/// The widest access of a thread of a team, in bytes, and the words of 32 bits that it may hold of a row.
constexpr int64_t widestAccess = 16, heldWords = 64;

class FusedGenerator {
public:
  FusedGenerator(MLIRContext &context, const Team &team, const FusedSpec &spec)
      : context(context), team(team), spec(spec), function(spec.function) {}

  llvm::Expected<GeneratedKernel> run();

private:
  std::string analyze();
  void chooseLane();
  unsigned commonWidth();
  void widenColumns();
  bool fitsRegisters();
  void planScratch();
  void cutTiles();
  SmallVector<BufferSpec> describeBuffers(unsigned &params);
  int64_t largestIndex(ArrayRef<BufferSpec> buffers);
  void bindArguments(LoopEmitter &e);
  void stateAlignment(unsigned buffer, int64_t bytes);
  void startRows(LoopEmitter &e);
  void emitTile(LoopEmitter &e, Value tile);
  void emitLoops(LoopEmitter &e, SmallVector<Lane> &index, unsigned depth);
  void emitLane(LoopEmitter &e, SmallVector<Lane> &index, unsigned depth);
  void emitBody(LoopEmitter &e, ArrayRef<Lane> index);
  void emitPoint(LoopEmitter &e, ArrayRef<Lane> index);
  void emitRow(LoopEmitter &e, RowProgram &rows, ArrayRef<Lane> index);
  void forLoop(LoopEmitter &e, Value low, Value high, int64_t step, llvm::function_ref<void(Value)> body);
  /// The same, the turns dealt out to the members of the team.
  void teamLoop(LoopEmitter &e, Value low, Value high, int64_t step, llvm::function_ref<void(Value)> body);
  /// Runs `body` on one member of the team.
  void once(LoopEmitter &e, llvm::function_ref<void()> body);
  ValueRange results() {
    return cast<func::ReturnOp>(function.getBody().front().getTerminator()).getOperands();
  }
  bool isFull(Value output) { return shapeOf(output) == ArrayRef<int64_t>(shape); }
  int64_t cost(Value value, llvm::SmallPtrSetImpl<Operation *> &seen);

  MLIRContext &context;
  const Team &team;
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
  std::unique_ptr<Frame> frame;
  std::unique_ptr<RowProgram> rows;
  // Tiling: dimensions before order[cut] are tile indices, order[cut] is cut into chunks.
  unsigned cut = 0;
  int64_t chunk = 1, chunks = 1, tiles = 1;
  Value chunkNumber, chunkLow, chunkHigh; ///< of the tile
};
} // namespace

static std::optional<RowSpace> rowSpaceOf(Operation *op) {
  auto kernel = dyn_cast<KernelOpInterface>(op);
  return kernel ? kernel.getRowSpace() : std::nullopt;
}

std::string FusedGenerator::analyze() {
  for (Operation &op : function.getBody().front()) {
    auto found = rowSpaceOf(&op);
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
    width = team.members() > 1 ? commonWidth() : team.lanes(shape[lane]);
    if (team.members() == 1)
      widenColumns();
    if (!(space && space->reduced[lane]))
      order.push_back(lane);
  }
}

/// Where rows are added up column by column, a vector of columns is a line of each row, and the next row may
/// lie pages away, so that a processor does not fetch ahead: several lines of a row are taken at once, while
/// there are columns for many threads.
void FusedGenerator::widenColumns() {
  constexpr int64_t fewRows = 64, mostLines = 4, enoughTiles = 8;
  if (!space || space->reduced[lane])
    return;
  int64_t rows = 1;
  for (unsigned d = 0; d < shape.size(); ++d)
    rows *= space->reduced[d] ? shape[d] : 1;
  const int64_t limit = width * mostLines;
  while (rows >= fewRows && 2 * width <= limit && shape[lane] >= 2 * int64_t(width) * enoughTiles)
    width *= 2;
}

/// Elements that each member of a team of several takes at once: what all buffers of the kernel can be read
/// and written by in one access. All tensors are read at the group's own index, and vectors run along their
/// last dimension.
unsigned FusedGenerator::commonWidth() {
  const int64_t last = int64_t(shape.size()) - 1, extent = shape[lane];
  if (lane != last || (space && !space->reduced[lane]))
    return 1;
  for (Operation &op : function.getBody().front().without_terminator()) {
    auto kernel = dyn_cast<KernelOpInterface>(&op);
    if (!op.hasTrait<OpTrait::ConstantLike>() && !(kernel && kernel.readsAtOwnIndex()))
      return 1;
  }
  int64_t width = team.lanes(extent);
  auto consider = [&](Value tensor, const FusedBuffer &buffer, int64_t alignment) {
    ArrayRef<int64_t> sizes = shapeOf(tensor);
    if (sizes.empty() || sizes.back() != extent)
      return; // one element for the whole vector
    const int64_t bytes = elementBytes(elementTypeOf(tensor));
    int64_t common = std::gcd(widestAccess, alignment);
    for (auto [size, stride] : llvm::zip_equal(sizes.drop_back(), ArrayRef(buffer.strides).drop_back()))
      if (size != 1)
        common = std::gcd(common, stride * bytes);
    while (width > 1 && (buffer.strides.back() != 1 || common % (width * bytes) != 0))
      width /= 2;
  };
  unsigned next = 0;
  for (BlockArgument argument : function.getArguments())
    if (isa<RankedTensorType>(argument.getType()))
      consider(argument, spec.inputs[next++], getArgumentAlignment(function, argument.getArgNumber()));
  for (auto [i, output] : llvm::enumerate(results()))
    consider(output, spec.outputs[i], getResultAlignment(function, i));
  return static_cast<unsigned>(width);
}

/// Whether the members of a team can hold what the loops over a row read more than once.
bool FusedGenerator::fitsRegisters() {
  if (team.members() == 1 || !space || lane < 0 || !space->reduced[lane])
    return false;
  for (unsigned d = 0; d < shape.size(); ++d)
    if (space->reduced[d] && (int)d != lane && shape[d] != 1)
      return false;
  llvm::SmallSetVector<Value, 4> held;
  for (Operation *op : rowOps) {
    for (Value operand : op->getOperands())
      if (isa<RankedTensorType>(operand.getType()) && isFull(operand))
        held.insert(operand);
    if (cast<RowEmissionOpInterface>(op).keepsElements())
      held.insert(op->getResult(0));
  }
  const int64_t each = llvm::divideCeil(shape[lane], width * team.members()) * width;
  int64_t words = 0;
  for (Value tensor : held)
    words += each * llvm::divideCeil(elementBytes(computeType(elementTypeOf(tensor))), 4);
  return words <= heldWords;
}

int64_t FusedGenerator::cost(Value value, llvm::SmallPtrSetImpl<Operation *> &seen) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return isa<RankedTensorType>(value.getType()) && isFull(value) ? 1 : 0;
  if (!seen.insert(op).second)
    return 0;
  auto kernel = dyn_cast<KernelOpInterface>(op);
  int64_t total = kernel ? kernel.getElementCost() : 4;
  for (Value operand : op->getOperands())
    total += cost(operand, seen);
  return total;
}

void FusedGenerator::planScratch() {
  if (!space || lane < 0 || !space->reduced[lane] || fitsRegisters())
    return;
  int64_t row = 1;
  for (unsigned d = 0; d < shape.size(); ++d)
    row *= space->reduced[d] ? shape[d] : 1;
  auto add = [&](Value tensor, Type element) {
    int64_t bytes = llvm::alignTo(row * elementBytes(element), 64);
    if (scratchBytes + bytes > team.scratchLimit() ||
        llvm::any_of(slots, [&](Slot &s) { return s.tensor == tensor; }))
      return;
    slots.push_back({tensor, scratchBytes, element});
    scratchBytes += bytes;
  };
  for (Operation *op : rowOps) {
    Value input = op->getOperand(0);
    llvm::SmallPtrSet<Operation *, 8> seen;
    bool reread = isFull(op->getResult(0)) || llvm::range_size(input.getUsers()) > 1;
    if (input.getDefiningOp() && reread && !rowSpaceOf(input.getDefiningOp()) &&
        !llvm::is_contained(results(), input) && cost(input, seen) >= 3)
      add(input, elementTypeOf(input));
    if (cast<RowEmissionOpInterface>(op).keepsElements())
      add(op->getResult(0), computeType(elementTypeOf(op->getResult(0))));
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
    cast<RowEmissionOpInterface>(op).emitRow(rows);
  if (llvm::any_of(results(), [&](Value v) { return isFull(v); }))
    rows.forEach([&](ArrayRef<Lane> at) { emitPoint(e, at); });
  auto storeStatistics = [&] {
    for (auto [output, view] : llvm::zip(results(), outputViews)) {
      if (isFull(output))
        continue;
      SmallVector<Lane> at = rows.rowIndex(shapeOf(output));
      e.store(e.load(output, at), view, at);
    }
  };
  bool any = llvm::any_of(results(), [&](Value v) { return !isFull(v); });
  if (any && rows.alongRow())
    once(e, storeStatistics); // all members know them
  else
    storeStatistics();
}

void FusedGenerator::teamLoop(LoopEmitter &e, Value low, Value high, int64_t step,
                              llvm::function_ref<void(Value)> body) {
  VectorMemory &m = e.vectorMemory();
  if (team.members() > 1)
    low = m.add(low, m.mulConstant(e.toIndex(frame->member()), step));
  forLoop(e, low, high, step * team.members(), body);
}

void FusedGenerator::once(LoopEmitter &e, llvm::function_ref<void()> body) {
  if (team.members() == 1)
    return body();
  OpBuilder &b = e.builder();
  Value zero = arith::ConstantOp::create(b, e.loc(), b.getI64IntegerAttr(0));
  Value first = arith::CmpIOp::create(b, e.loc(), arith::CmpIPredicate::eq, frame->member(), zero);
  auto branch = scf::IfOp::create(b, e.loc(), first);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&branch.getThenRegion().front());
  e.enterRegion();
  body();
  e.leaveRegion();
}

void FusedGenerator::emitBody(LoopEmitter &e, ArrayRef<Lane> index) {
  // Without a dimension of the vectors there is nothing to deal out.
  if (lane < 0 && !(rows && rows->alongRow()))
    return once(e, [&] { rows ? emitRow(e, *rows, index) : emitPoint(e, index); });
  rows ? emitRow(e, *rows, index) : emitPoint(e, index);
}

/// The loop over the dimension of the vectors: whole vectors, then what is left.
void FusedGenerator::emitLane(LoopEmitter &e, SmallVector<Lane> &index, unsigned depth) {
  VectorMemory &m = e.vectorMemory();
  const unsigned d = order[depth];
  const bool chunked = depth == cut && chunks > 1;
  const int64_t whole = shape[d] / width * width, rest = shape[d] - whole;
  auto vectors = [&](Value low, Value high) {
    teamLoop(e, low, high, width, [&](Value counter) {
      index[d] = {counter, 1, {}, (int64_t)width};
      emitLoops(e, index, depth + 1);
    });
  };
  auto tail = [&] {
    if (team.tail() == Team::Tail::Scalar) {
      e.setLanes(1);
      Value end = m.constant(shape[d]);
      teamLoop(e, m.constant(whole), end, 1, [&](Value counter) {
        index[d] = {counter, 0, {}, 1};
        emitLoops(e, index, depth + 1);
      });
      return e.setLanes(width);
    }
    once(e, [&] {
      e.enterRegion();
      index[d] = {m.constant(whole), 1, {}, whole};
      e.setMask(m.prefixMask(width, rest));
      emitLoops(e, index, depth + 1);
      e.setMask(nullptr);
      e.leaveRegion();
    });
  };
  if (!chunked) {
    if (whole) {
      Value end = m.constant(whole);
      vectors(m.constant(0), end);
    }
    if (rest)
      tail();
    return;
  }
  vectors(chunkLow, m.minConstant(chunkHigh, whole));
  if (!rest)
    return;
  Value last = arith::CmpIOp::create(e.builder(), e.loc(), arith::CmpIPredicate::eq, chunkNumber,
                                     m.constant(chunks - 1));
  auto branch = scf::IfOp::create(e.builder(), e.loc(), last);
  OpBuilder::InsertionGuard guard(e.builder());
  e.builder().setInsertionPointToStart(&branch.getThenRegion().front());
  tail();
}

/// Loops over the dimensions order[depth] and what follows.
void FusedGenerator::emitLoops(LoopEmitter &e, SmallVector<Lane> &index, unsigned depth) {
  VectorMemory &m = e.vectorMemory();
  if (depth == order.size())
    return emitBody(e, index);
  const unsigned d = order[depth];
  const bool chunked = depth == cut && chunks > 1;
  if ((int)d == lane && width > 1)
    return emitLane(e, index, depth);
  if (!chunked && shape[d] == 1) {
    index[d] = e.constant(0);
    return emitLoops(e, index, depth + 1);
  }
  auto turn = [&](Value counter) {
    index[d] = {counter, 0, {}, 1};
    emitLoops(e, index, depth + 1);
  };
  Value high = chunked ? chunkHigh : m.constant(shape[d]), low = chunked ? chunkLow : m.constant(0);
  if ((int)d == lane)
    teamLoop(e, low, high, 1, turn);
  else
    forLoop(e, low, high, 1, turn);
}

void FusedGenerator::emitTile(LoopEmitter &e, Value tile) {
  VectorMemory &m = e.vectorMemory();
  SmallVector<Lane> index(shape.size());
  for (unsigned d = 0; d < shape.size(); ++d)
    if (!(space && space->reduced[d]))
      index[d] = e.constant(0);
  if (order.empty())
    return emitBody(e, index);
  SmallVector<int64_t> sizes;
  for (unsigned i = 0; i < cut; ++i)
    sizes.push_back(shape[order[i]]);
  sizes.push_back(chunks);
  SmallVector<Value> at = m.delinearize(e.toIndex(tile), sizes);
  for (unsigned i = 0; i < cut; ++i)
    index[order[i]] = {at[i], 0, {}, 1};
  chunkNumber = at[cut];
  chunkLow = m.mulConstant(chunkNumber, chunk);
  if (chunks > 1)
    chunkHigh = m.minConstant(m.addConstant(chunkLow, chunk), shape[order[cut]]);
  emitLoops(e, index, cut);
}

/// Inner loops up to a tile's size; then the next dimension in chunks.
void FusedGenerator::cutTiles() {
  int64_t inner = 1;
  for (unsigned d = 0; space && d < shape.size(); ++d)
    inner *= space->reduced[d] ? shape[d] : 1;
  cut = order.size();
  while (cut > 0 && inner * shape[order[cut - 1]] <= team.tileElements())
    inner *= shape[order[--cut]];
  if (cut > 0) {
    unsigned d = order[--cut];
    int64_t unit = (int)d == lane ? width * team.members() : 1;
    chunk = std::clamp<int64_t>(llvm::alignTo(std::max<int64_t>(team.tileElements() / inner, 1), unit), unit,
                                llvm::alignTo(shape[d], unit));
    chunks = llvm::divideCeil(shape[d], chunk);
  } else if (!order.empty()) {
    chunk = shape[order[0]];
  }
  tiles = chunks;
  for (unsigned i = 0; i < cut; ++i)
    tiles *= shape[order[i]];
}

SmallVector<BufferSpec> FusedGenerator::describeBuffers(unsigned &params) {
  SmallVector<BufferSpec> buffers;
  auto add = [&](Type type, const FusedBuffer &buffer) {
    auto tensor = cast<RankedTensorType>(type);
    buffers.push_back({storageType(tensor.getElementType()), SmallVector<int64_t>(tensor.getShape()),
                       buffer.strides, buffer.noalias});
  };
  unsigned next = 0;
  for (BlockArgument argument : function.getArguments()) {
    if (isa<RankedTensorType>(argument.getType()))
      add(argument.getType(), spec.inputs[next++]);
    else
      ++params;
  }
  for (auto [output, buffer] : llvm::zip(results(), spec.outputs))
    add(output.getType(), buffer);
  return buffers;
}

/// Of the buffers, of the loops, and of what lies in no memory but is indexed all the same.
int64_t FusedGenerator::largestIndex(ArrayRef<BufferSpec> buffers) {
  int64_t largest = std::max(largestOffset(buffers), scratchBytes);
  for (Operation &op : function.getBody().front())
    for (Value result : op.getResults())
      if (auto type = dyn_cast<RankedTensorType>(result.getType()))
        largest = std::max(largest, type.getNumElements());
  return largest;
}

void FusedGenerator::bindArguments(LoopEmitter &e) {
  unsigned buffer = 0, param = 0;
  for (BlockArgument argument : function.getArguments()) {
    if (isa<RankedTensorType>(argument.getType())) {
      e.bindMemory(argument, {frame->pointer(buffer), elementTypeOf(argument), spec.inputs[buffer].strides});
      stateAlignment(buffer++, getArgumentAlignment(function, argument.getArgNumber()));
    } else {
      e.bindScalar(argument, frame->param(param++));
    }
  }
  for (Operation &op : function.getBody().front())
    if (auto start = op.getAttrOfType<IntegerAttr>("start_argument"))
      e.bindScalar(op.getResult(0), frame->param(start.getInt()));
  for (auto [i, output] : llvm::enumerate(results())) {
    outputViews.push_back({frame->pointer(buffer), elementTypeOf(output), spec.outputs[i].strides});
    stateAlignment(buffer++, getResultAlignment(function, i));
  }
}

/// Where buffers are arguments of the kernel, LLVM finds from there how single accesses are aligned.
void FusedGenerator::stateAlignment(unsigned buffer, int64_t bytes) {
  auto argument = dyn_cast<BlockArgument>(frame->pointer(buffer));
  auto entry = argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : nullptr;
  if (entry && bytes > 1)
    entry.setArgAttr(argument.getArgNumber(), "llvm.align",
                     Builder(&context).getI64IntegerAttr(std::min(bytes, widestAccess)));
}

void FusedGenerator::startRows(LoopEmitter &e) {
  // Without a dimension of more than one element the last one stands for the lane.
  rows = std::make_unique<RowProgram>(e, team, *frame, *space, lane >= 0 ? lane : shape.size() - 1,
                                      fitsRegisters());
  if (fitsRegisters())
    return;
  for (Operation *op : rowOps) {
    Value input = op->getOperand(0);
    for (auto [i, output] : llvm::enumerate(results()))
      if (output == input && input.getDefiningOp() && spec.outputs[i].noalias &&
          !rowSpaceOf(input.getDefiningOp()))
        rows->keepIn(input, outputViews[i]);
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
    Value pointer = e.vectorMemory().address(frame->scratch(), e.builder().getI8Type(), slot.offset);
    rows->keepIn(slot.tensor, {pointer, slot.element, strides});
  }
}

llvm::Expected<GeneratedKernel> FusedGenerator::run() {
  if (std::string problem = analyze(); !problem.empty())
    return llvm::createStringError(problem);
  chooseLane();
  planScratch();
  cutTiles();
  GeneratedKernel result;
  SmallVector<BufferSpec> buffers = describeBuffers(result.params);
  frame = team.open(context, buffers, result.params, scratchBytes);
  LoopEmitter e(frame->builder(), frame->loc(), team.instructions(), width,
                team.indexBits(largestIndex(buffers)));
  bindArguments(e);
  if (space)
    startRows(e);
  frame->forEachTile([&](Value tile) {
    e.enterRegion();
    emitTile(e, tile);
    e.leaveRegion();
  });
  if (!e.error().empty())
    return llvm::createStringError(e.error());
  result.tiles = tiles;
  result.scratchBytes = scratchBytes;
  result.buffers = buffers.size();
  result.module = frame->take();
  return result;
}

llvm::Expected<GeneratedKernel> kernel::generateFused(MLIRContext &context, const Team &team,
                                                      const FusedSpec &spec) {
  return FusedGenerator(context, team, spec).run();
}
