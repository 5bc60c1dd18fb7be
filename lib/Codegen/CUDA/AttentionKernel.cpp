// A block of 128 threads takes sixteen queries, eight threads each, and keys in tiles that lie in shared
// memory with the queries. A thread has the scores of every eighth key of its query, and every eighth column
// of its result.
#include "Attention.h"

#include "colossal/Codegen/Kernel/VectorMath.h"
#include "colossal/Codegen/Kernel/VectorMemory.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace colossal;
using namespace colossal::nvidia;
using kernel::BufferSpec;

namespace {

constexpr int64_t threads = 128, rows = 16, lanes = 8;
static_assert(rows * lanes == threads);
/// Of shared memory, so that four blocks fit a multiprocessor of any generation.
constexpr int64_t sharedLimit = 36 << 10;
constexpr unsigned sharedSpace = 3;

/// Bytes of queries, keys, values and weights in shared memory. Rows of keys are one longer: neighbouring
/// threads read neighbouring rows, which then lie in different banks.
int64_t sharedBytes(const AttentionSpec &spec, int64_t tile) {
  return 4 * (rows * spec.width + tile * (spec.width + 1) + tile * spec.valueWidth + rows * tile);
}

/// Keys of a tile; 0 where not even the smallest fits.
int64_t tileOf(const AttentionSpec &spec) {
  for (int64_t tile : {32, 16, 8})
    if (sharedBytes(spec, tile) <= sharedLimit)
      return tile;
  return 0;
}

class Generator {
public:
  Generator(MLIRContext &context, const BlockTeam &team, const AttentionSpec &spec)
      : spec(spec), tile(tileOf(spec)), buffers(describe()),
        frame(team.open(context, buffers, spec.hasOffset + spec.hasCount, 0)), b(frame->builder()),
        loc(frame->loc()),
        memory(b, loc, team.instructions(), team.indexBits(kernel::largestOffset(buffers))),
        math(b, loc, team.instructions()), f32(b.getF32Type()) {}

  kernel::GeneratedKernel run();

private:
  SmallVector<BufferSpec> describe() const;
  Value sharedArray(StringRef name, int64_t elements);
  Value toIndex(Value word);
  Value compare(arith::CmpIPredicate predicate, Value left, Value right) {
    return arith::CmpIOp::create(b, loc, predicate, left, right);
  }
  Value below(Value index, Value end) { return compare(arith::CmpIPredicate::slt, index, end); }
  Value select(Value condition, Value yes, Value no) {
    return arith::SelectOp::create(b, loc, condition, yes, no);
  }
  Value number(double value) { return memory.constantLike(f32, value); }
  Value lowest() { return number(-std::numeric_limits<double>::infinity()); }
  Value readShared(Value array, Value place) {
    return LLVM::LoadOp::create(b, loc, f32, memory.address(array, f32, place));
  }
  void writeShared(Value value, Value array, Value place) {
    LLVM::StoreOp::create(b, loc, value, memory.address(array, f32, place));
  }
  void barrier() { NVVM::Barrier0Op::create(b, loc); }

  using Body = llvm::function_ref<SmallVector<Value>(Value, ValueRange)>;
  SmallVector<Value> loop(Value begin, Value end, int64_t step, ValueRange carried, Body body);
  /// The value of `yes` where the condition holds, else `no`; `yes` is not evaluated there.
  Value guarded(Value condition, Value no, llvm::function_ref<Value()> yes);
  /// Elements [0, count) dealt out to the threads in turn.
  void eachElement(int64_t count, llvm::function_ref<void(Value)> body);
  Value load(unsigned buffer, Type type, Value offset) {
    return memory.load(memory.address(frame->pointer(buffer), type, offset), type, 1);
  }
  /// What `merge` makes of the values of the eight threads of a query.
  Value ofRow(Value value, llvm::function_ref<Value(Value, Value)> merge);

  void emitTile(Value number);
  void loadQueries(Value first);
  void loadKeys(Value first);
  Value isVisible(Value key);
  SmallVector<Value> scores(Value first);
  SmallVector<Value> step(Value first, ValueRange state);
  void writeResults(ArrayRef<Value> state);

