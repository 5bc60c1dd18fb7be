// The contraction kernel: a register tile of rows x vectors accumulators, panels of B, blocks of k.
//
// A tile of the launch is one panel of n, or a group of them, times a block of rows m. For each block of k,
// the register tiles of the block add to sums in the scratch; the epilogue then walks the sums once. So the
// epilogue's code is emitted at most twice (whole vectors, and the vector that N cuts), however many
// register-tile variants there are. ContractionBlocking.cpp decides how large all of these are.
#include "colossal/Codegen/CPU/ContractionKernel.h"
#include "RowPacker.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace colossal::cpu {

namespace {

/// Emits the kernel in the sizes that its base has fixed.
class ContractionEmitter : private RowPacker {
public:
  ContractionEmitter(MLIRContext &context, const Processor &processor, const ContractionSpec &spec)
      : RowPacker(processor, spec), context(context) {}

  GeneratedKernel generate() {
    SmallVector<BufferSpec> buffers = {{spec.copied ? acc : spec.aType, {}, {}}, {spec.bType, {}, {}}};
    buffers.append(spec.extraInputs.begin(), spec.extraInputs.end());
    cBuffer = buffers.size();
    if (spec.writesC)
      buffers.push_back({spec.cType, {}, {}, spec.noaliasC});
    firstOutput = buffers.size();
    buffers.append(spec.extraOutputs.begin(), spec.extraOutputs.end());
    KernelFunction kernel(context, buffers, spec.params, scratchBytes);
    function = &kernel;
    Location loc = kernel.loc();
    Scope scope(kernel.builder(), loc, processor);
    accScratch = kernel.scratch();
    aScratch = spec.copied
                   ? kernel.pointer(0)
                   : scope.memory.address(kernel.scratch(), IntegerType::get(&context, 8), aScratchOffset);
    bScratch = scope.memory.address(kernel.scratch(), IntegerType::get(&context, 8), bScratchOffset);
    Value none = scope.memory.constant(-1);
    if (M != 0 && N != 0 && batchCount != 0)
      scf::ForOp::create(kernel.builder(), loc, kernel.begin(), kernel.end(), scope.memory.constant(1),
                         ValueRange{none, none}, [&](OpBuilder &b, Location, Value tile, ValueRange packed) {
                           Scope inner(b, loc, processor);
                           SmallVector<Value> now = emitTile(inner, tile, kernel.begin(), packed);
                           scf::YieldOp::create(b, loc, now);
                         });
    GeneratedKernel result;
    result.tiles =
        M == 0 || N == 0 ? 0 : batchCount * supers * divideUp(panels, groupPanels) * blocksPerSuper;
    result.scratchBytes = scratchBytes;
    result.buffers = buffers.size();
    result.params = spec.params;
    result.module = kernel.take();
    function = nullptr; // it ends here
    return result;
  }

private:
  /// Where a tile stands.
  struct Tile : RowBlock {
    SmallVector<Value> batch;
    Value batchLinear, panelIndex, n0, isLastPanel;
    Value bMatrix; // address of the batch's matrix
    Value sums;    // where the panel's sums are made, in the scratch
  };

  void setPanel(Scope &scope, Tile &tile, Value panelIndex) {
    VectorMemory &memory = scope.memory;
    tile.panelIndex = panelIndex;
    tile.n0 = memory.mulConstant(panelIndex, panel.width());
    if (tailVectors != panel.vectors)
      tile.isLastPanel =
          scope.compare(arith::CmpIPredicate::eq, tile.panelIndex, memory.constant(panels - 1));
  }

