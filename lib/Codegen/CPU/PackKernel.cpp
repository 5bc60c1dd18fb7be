// Packing of B into panels: [panel][k][width], so that the contraction reads one contiguous stream per panel.
#include "ContractionBlocking.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace colossal::cpu {

PanelShape panelShape(const Processor &processor, Type accumulate, int64_t n) {
  int64_t lanes = processor.lanes(accumulate);
  int64_t vectors = (n + lanes - 1) / lanes;
  bool manyRegisters = processor.vectorRegisters() == 32;
  // Three vectors wide is the best shape; four where a short N divides so, which leaves no tail.
  int64_t wide = 3;
  if (vectors <= 2)
    wide = std::max<int64_t>(1, vectors);
  else if (manyRegisters && vectors <= 24 && vectors % 3 != 0 && vectors % 4 == 0)
    wide = 4;
  else if (!manyRegisters && vectors <= 24 && vectors % 3 != 0 && vectors % 2 == 0)
    wide = 2;
  static constexpr int64_t rows32[] = {0, 12, 10, 8, 6}, rows16[] = {0, 8, 6, 4, 3};
  return {lanes, wide, manyRegisters ? rows32[wide] : rows16[wide]};
}

bool multipliesPairs(const Processor &processor, Type aType, Type bType, Type accumulate) {
  return processor.vectorBytes() == 64 && processor.has("avx512bf16") && aType.isBF16() && bType.isBF16() &&
         accumulate.isF32();
}

int64_t packedElements(const Processor &processor, Type, Type accumulate, int64_t n, int64_t k, bool pairs) {
  PanelShape panel = panelShape(processor, accumulate, n);
  return panel.count(n) * (pairs ? roundUp(k, 2) : k) * panel.width();
}

SmallVector<ContractionDim> collapse(ArrayRef<ContractionDim> dims, bool a, bool b, bool c) {
  SmallVector<ContractionDim> result;
  for (const ContractionDim &dim : dims) {
    if (dim.size == 1)
      continue;
    if (!result.empty()) {
      ContractionDim &outer = result.back();
      if ((!a || outer.a == dim.a * dim.size) && (!b || outer.b == dim.b * dim.size) &&
          (!c || outer.c == dim.c * dim.size)) {
        outer = {outer.size * dim.size, dim.a, dim.b, dim.c};
        continue;
      }
    }
    result.push_back(dim);
  }
  if (result.empty())
    result.push_back({1, 1, 1, 1});
  return result;
}

SmallVector<int64_t> sizesOf(ArrayRef<ContractionDim> dims) {
  return llvm::map_to_vector(dims, [](const ContractionDim &dim) { return dim.size; });
}

SmallVector<int64_t> stridesOf(ArrayRef<ContractionDim> dims, int64_t ContractionDim::*operand) {
  return llvm::map_to_vector(dims, [=](const ContractionDim &dim) { return dim.*operand; });
}

namespace {

/// One panel being packed.
class PanelPacker {
public:
  PanelPacker(OpBuilder &b, Location loc, const Processor &processor, const PanelShape &panel,
              ArrayRef<ContractionDim> n, ArrayRef<ContractionDim> k, Value source, Type sourceType,
              Value destination, Type destinationType, Value n0, bool pairs)
      : b(b), loc(loc), processor(processor), panel(panel), n(collapse(n, false, true, false)), k(k),
        source(source), sourceType(sourceType), destination(destination), destinationType(destinationType),
        n0(n0), columns(product(n)), pairs(pairs) {}

