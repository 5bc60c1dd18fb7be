// The attention kernel. A tile is one head of keys and a block of query rows; the rows of all query heads
// that share the keys count together. Per block of keys: scores into the scratch, one softmax step per row,
// product with the values.
//
// The scratch holds, for the head in hand, K transposed into panels (kept from tile to tile), V where it
// cannot be read in place, and for the rows in hand the scaled queries, the block of scores, the running sums
// and the output.
#include "colossal/Codegen/CPU/AttentionKernel.h"
#include "ContractionBlocking.h"
#include "Scope.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <limits>

using namespace mlir;

namespace colossal::cpu {

namespace {

class AttentionEmitter {
public:
  AttentionEmitter(MLIRContext &context, const Processor &processor, const AttentionSpec &spec)
      : context(context), processor(processor), spec(spec) {
    plan();
  }

  GeneratedKernel generate() {
    SmallVector<BufferSpec> buffers(3, BufferSpec{spec.type, {}, {}});
    if (spec.mask != AttentionSpec::Mask::None)
      buffers.push_back({maskElement(), {}, {}});
    outputBuffer = buffers.size();
    buffers.push_back({spec.type, {}, {}});
    if (spec.statistics)
      buffers.push_back({acc, {}, {}});
    unsigned params = unsigned(spec.causal && spec.causalOffsetParam) + unsigned(spec.validKeysParam);
    KernelFunction kernel(context, buffers, params, scratchBytes);
    function = &kernel;
    Scope scope(kernel.builder(), kernel.loc(), processor);
    VectorMemory &memory = scope.memory;
    unsigned next = 0;
    if (spec.causal)
      offset = spec.causalOffsetParam ? kernel.param(next++) : memory.constant(spec.causalOffset);
    keyEnd = memory.constant(spec.keys);
    if (spec.validKeysParam)
      keyEnd = memory.min(keyEnd, kernel.param(next++));
    auto part = [&](int64_t bytes) {
      return memory.address(kernel.scratch(), IntegerType::get(&context, 8), bytes);
    };
    queryScratch = part(queryPlace), scoreScratch = part(scorePlace), outputScratch = part(outputPlace);
    maximumScratch = part(maximumPlace), sumScratch = part(sumPlace), scaleScratch = part(scalePlace);
    keyScratch = part(keyPlace), valueScratch = part(valuePlace);
    if (tiles != 0) {
      Value none = memory.constant(-1), one = memory.constant(1);
      scf::ForOp::create(kernel.builder(), kernel.loc(), kernel.begin(), kernel.end(), one, ValueRange{none},
                         [&](OpBuilder &b, Location loc, Value tile, ValueRange held) {
                           Scope inner(b, loc, processor);
                           Value head = emitTile(inner, tile, held[0]);
                           scf::YieldOp::create(b, loc, head);
                         });
    }
    GeneratedKernel result;
    result.tiles = tiles;
    result.scratchBytes = scratchBytes;
    result.buffers = buffers.size();
    result.params = params;
    result.module = kernel.take();
    function = nullptr;
    return result;
  }

private:
  Type maskElement() {
    return spec.mask == AttentionSpec::Mask::Boolean ? Type(IntegerType::get(&context, 8)) : spec.maskType;
  }