  /// `first` is the launch's first tile for this thread; `packed` says what the scratch holds.
  SmallVector<Value> emitTile(Scope &scope, Value index, Value first, ValueRange packed) {
    VectorMemory &memory = scope.memory;
    SmallVector<Value> position =
        memory.delinearize(index, {batchCount, supers, divideUp(panels, groupPanels), blocksPerSuper});
    Tile tile;
    tile.batchLinear = position[0];
    tile.batch = memory.delinearize(position[0], sizesOf(spec.batch));
    tile.sums = accScratch;
    Value block = memory.add(memory.mulConstant(position[1], blocksPerSuper), position[3]);
    tile.m0 = memory.mulConstant(block, blockRows);
    tile.rowCount = memory.minConstant(scope.sub(memory.constant(M), tile.m0), blockRows);
    // Where the blocks do not divide into equal shares, the last share's last tiles lie beyond M and do
    // nothing.
    if ((supers * blocksPerSuper - 1) * blockRows >= M)
      tile.rowCount = arith::MaxSIOp::create(scope.b, scope.loc, tile.rowCount, memory.constant(0));
    tile.aMatrix = memory.address(function->pointer(0), spec.aType,
                                  memory.linearize(tile.batch, stridesOf(spec.batch, &ContractionDim::a)));
    Value ofB = memory.linearize(tile.batch, stridesOf(spec.batch, &ContractionDim::b));
    tile.bMatrix = memory.address(function->pointer(1), spec.bType,
                                  spec.packed ? ofB : memory.addConstant(ofB, spec.bFirst));

    if (kBlocks > 1) {
      emitGroup(scope, tile, memory.mulConstant(position[2], groupPanels));
      return {packed[0], packed[1]};
    }
    setPanel(scope, tile, position[2]);
    Value aId = memory.add(memory.mulConstant(tile.batchLinear, supers * blocksPerSuper), block);
    Value bId = memory.add(memory.mulConstant(tile.batchLinear, panels), tile.panelIndex);
    auto packIf = [&](Value isNew, llvm::function_ref<void(Scope &)> emit) { branch(scope, isNew, emit); };
    fetchResults(scope, tile);
    if (spec.copied)
      tile.aSlot = tile.m0;
    KRange range = wholeRange(memory);
    auto packRows = [&](Scope &scope) { emitPackA(scope, tile, range); };
    if (aByTile && !spec.copied) {
      // The first tiles in a super-block, or since the thread began there, each see another block of rows.
      tile.aSlot = memory.mulConstant(position[3], blockRows);
      Value seen = memory.add(memory.mulConstant(position[2], blocksPerSuper), position[3]);
      seen = arith::MinSIOp::create(scope.b, scope.loc, seen, scope.sub(index, first));
      packIf(scope.compare(arith::CmpIPredicate::slt, seen, memory.constant(blocksPerSuper)), packRows);
    } else if (packA && !spec.copied)
      packIf(scope.compare(arith::CmpIPredicate::ne, aId, packed[0]), packRows);
    if (packB || widenB)
      packIf(scope.compare(arith::CmpIPredicate::ne, bId, packed[1]),
             [&](Scope &scope) { emitPanel(scope, tile, range); });
    emitRegisterTiles(scope, tile, range, /*accumulating=*/false);
    emitEpilogue(scope, tile);
    return {aId, bId};
  }