  void emit(const KRange &range) {
    ArrayRef<ContractionDim> outerDims = k.drop_back();
    bool byColumns = n.size() == 1 && n[0].b == 1;
    bool byRows = !byColumns && k.back().b == 1 && panel.width() % block == 0;
    VectorMemory memory(b, loc, processor);
    scf::ForOp::create(b, loc, range.outerBegin, range.outerEnd, memory.constant(1), ValueRange(),
                       [&](OpBuilder &inner, Location, Value outer, ValueRange) {
                         PanelPacker nested(*this, inner);
                         VectorMemory memory(inner, loc, processor);
                         Value sourceOffset = memory.linearize(memory.delinearize(outer, sizesOf(outerDims)),
                                                               stridesOf(outerDims, &ContractionDim::b));
                         Value extent = arith::SubIOp::create(inner, loc, range.innerEnd, range.innerBegin);
                         Value position = arith::SubIOp::create(inner, loc, outer, range.outerBegin);
                         position = arith::MulIOp::create(inner, loc, position, extent);
                         if (pairs)
                           nested.copyPairs(range, sourceOffset, position, byColumns, byRows);
                         else if (byColumns)
                           nested.copyColumns(range, sourceOffset, position);
                         else if (byRows)
                           nested.transposeRows(range, sourceOffset, position);
                         else
                           nested.copyElements(range, range.innerBegin, sourceOffset, position);
                         scf::YieldOp::create(inner, loc);
                       });
    if (pairs && product(k) % 2 != 0)
      fillLastPair(range);
  }

private:
  static constexpr int64_t block = 4; // rows and columns transposed at a time

  PanelPacker(const PanelPacker &other, OpBuilder &inner)
      : b(inner), loc(other.loc), processor(other.processor), panel(other.panel), n(other.n), k(other.k),
        source(other.source), sourceType(other.sourceType), destination(other.destination),
        destinationType(other.destinationType), n0(other.n0), columns(other.columns), pairs(other.pairs) {}

  /// Offset in the source of a column of the panel; columns beyond N give the last one.
  Value columnOffset(VectorMemory &memory, Value column) {
    Value index = memory.minConstant(memory.add(n0, column), columns - 1);
    return memory.linearize(memory.delinearize(index, sizesOf(n)), stridesOf(n, &ContractionDim::b));
  }

  /// Row `inner` (absolute) in the destination.
  Value destinationRow(VectorMemory &memory, OpBuilder &b, const KRange &range, Value position, Value inner) {
    return memory.add(position, arith::SubIOp::create(b, loc, inner, range.innerBegin));
  }
  /// The same in elements: of pairs, where the two rows of an even one begin.
  Value destinationOffset(VectorMemory &memory, OpBuilder &b, const KRange &range, Value position,
                          Value inner) {
    return memory.mulConstant(destinationRow(memory, b, range, position, inner), panel.width());
  }

  template <typename Body>
  void loop(OpBuilder &b, Value begin, Value end, int64_t step, Body body) {
    VectorMemory memory(b, loc, processor);
    scf::ForOp::create(b, loc, begin, end, memory.constant(step), ValueRange(),
                       [&](OpBuilder &inner, Location, Value index, ValueRange) {
                         body(inner, index);
                         scf::YieldOp::create(inner, loc);
                       });
  }

  void copyColumns(const KRange &range, Value sourceOffset, Value position) {
    auto emitLoop = [&](OpBuilder &outer, bool partial) {
      SmallVector<Value> masks(panel.vectors);
      if (partial) {
        VectorMemory memory(outer, loc, processor);
        Value left = arith::SubIOp::create(outer, loc, memory.constant(columns), n0);
        for (int64_t v = 0; v < panel.vectors; ++v)
          masks[v] = memory.prefixMask(panel.lanes, memory.addConstant(left, -v * panel.lanes));
      }
      loop(outer, range.innerBegin, range.innerEnd, 1, [&](OpBuilder &b, Value inner) {
        VectorMemory memory(b, loc, processor);
        Value along = memory.mulConstant(inner, k.back().b);
        Value from = memory.add(memory.add(sourceOffset, n0), along);
        Value to = destinationOffset(memory, b, range, position, inner);
        prefetchRow(memory, sourceType, source, memory.addConstant(from, rowsAhead * k.back().b),
                    panel.width());
        for (int64_t v = 0; v < panel.vectors; ++v) {
          Value value =
              memory.load(memory.address(source, sourceType, memory.addConstant(from, v * panel.lanes)),
                          sourceType, panel.lanes, masks[v]);
          store(memory, value, memory.addConstant(to, v * panel.lanes));
        }
      });
    };
    if (columns % panel.width() == 0)
      return emitLoop(b, false);
    VectorMemory memory(b, loc, processor);
    Value last = memory.constant(columns), end = memory.addConstant(n0, panel.width());
    Value whole = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, end, last);
    scf::IfOp::create(
        b, loc, whole,
        [&](OpBuilder &b, Location) {
          emitLoop(b, false);
          scf::YieldOp::create(b, loc);
        },
        [&](OpBuilder &b, Location) {
          emitLoop(b, true);
          scf::YieldOp::create(b, loc);
        });
  }