  const AttentionSpec &spec;
  const int64_t tile;
  SmallVector<BufferSpec> buffers;
  std::unique_ptr<kernel::Frame> frame;
  OpBuilder &b;
  Location loc;
  kernel::VectorMemory memory;
  kernel::VectorMath math;
  Type f32;
  Value queries, keys, values, weights; // in shared memory
  Value thread, row, lane;              // of the block; of its queries; among the threads of one
  // Of the block's tile: where its matrices begin, its query, and the keys that it looks at.
  Value queryBase, keyBase, valueBase, maskBase, outBase, statisticBase, query, end;
};

SmallVector<BufferSpec> Generator::describe() const {
  SmallVector<BufferSpec> specs;
  auto add = [&](Type type, ArrayRef<int64_t> shape, ArrayRef<int64_t> strides) {
    specs.push_back(
        {kernel::storageType(type), SmallVector<int64_t>(shape), SmallVector<int64_t>(strides), true});
  };
  add(spec.type, {spec.batch, spec.queryHeads, spec.queries, spec.width}, spec.q);
  add(spec.type, {spec.batch, spec.keyHeads, spec.keys, spec.width}, spec.k);
  add(spec.type, {spec.batch, spec.keyHeads, spec.keys, spec.valueWidth}, spec.v);
  if (spec.maskType)
    add(spec.maskType, {spec.batch, spec.queryHeads, spec.queries, spec.keys}, spec.mask);
  add(spec.type, {spec.batch, spec.queryHeads, spec.queries, spec.valueWidth}, spec.out);
  if (spec.hasStatistics)
    add(Float32Type::get(spec.type.getContext()), {spec.batch, spec.queryHeads, spec.queries, 1},
        spec.statistics);
  return specs;
}

Value Generator::sharedArray(StringRef name, int64_t elements) {
  auto module = b.getInsertionBlock()->getParentOp()->getParentOfType<ModuleOp>();
  LLVM::GlobalOp global;
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    global =
        LLVM::GlobalOp::create(b, loc, LLVM::LLVMArrayType::get(f32, elements), /*isConstant=*/false,
                               LLVM::Linkage::Internal, name, Attribute(), /*alignment=*/16, sharedSpace);
  }
  return LLVM::AddressOfOp::create(b, loc, global);
}

Value Generator::toIndex(Value word) {
  return word.getType() == memory.indexType()
             ? word
             : arith::TruncIOp::create(b, loc, memory.indexType(), word).getResult();
}

SmallVector<Value> Generator::loop(Value begin, Value end, int64_t step, ValueRange carried, Body body) {
  auto op = scf::ForOp::create(b, loc, begin, end, memory.constant(step), carried,
                               [&](OpBuilder &, Location, Value at, ValueRange state) {
                                 scf::YieldOp::create(b, loc, body(at, state));
                               });
  return op.getResults();
}

Value Generator::guarded(Value condition, Value no, llvm::function_ref<Value()> yes) {
  auto branch = scf::IfOp::create(b, loc, TypeRange{no.getType()}, condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&branch.getThenRegion().front());
  scf::YieldOp::create(b, loc, yes());
  b.setInsertionPointToStart(&branch.getElseRegion().front());
  scf::YieldOp::create(b, loc, no);
  return branch.getResult(0);
}

void Generator::eachElement(int64_t count, llvm::function_ref<void(Value)> body) {
  loop(thread, memory.constant(count), threads, {}, [&](Value at, ValueRange) {
    body(at);
    return SmallVector<Value>();
  });
}

Value Generator::ofRow(Value value, llvm::function_ref<Value(Value, Value)> merge) {
  Type i32 = b.getI32Type();
  auto number = [&](int32_t n) {
    return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(n)).getResult();
  };
  for (int32_t distance = 1; distance < lanes; distance *= 2) {
    Value bits = arith::BitcastOp::create(b, loc, i32, value);
    Value other = NVVM::ShflOp::create(b, loc, i32, number(-1), bits, number(distance), number(31),
                                       NVVM::ShflKind::bfly, UnitAttr());
    value = merge(value, arith::BitcastOp::create(b, loc, f32, other));
  }
  return value;
}