  /// A tile whose k is several blocks: of each block the rows are copied once, and panel by panel what they
  /// give is added to the sums.
  void emitGroup(Scope &scope, Tile &tile, Value firstPanel) {
    VectorMemory &memory = scope.memory;
    tile.aSlot = memory.constant(0);
    Value elements = memory.mulConstant(tile.rowCount, panel.width());
    Value count = memory.minConstant(scope.sub(memory.constant(panels), firstPanel), groupPanels);
    auto eachPanel = [&](Scope &scope, llvm::function_ref<void(Scope &, Tile &)> body) {
      auto emit = [&](Scope &scope, Value i) {
        Tile inner = tile;
        setPanel(scope, inner, scope.memory.add(firstPanel, i));
        inner.sums =
            scope.memory.address(accScratch, acc, scope.memory.mulConstant(i, blockRows * panel.width()));
        body(scope, inner);
      };
      loop(scope, scope.memory.constant(0), count, 1, emit);
    };
    eachPanel(scope, [&](Scope &scope, Tile &tile) {
      loop(scope, scope.memory.constant(0), elements, panel.lanes, [&](Scope &scope, Value element) {
        Value place = scope.memory.address(tile.sums, acc, element);
        scope.memory.store(scope.memory.zero(acc, panel.lanes), place);
      });
    });
    loop(scope, memory.constant(0), memory.constant(kBlocks), 1, [&](Scope &scope, Value kBlock) {
      VectorMemory &memory = scope.memory;
      auto [outer, inner] = memory.divRem(kBlock, innerBlocks);
      KRange range;
      range.outerBegin = memory.mulConstant(outer, outerStep);
      range.outerEnd = memory.minConstant(memory.addConstant(range.outerBegin, outerStep), outerK);
      range.innerBegin = memory.mulConstant(inner, innerStep);
      range.innerEnd = memory.minConstant(memory.addConstant(range.innerBegin, innerStep), innerK);
      if (packA)
        emitPackA(scope, tile, range);
      Value isLast = scope.compare(arith::CmpIPredicate::eq, kBlock, memory.constant(kBlocks - 1));
      eachPanel(scope, [&](Scope &scope, Tile &tile) {
        branch(scope, isLast, [&](Scope &scope) { fetchResults(scope, tile); });
        if (packB || widenB)
          emitPanel(scope, tile, range);
        emitRegisterTiles(scope, tile, range, /*accumulating=*/true);
      });
    });
    eachPanel(scope, [&](Scope &scope, Tile &tile) { emitEpilogue(scope, tile); });
  }

  /// The range of the tile's panel, in the scratch.
  void emitPanel(Scope &scope, const Tile &tile, const KRange &range) {
    packB ? emitPackB(scope, tile, range) : emitWidenB(scope, tile, range);
  }

  /// Fetches what the epilogue will read and write: a row of a tile is some bytes of a page of its own, which
  /// the processor does not follow by itself. A prefetch may miss where n is several dimensions.
  void fetchResults(Scope &scope, const Tile &tile) {
    // Fewer steps of k do not cover the latency, nor repay the instructions.
    constexpr int64_t enoughSteps = 256, lineBytes = 64;
    if (!spec.writesC || K < enoughSteps || (!spec.n.empty() && spec.n.back().c != 1))
      return;
    loop(scope, scope.memory.constant(0), tile.rowCount, 1, [&](Scope &scope, Value row) {
      VectorMemory &memory = scope.memory;
      Value offset = memory.linearize(tile.batch, stridesOf(spec.batch, &ContractionDim::c));
      auto add = [&](ArrayRef<ContractionDim> dims, Value index) {
        offset = memory.add(offset, memory.linearize(memory.delinearize(index, sizesOf(dims)),
                                                     stridesOf(dims, &ContractionDim::c)));
      };
      add(spec.m, memory.add(tile.m0, row));
      add(spec.n, tile.n0);
      auto fetch = [&](unsigned buffer, Type type, bool forWriting) {
        const int64_t line = std::max<int64_t>(1, lineBytes / elementBytes(type));
        for (int64_t column = 0; column < panel.width(); column += line)
          memory.prefetch(memory.address(function->pointer(buffer), type, memory.addConstant(offset, column)),
                          /*locality=*/2, forWriting);
      };
      fetch(cBuffer, spec.cType, true);
      for (unsigned input : spec.inputsLikeC)
        fetch(2 + input, spec.extraInputs[input].element, false);
      for (unsigned output : spec.outputsLikeC)
        fetch(firstOutput + output, spec.extraOutputs[output].element, true);
    });
  }

  void emitPackB(Scope &scope, const Tile &tile, const KRange &range) {
    emitPackPanel(scope.b, scope.loc, processor, panel, spec.n, kDims, tile.bMatrix, spec.bType, bScratch,
                  pairs ? spec.bType : acc, tile.n0, range, pairs);
  }

  /// The tile's panel of the packed B.
  Value packedPanel(VectorMemory &memory, const Tile &tile) {
    const int64_t depth = pairs ? roundUp(K, 2) : K;
    return memory.address(tile.bMatrix, spec.bType,
                          memory.mulConstant(tile.panelIndex, depth * panel.width()));
  }