  /// Blocks of 4 columns by 4 k's, transposed in registers; a cache line of k's of all columns at a time.
  /// Larger blocks are hardly faster, but the many shuffles in one block take LLVM tens of milliseconds to
  /// select.
  void transposeRows(const KRange &range, Value sourceOffset, Value position) {
    VectorMemory memory(b, loc, processor);
    Value count = arith::SubIOp::create(b, loc, range.innerEnd, range.innerBegin);
    Value middle = memory.add(range.innerBegin, memory.mulConstant(memory.divRem(count, block).first, block));
    loop(b, range.innerBegin, middle, 4 * block, [&](OpBuilder &b, Value chunk) {
      VectorMemory memory(b, loc, processor);
      Value chunkEnd = memory.min(memory.addConstant(chunk, 4 * block), middle);
      Value width = memory.constant(panel.width());
      loop(b, memory.constant(0), width, block, [&](OpBuilder &b, Value column) {
        VectorMemory memory(b, loc, processor);
        SmallVector<Value> sources;
        for (int64_t i = 0; i < block; ++i)
          sources.push_back(memory.add(sourceOffset, columnOffset(memory, memory.addConstant(column, i))));
        prefetchChunk(memory, sources, memory.addConstant(chunk, 4 * block));
        loop(b, chunk, chunkEnd, block, [&](OpBuilder &b, Value inner) {
          VectorMemory memory(b, loc, processor);
          SmallVector<Value> rows;
          for (Value offset : sources) {
            Value row =
                memory.load(memory.address(source, sourceType, memory.add(offset, inner)), sourceType, block);
            rows.push_back(memory.convert(row, destinationType, isUnsignedElement(sourceType)));
          }
          memory.transpose(rows);
          Value to = memory.add(destinationOffset(memory, b, range, position, inner), column);
          for (int64_t i = 0; i < block; ++i)
            memory.store(rows[i], memory.address(memory.address(destination, destinationType, to),
                                                 destinationType, i * panel.width()));
        });
      });
    });
    copyElements(range, middle, sourceOffset, position);
  }

  /// Fetches the k's from `inner` on of the columns that begin at `sources`. As many columns are walked at
  /// once as a panel is wide, which are more streams than processors follow by themselves.
  void prefetchChunk(VectorMemory &memory, ArrayRef<Value> sources, Value inner) {
    for (Value offset : sources)
      memory.prefetch(memory.address(source, sourceType, memory.add(offset, inner)), 3);
  }

  void copyPairs(const KRange &range, Value sourceOffset, Value position, bool byColumns, bool byRows) {
    Value begin = range.innerBegin;
    const bool isEven = k.size() == 1 || k.back().size % 2 == 0;
    if (isEven && (byColumns || byRows)) {
      VectorMemory memory(b, loc, processor);
      const int64_t step = byRows ? 2 * block : 2;
      Value count = arith::SubIOp::create(b, loc, range.innerEnd, range.innerBegin);
      Value middle = memory.add(range.innerBegin, memory.mulConstant(memory.divRem(count, step).first, step));
      byRows ? transposePairs(range, middle, sourceOffset, position)
             : interleaveColumns(range, middle, sourceOffset, position);
      begin = middle;
    }
    copyElements(range, begin, sourceOffset, position);
  }

  /// Two rows at a time, to `middle`: the second one's bits above the first one's.
  void interleaveColumns(const KRange &range, Value middle, Value sourceOffset, Value position) {
    VectorMemory memory(b, loc, processor);
    SmallVector<Value> masks(panel.vectors);
    if (columns % panel.width() != 0) {
      Value left = arith::SubIOp::create(b, loc, memory.constant(columns), n0);
      for (int64_t v = 0; v < panel.vectors; ++v)
        masks[v] = memory.prefixMask(panel.lanes, memory.addConstant(left, -v * panel.lanes));
    }
    loop(b, range.innerBegin, middle, 2, [&](OpBuilder &b, Value inner) {
      VectorMemory memory(b, loc, processor);
      Type bits = b.getI16Type(), pair = b.getI32Type(), pairVector = VectorType::get({panel.lanes}, pair);
      Value from = memory.add(memory.add(sourceOffset, n0), memory.mulConstant(inner, k.back().b));
      Value to = destinationOffset(memory, b, range, position, inner);
      for (int64_t v = 0; v < panel.vectors; ++v) {
        auto half = [&](int64_t row) -> Value {
          Value place = memory.addConstant(from, row * k.back().b + v * panel.lanes);
          Value value = memory.load(memory.address(source, sourceType, place), bits, panel.lanes, masks[v]);
          return arith::ExtUIOp::create(b, loc, pairVector, value);
        };
        Value low = half(0), high = half(1);
        high = arith::ShLIOp::create(b, loc, high, memory.constantLike(pairVector, 16));
        Value both = arith::OrIOp::create(b, loc, low, high);
        memory.store(
            both, memory.address(destination, destinationType, memory.addConstant(to, 2 * v * panel.lanes)));
      }
    });
  }

