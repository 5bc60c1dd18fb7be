// Attention on tensor cores (Dao, FlashAttention-2, 2023): each of a block's four warps takes sixteen
// queries, whose operands, scores and results its lanes hold (of wide heads some operands lie in shared
// memory); keys and values come in tiles that all four read from shared memory, the next one while one is
// computed with. Scores are multiples of log 2, so that powers of two are taken.
#include "AttentionBlock.h"
#include "TensorCores.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace colossal;
using namespace colossal::nvidia;

namespace {

constexpr int64_t warps = 4;
/// Of shared memory, so that four blocks fit a multiprocessor of any generation.
constexpr int64_t sharedLimit = 36 << 10;
/// Registers that a thread may fill with matrices where four blocks are to fit a multiprocessor (128 each),
/// and where two are (255 each).
constexpr int64_t matrixRegisters = 88, mostMatrixRegisters = 184;
/// Of shared memory, all that a kernel may have.
constexpr int64_t mostShared = 48 << 10;
/// Bytes of a read of shared memory by a lane of loadMatrices, and of the widest access to memory.
constexpr int64_t lineBytes = 16;
constexpr double log2e = 1.44269504088896340736;

/// How a spec is cut.
struct Cut {
  /// In shared memory.
  int64_t queryElements() const { return held == keyWidth ? 0 : warps * TensorCores::rows * queryPitch; }

  int64_t bytes, depth, tile;   ///< of an element; of one product along k; keys of a tile, 0: nothing fits
  int64_t keyWidth, valueWidth; ///< of the products
  int64_t keyPitch, valuePitch; ///< elements from row to row in shared memory
  int64_t held;                 ///< columns of queries in registers; the others lie in shared memory
  int64_t queryPitch;           ///< elements from row to row there
  int64_t registers;            ///< of a thread, that hold matrices

  explicit Cut(const AttentionSpec &spec)
      : bytes(spec.type.isF32() ? 4 : 2), depth(32 / bytes), tile(64),
        keyWidth(llvm::alignTo(spec.width, depth)),
        valueWidth(llvm::alignTo(spec.valueWidth, TensorCores::columns)),
        // An odd number of lines, so that neighbouring rows lie in different banks.
        keyPitch(keyWidth + lineBytes / bytes),
        valuePitch(llvm::alignTo(valueWidth, 16) + lineBytes / bytes) {
    auto fits = [&] { return 2 * tile * (keyPitch + valuePitch) * bytes <= sharedLimit; };
    const int64_t least = depth; // keys are k of the second product
    while (tile > least && (!fits() || tile / 2 >= spec.keys))
      tile /= 2;
    const int64_t others = valueWidth / 2 + tile / 2, steps = (mostMatrixRegisters - others) / 4;
    held = std::clamp<int64_t>(steps * depth, 0, keyWidth);
    queryPitch = keyWidth - held + lineBytes / bytes;
    registers = held / depth * 4 + others;
    const int64_t shared = (2 * tile * (keyPitch + valuePitch) + queryElements()) * bytes;
    if (!fits() || registers > mostMatrixRegisters || shared > mostShared)
      tile = 0;
  }
};

class Generator : AttentionBlock {
public:
  Generator(MLIRContext &context, const BlockTeam &team, const AttentionSpec &spec)
      : AttentionBlock(context, team, spec, warps * TensorCores::rows), cut(spec), cores(b, loc, spec.type),
        stored(spec.type.isF32() ? f32 : Type(b.getI16Type())) {}