  void plan() {
    acc = spec.type.isF64() ? spec.type : Type(Float32Type::get(&context));
    lanes = processor.lanes(acc);
    panel = {lanes, processor.vectorRegisters() == 32 ? 4 : 2, 6};
    keyBlock = 8 * lanes; // a row of scores in 8 registers
    group = spec.queryHeads / std::max<int64_t>(1, spec.keyHeads);
    rows = group * spec.queries;
    heads = spec.batch * spec.keyHeads;
    // Few rows: scores by dot products, K read once in place.
    dots = rows <= 4 && spec.kStrides[3] == 1;
    rowStep = std::min<int64_t>(panel.rows, rows);
    int64_t blocks = divideUp(rows, 96);
    while (heads * blocks < 32 && divideUp(rows, blocks) > 4 * panel.rows)
      blocks *= 2;
    blockRows = roundUp(divideUp(std::max<int64_t>(1, rows), std::max<int64_t>(1, blocks)),
                        std::max<int64_t>(1, rowStep));
    rowBlocks = divideUp(rows, blockRows);
    valueVectors = divideUp(std::max<int64_t>(1, spec.valueWidth), lanes);
    valueRow = valueVectors * lanes;
    // Rows far apart share few sets of the first-level cache: a dense copy is repaid by a few rows of
    // queries.
    packValues = spec.type != acc || spec.vStrides[3] != 1 || (rows > 16 && spec.vStrides[2] != valueRow);
    tiles = spec.valueWidth == 0 ? 0 : heads * rowBlocks;

    int64_t size = elementBytes(acc), place = 0;
    auto reserve = [&](int64_t elements) {
      int64_t begin = place;
      place += roundUp(elements * size, 64);
      return begin;
    };
    queryRow = roundUp(std::max<int64_t>(1, spec.width), lanes);
    queryPlace = reserve(blockRows * queryRow);
    scorePlace = reserve(blockRows * keyBlock);
    outputPlace = reserve(blockRows * valueRow);
    maximumPlace = reserve(blockRows), sumPlace = reserve(blockRows), scalePlace = reserve(blockRows);
    keyPlace = reserve(dots ? 0 : roundUp(spec.keys, keyBlock) * spec.width);
    valuePlace = reserve(packValues ? spec.keys * valueRow : 0);
    scratchBytes = place;
  }

  struct Tile {
    Value batch, keyHead, firstRow, rowCount, stepCount; // stepCount: rows rounded up to whole register tiles
    Value keys, values;                                  // addresses of the head's matrices
  };

  Value emitTile(Scope &scope, Value index, Value heldHead) {
    VectorMemory &memory = scope.memory;
    SmallVector<Value> position = memory.delinearize(index, {heads, rowBlocks});
    SmallVector<Value> head = memory.delinearize(position[0], {spec.batch, spec.keyHeads});
    Tile tile;
    tile.batch = head[0], tile.keyHead = head[1];
    tile.firstRow = memory.mulConstant(position[1], blockRows);
    tile.rowCount = memory.minConstant(scope.sub(memory.constant(rows), tile.firstRow), blockRows);
    tile.stepCount = memory.mulConstant(
        memory.divRem(memory.addConstant(tile.rowCount, rowStep - 1), rowStep).first, rowStep);
    auto base = [&](unsigned buffer, const std::array<int64_t, 4> &strides) {
      return memory.address(function->pointer(buffer), spec.type,
                            memory.linearize(head, {strides[0], strides[1]}));
    };
    tile.keys = base(1, spec.kStrides), tile.values = base(2, spec.vStrides);

    branch(scope, scope.compare(arith::CmpIPredicate::ne, position[0], heldHead), [&](Scope &scope) {
      if (!dots)
        emitPackKeys(scope, tile);
      if (packValues)
        emitPackValues(scope, tile);
    });
    emitRows(scope, tile);

    // Keys beyond what the last row sees need no work.
    Value end = keyEnd;
    if (spec.causal) {
      Value last = memory.constant(spec.queries - 1);
      if (group == 1)
        last = memory.addConstant(memory.add(tile.firstRow, tile.rowCount), -1);
      Value seen = memory.addConstant(memory.add(last, offset), 1);
      end = memory.min(end, seen);
    }
    loop(scope, memory.constant(0), end, keyBlock, [&](Scope &scope, Value key) {
      Value count = scope.memory.minConstant(scope.sub(end, key), keyBlock);
      if (dots)
        emitScoresByDots(scope, tile, key, count);
      else
        emitScores(scope, tile, key);
      emitSoftmaxStep(scope, tile, key);
      emitValueProduct(scope, tile, key, count);
    });
    emitResult(scope, tile);
    return position[0];
  }

  /// Query head (global) and query index of a row of the head's rows.
  std::pair<Value, Value> queryOf(Scope &scope, const Tile &tile, Value row) {
    VectorMemory &memory = scope.memory;
    SmallVector<Value> place = memory.delinearize(row, {group, spec.queries});
    return {memory.add(memory.mulConstant(tile.keyHead, group), place[0]), place[1]};
  }

  Value at(Scope &scope, Value base, Value offset, int64_t constant = 0) {
    return scope.memory.address(scope.memory.address(base, acc, offset), acc, constant);
  }

