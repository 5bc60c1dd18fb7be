// Buffers of grouped convolutions, and where their sums go.
#include "GroupedBlock.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::nvidia;
using kernel::BufferSpec;

namespace {

/// Of offsets, and of places, tiles and elements of windows. At borders indices go beyond the input by parts
/// of a window, and in the last block beyond the result by its places.
int64_t largestIndex(const GroupedSpec &spec, ArrayRef<BufferSpec> buffers) {
  constexpr int64_t block = 1024;
  int64_t offset = kernel::largestOffset(buffers), index = block + spec.groups;
  for (unsigned d = 0; d < 2; ++d) {
    const int64_t window = spec.window[d] * spec.dilation[d] + std::abs(spec.pad[d]);
    offset += (window + 2 * spec.stride[d]) * std::abs(spec.input[2 + d]);
    index = std::max(index, (spec.places[d] + block) * spec.stride[d] + window);
  }
  const int64_t elements = spec.inChannels * spec.window[0] * spec.window[1],
                places = spec.images * spec.channels() * spec.places[0] * spec.places[1];
  return std::max({offset, index, elements + block, places + block});
}

} // namespace

GroupedBlock::GroupedBlock(MLIRContext &context, const BlockTeam &team, const GroupedSpec &spec)
    : spec(spec), buffers(describe()), frame(team.open(context, buffers, spec.params, 0)),
      b(frame->builder()), loc(frame->loc()), indexBits(team.indexBits(largestIndex(spec, buffers))),
      memory(b, loc, team.instructions(), indexBits), math(b, loc, team.instructions()),
      accumulate(spec.accumulate()) {
  stateAlignment(Input, spec.inputAlignment);
  for (auto [i, bytes] : llvm::enumerate(spec.alignments))
    stateAlignment(spec.firstExtraBuffer() + unsigned(i), bytes);
}

llvm::SmallVector<BufferSpec> GroupedBlock::describe() const {
  llvm::SmallVector<BufferSpec> specs;
  auto add = [&](ArrayRef<int64_t> shape, ArrayRef<int64_t> strides) {
    specs.push_back(
        {kernel::storageType(spec.type), SmallVector<int64_t>(shape), SmallVector<int64_t>(strides)});
  };
  add({spec.images, spec.groups * spec.inChannels, spec.size[0], spec.size[1]}, spec.input);
  add({spec.channels(), spec.inChannels, spec.window[0], spec.window[1]}, spec.weight);
  if (spec.bias)
    add({spec.channels()}, {*spec.bias});
  specs.append(spec.extraInputs);
  add({spec.images, spec.channels(), spec.places[0], spec.places[1]}, spec.output);
  specs.back().noalias = spec.noaliasOutput;
  if (spec.resultType)
    specs.back().element = kernel::storageType(spec.resultType);
  specs.append(spec.extraOutputs);
  return specs;
}

/// Where buffers are arguments of the kernel, LLVM finds from there how single accesses are aligned.
void GroupedBlock::stateAlignment(unsigned buffer, int64_t bytes) {
  auto argument = cast<BlockArgument>(frame->pointer(buffer));
  cast<func::FuncOp>(argument.getOwner()->getParentOp())
      .setArgAttr(argument.getArgNumber(), "llvm.align", b.getI64IntegerAttr(std::min<int64_t>(bytes, 16)));
}

kernel::GeneratedKernel GroupedBlock::emit(int64_t tiles, llvm::function_ref<void(Value)> tile) {
  thread = toIndex(frame->member());
  frame->forEachTile([&](Value number) { tile(toIndex(number)); });
  kernel::GeneratedKernel result;
  result.tiles = tiles;
  result.buffers = static_cast<unsigned>(buffers.size());
  result.params = spec.params;
  result.module = frame->take();
  return result;
}

Value GroupedBlock::toIndex(Value word) {
  return word.getType() == memory.indexType()
             ? word
             : arith::TruncIOp::create(b, loc, memory.indexType(), word).getResult();
}

void GroupedBlock::when(Value condition, llvm::function_ref<void()> body) {
  auto branch = scf::IfOp::create(b, loc, condition);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&branch.getThenRegion().front());
  body();
}

llvm::SmallVector<Value> GroupedBlock::loop(int64_t count, ValueRange carried, Body body) {
  if (count == 1)
    return body(memory.constant(0), carried);
  auto op = scf::ForOp::create(b, loc, memory.constant(0), memory.constant(count), memory.constant(1),
                               carried, [&](OpBuilder &, Location, Value at, ValueRange state) {
                                 scf::YieldOp::create(b, loc, body(at, state));
                               });
  return op.getResults();
}

Value GroupedBlock::load(unsigned buffer, Value offset) {
  return memory.convert(memory.load(memory.address(frame->pointer(buffer), spec.type, offset), spec.type, 1),
                        accumulate);
}

Value GroupedBlock::loadWhere(Value exists, unsigned buffer, Value offset) {
  auto branch = scf::IfOp::create(b, loc, TypeRange{accumulate}, exists, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&branch.getThenRegion().front());
  scf::YieldOp::create(b, loc, load(buffer, offset));
  b.setInsertionPointToStart(&branch.getElseRegion().front());
  scf::YieldOp::create(b, loc, memory.constantLike(accumulate, 0));
  return branch.getResult(0);
}

Value GroupedBlock::biasOf(Value channel) {
  return spec.bias ? load(Bias, memory.mulConstant(channel, *spec.bias)) : memory.constantLike(accumulate, 0);
}

void GroupedBlock::store(ArrayRef<Value> sums, Value image, Value channel, Value row, Value column) {
  Value value = sums[0];
  if (sums.size() > 1)
    value = vector::FromElementsOp::create(
        b, loc, VectorType::get({static_cast<int64_t>(sums.size())}, accumulate), sums);
  if (spec.epilogue)
    return spec.epilogue(b, loc, value,
                         {*frame, image, channel, row, column, unsigned(sums.size()), indexBits});
  Value offset = memory.linearize({image, channel, row, column}, spec.output);
  memory.store(memory.convert(value, spec.type),
               memory.address(frame->pointer(spec.resultBuffer()), spec.type, offset));
}
