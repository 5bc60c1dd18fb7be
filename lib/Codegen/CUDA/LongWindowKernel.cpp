// Few places with long windows: the threads of a block share the windows of a row of the result, a part of
// the elements each, and add up what they have in the end.
#include "GroupedBlock.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::nvidia;

namespace {

/// Places of a row, as many as a thread has sums; and elements of a window that give each thread a few.
constexpr int64_t maxPlaces = 32, leastElements = 512;

class Generator : GroupedBlock {
public:
  Generator(MLIRContext &context, const BlockTeam &team, const GroupedSpec &spec)
      : GroupedBlock(context, team, spec) {}

  kernel::GeneratedKernel run() {
    return emit(spec.images * spec.channels() * spec.places[0], [&](Value tile) { emitTile(tile); });
  }

private:
  void emitTile(Value tile) {
    SmallVector<Value> at = memory.delinearize(tile, {spec.images, spec.channels(), spec.places[0]});
    Value image = at[0], channel = at[1], row = at[2];
    SmallVector<Value> sums = addUp(image, channel, row);
    for (auto [column, sum] : llvm::enumerate(sums)) {
      Value total = frame->combine(
          sum, [&](Value x, Value y) { return arith::AddFOp::create(b, loc, x, y).getResult(); });
      // All threads have it; each place is another one's.
      Value isOwn = compare(arith::CmpIPredicate::eq, thread, memory.constant(static_cast<int64_t>(column)));
      when(isOwn, [&] {
        if (spec.bias)
          total = arith::AddFOp::create(b, loc, total, biasOf(channel));
        store(total, image, channel, row, memory.constant(static_cast<int64_t>(column)));
      });
    }
  }

  /// A thread's part of the sums of a row.
  SmallVector<Value> addUp(Value image, Value channel, Value row) {
    Value group = memory.divRem(channel, spec.outChannels).first;
    Value ofImage = memory.linearize({image, group}, {spec.input[0], spec.input[1] * spec.inChannels}),
          ofWeight = memory.mulConstant(channel, spec.weight[0]);
    SmallVector<Value> none(spec.places[1], memory.constantLike(accumulate, 0));
    const int64_t elements = spec.inChannels * spec.window[0] * spec.window[1];
    auto loop = scf::ForOp::create(
        b, loc, thread, memory.constant(elements), memory.constant(threads), none,
        [&](OpBuilder &, Location, Value element, ValueRange sums) {
          SmallVector<Value> at =
              memory.delinearize(element, {spec.inChannels, spec.window[0], spec.window[1]});
          Value weight =
              load(Weight, memory.add(ofWeight, memory.linearize(at, ArrayRef(spec.weight).drop_front())));
          Value inRow = tapAt(row, at[1], 0), rowExists = inside(inRow, spec.size[0]);
          Value base = memory.add(ofImage, memory.linearize({at[0], inRow}, {spec.input[1], spec.input[2]}));
          SmallVector<Value> next;
          for (auto [column, sum] : llvm::enumerate(sums)) {
            Value inColumn = tapAt(memory.constant(static_cast<int64_t>(column)), at[2], 1);
            Value exists = both(rowExists, inside(inColumn, spec.size[1]));
            Value x = loadWhere(exists, Input, memory.add(base, memory.mulConstant(inColumn, spec.input[3])));
            next.push_back(math::FmaOp::create(b, loc, x, weight, sum));
          }
          scf::YieldOp::create(b, loc, next);
        });
    return loop.getResults();
  }

  /// Where the tap of a place stands in the input, along dimension `d`.
  Value tapAt(Value place, Value tap, unsigned d) {
    return memory.addConstant(
        memory.add(memory.mulConstant(place, spec.stride[d]), memory.mulConstant(tap, spec.dilation[d])),
        -spec.pad[d]);
  }
};

} // namespace

bool nvidia::hasLongWindows(const GroupedSpec &spec) {
  const int64_t window = spec.window[0] * spec.window[1];
  return spec.places[1] <= maxPlaces && spec.inChannels * window >= leastElements &&
         spec.places[0] * spec.places[1] < window;
}

kernel::GeneratedKernel nvidia::generateLongWindows(MLIRContext &context, const BlockTeam &team,
                                                    const GroupedSpec &spec) {
  return Generator(context, team, spec).run();
}