  void emitPackKeys(Scope &scope, const Tile &tile) {
    VectorMemory &memory = scope.memory;
    ContractionDim columns[] = {{spec.keys, 0, spec.kStrides[2], 0}};
    SmallVector<ContractionDim> depth = collapse({{spec.width, 0, spec.kStrides[3], 0}}, false, true, false);
    KRange range = {memory.constant(0), memory.constant(1), memory.constant(0), memory.constant(spec.width)};
    loop(scope, roundUp(spec.keys, keyBlock), panel.width(), [&](Scope &scope, Value key) {
      Value destination = at(scope, keyScratch, scope.memory.mulConstant(key, spec.width));
      emitPackPanel(scope.b, scope.loc, processor, panel, columns, depth, tile.keys, spec.type, destination,
                    acc, key, range);
    });
  }

  void emitPackValues(Scope &scope, const Tile &tile) {
    loop(scope, spec.keys, 1, [&](Scope &scope, Value key) {
      VectorMemory &memory = scope.memory;
      Value row = memory.address(tile.values, spec.type, memory.mulConstant(key, spec.vStrides[2]));
      for (int64_t v = 0; v < valueVectors; ++v) {
        Value value = loadRow(scope, row, spec.vStrides[3], v * lanes, spec.valueWidth);
        memory.store(value, at(scope, valueScratch, memory.mulConstant(key, valueRow), v * lanes));
      }
    });
  }

  /// Lanes [first, first + lanes) of a strided row of `extent` elements of the spec's type, as the
  /// accumulator's type.
  Value loadRow(Scope &scope, Value row, int64_t stride, int64_t first, int64_t extent) {
    VectorMemory &memory = scope.memory;
    Value mask = first + lanes > extent ? memory.prefixMask(lanes, extent - first) : Value();
    Value value;
    if (stride == 1) {
      value = memory.load(memory.address(row, spec.type, first), spec.type, lanes, mask);
    } else {
      SmallVector<int64_t> offsets;
      for (int64_t lane = 0; lane < lanes; ++lane)
        offsets.push_back((first + lane) * stride);
      Value places = arith::ConstantOp::create(
          scope.b, scope.loc,
          DenseElementsAttr::get(VectorType::get({lanes}, scope.b.getI64Type()), ArrayRef<int64_t>(offsets)));
      value = memory.gather(row, spec.type, places, mask);
    }
    return memory.convert(value, acc);
  }

  /// Queries times the scale; running maximum, sum and output at their beginning. Rows beyond the last are
  /// zero.
  void emitRows(Scope &scope, const Tile &tile) {
    loop(scope, scope.memory.constant(0), tile.stepCount, 1, [&](Scope &scope, Value row) {
      VectorMemory &memory = scope.memory;
      Value real = memory.minConstant(memory.add(tile.firstRow, row), rows - 1);
      auto [head, query] = queryOf(scope, tile, real);
      Value offset =
          memory.linearize({tile.batch, head, query}, {spec.qStrides[0], spec.qStrides[1], spec.qStrides[2]});
      Value source = memory.address(function->pointer(0), spec.type, offset);
      double scale = spec.softcap ? spec.scale / *spec.softcap : spec.scale;
      for (int64_t first = 0; first < spec.width; first += lanes) {
        Value value = loadRow(scope, source, spec.qStrides[3], first, spec.width);
        value = arith::MulFOp::create(scope.b, scope.loc, value, memory.constantLike(value.getType(), scale));
        memory.store(value, at(scope, queryScratch, memory.mulConstant(row, queryRow), first));
      }
      Value maximum = at(scope, maximumScratch, row);
      memory.store(memory.constantLike(acc, -std::numeric_limits<double>::infinity()), maximum);
      Value sum = at(scope, sumScratch, row);
      memory.store(memory.zero(acc, 1), sum);
      for (int64_t v = 0; v < valueVectors; ++v) {
        Value output = at(scope, outputScratch, memory.mulConstant(row, valueRow), v * lanes);
        memory.store(memory.zero(acc, lanes), output);
      }
    });
  }

  Value multiplyAdd(Scope &scope, Value x, Value y, Value z) { return scope.math.fma(x, y, z); }