kernel::GeneratedKernel Generator::run() {
  const int64_t tiles = spec.batch * spec.queryHeads * llvm::divideCeil(spec.queries, rows);
  queries = sharedArray("queries", rows * spec.width);
  keys = sharedArray("keys", tile * (spec.width + 1));
  values = sharedArray("values", tile * spec.valueWidth);
  weights = sharedArray("weights", rows * tile);
  thread = toIndex(frame->member());
  std::tie(row, lane) = memory.divRem(thread, lanes);
  frame->forEachTile([&](Value number) { emitTile(toIndex(number)); });
  kernel::GeneratedKernel result;
  result.tiles = tiles;
  result.buffers = static_cast<unsigned>(buffers.size());
  result.params = spec.hasOffset + spec.hasCount;
  result.module = frame->take();
  return result;
}

void Generator::emitTile(Value number) {
  SmallVector<Value> at = memory.delinearize(
      number, {spec.batch, spec.queryHeads, static_cast<int64_t>(llvm::divideCeil(spec.queries, rows))});
  Value keyHead = memory.divRem(at[1], spec.queryHeads / spec.keyHeads).first;
  auto base = [&](const std::array<int64_t, 4> &strides, Value head) {
    return memory.add(memory.mulConstant(at[0], strides[0]), memory.mulConstant(head, strides[1]));
  };
  queryBase = base(spec.q, at[1]), keyBase = base(spec.k, keyHead), valueBase = base(spec.v, keyHead);
  maskBase = base(spec.mask, at[1]), outBase = base(spec.out, at[1]),
  statisticBase = base(spec.statistics, at[1]);
  Value first = memory.mulConstant(at[2], rows);
  query = memory.add(first, row);
  // The keys that some query of the block sees.
  end = memory.constant(spec.keys);
  Value none = memory.constant(0);
  if (spec.hasCount) {
    Value count = toIndex(frame->param(spec.hasOffset));
    end = memory.min(end, select(below(count, none), none, count));
  }
  if (spec.causal) {
    Value last = memory.addConstant(first, rows + spec.causalOffset);
    if (spec.hasOffset)
      last = memory.add(last, toIndex(frame->param(0)));
    end = memory.min(end, select(below(last, none), none, last));
  }
  loadQueries(first);
  SmallVector<Value> state{lowest(), this->number(0)};
  state.append(llvm::divideCeil(spec.valueWidth, lanes), this->number(0));
  writeResults(
      loop(none, end, tile, state, [&](Value first, ValueRange carried) { return step(first, carried); }));
}

void Generator::loadQueries(Value first) {
  eachElement(rows * spec.width, [&](Value at) {
    auto [which, column] = memory.divRem(at, spec.width);
    Value place = memory.minConstant(memory.add(first, which), spec.queries - 1);
    Value offset = memory.add(queryBase, memory.linearize({place, column}, {spec.q[2], spec.q[3]}));
    writeShared(memory.convert(load(0, spec.type, offset), f32), queries, at);
  });
}

/// Keys and values of a tile. Values that no query sees may be anything, and are taken as zeros.
void Generator::loadKeys(Value first) {
  eachElement(tile * spec.width, [&](Value at) {
    auto [which, column] = memory.divRem(at, spec.width);
    Value place = memory.minConstant(memory.add(first, which), spec.keys - 1);
    Value offset = memory.add(keyBase, memory.linearize({place, column}, {spec.k[2], spec.k[3]}));
    writeShared(memory.convert(load(1, spec.type, offset), f32), keys,
                memory.linearize({which, column}, {spec.width + 1, 1}));
  });
  eachElement(tile * spec.valueWidth, [&](Value at) {
    auto [which, column] = memory.divRem(at, spec.valueWidth);
    Value place = memory.add(first, which), inner = column;
    writeShared(guarded(below(place, end), number(0),
                        [&] {
                          Value offset =
                              memory.add(valueBase, memory.linearize({place, inner}, {spec.v[2], spec.v[3]}));
                          return memory.convert(load(2, spec.type, offset), f32);
                        }),
                values, at);
  });
}