  /// A range of the packed panel in the accumulator's type: converted once for all rows of the tile.
  void emitWidenB(Scope &scope, const Tile &tile, const KRange &range) {
    Value source = packedPanel(scope.memory, tile);
    loop(scope, range.outerBegin, range.outerEnd, 1, [&](Scope &scope, Value outer) {
      loop(scope, range.innerBegin, range.innerEnd, 1, [&](Scope &scope, Value inner) {
        VectorMemory &memory = scope.memory;
        Value k = memory.add(memory.mulConstant(outer, innerK), inner);
        Value from = memory.address(source, spec.bType, memory.mulConstant(k, panel.width()));
        Value to = memory.address(
            bScratch, acc, memory.mulConstant(packedPosition(scope, range, outer, inner), panel.width()));
        for (int64_t v = 0; v < panel.vectors; ++v) {
          Value loaded =
              memory.load(memory.address(from, spec.bType, v * panel.lanes), spec.bType, panel.lanes);
          Value place = memory.address(to, acc, v * panel.lanes);
          memory.store(memory.convert(loaded, acc, isUnsignedElement(spec.bType)), place);
        }
      });
    });
  }

  void emitRegisterTiles(Scope &scope, const Tile &tile, const KRange &range, bool accumulating) {
    auto variants = [&](Scope &scope, Value row, int64_t count) {
      auto emit = [&](int64_t vectors) {
        return [&, vectors](Scope &scope) {
          emitRegisterTile(scope, tile, range, row, count, vectors, accumulating);
        };
      };
      if (tile.isLastPanel && panels > 1)
        branch(scope, tile.isLastPanel, emit(tailVectors), emit(panel.vectors));
      else
        emit(tile.isLastPanel ? tailVectors : panel.vectors)(scope);
    };
    emitTilesOfRows(scope, tile, variants);
  }

