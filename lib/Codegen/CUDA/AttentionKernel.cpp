// A block of 128 threads takes sixteen queries, eight threads each, and keys in tiles that lie in shared
// memory with the queries. A thread has the scores of every eighth key of its query, and every eighth column
// of its result.
#include "AttentionBlock.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::nvidia;

namespace {

constexpr int64_t queriesOfBlock = 16, lanes = 8;
/// Of shared memory, so that four blocks fit a multiprocessor of any generation.
constexpr int64_t sharedLimit = 36 << 10;

/// Bytes of queries, keys, values and weights in shared memory. Rows of keys are one longer: neighbouring
/// threads read neighbouring rows, which then lie in different banks.
int64_t sharedBytes(const AttentionSpec &spec, int64_t tile) {
  return 4 * (queriesOfBlock * spec.width + tile * (spec.width + 1) + tile * spec.valueWidth +
              queriesOfBlock * tile);
}

/// Keys of a tile; 0 where not even the smallest fits.
int64_t tileOf(const AttentionSpec &spec) {
  for (int64_t tile : {32, 16, 8})
    if (sharedBytes(spec, tile) <= sharedLimit)
      return tile;
  return 0;
}

class Generator : AttentionBlock {
  static_assert(queriesOfBlock * lanes == threads);

public:
  Generator(MLIRContext &context, const BlockTeam &team, const AttentionSpec &spec)
      : AttentionBlock(context, team, spec, queriesOfBlock), tile(tileOf(spec)) {}

  kernel::GeneratedKernel run() {
    queries = sharedArray("queries", f32, rows * spec.width);
    keys = sharedArray("keys", f32, tile * (spec.width + 1));
    values = sharedArray("values", f32, tile * spec.valueWidth);
    weights = sharedArray("weights", f32, rows * tile);
    return emit([this] { emitTile(); });
  }

private:
  Value readShared(Value array, Value place) {
    return LLVM::LoadOp::create(b, loc, f32, memory.address(array, f32, place));
  }
  void writeShared(Value value, Value array, Value place) {
    LLVM::StoreOp::create(b, loc, value, memory.address(array, f32, place));
  }
  /// Elements [0, count) dealt out to the threads in turn.
  void eachElement(int64_t count, llvm::function_ref<void(Value)> body);
  /// What `merge` makes of the values of the eight threads of a query.
  Value ofRow(Value value, llvm::function_ref<Value(Value, Value)> merge) {
    return ofLanes(value, lanes, merge);
  }

  void emitTile();
  void loadQueries();
  void loadKeys(Value first);
  SmallVector<Value> scores(Value first);
  SmallVector<Value> step(Value first, ValueRange state);
  void writeResults(ArrayRef<Value> state);