  kernel::GeneratedKernel run() {
    keys = sharedArray("keys", stored, 2 * cut.tile * cut.keyPitch);
    values = sharedArray("values", stored, 2 * cut.tile * cut.valuePitch);
    if (cut.queryElements())
      otherQueries = sharedArray("queries", stored, cut.queryElements());
    auto result = emit([this] { emitTile(); });
    (*result.module)->setAttr(residentName, b.getI64IntegerAttr(cut.registers <= matrixRegisters ? 4 : 2));
    return result;
  }

private:
  /// One operand in shared memory: rows of a tile, which has two places.
  struct Operand {
    Value array, base;
    unsigned buffer;
    int64_t width, padded, pitch, alignment;
    const std::array<int64_t, 4> *strides;
  };
  Value at(Value array, Value place) { return memory.address(array, stored, place); }
  void write(Value value, Value array, Value place) {
    LLVM::StoreOp::create(b, loc, value, at(array, place));
  }
  Value zero() { return memory.constantLike(stored, 0); }
  /// Bytes that one access may read of rows whose elements lie next to one another, of which all begin at
  /// multiples of it; less than 4 where there are none.
  int64_t accessBytes(const std::array<int64_t, 4> &strides, int64_t width, int64_t alignment) const;

  void emitTile();
  void clearPadding(const Operand &operand);
  void fetch(const Operand &operand, Value first);
  void fetchTile(Value first);
  void loadQueries();
  void shareQueries();
  SmallVector<Value, 4> queriesAt(int64_t k);
  SmallVector<Value> products(Value place);
  SmallVector<Value> accumulate(Value place, ArrayRef<Value> weights, ArrayRef<Value> sums);
  SmallVector<Value> step(Value first, ValueRange state);
  void writeResults(ArrayRef<Value> state);
  Value queryOf(unsigned half) { return memory.addConstant(warpQuery, int64_t(half) * TensorCores::columns); }