  /// Sums of `count` rows from `row` of the tile by `vectors` vectors, over the range of k, in the scratch.
  void emitRegisterTile(Scope &scope, const Tile &tile, const KRange &range, Value row, int64_t count,
                        int64_t vectors, bool accumulating) {
    VectorMemory &memory = scope.memory;
    int64_t accumulators = count * vectors;
    // Small tiles take several k at a time, each with its own sums, to hide the latency of the additions.
    int64_t unroll = accumulators >= 9 ? 1 : accumulators >= 5 ? 2 : 4;
    while (unroll > 1 && innerK < 2 * unroll)
      unroll /= 2;
    auto sumAddress = [&](Scope &scope, int64_t r, int64_t v) {
      Value offset = scope.memory.mulConstant(row, panel.width());
      return scope.memory.address(scope.memory.address(tile.sums, acc, offset), acc,
                                  r * panel.width() + v * panel.lanes);
    };
    SmallVector<Value> initial;
    for (int64_t u = 0; u < unroll; ++u)
      for (int64_t r = 0; r < count; ++r)
        for (int64_t v = 0; v < vectors; ++v)
          initial.push_back(accumulating && u == 0 ? memory.load(sumAddress(scope, r, v), acc, panel.lanes)
                                                   : memory.zero(acc, panel.lanes));

    // Offsets of the rows in A: constants apart from the first where m is one dimension.
    SmallVector<Value> rowBases;
    for (int64_t r = 0; r < count; ++r) {
      if (aByTile)
        rowBases.push_back(
            memory.addConstant(memory.mulConstant(memory.add(tile.aSlot, row), aScratchRow), r));
      else if (packA)
        rowBases.push_back(memory.mulConstant(memory.addConstant(row, r), aByDepth ? 2 : aScratchRow));
      else if (aDims.size() > 1 || r == 0)
        rowBases.push_back(rowOffset(memory, memory.addConstant(memory.add(tile.m0, row), r)));
    }
    // What is copied of A follows from one run of k to the next, as what is copied of B does.
    const bool isLinear = packA && (pairs || aByTile);
    const int64_t together = pairs ? 2 : 1; // k's of one multiplication
    int64_t rowStride = aByTile ? 1 : aByDepth ? 2 : packA ? aScratchRow : aDims[0].a;
    bool constantRows = packA || aDims.size() == 1;
    int64_t aStep = aByTile ? rows : aByDepth ? aScratchRow : packA ? 1 : kDims.back().a;
    bool inPlace = !spec.packed && !packB;
    Value panelBase, loadedPanel = spec.packed ? packedPanel(memory, tile) : Value();
    if (packB || widenB)
      panelBase = bScratch;
    else
      panelBase = spec.packed ? loadedPanel : memory.address(tile.bMatrix, spec.bType, tile.n0);
    Type panelType = (packB || widenB) && !pairs ? acc : spec.bType;
    Type leftType = pairs ? spec.aType : acc;
    Value mask;
    if (inPlace && N % panel.lanes != 0)
      mask = memory.prefixMask(panel.lanes,
                               scope.sub(memory.constant(N - (vectors - 1) * panel.lanes), tile.n0));

    auto step = [&](Scope &scope, Value outer, Value aOuter, Value bOuter, Value inner, int64_t ways,
                    SmallVector<Value> &sums) {
      VectorMemory &memory = scope.memory;
      Value aOffset = aByDepth   ? memory.mulConstant(inner, aScratchRow)
                      : aByTile  ? memory.mulConstant(inner, rows)
                      : isLinear ? inner
                      : packA    ? packedPosition(scope, range, outer, inner)
                                 : memory.add(aOuter, memory.mulConstant(inner, aStep));
      Value bOffset;
      if (isLinear && packB)
        bOffset = memory.mulConstant(inner, panel.width());
      else if (isLinear)
        bOffset = memory.mulConstant(memory.add(outer, inner), panel.width());
      else if (packB || widenB)
        bOffset = memory.mulConstant(packedPosition(scope, range, outer, inner), panel.width());
      else if (spec.packed)
        bOffset = memory.mulConstant(memory.add(memory.mulConstant(outer, innerK), inner), panel.width());
      else
        bOffset = memory.add(bOuter, memory.mulConstant(inner, kDims.back().b));
      int64_t bStep = inPlace ? kDims.back().b : panel.width();
      Value bAddress = memory.address(panelBase, panelType, bOffset);
      Value aFirst = memory.add(aOffset, rowBases[0]);
      Value aBase = packA ? aScratch : tile.aMatrix;
      Value aAddress = memory.address(aBase, packA && !pairs ? acc : spec.aType, aFirst);
      if (spec.packed)
        emitPrefetch(scope, tile, range, row, loadedPanel,
                     isLinear ? memory.add(outer, inner)
                              : memory.add(memory.mulConstant(outer, innerK), inner),
                     ways * together);
      for (int64_t u = 0; u < ways; ++u) {
        SmallVector<Value> right;
        for (int64_t v = 0; v < vectors; ++v) {
          if (pairs) {
            Value address = memory.address(bAddress, panelType, together * (u * bStep + v * panel.lanes));
            right.push_back(loadPairs(scope, address));
            continue;
          }
          Value address = memory.address(bAddress, panelType, u * bStep + v * panel.lanes);
          Value loaded =
              memory.load(address, panelType, panel.lanes, mask && v == vectors - 1 ? mask : Value());
          right.push_back(memory.convert(loaded, acc, isUnsignedElement(panelType)));
        }
        for (int64_t r = 0; r < count; ++r) {
          Value address =
              constantRows ? memory.address(aAddress, leftType, r * rowStride + u * together * aStep)
                           : memory.address(memory.address(aBase, leftType, memory.add(aOffset, rowBases[r])),
                                            leftType, u * together * aStep);
          Value left =
              pairs ? splatPair(scope, address) : memory.splat(memory.load(address, acc, 1), panel.lanes);
          for (int64_t v = 0; v < vectors; ++v) {
            Value &sum = sums[(u * count + r) * vectors + v];
            sum = pairs ? multiplyAddPairs(scope, left, right[v], sum)
                        : multiplyAdd(scope, left, right[v], sum);
          }
        }
      }
    };

    auto innerLoops = [&](Scope &scope, Value outer, ValueRange start) {
      if (isLinear) // the first k of the range
        outer = scope.memory.add(scope.memory.mulConstant(range.outerBegin, innerK), range.innerBegin);
      Value aOuter = packA ? Value() : outerOffset(scope.memory, outer, &ContractionDim::a);
      Value bOuter = inPlace ? outerOffset(scope.memory, outer, &ContractionDim::b) : Value();
      auto emit = [&](Scope &scope, Value begin, Value end, int64_t ways, ValueRange start) {
        auto op = scf::ForOp::create(scope.b, scope.loc, begin, end, scope.memory.constant(ways * together),
                                     start, [&](OpBuilder &b, Location loc, Value inner, ValueRange sums) {
                                       Scope nested(b, loc, processor);
                                       SmallVector<Value> next(sums);
                                       step(nested, outer, aOuter, bOuter, inner, ways, next);
                                       scf::YieldOp::create(b, loc, next);
                                     });
        return SmallVector<Value>(op.getResults());
      };
      Value begin = isLinear ? scope.memory.constant(0) : range.innerBegin;
      Value end = isLinear ? countRange(scope, range) : range.innerEnd;
      if (unroll == 1)
        return emit(scope, begin, end, 1, start);
      Value extent = scope.sub(end, begin);
      const int64_t step = unroll * together;
      Value whole = scope.memory.mulConstant(scope.memory.divRem(extent, step).first, step);
      Value middle = scope.memory.add(begin, whole);
      SmallVector<Value> sums = emit(scope, begin, middle, unroll, start);
      return emit(scope, middle, end, 1, sums);
    };

    SmallVector<Value> sums;
    if ((kDims.size() == 1 || isLinear) && K != 0) {
      sums = innerLoops(scope, memory.constant(0), initial);
    } else {
      auto op = scf::ForOp::create(scope.b, scope.loc, range.outerBegin, range.outerEnd, memory.constant(1),
                                   initial, [&](OpBuilder &b, Location loc, Value outer, ValueRange start) {
                                     Scope nested(b, loc, processor);
                                     scf::YieldOp::create(b, loc, innerLoops(nested, outer, start));
                                   });
      sums.assign(op.getResults().begin(), op.getResults().end());
    }
    for (int64_t r = 0; r < count; ++r)
      for (int64_t v = 0; v < vectors; ++v) {
        Value sum = sums[r * vectors + v];
        for (int64_t u = 1; u < unroll; ++u)
          sum = plus(scope, sum, sums[(u * count + r) * vectors + v]);
        memory.store(sum, sumAddress(scope, r, v));
      }
  }