  /// Register tiles of queries times K transposed.
  void emitScores(Scope &scope, const Tile &tile, Value key) {
    loop(scope, keyBlock, panel.width(), [&](Scope &scope, Value column) {
      loop(scope, scope.memory.constant(0), tile.stepCount, rowStep, [&](Scope &scope, Value row) {
        VectorMemory &memory = scope.memory;
        Value keys = at(scope, keyScratch, memory.mulConstant(memory.add(key, column), spec.width));
        Value queries = at(scope, queryScratch, memory.mulConstant(row, queryRow));
        SmallVector<Value> start(rowStep * panel.vectors, memory.zero(acc, lanes));
        Value one = memory.constant(1), width = memory.constant(spec.width), zero = memory.constant(0);
        auto product = scf::ForOp::create(
            scope.b, scope.loc, zero, width, one, start,
            [&](OpBuilder &b, Location loc, Value depth, ValueRange sums) {
              Scope scope(b, loc, processor);
              SmallVector<Value> next, right;
              for (int64_t v = 0; v < panel.vectors; ++v)
                right.push_back(scope.memory.load(
                    at(scope, keys, scope.memory.mulConstant(depth, panel.width()), v * lanes), acc, lanes));
              for (int64_t r = 0; r < rowStep; ++r) {
                Value left = scope.memory.splat(
                    scope.memory.load(at(scope, queries, depth, r * queryRow), acc, 1), lanes);
                for (int64_t v = 0; v < panel.vectors; ++v)
                  next.push_back(multiplyAdd(scope, left, right[v], sums[r * panel.vectors + v]));
              }
              scf::YieldOp::create(b, loc, next);
            });
        Value scores = at(scope, scoreScratch, memory.add(memory.mulConstant(row, keyBlock), column));
        for (int64_t r = 0; r < rowStep; ++r)
          for (int64_t v = 0; v < panel.vectors; ++v)
            memory.store(product.getResult(r * panel.vectors + v),
                         memory.address(scores, acc, r * keyBlock + v * lanes));
      });
    });
  }

  /// Scores of a few rows, one key at a time: K is read once, in place.
  void emitScoresByDots(Scope &scope, const Tile &tile, Value key, Value count) {
    loop(scope, scope.memory.constant(0), count, 1, [&](Scope &scope, Value column) {
      VectorMemory &memory = scope.memory;
      Value source =
          memory.address(tile.keys, spec.type, memory.mulConstant(memory.add(key, column), spec.kStrides[2]));
      SmallVector<Value> sums(rows);
      for (int64_t first = 0; first < spec.width; first += lanes) {
        Value values = loadRow(scope, source, 1, first, spec.width);
        for (int64_t row = 0; row < rows; ++row) {
          Value query = memory.load(memory.address(queryScratch, acc, row * queryRow + first), acc, lanes);
          sums[row] = sums[row] ? multiplyAdd(scope, query, values, sums[row])
                                : arith::MulFOp::create(scope.b, scope.loc, query, values).getResult();
        }
      }
      auto plus = [&](Value l, Value r) -> Value { return arith::AddFOp::create(scope.b, scope.loc, l, r); };
      for (int64_t row = 0; row < rows; ++row) {
        Value score = at(scope, scoreScratch, column, row * keyBlock);
        memory.store(reduce(scope, sums[row], plus), score);
      }
    });
  }

  /// Combines all lanes into each: the first lane is returned.
  template <typename Combine>
  Value reduce(Scope &scope, Value value, Combine combine) {
    for (int64_t distance = lanes / 2; distance >= 1; distance /= 2) {
      SmallVector<int64_t> swapped;
      for (int64_t lane = 0; lane < lanes; ++lane)
        swapped.push_back(lane ^ distance);
      value = combine(value, vector::ShuffleOp::create(scope.b, scope.loc, value, value, swapped));
    }
    return vector::ExtractOp::create(scope.b, scope.loc, value, ArrayRef<int64_t>{0});
  }