  const Cut cut;
  TensorCores cores;
  Type stored; ///< of elements in shared memory
  Value keys, values;
  Value lane, group, place; // of the warp, as TensorCores has them
  Value warpRow;            // of the block's rows, the warp's first
  Value warpQuery, warpEnd; // the thread's first query, and the end of the keys that the warp looks at
  Value matrixRow, matrixNumber;
  SmallVector<Value> queries;
  Value otherQueries; // behind the columns that are held
};

int64_t Generator::accessBytes(const std::array<int64_t, 4> &strides, int64_t width,
                               int64_t alignment) const {
  if (strides[3] != 1 && width != 1)
    return 0;
  int64_t common = std::gcd(std::gcd(lineBytes, alignment), width * cut.bytes);
  for (int64_t d = 0; d < 3; ++d)
    common = std::gcd(common, strides[d] * cut.bytes);
  return common;
}

/// Columns behind the operand's, which the products read, in both places.
void Generator::clearPadding(const Operand &operand) {
  const int64_t extra = operand.padded - operand.width;
  if (extra == 0)
    return;
  loop(thread, memory.constant(2 * cut.tile * extra), threads, {}, [&](Value at, ValueRange) {
    auto [row, column] = memory.divRem(at, extra);
    write(zero(), operand.array,
          memory.add(memory.mulConstant(row, operand.pitch), memory.addConstant(column, operand.width)));
    return SmallVector<Value>();
  });
}

/// Begins to bring the tile in. Rows that no query sees may be anything, and are taken as zeros.
void Generator::fetch(const Operand &operand, Value first) {
  const int64_t bytes = accessBytes(*operand.strides, operand.width, operand.alignment);
  const int64_t elements = bytes >= 4 ? bytes / cut.bytes : 1, ofRow = operand.width / elements;
  const int64_t pieces = cut.tile * ofRow;
  // Tiles lie in the two places in turn.
  Value tile = arith::AndIOp::create(b, loc, first, memory.constant(cut.tile));
  Value base = memory.mulConstant(tile, operand.pitch);
  auto piece = [&](Value number) {
    auto [row, part] = memory.divRem(number, ofRow);
    Value key = memory.add(first, row), exists = below(key, end), column = memory.mulConstant(part, elements);
    Value from = memory.add(operand.base, memory.linearize({memory.minConstant(key, spec.keys - 1), column},
                                                           {(*operand.strides)[2], (*operand.strides)[3]}));
    Value to = memory.add(base, memory.add(memory.mulConstant(row, operand.pitch), column));
    Value source = memory.address(frame->pointer(operand.buffer), stored, from);
    if (bytes >= 4)
      return cores.copy(at(operand.array, to), source, bytes, exists);
    auto read = [&] { return SmallVector<Value>{memory.load(source, stored, 1)}; };
    write(guarded(exists, zero(), read)[0], operand.array, to);
  };
  // Few enough are written out, so that all are under way at the same time.
  constexpr int64_t mostWrittenOut = 8;
  if (pieces % threads == 0 && pieces / threads <= mostWrittenOut) {
    for (int64_t i = 0; i < pieces; i += threads)
      piece(memory.addConstant(thread, i));
    return;
  }
  loop(thread, memory.constant(pieces), threads, {}, [&](Value number, ValueRange) {
    piece(number);
    return SmallVector<Value>();
  });
}

void Generator::fetchTile(Value first) {
  fetch({keys, keyBase, Key, spec.width, cut.keyWidth, cut.keyPitch, spec.alignment[1], &spec.k}, first);
  fetch({values, valueBase, ValueBuffer, spec.valueWidth, cut.valueWidth, cut.valuePitch, spec.alignment[2],
         &spec.v},
        first);
}

/// The queries' columns that registers do not hold: shared memory has them for all tiles of keys.
void Generator::shareQueries() {
  const int64_t columns = cut.keyWidth - cut.held;
  if (columns == 0)
    return;
  loop(thread, memory.constant(rows * columns), threads, {}, [&](Value at, ValueRange) {
    auto [row, column] = memory.divRem(at, columns);
    Value query = memory.minConstant(memory.add(firstQuery, row), spec.queries - 1),
          own = memory.addConstant(column, cut.held);
    auto read = [&] {
      Value offset = memory.add(queryBase, memory.linearize({query, own}, {spec.q[2], spec.q[3]}));
      return SmallVector<Value>{
          memory.load(memory.address(frame->pointer(Query), stored, offset), stored, 1)};
    };
    write(guarded(below(own, memory.constant(spec.width)), zero(), read)[0], otherQueries,
          memory.linearize({row, column}, {cut.queryPitch, 1}));
    return SmallVector<Value>();
  });
}

/// The warp's operand A at step k: four matrices, of which the rows change first.
llvm::SmallVector<Value, 4> Generator::queriesAt(int64_t k) {
  if (k < cut.held)
    return llvm::to_vector<4>(ArrayRef<Value>(queries).slice(k / cut.depth * 4, 4));
  auto [part, lower] = memory.divRem(matrixNumber, 2);
  Value row = memory.add(warpRow, memory.add(memory.mulConstant(lower, 8), matrixRow));
  Value column = memory.addConstant(memory.mulConstant(part, lineBytes / cut.bytes), k - cut.held);
  SmallVector<Value, 4> words =
      cores.loadMatrices(at(otherQueries, memory.linearize({row, column}, {cut.queryPitch, 1})), 4, false);
  for (Value &word : words)
    word = cores.toOperand(word);
  return words;
}

/// The held queries of the warp as operands A, by step of k.
void Generator::loadQueries() {
  queries.clear();
  const int64_t perWord = cores.perWord(), bytes = accessBytes(spec.q, spec.width, spec.alignment[0]);
  Type i32 = b.getI32Type();
  for (int64_t k = 0; k < cut.held; k += cut.depth)
    for (int64_t r = 0; r < 4; ++r) {
      const int64_t first = k + 4 * perWord * (r / 2);
      Value row = memory.mulConstant(memory.minConstant(queryOf(r % 2), spec.queries - 1), spec.q[2]);
      Value column = memory.addConstant(memory.mulConstant(place, perWord), first);
      auto offset = [&](Value column) {
        return memory.add(queryBase, memory.add(row, memory.mulConstant(column, spec.q[3])));
      };
      if (first >= spec.width) {
        queries.push_back(memory.constantLike(i32, 0));
        continue;
      }
      // Words that lie whole in the row.
      if (bytes >= 4 && first + 4 * perWord <= spec.width) {
        Value address = memory.address(frame->pointer(Query), stored, offset(column));
        queries.push_back(cores.toOperand(LLVM::LoadOp::create(b, loc, i32, address, /*alignment=*/4)));
        continue;
      }
      SmallVector<Value> parts;
      for (int64_t i = 0; i < perWord; ++i) {
        Value own = memory.addConstant(column, i);
        auto read = [&] {
          return SmallVector<Value>{memory.convert(load(Query, spec.type, offset(own)), f32)};
        };
        parts.push_back(guarded(below(own, memory.constant(spec.width)), number(0), read)[0]);
      }
      queries.push_back(cores.pack(parts));
    }
}

void Generator::emitTile() {
  auto [warp, inWarp] = memory.divRem(thread, TensorCores::lanes);
  lane = inWarp;
  std::tie(group, place) = memory.divRem(lane, 4);
  std::tie(matrixNumber, matrixRow) = memory.divRem(lane, 8);
  warpRow = memory.mulConstant(warp, TensorCores::rows);
  Value first = memory.add(firstQuery, warpRow);
  warpQuery = memory.add(first, group);
  warpEnd = endOf(memory.addConstant(first, TensorCores::rows - 1));
  // A warp without queries looks at nothing.
  warpEnd = select(below(first, memory.constant(spec.queries)), warpEnd, memory.constant(0));
  clearPadding({keys, {}, Key, spec.width, cut.keyWidth, cut.keyPitch, 0, nullptr});
  clearPadding({values, {}, ValueBuffer, spec.valueWidth, cut.valueWidth, cut.valuePitch, 0, nullptr});
  loadQueries();
  shareQueries();
  fetchTile(memory.constant(0));
  cores.closeGroup();
  SmallVector<Value> state{lowest(), lowest(), number(0), number(0)};
  state.append(cut.valueWidth / 2, number(0));
  state = loop(memory.constant(0), end, cut.tile, state, [&](Value first, ValueRange carried) {
    Value next = memory.addConstant(first, cut.tile);
    when(below(next, end), [&] { fetchTile(next); });
    cores.closeGroup();
    cores.waitForGroups(1);
    barrier();
    SmallVector<Value> after = guarded(below(first, warpEnd), carried, [&] { return step(first, carried); });
    barrier();
    return after;
  });
  cores.waitForGroups(0);
  barrier();
  writeResults(state);
}

/// Products of the warp's queries and the tile's keys: of each eight keys, four values.
llvm::SmallVector<Value> Generator::products(Value tile) {
  SmallVector<Value> sums(cut.tile / 2, number(0));
  const int64_t line = lineBytes / cut.bytes, pairs = cut.tile / TensorCores::columns;
  Value base = memory.mulConstant(tile, cut.keyPitch);
  for (int64_t k = 0; k < cut.keyWidth; k += cut.depth) {
    const SmallVector<Value, 4> own = queriesAt(k);
    for (int64_t j = 0; j < pairs; j += 2) {
      // Two matrices along k of each of two times eight keys.
      const unsigned count = j + 1 < pairs ? 4 : 2;
      auto [which, half] = memory.divRem(matrixNumber, 2);
      if (count == 2)
        which = memory.constant(0); // the addresses of the upper lanes are not looked at
      Value key = memory.add(memory.addConstant(matrixRow, j * TensorCores::columns),
                             memory.mulConstant(which, TensorCores::columns));
      Value column = memory.addConstant(memory.mulConstant(half, line), k);
      Value address = at(keys, memory.add(base, memory.add(memory.mulConstant(key, cut.keyPitch), column)));
      SmallVector<Value, 4> words = cores.loadMatrices(address, count, false);
      for (Value &word : words)
        word = cores.toOperand(word);
      for (int64_t i = 0; i < count / 2; ++i) {
        auto old = MutableArrayRef<Value>(sums).slice((j + i) * 4, 4);
        llvm::copy(cores.multiply(own, ArrayRef<Value>(words).slice(i * 2, 2), old), old.begin());
      }
    }
  }
  return sums;
}

/// The sums, and the tile's values by weights, which lie as products gives them.
llvm::SmallVector<Value> Generator::accumulate(Value tile, ArrayRef<Value> weights, ArrayRef<Value> before) {
  SmallVector<Value> sums(before);
  const int64_t blocks = cut.valueWidth / TensorCores::columns;
  Value base = memory.mulConstant(tile, cut.valuePitch);
  auto add = [&](ArrayRef<Value> a, ArrayRef<Value> words, int64_t block) {
    auto old = MutableArrayRef<Value>(sums).slice(block * 4, 4);
    llvm::copy(cores.multiply(a, words, old), old.begin());
  };
  for (int64_t k = 0; k < cut.tile; k += cut.depth) {
    ArrayRef<Value> own = weights.slice(k / 2, cut.depth / 2);
    if (cores.perWord() == 1) {
      // Keys change places within their eight, for both operands alike, so that each lane has what it needs:
      // k = place is key 2 place, and k = 4 + place the next.
      SmallVector<Value, 4> a;
      for (int64_t v : {0, 2, 1, 3})
        a.push_back(cores.pack(own[v]));
      Value key = memory.addConstant(memory.mulConstant(place, 2), k);
      Value row = memory.add(base, memory.add(memory.mulConstant(key, cut.valuePitch), group));
      for (int64_t block = 0; block < blocks; ++block) {
        SmallVector<Value, 2> words;
        for (int64_t r = 0; r < 2; ++r) {
          Value address =
              at(values, memory.addConstant(row, r * cut.valuePitch + block * TensorCores::columns));
          words.push_back(cores.toOperand(LLVM::LoadOp::create(b, loc, b.getI32Type(), address)));
        }
        add(a, words, block);
      }
      continue;
    }
    SmallVector<Value, 4> a;
    for (int64_t r = 0; r < 4; ++r)
      a.push_back(cores.pack({own[2 * r], own[2 * r + 1]}));
    for (int64_t block = 0; block < blocks; block += 2) {
      // Two matrices along k of each of two times eight columns.
      const unsigned count = block + 1 < blocks ? 4 : 2;
      auto [which, half] = memory.divRem(matrixNumber, 2);
      if (count == 2)
        which = memory.constant(0);
      Value key = memory.addConstant(memory.add(matrixRow, memory.mulConstant(half, 8)), k);
      Value column =
          memory.addConstant(memory.mulConstant(which, TensorCores::columns), block * TensorCores::columns);
      Value address =
          at(values, memory.add(base, memory.add(memory.mulConstant(key, cut.valuePitch), column)));
      SmallVector<Value, 4> words = cores.loadMatrices(address, count, true);
      for (int64_t i = 0; i < count / 2; ++i)
        add(a, ArrayRef<Value>(words).slice(i * 2, 2), block + i);
    }
  }
  return sums;
}

/// The statistics of the thread's two queries, maxima then sums of its own keys, and the results' sums, with
/// the keys of one tile more.
llvm::SmallVector<Value> Generator::step(Value first, ValueRange state) {
  Value tile = arith::AndIOp::create(b, loc, first, memory.constant(cut.tile));
  SmallVector<Value> weights = products(tile), keep(2), next(4);
  for (auto [i, weight] : llvm::enumerate(weights)) {
    const int64_t column = int64_t(i) / 4 * TensorCores::columns + int64_t(i) % 2;
    Value key = memory.add(first, memory.addConstant(memory.mulConstant(place, 2), column));
    weight = scoreOf(weight, queryOf(i / 2 % 2), key, log2e);
  }
  auto power = [&](Value x) {
    auto approximate = LLVM::FastmathFlagsAttr::get(b.getContext(), LLVM::FastmathFlags::afn);
    return LLVM::Exp2Op::create(b, loc, f32, x, approximate).getResult();
  };
  for (unsigned half = 0; half < 2; ++half) {
    auto maximum = [&](Value x, Value y) { return math.maximum(x, y); };
    Value greatest;
    for (size_t i = 0; i < weights.size(); ++i)
      if (i / 2 % 2 == half)
        greatest = greatest ? maximum(greatest, weights[i]) : weights[i];
    greatest = maximum(state[half], ofLanes(greatest, 4, maximum));
    // Where nothing was visible yet there is nothing to subtract.
    Value isLowest = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, greatest, lowest());
    Value shift = select(isLowest, number(0), greatest);
    keep[half] = power(arith::SubFOp::create(b, loc, state[half], shift));
    Value total = multiply(state[2 + half], keep[half]);
    for (size_t i = 0; i < weights.size(); ++i)
      if (i / 2 % 2 == half) {
        weights[i] = power(arith::SubFOp::create(b, loc, weights[i], shift));
        total = add(total, weights[i]);
      }
    next[half] = greatest, next[2 + half] = total;
  }
  SmallVector<Value> sums;
  for (auto [i, sum] : llvm::enumerate(state.drop_front(4)))
    sums.push_back(multiply(sum, keep[i / 2 % 2]));
  llvm::append_range(next, accumulate(tile, weights, sums));
  return next;
}