  /// While one panel is used, the next one comes into the second-level cache: every pass of the rows over the
  /// panel fetches its share. A single pass streams, and fetches a fixed distance ahead.
  void emitPrefetch(Scope &scope, const Tile &tile, const KRange &range, Value row, Value panelBase, Value k,
                    int64_t ways) {
    const int64_t line = 64;
    int64_t bytes = panel.width() * elementBytes(spec.bType);
    int64_t passes = std::max<int64_t>(1, std::min(M, blocksPerSuper * blockRows) / rows);
    VectorMemory &memory = scope.memory;
    Type byte = scope.b.getI8Type();
    if (passes == 1) {
      Value here = memory.address(panelBase, byte, memory.mulConstant(k, bytes));
      for (int64_t ahead = 0; ahead < ways * bytes; ahead += line)
        memory.prefetch(memory.address(here, byte, streamDistance + ahead), 3);
      return;
    }
    if (kBlocks > 1 && kDims.size() == 1) {
      // The next block of k, and after the last one the next panel's first, which follows it in memory.
      int64_t blockPasses = std::max<int64_t>(1, std::min(M, blockRows) / rows),
              share = divideUp(bytes, blockPasses);
      Value block = memory.mulConstant(memory.addConstant(range.innerBegin, innerStep), bytes);
      Value offset = memory.add(block, memory.mulConstant(memory.divRem(row, rows).first, innerStep * share));
      Value inside = memory.mulConstant(scope.sub(k, range.innerBegin), share);
      Value next = memory.address(memory.address(panelBase, byte, offset), byte, inside);
      for (int64_t ahead = 0; ahead < ways * share; ahead += line)
        memory.prefetch(memory.address(next, byte, ahead), 2);
      return;
    }
    // This pass's share begins pass-fold into the next panel; a step of k moves on by the share of one k.
    int64_t share = divideUp(bytes, passes);
    Value m = memory.divRem(memory.add(tile.m0, row), blocksPerSuper * blockRows).second;
    Value pass = memory.divRem(m, rows).first;
    Value along = memory.mulConstant(k, share);
    Value offset = memory.add(memory.mulConstant(pass, K * share), along);
    Value next = memory.address(memory.address(panelBase, byte, K * bytes), byte, offset);
    for (int64_t ahead = 0; ahead < ways * share; ahead += line)
      memory.prefetch(memory.address(next, byte, ahead), 2);
  }