  /// As transposeRows, with pairs in the place of elements, to `middle`.
  void transposePairs(const KRange &range, Value middle, Value sourceOffset, Value position) {
    loop(b, range.innerBegin, middle, 8 * block, [&](OpBuilder &b, Value chunk) {
      VectorMemory memory(b, loc, processor);
      Value chunkEnd = memory.min(memory.addConstant(chunk, 8 * block), middle);
      Value width = memory.constant(panel.width());
      loop(b, memory.constant(0), width, block, [&](OpBuilder &b, Value column) {
        VectorMemory memory(b, loc, processor);
        SmallVector<Value> sources;
        for (int64_t i = 0; i < block; ++i)
          sources.push_back(memory.add(sourceOffset, columnOffset(memory, memory.addConstant(column, i))));
        prefetchChunk(memory, sources, memory.addConstant(chunk, 8 * block));
        loop(b, chunk, chunkEnd, 2 * block, [&](OpBuilder &b, Value inner) {
          VectorMemory memory(b, loc, processor);
          SmallVector<Value> rows;
          for (Value offset : sources) {
            Value row = memory.load(memory.address(source, sourceType, memory.add(offset, inner)),
                                    b.getI16Type(), 2 * block);
            rows.push_back(vector::BitCastOp::create(b, loc, VectorType::get({block}, b.getI32Type()), row));
          }
          memory.transpose(rows);
          Value to =
              memory.add(destinationOffset(memory, b, range, position, inner), memory.mulConstant(column, 2));
          for (int64_t i = 0; i < block; ++i)
            memory.store(rows[i], memory.address(memory.address(destination, destinationType, to),
                                                 destinationType, 2 * i * panel.width()));
        });
      });
    });
  }

  /// Where the range ends with half a pair: zeros beside it.
  void fillLastPair(const KRange &range) {
    VectorMemory memory(b, loc, processor);
    Value rows =
        arith::MulIOp::create(b, loc, arith::SubIOp::create(b, loc, range.outerEnd, range.outerBegin),
                              arith::SubIOp::create(b, loc, range.innerEnd, range.innerBegin));
    Value rest = memory.divRem(rows, 2).second;
    Value isHalf = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, rest, memory.constant(0));
    scf::IfOp::create(b, loc, isHalf, [&](OpBuilder &b, Location) {
      VectorMemory memory(b, loc, processor);
      Value last = memory.addConstant(memory.mulConstant(memory.addConstant(rows, -1), panel.width()), 1);
      Value width = memory.constant(panel.width());
      loop(b, memory.constant(0), width, 1, [&](OpBuilder &b, Value column) {
        VectorMemory memory(b, loc, processor);
        Value place = memory.add(last, memory.mulConstant(column, 2));
        memory.store(memory.zero(destinationType, 1), memory.address(destination, destinationType, place));
      });
      scf::YieldOp::create(b, loc);
    });
  }

  /// Element by element, from the k `begin` on.
  void copyElements(const KRange &range, Value begin, Value sourceOffset, Value position) {
    VectorMemory memory(b, loc, processor);
    Value width = memory.constant(panel.width());
    loop(b, memory.constant(0), width, 1, [&](OpBuilder &b, Value column) {
      VectorMemory memory(b, loc, processor);
      Value from = memory.add(sourceOffset, columnOffset(memory, column));
      loop(b, begin, range.innerEnd, 1, [&](OpBuilder &b, Value inner) {
        VectorMemory memory(b, loc, processor);
        Value offset = memory.add(from, memory.mulConstant(inner, k.back().b));
        Value value = memory.load(memory.address(source, sourceType, offset), sourceType, 1);
        if (!pairs) {
          store(memory, value, memory.add(destinationOffset(memory, b, range, position, inner), column));
          return;
        }
        auto [pair, second] = memory.divRem(destinationRow(memory, b, range, position, inner), 2);
        Value to = memory.mulConstant(memory.add(memory.mulConstant(pair, panel.width()), column), 2);
        store(memory, value, memory.add(to, second));
      });
    });
  }

  void store(VectorMemory &memory, Value value, Value offset) {
    value = memory.convert(value, destinationType, isUnsignedElement(sourceType));
    memory.store(value, memory.address(destination, destinationType, offset));
  }

  OpBuilder &b;
  Location loc;
  const Processor &processor;
  const PanelShape &panel;
  SmallVector<ContractionDim> n;
  ArrayRef<ContractionDim> k;
  Value source;
  Type sourceType;
  Value destination;
  Type destinationType;
  Value n0;
  int64_t columns;
  bool pairs;
};

} // namespace