  const int64_t tile;
  Value queries, keys, values, weights; // in shared memory
  Value query, row, lane;               // of the thread; of the block's queries; among the threads of one
};

void Generator::eachElement(int64_t count, llvm::function_ref<void(Value)> body) {
  loop(thread, memory.constant(count), threads, {}, [&](Value at, ValueRange) {
    body(at);
    return SmallVector<Value>();
  });
}

void Generator::emitTile() {
  std::tie(row, lane) = memory.divRem(thread, lanes);
  query = memory.add(firstQuery, row);
  loadQueries();
  SmallVector<Value> state{lowest(), number(0)};
  state.append(llvm::divideCeil(spec.valueWidth, lanes), number(0));
  writeResults(loop(memory.constant(0), end, tile, state,
                    [&](Value first, ValueRange carried) { return step(first, carried); }));
}

void Generator::loadQueries() {
  eachElement(rows * spec.width, [&](Value at) {
    auto [which, column] = memory.divRem(at, spec.width);
    Value place = memory.minConstant(memory.add(firstQuery, which), spec.queries - 1);
    Value offset = memory.add(queryBase, memory.linearize({place, column}, {spec.q[2], spec.q[3]}));
    writeShared(memory.convert(load(Query, spec.type, offset), f32), queries, at);
  });
}

/// Keys and values of a tile. Values that no query sees may be anything, and are taken as zeros.
void Generator::loadKeys(Value first) {
  eachElement(tile * spec.width, [&](Value at) {
    auto [which, column] = memory.divRem(at, spec.width);
    Value place = memory.minConstant(memory.add(first, which), spec.keys - 1);
    Value offset = memory.add(keyBase, memory.linearize({place, column}, {spec.k[2], spec.k[3]}));
    writeShared(memory.convert(load(Key, spec.type, offset), f32), keys,
                memory.linearize({which, column}, {spec.width + 1, 1}));
  });
  eachElement(tile * spec.valueWidth, [&](Value at) {
    auto [which, column] = memory.divRem(at, spec.valueWidth);
    Value place = memory.add(first, which), inner = column;
    auto read = [&] {
      Value offset = memory.add(valueBase, memory.linearize({place, inner}, {spec.v[2], spec.v[3]}));
      return SmallVector<Value>{memory.convert(load(ValueBuffer, spec.type, offset), f32)};
    };
    writeShared(guarded(below(place, end), number(0), read)[0], values, at);
  });
}

/// The thread's scores.
SmallVector<Value> Generator::scores(Value first) {
  const int64_t each = tile / lanes;
  Value queryRow = memory.mulConstant(row, spec.width);
  SmallVector<Value> keyRows;
  for (int64_t i = 0; i < each; ++i)
    keyRows.push_back(memory.mulConstant(memory.addConstant(lane, i * lanes), spec.width + 1));
  SmallVector<Value> sums =
      loop(memory.constant(0), memory.constant(spec.width), 1, SmallVector<Value>(each, number(0)),
           [&](Value at, ValueRange state) {
             Value q = readShared(queries, memory.add(queryRow, at));
             SmallVector<Value> next;
             for (auto [keyRow, sum] : llvm::zip_equal(keyRows, state))
               next.push_back(math.fma(q, readShared(keys, memory.add(keyRow, at)), sum));
             return next;
           });
  for (auto [i, sum] : llvm::enumerate(sums))
    sum =
        scoreOf(sum, query, memory.add(first, memory.addConstant(lane, static_cast<int64_t>(i) * lanes)), 1);
  return sums;
}

/// The statistics and sums with the keys of one tile more.
SmallVector<Value> Generator::step(Value first, ValueRange state) {
  loadKeys(first);
  barrier();
  SmallVector<Value> own = scores(first);
  auto maximum = [&](Value x, Value y) { return math.maximum(x, y); };
  Value greatest = own[0];
  for (Value score : ArrayRef<Value>(own).drop_front())
    greatest = maximum(greatest, score);
  greatest = maximum(state[0], ofRow(greatest, maximum));
  // Where nothing was visible yet there is nothing to subtract.
  Value isLowest = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, greatest, lowest());
  Value shift = select(isLowest, number(0), greatest);
  auto weightOf = [&](Value score) { return math.exp(arith::SubFOp::create(b, loc, score, shift)); };
  Value keep = weightOf(state[0]), total;
  Value weightRow = memory.mulConstant(row, tile);
  for (auto [i, score] : llvm::enumerate(own)) {
    Value weight = weightOf(score);
    writeShared(weight, weights,
                memory.add(weightRow, memory.addConstant(lane, static_cast<int64_t>(i) * lanes)));
    total = total ? arith::AddFOp::create(b, loc, total, weight).getResult() : weight;
  }
  total = ofRow(total, [&](Value x, Value y) { return arith::AddFOp::create(b, loc, x, y).getResult(); });
  SmallVector<Value> next{greatest, math.fma(state[1], keep, total)}, sums, columns;
  for (auto [i, sum] : llvm::enumerate(state.drop_front(2))) {
    sums.push_back(arith::MulFOp::create(b, loc, sum, keep));
    columns.push_back(
        memory.minConstant(memory.addConstant(lane, static_cast<int64_t>(i) * lanes), spec.valueWidth - 1));
  }
  barrier();
  llvm::append_range(
      next, loop(memory.constant(0), memory.constant(tile), 1, sums, [&](Value at, ValueRange sums) {
        Value weight = readShared(weights, memory.add(weightRow, at));
        Value valueRow = memory.mulConstant(at, spec.valueWidth);
        SmallVector<Value> added;
        for (auto [column, sum] : llvm::zip_equal(columns, sums))
          added.push_back(math.fma(weight, readShared(values, memory.add(valueRow, column)), sum));
        return added;
      }));
  barrier();
  return next;
}

void Generator::writeResults(ArrayRef<Value> state) {
  Value exists = below(query, memory.constant(spec.queries));
  Value isEmpty = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, state[0], lowest());
  for (auto [i, sum] : llvm::enumerate(state.drop_front(2))) {
    Value column = memory.addConstant(lane, static_cast<int64_t>(i) * lanes);
    Value inRow = both(exists, below(column, memory.constant(spec.valueWidth)));
    when(inRow, [&, sum = sum] {
      Value result = arith::DivFOp::create(b, loc, sum, state[1]);
      if (spec.guard)
        result = select(isEmpty, number(0), result);
      Value offset = memory.add(outBase, memory.linearize({query, column}, {spec.out[2], spec.out[3]}));
      memory.store(memory.convert(result, spec.type),
                   memory.address(frame->pointer(resultBuffer()), spec.type, offset));
    });
  }
  if (!spec.hasStatistics)
    return;
  Value isFirst = compare(arith::CmpIPredicate::eq, lane, memory.constant(0));
  when(both(exists, isFirst), [&] { writeStatistics(query, add(state[0], math.log(state[1]))); });
}

} // namespace

bool nvidia::hasKernel(const AttentionSpec &spec) {
  return (spec.type.isF32() || spec.type.isF16() || spec.type.isBF16()) && tileOf(spec) != 0 &&
         readsMask(spec);
}

kernel::GeneratedKernel nvidia::generateAttention(MLIRContext &context, const BlockTeam &team,
                                                  const AttentionSpec &spec) {
  return Generator(context, team, spec).run();
}