  /// Two k's of each column.
  Value loadPairs(Scope &scope, Value address) {
    Value bits = scope.memory.load(address, scope.b.getI16Type(), 2 * panel.lanes);
    return vector::BitCastOp::create(scope.b, scope.loc, pairsType(), bits);
  }
  /// Two k's of a row, for each column. They lie as bf16 do.
  Value splatPair(Scope &scope, Value address) {
    Value bits = LLVM::LoadOp::create(scope.b, scope.loc, scope.b.getI32Type(), address, /*alignment=*/2);
    return vector::BitCastOp::create(scope.b, scope.loc, pairsType(), scope.memory.splat(bits, panel.lanes));
  }
  VectorType pairsType() { return VectorType::get({2 * panel.lanes}, spec.bType); }
  Value multiplyAddPairs(Scope &scope, Value left, Value right, Value sum) {
    auto name = scope.b.getStringAttr("llvm.x86.avx512bf16.dpbf16ps.512");
    return LLVM::CallIntrinsicOp::create(scope.b, scope.loc, sum.getType(), name,
                                         ValueRange{sum, left, right})
        .getResult(0);
  }

  Value multiplyAdd(Scope &scope, Value left, Value right, Value sum) {
    if (isa<FloatType>(acc))
      return VectorMath(scope.b, scope.loc, processor).fma(left, right, sum);
    return plus(scope, sum, arith::MulIOp::create(scope.b, scope.loc, left, right));
  }
  Value plus(Scope &scope, Value lhs, Value rhs) {
    if (isa<FloatType>(acc))
      return arith::AddFOp::create(scope.b, scope.loc, lhs, rhs);
    return arith::AddIOp::create(scope.b, scope.loc, lhs, rhs);
  }

  void emitEpilogue(Scope &scope, const Tile &tile) {
    loop(scope, scope.memory.constant(0), tile.rowCount, 1, [&](Scope &scope, Value row) {
      VectorMemory &memory = scope.memory;
      Value m = memory.add(tile.m0, row);
      SmallVector<Value> mIndex = memory.delinearize(m, sizesOf(spec.m));
      Value sums = memory.address(tile.sums, acc, memory.mulConstant(row, panel.width()));
      auto one = [&](Scope &scope, Value lane0, Value mask) {
        emitVector(scope, tile, m, mIndex, sums, lane0, mask);
      };
      // Whole vectors of this panel, then the one that N cuts.
      Value left = scope.sub(memory.constant(N), tile.n0);
      Value whole = memory.constant(panel.width());
      if (N % panel.width() != 0)
        whole = memory.minConstant(memory.mulConstant(memory.divRem(left, panel.lanes).first, panel.lanes),
                                   panel.width());
      if (N >= panel.lanes)
        loop(scope, memory.constant(0), whole, panel.lanes,
             [&](Scope &scope, Value lane0) { one(scope, lane0, nullptr); });
      if (N % panel.lanes != 0) {
        Value cut = scope.compare(arith::CmpIPredicate::slt, whole, memory.minConstant(left, panel.width()));
        branch(scope, cut, [&](Scope &scope) {
          one(scope, whole, scope.memory.prefixMask(panel.lanes, N % panel.lanes));
        });
      }
    });
  }