void prefetchRow(VectorMemory &memory, Type element, Value source, Value offset, int64_t width) {
  constexpr int64_t lineBytes = 64;
  const int64_t line = std::max<int64_t>(1, lineBytes / elementBytes(element));
  for (int64_t column = 0; column < width; column += line)
    memory.prefetch(memory.address(source, element, memory.addConstant(offset, column)), /*locality=*/3);
}

void emitPackPanel(OpBuilder &b, Location loc, const Processor &processor, const PanelShape &panel,
                   ArrayRef<ContractionDim> n, ArrayRef<ContractionDim> k, Value source, Type sourceType,
                   Value destination, Type destinationType, Value n0, const KRange &range, bool pairs) {
  PanelPacker(b, loc, processor, panel, n, k, source, sourceType, destination, destinationType, n0, pairs)
      .emit(range);
}

GeneratedKernel generatePackWeights(MLIRContext &context, const Processor &processor, Type bType,
                                    Type accumulate, ArrayRef<ContractionDim> batch,
                                    ArrayRef<ContractionDim> n, ArrayRef<ContractionDim> k, bool pairs,
                                    int64_t first) {
  PanelShape panel = panelShape(processor, accumulate, product(n));
  int64_t columns = product(n), depth = pairs ? roundUp(product(k), 2) : product(k),
          panels = panel.count(columns);
  KernelFunction kernel(context, {{bType, {}, {}}, {bType, {panels, depth, panel.width()}, {}}});
  OpBuilder &b = kernel.builder();
  Location loc = kernel.loc();
  VectorMemory outer(b, loc, processor);
  SmallVector<ContractionDim> kDims = collapse(k, false, true, false);
  Value origin = outer.address(kernel.pointer(0), bType, first);
  scf::ForOp::create(b, loc, kernel.begin(), kernel.end(), outer.constant(1), ValueRange(),
                     [&](OpBuilder &b, Location, Value tile, ValueRange) {
                       VectorMemory memory(b, loc, processor);
                       auto [matrix, index] = memory.divRem(tile, panels);
                       if (panels == 1)
                         index = memory.constant(0);
                       Value offset = memory.linearize(memory.delinearize(matrix, sizesOf(batch)),
                                                       stridesOf(batch, &ContractionDim::b));
                       Value source = memory.address(origin, bType, offset);
                       Value destination = memory.address(kernel.pointer(1), bType,
                                                          memory.mulConstant(tile, depth * panel.width()));
                       int64_t innerSize = kDims.back().size;
                       KRange range = {memory.constant(0),
                                       memory.constant(product(k) / std::max<int64_t>(1, innerSize)),
                                       memory.constant(0), memory.constant(innerSize)};
                       emitPackPanel(b, loc, processor, panel, n, kDims, source, bType, destination, bType,
                                     memory.mulConstant(index, panel.width()), range, pairs);
                       scf::YieldOp::create(b, loc);
                     });
  GeneratedKernel result;
  result.tiles = product(batch) * panels * (depth != 0);
  result.buffers = 2;
  result.module = kernel.take();
  return result;
}

} // namespace colossal::cpu
