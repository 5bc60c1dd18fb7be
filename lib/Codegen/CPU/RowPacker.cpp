// Copies of rows: as [row][k], by pairs of k, or by register tiles.
#include "RowPacker.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace colossal::cpu {

void RowPacker::emitTilesOfRows(Scope &scope, const RowBlock &tile,
                                llvm::function_ref<void(Scope &, Value row, int64_t count)> body) {
  int64_t restRows = M % rows;
  Value whole = scope.memory.mulConstant(scope.memory.divRem(tile.rowCount, rows).first, rows);
  if (M >= rows)
    loop(scope, scope.memory.constant(0), whole, rows,
         [&](Scope &scope, Value row) { body(scope, row, rows); });
  if (restRows) {
    // Only the last block of rows has a rest, and always the same one.
    Value cut = scope.compare(arith::CmpIPredicate::slt, whole, tile.rowCount);
    branch(scope, cut, [&](Scope &scope) { body(scope, whole, restRows); });
  }
}

/// Rows of the tile that lie side by side, two k's at a time: the second one's bits above the first one's.
/// Beyond the rows that exist there are zeros.
void RowPacker::emitPackAByDepth(Scope &scope, const RowBlock &tile, const KRange &range) {
  loop(scope, range.outerBegin, range.outerEnd, 1, [&](Scope &scope, Value outer) {
    Value source = scope.memory.add(tile.m0, outerOffset(scope.memory, outer, &ContractionDim::a));
    auto copy = [&](Scope &scope, Value inner, bool both) {
      VectorMemory &memory = scope.memory;
      Value from = memory.add(source, memory.mulConstant(inner, kDims.back().a));
      Value to = memory.mulConstant(packedPosition(scope, range, outer, inner), aScratchRow);
      loop(scope, memory.constant(0), tile.rowCount, panel.lanes, [&](Scope &scope, Value row) {
        VectorMemory &memory = scope.memory;
        Value mask = memory.prefixMask(panel.lanes, scope.sub(tile.rowCount, row));
        auto half = [&](int64_t k) -> Value {
          Value place = memory.add(memory.addConstant(from, k * kDims.back().a), row);
          Value bits = memory.load(memory.address(tile.aMatrix, spec.aType, place), scope.b.getI16Type(),
                                   panel.lanes, mask);
          return arith::ExtUIOp::create(scope.b, scope.loc,
                                        VectorType::get({panel.lanes}, scope.b.getI32Type()), bits);
        };
        Value value = half(0);
        if (both) {
          Value high = half(1);
          high = arith::ShLIOp::create(scope.b, scope.loc, high, memory.constantLike(high.getType(), 16));
          value = arith::OrIOp::create(scope.b, scope.loc, value, high);
        }
        memory.store(value, memory.address(aScratch, spec.aType, memory.add(to, memory.mulConstant(row, 2))));
      });
    };
    Value count = scope.sub(range.innerEnd, range.innerBegin);
    auto [whole, rest] = scope.memory.divRem(count, 2);
    Value middle = scope.memory.add(range.innerBegin, scope.memory.mulConstant(whole, 2));
    loop(scope, range.innerBegin, middle, 2, [&](Scope &scope, Value inner) { copy(scope, inner, true); });
    Value isOdd = scope.compare(arith::CmpIPredicate::ne, rest, scope.memory.constant(0));
    branch(scope, isOdd, [&](Scope &scope) { copy(scope, middle, false); });
  });
}

/// Rows of the block that lie side by side, converted to the accumulator's type, those of a register tile
/// together: [tile][k][row], where k counts from the beginning of `whole`. Nothing is written beyond a
/// tile's rows.
void RowPacker::emitPackAByTile(Scope &scope, const RowBlock &tile, const KRange &range,
                                const KRange &whole) {
  const int64_t step = kDims.back().a;
  const bool isUnsigned = isUnsignedElement(spec.aType);
  loop(scope, range.outerBegin, range.outerEnd, 1, [&](Scope &scope, Value outer) {
    Value source = scope.memory.add(tile.m0, outerOffset(scope.memory, outer, &ContractionDim::a));
    loop(scope, range.innerBegin, range.innerEnd, 1, [&](Scope &scope, Value inner) {
      VectorMemory &memory = scope.memory;
      Value from = memory.add(source, memory.mulConstant(inner, step));
      Value place = memory.mulConstant(packedPosition(scope, whole, outer, inner), rows);
      prefetchRow(memory, spec.aType, tile.aMatrix, memory.addConstant(from, rowsAhead * step), blockRows);
      auto copy = [&](Scope &scope, Value row, int64_t count) {
        VectorMemory &memory = scope.memory;
        Value to = memory.add(memory.mulConstant(memory.add(tile.aSlot, row), aScratchRow), place);
        for (int64_t begin = 0, width; begin < count; begin += width) {
          width = std::min<int64_t>(panel.lanes, llvm::bit_floor(uint64_t(count - begin)));
          Value value = memory.load(
              memory.address(tile.aMatrix, spec.aType, memory.addConstant(memory.add(from, row), begin)),
              spec.aType, width);
          value = memory.convert(value, acc, isUnsigned);
          memory.store(value, memory.address(aScratch, acc, memory.addConstant(to, begin)));
        }
      };
      emitTilesOfRows(scope, tile, copy);
    });
  });
}