  /// Softcap, masks, running maximum and sum, and the scores replaced by exp(score - maximum).
  void emitSoftmaxStep(Scope &scope, const Tile &tile, Value key) {
    loop(scope, scope.memory.constant(0), tile.rowCount, 1, [&](Scope &scope, Value row) {
      OpBuilder &b = scope.b;
      Location loc = scope.loc;
      VectorMemory &memory = scope.memory;
      auto [head, query] = queryOf(scope, tile, memory.add(tile.firstRow, row));
      Value limit = visibleEnd(scope, query);
      Value scores = at(scope, scoreScratch, memory.mulConstant(row, keyBlock));
      Type vectorType = VectorType::get({lanes}, acc);
      Value hidden = memory.constantLike(vectorType, -std::numeric_limits<double>::infinity());

      SmallVector<Value> values;
      for (int64_t v = 0; v < keyBlock / lanes; ++v) {
        Value value = memory.load(memory.address(scores, acc, v * lanes), acc, lanes);
        if (spec.softcap) {
          value = scope.math.tanh(value);
          value = arith::MulFOp::create(b, loc, value, memory.constantLike(vectorType, *spec.softcap));
        }
        value = applyMask(scope, tile, value, head, query, memory.addConstant(key, v * lanes));
        if (limit) {
          Value visible = memory.prefixMask(lanes, scope.sub(limit, memory.addConstant(key, v * lanes)));
          value = arith::SelectOp::create(b, loc, visible, value, hidden);
        }
        values.push_back(value);
      }
      Value largest = tree(values, [&](Value l, Value r) { return scope.math.maximumOrdered(l, r); });
      largest = reduce(scope, largest, [&](Value l, Value r) { return scope.math.maximumOrdered(l, r); });
      Value before = memory.load(at(scope, maximumScratch, row), acc, 1);
      Value maximum = scope.math.maximumOrdered(before, largest);
      memory.store(maximum, at(scope, maximumScratch, row));
      // Nothing seen so far: any finite number serves in place of -inf, and all terms become 0.
      Value infinity = memory.constantLike(acc, -std::numeric_limits<double>::infinity());
      Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, maximum, infinity);
      Value reference = arith::SelectOp::create(b, loc, none, memory.zero(acc, 1), maximum);
      Value scale = exponential(scope, arith::SubFOp::create(b, loc, before, reference));
      memory.store(scale, at(scope, scaleScratch, row));

      Value references = memory.splat(reference, lanes);
      for (auto [v, value] : llvm::enumerate(values)) {
        value = exponential(scope, arith::SubFOp::create(b, loc, value, references));
        memory.store(value, memory.address(scores, acc, v * lanes));
      }
      auto plus = [&](Value l, Value r) -> Value { return arith::AddFOp::create(b, loc, l, r); };
      Value sum = reduce(scope, tree(values, plus), plus);
      Value total = memory.load(at(scope, sumScratch, row), acc, 1);
      Value held = at(scope, sumScratch, row);
      memory.store(multiplyAdd(scope, total, scale, sum), held);
    });
  }

  template <typename Combine>
  static Value tree(ArrayRef<Value> values, Combine combine) {
    SmallVector<Value> level(values);
    while (level.size() > 1) {
      SmallVector<Value> next;
      for (size_t i = 0; i + 1 < level.size(); i += 2)
        next.push_back(combine(level[i], level[i + 1]));
      if (level.size() % 2)
        next.push_back(level.back());
      level = next;
    }
    return level.front();
  }

  /// e^x for x <= 0, exactly 0 far below.
  Value exponential(Scope &scope, Value x) {
    if (acc.isF64())
      return scope.math.exp(x);
    Value scaled = arith::MulFOp::create(scope.b, scope.loc, x,
                                         scope.memory.constantLike(x.getType(), 1.4426950408889634));
    return scope.math.exp2NonPositive(scaled);
  }

  /// The first key that the query does not see; null where it sees all keys of all blocks.
  Value visibleEnd(Scope &scope, Value query) {
    Value end;
    if (spec.keys % keyBlock != 0 || spec.validKeysParam)
      end = keyEnd;
    if (spec.causal) {
      Value own = scope.memory.addConstant(scope.memory.add(query, offset), 1);
      end = end ? scope.memory.min(end, own) : own;
    }
    return end;
  }