  void emitVector(Scope &scope, const Tile &tile, Value m, ArrayRef<Value> mIndex, Value sums, Value lane0,
                  Value mask) {
    VectorMemory &memory = scope.memory;
    Value n = memory.add(tile.n0, lane0);
    SmallVector<int64_t> sizes = sizesOf(spec.n);
    EpilogueIndex index{*function, tile.batch, {}, memory.delinearize(n, sizes), m, n, panel.lanes, mask, {}};
    index.m.assign(mIndex.begin(), mIndex.end());
    int64_t above = product(ArrayRef<ContractionDim>(spec.n).drop_back(spec.n.empty() ? 0 : 1));
    if (above > 1 && sizes.back() % panel.lanes != 0) {
      SmallVector<SmallVector<Value>> lanes(sizes.size());
      for (int64_t lane = 0; lane < panel.lanes; ++lane) {
        Value column = memory.minConstant(memory.addConstant(n, lane), N - 1);
        for (auto [dim, value] : llvm::enumerate(memory.delinearize(column, sizes)))
          lanes[dim].push_back(value);
      }
      auto type = VectorType::get({panel.lanes}, scope.b.getI64Type());
      for (ArrayRef<Value> values : lanes)
        index.laneN.push_back(vector::FromElementsOp::create(scope.b, scope.loc, type, values));
    }
    Value value = memory.load(memory.address(sums, acc, lane0), acc, panel.lanes);
    if (spec.epilogue)
      value = spec.epilogue(scope.b, scope.loc, value, index);
    if (!value || !spec.writesC)
      return;
    value = memory.convert(value, spec.cType, isUnsignedElement(acc));
    EpilogueStrides strides = {stridesOf(spec.batch, &ContractionDim::c),
                               stridesOf(spec.m, &ContractionDim::c), stridesOf(spec.n, &ContractionDim::c)};
    // Dimensions whose columns lie one behind the other are one: lanes need no index each.
    if (SmallVector<ContractionDim> run = collapse(spec.n, false, false, true); run.size() == 1) {
      strides.n = {run[0].c};
      index.n = {n};
      index.laneN.clear();
    }
    storeAt(scope.b, scope.loc, processor, value, function->pointer(cBuffer), strides, index);
  }

  /// Bytes that a single pass over a panel fetches ahead: enough to cover the latency of memory.
  static constexpr int64_t streamDistance = 16384;

  MLIRContext &context;
  KernelFunction *function = nullptr;
  unsigned cBuffer = 0, firstOutput = 0;
  Value accScratch, bScratch;
};

std::string spelled(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

} // namespace

llvm::Expected<GeneratedKernel> generateContraction(MLIRContext &context, const Processor &processor,
                                                    const ContractionSpec &spec) {
  auto isInteger = [](Type type) {
    return type.isInteger(8) || type.isInteger(16) || type.isInteger(32) || type.isInteger(64);
  };
  auto isFloat = [](Type type) { return type.isF32() || type.isF64() || type.isF16() || type.isBF16(); };
  bool floats =
      isFloat(spec.aType) && isFloat(spec.bType) && (spec.accumulate.isF32() || spec.accumulate.isF64());
  bool integers = isInteger(spec.aType) && isInteger(spec.bType) && spec.accumulate.isSignlessInteger() &&
                  (spec.accumulate.isInteger(32) || spec.accumulate.isInteger(64));
  if (!floats && !integers)
    return llvm::createStringError("no contraction of " + spelled(spec.aType) + " and " +
                                   spelled(spec.bType) + " with sums of " + spelled(spec.accumulate));
  for (ArrayRef<ContractionDim> dims :
       {ArrayRef(spec.batch), ArrayRef(spec.m), ArrayRef(spec.n), ArrayRef(spec.k)})
    for (const ContractionDim &dim : dims)
      if (dim.size < 0)
        return llvm::createStringError("a contraction's dimension has the size " + std::to_string(dim.size));
  KernelFunction::loadDialects(context);
  return ContractionEmitter(context, processor, spec).generate();
}

} // namespace colossal::cpu