Value Generator::isVisible(Value key) {
  Value visible = below(key, end);
  if (!spec.causal)
    return visible;
  Value last = memory.addConstant(query, spec.causalOffset);
  if (spec.hasOffset)
    last = memory.add(last, toIndex(frame->param(0)));
  return arith::AndIOp::create(b, loc, visible, compare(arith::CmpIPredicate::sle, key, last));
}

/// The thread's scores: scale, softcap, mask, then what is not visible is -inf.
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
  Value place = memory.minConstant(query, spec.queries - 1);
  for (auto [i, sum] : llvm::enumerate(sums)) {
    Value key = memory.add(first, memory.addConstant(lane, static_cast<int64_t>(i) * lanes));
    Value score = arith::MulFOp::create(b, loc, sum, number(spec.scale));
    if (spec.softcap != 0) {
      Value bent = math.tanh(arith::DivFOp::create(b, loc, score, number(spec.softcap)));
      score = arith::MulFOp::create(b, loc, bent, number(spec.softcap));
    }
    if (spec.maskType) {
      Type stored = kernel::storageType(spec.maskType);
      Value offset = memory.add(maskBase, memory.linearize({place, memory.minConstant(key, spec.keys - 1)},
                                                           {spec.mask[2], spec.mask[3]}));
      Value mask = load(3, stored, offset);
      if (spec.maskType.isInteger(1))
        score =
            select(compare(arith::CmpIPredicate::ne, mask, memory.constantLike(stored, 0)), score, lowest());
      else
        score = arith::AddFOp::create(b, loc, score, memory.convert(mask, f32));
    }
    sum = select(isVisible(key), score, lowest());
  }
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
  const unsigned out = spec.maskType ? 4 : 3;
  auto when = [&](Value condition, llvm::function_ref<void()> body) {
    auto branch = scf::IfOp::create(b, loc, condition);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&branch.getThenRegion().front());
    body();
  };
  Value isEmpty = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, state[0], lowest());
  for (auto [i, sum] : llvm::enumerate(state.drop_front(2))) {
    Value column = memory.addConstant(lane, static_cast<int64_t>(i) * lanes);
    Value inRow = arith::AndIOp::create(b, loc, exists, below(column, memory.constant(spec.valueWidth)));
    when(inRow, [&, sum = sum] {
      Value result = arith::DivFOp::create(b, loc, sum, state[1]);
      if (spec.guard)
        result = select(isEmpty, number(0), result);
      Value offset = memory.add(outBase, memory.linearize({query, column}, {spec.out[2], spec.out[3]}));
      memory.store(memory.convert(result, spec.type), memory.address(frame->pointer(out), spec.type, offset));
    });
  }
  if (!spec.hasStatistics)
    return;
  Value isFirst = compare(arith::CmpIPredicate::eq, lane, memory.constant(0));
  when(arith::AndIOp::create(b, loc, exists, isFirst), [&] {
    Value statistic = arith::AddFOp::create(b, loc, state[0], math.log(state[1]));
    Value offset = memory.add(statisticBase, memory.mulConstant(query, spec.statistics[2]));
    memory.store(statistic, memory.address(frame->pointer(out + 1), f32, offset));
  });
}

} // namespace

bool nvidia::hasKernel(const AttentionSpec &spec) {
  return (spec.type.isF32() || spec.type.isF16() || spec.type.isBF16()) && tileOf(spec) != 0 &&
         (!spec.maskType || spec.maskType.isInteger(1) || spec.maskType.isF32() || spec.maskType.isF16() ||
          spec.maskType.isBF16());
}

kernel::GeneratedKernel nvidia::generateAttention(MLIRContext &context, const BlockTeam &team,
                                                  const AttentionSpec &spec) {
  return Generator(context, team, spec).run();
}