/// Rows of the tile, converted to the accumulator's type, as [row][k].
void RowPacker::emitPackA(Scope &scope, const RowBlock &tile, const KRange &range) {
  if (aByDepth)
    return emitPackAByDepth(scope, tile, range);
  if (aByTile)
    return emitPackAByTile(scope, tile, range, range);
  int64_t stride = kDims.back().a;
  bool isUnsigned = isUnsignedElement(spec.aType);
  loop(scope, scope.memory.constant(0), tile.rowCount, 1, [&](Scope &scope, Value row) {
    Value from = rowOffset(scope.memory, scope.memory.add(tile.m0, row));
    Value to = scope.memory.mulConstant(row, aScratchRow);
    Type packed = pairs ? spec.aType : acc;
    loop(scope, range.outerBegin, range.outerEnd, 1, [&](Scope &scope, Value outer) {
      Value source = scope.memory.add(from, outerOffset(scope.memory, outer, &ContractionDim::a));
      auto copy = [&](Scope &scope, Value inner, int64_t width) {
        VectorMemory &memory = scope.memory;
        Value offset = memory.add(source, memory.mulConstant(inner, stride));
        Value value = memory.load(memory.address(tile.aMatrix, spec.aType, offset), spec.aType, width);
        value = memory.convert(value, packed, isUnsigned);
        Value position = memory.add(to, packedPosition(scope, range, outer, inner));
        memory.store(value, memory.address(aScratch, packed, position));
      };
      Value middle = range.innerBegin;
      if (stride == 1) {
        Value extent = scope.sub(range.innerEnd, range.innerBegin);
        Value whole = scope.memory.mulConstant(scope.memory.divRem(extent, panel.lanes).first, panel.lanes);
        middle = scope.memory.add(range.innerBegin, whole);
        loop(scope, range.innerBegin, middle, panel.lanes,
             [&](Scope &scope, Value inner) { copy(scope, inner, panel.lanes); });
      }
      loop(scope, middle, range.innerEnd, 1, [&](Scope &scope, Value inner) { copy(scope, inner, 1); });
    });
    if (pairs && K % 2 != 0) { // what stands beside half a pair
      Value end = scope.memory.add(to, countRange(scope, range));
      scope.memory.store(scope.memory.zero(packed, 1), scope.memory.address(aScratch, packed, end));
    }
  });
}

/// A tile of the launch is a block of rows and a run of k's, so that what is written stays in a cache until
/// its lines are full.
GeneratedKernel RowPacker::generateCopy(MLIRContext &context) {
  KernelFunction kernel(context, {{spec.aType, {}, {}}, {acc, {}, {}}});
  Scope scope(kernel.builder(), kernel.loc(), processor);
  aScratch = kernel.pointer(1);
  constexpr int64_t run = 64;
  const int64_t runs = divideUp(innerK, run), together = roundUp(64, rows), blocks = divideUp(M, together);
  loop(scope, kernel.begin(), kernel.end(), 1, [&](Scope &scope, Value index) {
    VectorMemory &memory = scope.memory;
    SmallVector<Value> at = memory.delinearize(index, {blocks, outerK, runs});
    RowBlock tile;
    tile.aMatrix = kernel.pointer(0);
    tile.m0 = tile.aSlot = memory.mulConstant(at[0], together);
    tile.rowCount = memory.minConstant(scope.sub(memory.constant(M), tile.m0), together);
    KRange range{at[1], memory.addConstant(at[1], 1), memory.mulConstant(at[2], run), Value()};
    range.innerEnd = memory.minConstant(memory.addConstant(range.innerBegin, run), innerK);
    emitPackAByTile(scope, tile, range, wholeRange(memory));
  });
  GeneratedKernel result;
  result.tiles = blocks * outerK * runs;
  result.buffers = 2;
  result.module = kernel.take();
  return result;
}

int64_t copiedElements(const Processor &processor, const ContractionSpec &spec) {
  ContractionBlocking blocking(processor, spec);
  const int64_t bytes = blocking.copiedElements() * elementBytes(spec.accumulate),
                cache = processor.cacheBytes();
  // A small part of the second-level cache is filled again in no time, and takes no memory of the plan; the
  // third level is taken to hold the rest.
  const bool pays = blocking.kBlocks == 1 && bytes > cache / 4 && bytes <= kThirdLevel * cache;
  return blocking.aByTile && blocking.batchCount == 1 && pays ? blocking.copiedElements() : 0;
}

GeneratedKernel generateRowCopy(MLIRContext &context, const Processor &processor,
                                const ContractionSpec &spec) {
  KernelFunction::loadDialects(context);
  ContractionSpec copied = spec;
  copied.copied = true;
  return RowPacker(processor, copied).generateCopy(context);
}

} // namespace colossal::cpu