  Value applyMask(Scope &scope, const Tile &tile, Value value, Value head, Value query, Value key) {
    if (spec.mask == AttentionSpec::Mask::None)
      return value;
    OpBuilder &b = scope.b;
    Location loc = scope.loc;
    VectorMemory &memory = scope.memory;
    Type element = maskElement();
    const std::array<int64_t, 4> &strides = spec.maskStrides;
    Value offset = memory.linearize({tile.batch, head, query}, {strides[0], strides[1], strides[2]});
    Value row = memory.address(function->pointer(3), element, offset);
    Value exists;
    if (spec.keys % keyBlock != 0)
      exists = memory.prefixMask(lanes, scope.sub(memory.constant(spec.keys), key));
    Value mask;
    if (strides[3] == 0) {
      mask = memory.splat(memory.load(row, element, 1), lanes);
    } else if (strides[3] == 1) {
      mask = memory.load(memory.address(row, element, key), element, lanes, exists);
    } else {
      SmallVector<int64_t> steps;
      for (int64_t lane = 0; lane < lanes; ++lane)
        steps.push_back(lane * strides[3]);
      Value places = arith::ConstantOp::create(
          b, loc, DenseElementsAttr::get(VectorType::get({lanes}, b.getI64Type()), ArrayRef<int64_t>(steps)));
      mask = memory.gather(memory.address(row, element, memory.mulConstant(key, strides[3])), element, places,
                           exists);
    }
    if (spec.mask == AttentionSpec::Mask::Additive)
      return arith::AddFOp::create(b, loc, value, memory.convert(mask, acc));
    Value seen = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, mask, memory.zero(element, lanes));
    Value hidden = memory.constantLike(value.getType(), -std::numeric_limits<double>::infinity());
    return arith::SelectOp::create(b, loc, seen, value, hidden);
  }

  /// Output rows, scaled to the new maximum, plus the exponentials times the block's values.
  void emitValueProduct(Scope &scope, const Tile &tile, Value key, Value count) {
    Value source = packValues ? valueScratch : tile.values;
    int64_t rowStride = packValues ? valueRow : spec.vStrides[2];
    loop(scope, scope.memory.constant(0), tile.stepCount, rowStep, [&](Scope &scope, Value row) {
      for (int64_t first = 0; first < valueVectors; first += panel.vectors) {
        VectorMemory &memory = scope.memory;
        int64_t width = std::min(panel.vectors, valueVectors - first);
        Value values = memory.address(source, acc, memory.mulConstant(key, rowStride));
        Value weights = at(scope, scoreScratch, memory.mulConstant(row, keyBlock));
        Value outputs = at(scope, outputScratch, memory.mulConstant(row, valueRow), first * lanes);
        SmallVector<Value> start;
        for (int64_t r = 0; r < rowStep; ++r) {
          Value scale = memory.splat(memory.load(at(scope, scaleScratch, row, r), acc, 1), lanes);
          for (int64_t v = 0; v < width; ++v) {
            Value held = memory.load(memory.address(outputs, acc, r * valueRow + v * lanes), acc, lanes);
            start.push_back(arith::MulFOp::create(scope.b, scope.loc, held, scale));
          }
        }
        Value one = memory.constant(1), zero = memory.constant(0);
        auto product = scf::ForOp::create(
            scope.b, scope.loc, zero, count, one, start,
            [&](OpBuilder &b, Location loc, Value index, ValueRange sums) {
              Scope scope(b, loc, processor);
              SmallVector<Value> next, right;
              for (int64_t v = 0; v < width; ++v) {
                int64_t column = (first + v) * lanes;
                Value mask = !packValues && column + lanes > spec.valueWidth
                                 ? scope.memory.prefixMask(lanes, spec.valueWidth - column)
                                 : Value();
                right.push_back(scope.memory.load(
                    at(scope, values, scope.memory.mulConstant(index, rowStride), column), acc, lanes, mask));
              }
              for (int64_t r = 0; r < rowStep; ++r) {
                Value left = scope.memory.splat(
                    scope.memory.load(at(scope, weights, index, r * keyBlock), acc, 1), lanes);
                for (int64_t v = 0; v < width; ++v)
                  next.push_back(multiplyAdd(scope, left, right[v], sums[r * width + v]));
              }
              scf::YieldOp::create(b, loc, next);
            });
        for (int64_t r = 0; r < rowStep; ++r)
          for (int64_t v = 0; v < width; ++v)
            memory.store(product.getResult(r * width + v),
                         memory.address(outputs, acc, r * valueRow + v * lanes));
      }
    });
  }

