// Packing of B into panels: [panel][k][width], so that the contraction reads one contiguous stream per panel.
#include "ContractionBlocking.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace colossal::cpu {

PanelShape panelShape(const Target &target, Type accumulate, int64_t n) {
  int64_t lanes = target.lanes(accumulate);
  int64_t vectors = (n + lanes - 1) / lanes;
  bool manyRegisters = target.vectorRegisters() == 32;
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

int64_t packedElements(const Target &target, Type, Type accumulate, int64_t n, int64_t k) {
  PanelShape panel = panelShape(target, accumulate, n);
  return panel.count(n) * k * panel.width();
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
  PanelPacker(OpBuilder &b, Location loc, const Target &target, const PanelShape &panel,
              ArrayRef<ContractionDim> n, ArrayRef<ContractionDim> k, Value source, Type sourceType,
              Value destination, Type destinationType, Value n0)
      : b(b), loc(loc), target(target), panel(panel), n(collapse(n, false, true, false)), k(k),
        source(source), sourceType(sourceType), destination(destination), destinationType(destinationType),
        n0(n0), columns(product(n)) {}

  void emit(const KRange &range) {
    ArrayRef<ContractionDim> outerDims = k.drop_back();
    bool byColumns = n.size() == 1 && n[0].b == 1;
    // Transposing reads whole vectors along k, of any column.
    bool byRows =
        !byColumns && k.back().b == 1 && k.back().size >= panel.lanes && llvm::isPowerOf2_64(panel.lanes);
    VectorMemory memory(b, loc, target);
    SmallVector<SmallVector<Value>> laneOffsets;
    if (!byColumns)
      for (int64_t v = 0; v < panel.vectors; ++v)
        laneOffsets.push_back(columnOffsets(v));

    scf::ForOp::create(b, loc, range.outerBegin, range.outerEnd, memory.constant(1), ValueRange(),
                       [&](OpBuilder &inner, Location, Value outer, ValueRange) {
                         PanelPacker nested(*this, inner);
                         VectorMemory memory(inner, loc, target);
                         Value sourceOffset = memory.linearize(memory.delinearize(outer, sizesOf(outerDims)),
                                                               stridesOf(outerDims, &ContractionDim::b));
                         Value extent = arith::SubIOp::create(inner, loc, range.innerEnd, range.innerBegin);
                         Value position = arith::SubIOp::create(inner, loc, outer, range.outerBegin);
                         position = arith::MulIOp::create(inner, loc, position, extent);
                         if (byColumns)
                           nested.copyColumns(range, sourceOffset, position);
                         else if (byRows)
                           nested.transposeRows(range, sourceOffset, position, laneOffsets);
                         else
                           nested.gatherColumns(range, sourceOffset, position, laneOffsets);
                         scf::YieldOp::create(inner, loc);
                       });
  }

private:
  PanelPacker(const PanelPacker &other, OpBuilder &inner)
      : b(inner), loc(other.loc), target(other.target), panel(other.panel), n(other.n), k(other.k),
        source(other.source), sourceType(other.sourceType), destination(other.destination),
        destinationType(other.destinationType), n0(other.n0), columns(other.columns) {}

  /// Offsets in the source of the columns of vector `v` of the panel, i64 scalars.
  SmallVector<Value> columnOffsets(int64_t v) {
    VectorMemory memory(b, loc, target);
    SmallVector<Value> result;
    for (int64_t lane = 0; lane < panel.lanes; ++lane) {
      Value column = memory.minConstant(memory.addConstant(n0, v * panel.lanes + lane), columns - 1);
      result.push_back(
          memory.linearize(memory.delinearize(column, sizesOf(n)), stridesOf(n, &ContractionDim::b)));
    }
    return result;
  }

  /// position of row `inner` (absolute) in the destination, in elements
  Value destinationOffset(VectorMemory &memory, OpBuilder &b, const KRange &range, Value position,
                          Value inner) {
    Value row = memory.add(position, arith::SubIOp::create(b, loc, inner, range.innerBegin));
    return memory.mulConstant(row, panel.width());
  }

  template <typename Body>
  void loop(OpBuilder &b, Value begin, Value end, int64_t step, Body body) {
    VectorMemory memory(b, loc, target);
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
        VectorMemory memory(outer, loc, target);
        Value left = arith::SubIOp::create(outer, loc, memory.constant(columns), n0);
        for (int64_t v = 0; v < panel.vectors; ++v)
          masks[v] = memory.prefixMask(panel.lanes, memory.addConstant(left, -v * panel.lanes));
      }
      loop(outer, range.innerBegin, range.innerEnd, 1, [&](OpBuilder &b, Value inner) {
        VectorMemory memory(b, loc, target);
        Value from = memory.add(memory.add(sourceOffset, n0), memory.mulConstant(inner, k.back().b));
        Value to = destinationOffset(memory, b, range, position, inner);
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
    VectorMemory memory(b, loc, target);
    Value whole = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle,
                                        memory.addConstant(n0, panel.width()), memory.constant(columns));
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

  void transposeRows(const KRange &range, Value sourceOffset, Value position,
                     ArrayRef<SmallVector<Value>> laneOffsets) {
    VectorMemory memory(b, loc, target);
    Value count = arith::SubIOp::create(b, loc, range.innerEnd, range.innerBegin);
    Value whole = memory.mulConstant(memory.divRem(count, panel.lanes).first, panel.lanes);
    Value middle = memory.add(range.innerBegin, whole);
    loop(b, range.innerBegin, middle, panel.lanes, [&](OpBuilder &b, Value inner) {
      VectorMemory memory(b, loc, target);
      Value from = memory.add(sourceOffset, inner);
      Value to = destinationOffset(memory, b, range, position, inner);
      for (int64_t v = 0; v < panel.vectors; ++v) {
        SmallVector<Value> rows;
        for (Value column : laneOffsets[v]) {
          Value row = memory.load(memory.address(source, sourceType, memory.add(from, column)), sourceType,
                                  panel.lanes);
          rows.push_back(memory.convert(row, destinationType, isUnsignedElement(sourceType)));
        }
        memory.transpose(rows);
        for (int64_t row = 0; row < panel.lanes; ++row)
          memory.store(rows[row],
                       memory.address(destination, destinationType,
                                      memory.addConstant(to, row * panel.width() + v * panel.lanes)));
      }
    });
    KRange rest = {range.outerBegin, range.outerEnd, middle, range.innerEnd};
    gatherColumns(rest, sourceOffset, memory.add(position, whole), laneOffsets);
  }

  void gatherColumns(const KRange &range, Value sourceOffset, Value position,
                     ArrayRef<SmallVector<Value>> laneOffsets) {
    SmallVector<Value> offsets;
    for (ArrayRef<Value> lanes : laneOffsets)
      offsets.push_back(
          vector::FromElementsOp::create(b, loc, VectorType::get({panel.lanes}, b.getI64Type()), lanes));
    loop(b, range.innerBegin, range.innerEnd, 1, [&](OpBuilder &b, Value inner) {
      VectorMemory memory(b, loc, target);
      Value from = memory.add(sourceOffset, memory.mulConstant(inner, k.back().b));
      Value row = memory.address(source, sourceType, from);
      Value to = destinationOffset(memory, b, range, position, inner);
      for (int64_t v = 0; v < panel.vectors; ++v)
        store(memory, memory.gather(row, sourceType, offsets[v]), memory.addConstant(to, v * panel.lanes));
    });
  }

  void store(VectorMemory &memory, Value value, Value offset) {
    value = memory.convert(value, destinationType, isUnsignedElement(sourceType));
    memory.store(value, memory.address(destination, destinationType, offset));
  }

  OpBuilder &b;
  Location loc;
  const Target &target;
  const PanelShape &panel;
  SmallVector<ContractionDim> n;
  ArrayRef<ContractionDim> k;
  Value source;
  Type sourceType;
  Value destination;
  Type destinationType;
  Value n0;
  int64_t columns;
};

} // namespace

void emitPackPanel(OpBuilder &b, Location loc, const Target &target, const PanelShape &panel,
                   ArrayRef<ContractionDim> n, ArrayRef<ContractionDim> k, Value source, Type sourceType,
                   Value destination, Type destinationType, Value n0, const KRange &range) {
  PanelPacker(b, loc, target, panel, n, k, source, sourceType, destination, destinationType, n0).emit(range);
}

GeneratedKernel generatePackWeights(MLIRContext &context, const Target &target, Type bType, Type accumulate,
                                    ArrayRef<ContractionDim> batch, ArrayRef<ContractionDim> n,
                                    ArrayRef<ContractionDim> k) {
  PanelShape panel = panelShape(target, accumulate, product(n));
  int64_t columns = product(n), depth = product(k), panels = panel.count(columns);
  KernelFunction kernel(context, {{bType, {}, {}}, {bType, {panels, depth, panel.width()}, {}}});
  OpBuilder &b = kernel.builder();
  Location loc = kernel.loc();
  VectorMemory outer(b, loc, target);
  SmallVector<ContractionDim> kDims = collapse(k, false, true, false);
  scf::ForOp::create(b, loc, kernel.begin(), kernel.end(), outer.constant(1), ValueRange(),
                     [&](OpBuilder &b, Location, Value tile, ValueRange) {
                       VectorMemory memory(b, loc, target);
                       auto [matrix, index] = memory.divRem(tile, panels);
                       if (panels == 1)
                         index = memory.constant(0);
                       Value offset = memory.linearize(memory.delinearize(matrix, sizesOf(batch)),
                                                       stridesOf(batch, &ContractionDim::b));
                       Value source = memory.address(kernel.pointer(0), bType, offset);
                       Value destination = memory.address(kernel.pointer(1), bType,
                                                          memory.mulConstant(tile, depth * panel.width()));
                       int64_t innerSize = kDims.back().size;
                       KRange range = {memory.constant(0),
                                       memory.constant(depth / std::max<int64_t>(1, innerSize)),
                                       memory.constant(0), memory.constant(innerSize)};
                       emitPackPanel(b, loc, target, panel, n, kDims, source, bType, destination, bType,
                                     memory.mulConstant(index, panel.width()), range);
                       scf::YieldOp::create(b, loc);
                     });
  GeneratedKernel result;
  result.tiles = product(batch) * panels * (depth != 0);
  result.buffers = 2;
  result.module = kernel.take();
  return result;
}

} // namespace colossal::cpu