void Generator::writeResults(ArrayRef<Value> state) {
  ArrayRef<Value> sums = state.drop_front(4);
  const int64_t bytes = accessBytes(spec.out, spec.valueWidth, spec.alignment[3]);
  for (unsigned half = 0; half < 2; ++half) {
    Value query = queryOf(half), greatest = state[half];
    Value total = ofLanes(state[2 + half], 4, [&](Value x, Value y) { return add(x, y); });
    Value isEmpty = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, greatest, lowest());
    auto finish = [&](Value sum) {
      Value result = arith::DivFOp::create(b, loc, sum, total);
      result = spec.guard ? select(isEmpty, number(0), result) : result;
      return memory.convert(result, spec.type);
    };
    auto address = [&](Value column) {
      Value offset = memory.add(outBase, memory.linearize({query, column}, {spec.out[2], spec.out[3]}));
      return memory.address(frame->pointer(resultBuffer()), spec.type, offset);
    };
    when(below(query, memory.constant(spec.queries)), [&] {
      for (int64_t block = 0; block < cut.valueWidth / TensorCores::columns; ++block) {
        Value column = memory.addConstant(memory.mulConstant(place, 2), block * TensorCores::columns);
        ArrayRef<Value> two = sums.slice(block * 4 + 2 * half, 2);
        // Two that lie together, where the row has all eight of the block.
        if (bytes >= 2 * cut.bytes && (block + 1) * TensorCores::columns <= spec.valueWidth) {
          Type pair = VectorType::get({2}, spec.type);
          Value joined = LLVM::UndefOp::create(b, loc, pair);
          for (auto [i, sum] : llvm::enumerate(two)) {
            Value index = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(int32_t(i)));
            joined = LLVM::InsertElementOp::create(b, loc, pair, joined, finish(sum), index);
          }
          LLVM::StoreOp::create(b, loc, joined, address(column), static_cast<unsigned>(2 * cut.bytes));
          continue;
        }
        for (auto [i, sum] : llvm::enumerate(two)) {
          Value own = memory.addConstant(column, int64_t(i));
          when(below(own, memory.constant(spec.valueWidth)),
               [&, sum = sum] { memory.store(finish(sum), address(own)); });
        }
      }
    });
    if (!spec.hasStatistics)
      continue;
    Value isFirst = compare(arith::CmpIPredicate::eq, place, memory.constant(0));
    when(both(below(query, memory.constant(spec.queries)), isFirst),
         [&] { writeStatistics(query, math.fma(greatest, number(1 / log2e), math.log(total))); });
  }
}

} // namespace

bool nvidia::hasTensorKernel(const AttentionSpec &spec) {
  const bool multiplies = spec.type.isF16() || spec.type.isBF16() || (spec.type.isF32() && spec.isRounded);
  return multiplies && Cut(spec).tile != 0 && readsMask(spec);
}

kernel::GeneratedKernel nvidia::generateTensorAttention(MLIRContext &context, const BlockTeam &team,
                                                        const AttentionSpec &spec) {
  return Generator(context, team, spec).run();
}