  void emitResult(Scope &scope, const Tile &tile) {
    loop(scope, scope.memory.constant(0), tile.rowCount, 1, [&](Scope &scope, Value row) {
      OpBuilder &b = scope.b;
      Location loc = scope.loc;
      VectorMemory &memory = scope.memory;
      auto [head, query] = queryOf(scope, tile, memory.add(tile.firstRow, row));
      const std::array<int64_t, 4> &strides = spec.outStrides;
      Value offset = memory.linearize({tile.batch, head, query}, {strides[0], strides[1], strides[2]});
      Value destination = memory.address(function->pointer(outputBuffer), spec.type, offset);
      Value sum = memory.load(at(scope, sumScratch, row), acc, 1);
      if (spec.statistics) {
        const std::array<int64_t, 3> &own = spec.statisticStrides;
        Value place = memory.linearize({tile.batch, head, query}, {own[0], own[1], own[2]});
        Value maximum = memory.load(at(scope, maximumScratch, row), acc, 1);
        Value logarithm = arith::AddFOp::create(b, loc, maximum, scope.math.log(sum));
        memory.store(logarithm, memory.address(function->pointer(outputBuffer + 1), acc, place));
      }
      Value factor = arith::DivFOp::create(b, loc, memory.constantLike(acc, 1.0), sum);
      if (spec.emptyRow == AttentionSpec::EmptyRow::Zero) {
        Value zero = memory.zero(acc, 1);
        Value empty = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, sum, zero);
        factor = arith::SelectOp::create(b, loc, empty, zero, factor);
      }
      Value factors = memory.splat(factor, lanes);
      for (int64_t v = 0; v < valueVectors; ++v) {
        Value value =
            memory.load(at(scope, outputScratch, memory.mulConstant(row, valueRow), v * lanes), acc, lanes);
        value = memory.convert(arith::MulFOp::create(b, loc, value, factors), spec.type);
        Value mask = (v + 1) * lanes > spec.valueWidth ? memory.prefixMask(lanes, spec.valueWidth - v * lanes)
                                                       : Value();
        if (strides[3] == 1) {
          memory.store(value, memory.address(destination, spec.type, v * lanes), mask);
          continue;
        }
        SmallVector<int64_t> places;
        for (int64_t lane = 0; lane < lanes; ++lane)
          places.push_back((v * lanes + lane) * strides[3]);
        Value offsets = arith::ConstantOp::create(
            b, loc,
            DenseElementsAttr::get(VectorType::get({lanes}, b.getI64Type()), ArrayRef<int64_t>(places)));
        memory.scatter(value, destination, offsets, mask);
      }
    });
  }

  MLIRContext &context;
  const Processor &processor;
  const AttentionSpec &spec;
  KernelFunction *function = nullptr;
  Type acc;
  PanelShape panel;
  int64_t lanes, keyBlock, group, rows, heads, rowStep, blockRows, rowBlocks, valueVectors, valueRow,
      queryRow, tiles;
  bool dots, packValues;
  unsigned outputBuffer = 0;
  int64_t queryPlace, scorePlace, outputPlace, maximumPlace, sumPlace, scalePlace, keyPlace, valuePlace,
      scratchBytes;
  Value offset, keyEnd;
  Value queryScratch, scoreScratch, outputScratch, maximumScratch, sumScratch, scaleScratch, keyScratch,
      valueScratch;
};

} // namespace

llvm::Expected<GeneratedKernel> generateAttention(MLIRContext &context, const Processor &processor,
                                                  const AttentionSpec &spec) {
  auto isFloat = [](Type type) {
    return type && (type.isF32() || type.isF64() || type.isF16() || type.isBF16());
  };
  if (!isFloat(spec.type))
    return llvm::createStringError("attention is computed in f32, f64, f16 or bf16 only");
  if (spec.mask == AttentionSpec::Mask::Additive && !isFloat(spec.maskType))
    return llvm::createStringError("the additive mask of an attention is not of a float type");
  if (spec.keyHeads < 1 || spec.queryHeads < 1 || spec.queryHeads % spec.keyHeads != 0)
    return llvm::createStringError("an attention has " + std::to_string(spec.queryHeads) +
                                   " query heads, which is no multiple of its " +
                                   std::to_string(spec.keyHeads) + " key heads");
  if (spec.batch < 0 || spec.queries < 0 || spec.keys < 1 || spec.width < 1 || spec.valueWidth < 0)
    return llvm::createStringError("an attention has an empty key or a negative size");
  if (spec.softcap && !(*spec.softcap > 0))
    return llvm::createStringError("the softcap of an attention must be positive");
  KernelFunction::loadDialects(context);
  return AttentionEmitter(context, processor, spec).generate();
}

} // namespace colossal::cpu
