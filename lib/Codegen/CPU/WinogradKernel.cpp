// Transforms of Winograd's convolution: a vector of channels of a piece is held in registers, and multiplied
// by the small matrix of each side, first along height, then along width.
//
// The input kernel writes whole vectors of each place. That of weights does, too: its lanes are out channels,
// the columns of the contraction's right side, which it so packs on the way. The output kernel puts the
// outputs of a piece, all channels, into its scratch, and then walks them once with the epilogue, whose code
// is so emitted at most twice.
#include "colossal/Codegen/CPU/WinogradKernel.h"
#include "ContractionBlocking.h"
#include "colossal/Codegen/Kernel/VectorMath.h"
#include "colossal/Codegen/Kernel/VectorMemory.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace colossal::cpu {

namespace {

/// A matrix of small constants, row-major.
struct Matrix {
  int64_t rows, columns;
  std::vector<double> values;
  double at(int64_t row, int64_t column) const { return values[row * columns + column]; }
};

/// The matrices of a tile size, over the points 0, 1, -1, 2, -2 and infinity (m = 4), or 0, 1, -1 and
/// infinity (m = 2).
Matrix inputMatrix(int64_t m) {
  if (m == 2)
    return {4, 4, {1, 0, -1, 0, 0, 1, 1, 0, 0, -1, 1, 0, 0, 1, 0, -1}};
  return {6, 6, {4, 0,  -5, 0, 1, 0, 0, -4, -4, 1,  1, 0, 0, 4, -4, -1, 1, 0,
                 0, -2, -1, 2, 1, 0, 0, 2,  -1, -2, 1, 0, 0, 4, 0,  -5, 0, 1}};
}
Matrix weightMatrix(int64_t m) {
  if (m == 2)
    return {4, 3, {1, 0, 0, 0.5, 0.5, 0.5, 0.5, -0.5, 0.5, 0, 0, 1}};
  return {6,
          3,
          {1. / 4, 0, 0, -1. / 6, -1. / 6, -1. / 6, -1. / 6, 1. / 6, -1. / 6, 1. / 24, 1. / 12, 1. / 6,
           1. / 24, -1. / 12, 1. / 6, 0, 0, 1}};
}
Matrix transposed(const Matrix &matrix) {
  Matrix result{matrix.columns, matrix.rows, {}};
  for (int64_t row = 0; row < result.rows; ++row)
    for (int64_t column = 0; column < result.columns; ++column)
      result.values.push_back(matrix.at(column, row));
  return result;
}
Matrix outputMatrix(int64_t m) {
  if (m == 2)
    return {2, 4, {1, 1, 1, 0, 0, 1, -1, -1}};
  return {4, 6, {1, 1, 1, 1, 1, 0, 0, 1, -1, 2, -2, 0, 0, 1, 1, 4, 4, 0, 0, 1, -1, 8, -8, 1}};
}

/// What both kernels emit with.
class WinogradEmitter {
public:
  WinogradEmitter(const Processor &processor, const WinogradShape &shape, OpBuilder &builder, Location loc)
      : processor(processor), shape(shape), f32(builder.getF32Type()), lanes(processor.lanes(f32)),
        builder(builder), loc(loc) {}

  VectorMemory memory(OpBuilder &b) { return VectorMemory(b, loc, processor); }

  template <typename Body>
  void loop(OpBuilder &b, Value begin, Value end, int64_t step, Body body) {
    scf::ForOp::create(b, loc, begin, end, memory(b).constant(step), ValueRange(),
                       [&](OpBuilder &inner, Location, Value index, ValueRange) {
                         body(inner, index);
                         scf::YieldOp::create(inner, loc);
                       });
  }

  /// Runs `body` for vectors of channels: whole ones, then what is left, under a mask.
  template <typename Body>
  void channels(OpBuilder &b, int64_t count, Body body) {
    VectorMemory memory = this->memory(b);
    int64_t whole = count / lanes * lanes;
    if (whole) {
      Value end = memory.constant(whole);
      loop(b, memory.constant(0), end, lanes,
           [&](OpBuilder &inner, Value first) { body(inner, first, Value()); });
    }
    if (whole != count) {
      Value mask = memory.prefixMask(lanes, count - whole);
      body(b, memory.constant(whole), mask);
    }
  }

  /// matrix x piece, where piece[i] stands for row i.
  SmallVector<Value> multiply(OpBuilder &b, const Matrix &matrix, ArrayRef<Value> piece) {
    VectorMath math(b, loc, processor);
    SmallVector<Value> result;
    for (int64_t row = 0; row < matrix.rows; ++row) {
      Value sum;
      // Factors of 1 first: they begin the sum without a multiplication.
      for (bool ones : {true, false})
        for (int64_t column = 0; column < matrix.columns; ++column) {
          double factor = matrix.at(row, column);
          if (factor == 0 || (factor == 1) != ones)
            continue;
          Value x = piece[column];
          if (!sum)
            sum = factor == 1 ? x : arith::MulFOp::create(b, loc, x, constant(b, factor)).getResult();
          else if (factor == 1)
            sum = arith::AddFOp::create(b, loc, sum, x);
          else if (factor == -1)
            sum = arith::SubFOp::create(b, loc, sum, x);
          else
            sum = math.fma(x, constant(b, factor), sum);
        }
      result.push_back(sum);
    }
    return result;
  }

  /// matrix x piece x matrix', piece square and row-major.
  SmallVector<Value> transform(OpBuilder &b, const Matrix &matrix, ArrayRef<Value> piece) {
    SmallVector<Value> half(matrix.rows * matrix.columns), result;
    for (int64_t column = 0; column < matrix.columns; ++column) {
      SmallVector<Value> line;
      for (int64_t row = 0; row < matrix.columns; ++row)
        line.push_back(piece[row * matrix.columns + column]);
      for (auto [row, value] : llvm::enumerate(multiply(b, matrix, line)))
        half[row * matrix.columns + column] = value;
    }
    for (int64_t row = 0; row < matrix.rows; ++row)
      llvm::append_range(
          result, multiply(b, matrix, ArrayRef<Value>(half).slice(row * matrix.columns, matrix.columns)));
    return result;
  }

  Value constant(OpBuilder &b, double value) {
    return memory(b).constantLike(VectorMemory::vectorOf(f32, lanes), value);
  }

  const Processor &processor;
  const WinogradShape &shape;
  Type f32;
  int64_t lanes;
  OpBuilder &builder;
  Location loc;
};

GeneratedKernel finish(KernelFunction &kernel, int64_t tiles) {
  GeneratedKernel result;
  result.tiles = tiles;
  result.scratchBytes = kernel.scratchBytes();
  result.buffers = kernel.bufferCount();
  result.params = kernel.paramCount();
  result.module = kernel.take();
  return result;
}

} // namespace

std::vector<float> winogradWeightMatrix(int64_t m) {
  Matrix g = weightMatrix(m);
  std::vector<float> result;
  for (int64_t y = 0; y < g.rows; ++y)
    for (int64_t x = 0; x < g.rows; ++x)
      for (int64_t i = 0; i < 3; ++i)
        for (int64_t j = 0; j < 3; ++j)
          result.push_back(static_cast<float>(g.at(y, i) * g.at(x, j)));
  return result;
}

GeneratedKernel generateWinogradInput(MLIRContext &context, const Processor &processor,
                                      const WinogradShape &shape, const std::array<int64_t, 3> &strides) {
  KernelFunction::loadDialects(context);
  Type f32 = Float32Type::get(&context);
  KernelFunction kernel(context, {{f32, {}, {}}, {f32, {}, {}}});
  WinogradEmitter e(processor, shape, kernel.builder(), kernel.loc());
  const int64_t side = shape.m + 2, count = shape.inputChannels;
  const Matrix matrix = inputMatrix(shape.m);
  e.loop(kernel.builder(), kernel.begin(), kernel.end(), 1, [&](OpBuilder &b, Value piece) {
    VectorMemory memory = e.memory(b);
    SmallVector<Value> at = memory.delinearize(piece, {shape.batch, shape.rows(), shape.columns()});
    // A piece that the border cuts reads the last row and column again; what comes of them is not stored.
    auto offsets = [&](Value index, int64_t extent, int64_t stride) {
      SmallVector<Value> result;
      for (int64_t i = 0; i < side; ++i) {
        Value place = memory.addConstant(memory.mulConstant(index, shape.m), i);
        if (extent % shape.m)
          place = memory.minConstant(place, extent + 1);
        result.push_back(memory.mulConstant(place, stride));
      }
      return result;
    };
    SmallVector<Value> rows = offsets(at[1], shape.height, strides[1]);
    SmallVector<Value> columns = offsets(at[2], shape.width, strides[2]);
    Value from = memory.address(kernel.pointer(0), f32, memory.mulConstant(at[0], strides[0]));
    Value to = memory.address(kernel.pointer(1), f32, memory.mulConstant(piece, count));
    e.channels(b, count, [&](OpBuilder &b, Value first, Value mask) {
      VectorMemory memory = e.memory(b);
      SmallVector<Value> values;
      for (Value row : rows)
        for (Value column : columns) {
          Value offset = memory.add(memory.add(row, column), first);
          values.push_back(memory.load(memory.address(from, f32, offset), f32, e.lanes, mask));
        }
      Value place = memory.address(to, f32, first);
      for (auto [i, value] : llvm::enumerate(e.transform(b, matrix, values)))
        memory.store(value, memory.address(place, f32, int64_t(i) * shape.pitch(count)), mask);
    });
  });
  return finish(kernel, shape.pieces());
}

int64_t winogradWeightPitch(MLIRContext &context, const Processor &processor, const WinogradShape &shape) {
  Type f32 = Float32Type::get(&context);
  // A line more, so that places do not meet in one set of a cache.
  return packedElements(processor, f32, f32, shape.outputChannels, shape.inputChannels) + 16;
}

GeneratedKernel generateWinogradWeights(MLIRContext &context, const Processor &processor,
                                        const WinogradShape &shape, const WinogradWeights &weights) {
  KernelFunction::loadDialects(context);
  Type f32 = Float32Type::get(&context);
  KernelFunction kernel(context, {{f32, {}, {}}, {f32, {}, {}}});
  WinogradEmitter e(processor, shape, kernel.builder(), kernel.loc());
  const int64_t columns = shape.outputChannels, depth = shape.inputChannels,
                pitch = winogradWeightPitch(context, processor, shape);
  const PanelShape panel = panelShape(processor, f32, columns);
  const Matrix matrix = weightMatrix(shape.m);
  SmallVector<int64_t> apart;
  for (int64_t lane = 0; lane < e.lanes; ++lane)
    apart.push_back(lane * weights.strides[0]);
  // Of consecutive tiles the windows follow each other in memory: of one vector the in channels, or of one in
  // channel the vectors.
  const bool isByVector = std::abs(weights.strides[1]) < std::abs(weights.strides[0]);
  e.loop(kernel.builder(), kernel.begin(), kernel.end(), 1, [&](OpBuilder &b, Value tile) {
    VectorMemory memory = e.memory(b);
    SmallVector<int64_t> sizes{panel.count(columns), panel.vectors, depth};
    if (!isByVector)
      std::swap(sizes[1], sizes[2]);
    SmallVector<Value> at = memory.delinearize(tile, sizes);
    if (!isByVector)
      std::swap(at[1], at[2]);
    Value first = memory.mulConstant(at[1], e.lanes), mask;
    Value column = memory.add(memory.mulConstant(at[0], panel.width()), first);
    if (columns % panel.width() != 0)
      mask = memory.prefixMask(e.lanes, arith::SubIOp::create(b, e.loc, memory.constant(columns), column));
    Value offset = memory.linearize({column, at[2]}, {weights.strides[0], weights.strides[1]});
    Value from = memory.address(kernel.pointer(0), f32, memory.addConstant(offset, weights.first));
    Value lanes = memory.constants(apart);
    SmallVector<Value> taps;
    for (int64_t y = 0; y < 3; ++y)
      for (int64_t x = 0; x < 3; ++x)
        taps.push_back(memory.gather(
            memory.address(from, f32, y * weights.strides[2] + x * weights.strides[3]), f32, lanes, mask));
    Value to = memory.linearize({at[0], at[2], first}, {depth * panel.width(), panel.width(), 1});
    Value place = memory.address(kernel.pointer(1), f32, to);
    for (auto [i, value] : llvm::enumerate(e.transform(b, matrix, taps)))
      memory.store(value, memory.address(place, f32, int64_t(i) * pitch));
  });
  return finish(kernel, panel.count(columns) * panel.vectors * depth);
}

GeneratedKernel generateWinogradGradient(MLIRContext &context, const Processor &processor,
                                         const WinogradShape &shape, const std::array<int64_t, 3> &strides) {
  KernelFunction::loadDialects(context);
  Type f32 = Float32Type::get(&context);
  KernelFunction kernel(context, {{f32, {}, {}}, {f32, {}, {}}});
  WinogradEmitter e(processor, shape, kernel.builder(), kernel.loc());
  const int64_t count = shape.outputChannels;
  const Matrix matrix = transposed(outputMatrix(shape.m));
  e.loop(kernel.builder(), kernel.begin(), kernel.end(), 1, [&](OpBuilder &b, Value piece) {
    VectorMemory memory = e.memory(b);
    SmallVector<Value> at = memory.delinearize(piece, {shape.batch, shape.rows(), shape.columns()});
    // What lies beyond the border reads the last row and column again, and is 0.
    auto offsets = [&](Value index, int64_t extent, int64_t stride) {
      SmallVector<std::pair<Value, Value>> result;
      for (int64_t i = 0; i < shape.m; ++i) {
        Value place = memory.addConstant(memory.mulConstant(index, shape.m), i), inside;
        if (extent % shape.m) {
          inside = arith::CmpIOp::create(b, e.loc, arith::CmpIPredicate::slt, place, memory.constant(extent));
          place = memory.minConstant(place, extent - 1);
        }
        result.push_back({memory.mulConstant(place, stride), inside});
      }
      return result;
    };
    auto rows = offsets(at[1], shape.height, strides[1]), columns = offsets(at[2], shape.width, strides[2]);
    Value from = memory.address(kernel.pointer(0), f32, memory.mulConstant(at[0], strides[0]));
    Value to = memory.address(kernel.pointer(1), f32, memory.mulConstant(piece, count));
    e.channels(b, count, [&](OpBuilder &b, Value first, Value mask) {
      VectorMemory memory = e.memory(b);
      SmallVector<Value> values;
      for (auto [row, isRow] : rows)
        for (auto [column, isColumn] : columns) {
          Value offset = memory.add(memory.add(row, column), first);
          Value value = memory.load(memory.address(from, f32, offset), f32, e.lanes, mask);
          for (Value inside : {isRow, isColumn})
            if (inside)
              value = arith::SelectOp::create(b, e.loc, inside, value, memory.zero(f32, e.lanes));
          values.push_back(value);
        }
      Value place = memory.address(to, f32, first);
      for (auto [i, value] : llvm::enumerate(e.transform(b, matrix, values)))
        memory.store(value, memory.address(place, f32, int64_t(i) * shape.pitch(count)), mask);
    });
  });
  return finish(kernel, shape.pieces());
}

GeneratedKernel generateWinogradFilter(MLIRContext &context, const Processor &processor,
                                       const WinogradShape &shape, const WinogradWeights &weights) {
  KernelFunction::loadDialects(context);
  Type f32 = Float32Type::get(&context);
  KernelFunction kernel(context, {{f32, {}, {}}, {f32, {}, {}}});
  WinogradEmitter e(processor, shape, kernel.builder(), kernel.loc());
  const int64_t count = shape.inputChannels, pitch = winogradFilterPitch(shape);
  const Matrix matrix = transposed(weightMatrix(shape.m));
  SmallVector<int64_t> apart;
  for (int64_t lane = 0; lane < e.lanes; ++lane)
    apart.push_back(lane * weights.strides[1]);
  e.loop(kernel.builder(), kernel.begin(), kernel.end(), 1, [&](OpBuilder &b, Value row) {
    VectorMemory memory = e.memory(b);
    Value from = memory.address(kernel.pointer(0), f32, memory.mulConstant(row, count));
    Value offset = memory.addConstant(memory.mulConstant(row, weights.strides[0]), weights.first);
    e.channels(b, count, [&](OpBuilder &b, Value first, Value mask) {
      VectorMemory memory = e.memory(b);
      Value lanes = memory.constants(apart), place = memory.address(from, f32, first);
      SmallVector<Value> products;
      for (int64_t i = 0; i < shape.places(); ++i)
        products.push_back(memory.load(memory.address(place, f32, i * pitch), f32, e.lanes, mask));
      Value to = memory.address(kernel.pointer(1), f32,
                                memory.add(offset, memory.mulConstant(first, weights.strides[1])));
      for (auto [i, value] : llvm::enumerate(e.transform(b, matrix, products))) {
        Value tap = memory.address(to, f32,
                                   int64_t(i) / 3 * weights.strides[2] + int64_t(i) % 3 * weights.strides[3]);
        if (weights.strides[1] == 1)
          memory.store(value, tap, mask);
        else
          memory.scatter(value, tap, lanes, mask);
      }
    });
  });
  return finish(kernel, shape.outputChannels);
}

GeneratedKernel generateWinogradOutput(MLIRContext &context, const Processor &processor,
                                       const WinogradShape &shape, const WinogradOutput &output) {
  KernelFunction::loadDialects(context);
  Type f32 = Float32Type::get(&context);
  const int64_t lanes = processor.lanes(f32), count = shape.outputChannels, m = shape.m;
  const int64_t rowElements = (count + lanes - 1) / lanes * lanes;
  SmallVector<BufferSpec> buffers = {{f32, {}, {}}};
  buffers.append(output.extraInputs.begin(), output.extraInputs.end());
  const unsigned target0 = buffers.size();
  buffers.push_back({storageType(output.type), {}, {}, output.noalias});
  buffers.append(output.extraOutputs.begin(), output.extraOutputs.end());
  KernelFunction kernel(context, buffers, output.params, m * m * rowElements * elementBytes(f32));
  WinogradEmitter e(processor, shape, kernel.builder(), kernel.loc());
  const Matrix matrix = outputMatrix(m);
  e.loop(kernel.builder(), kernel.begin(), kernel.end(), 1, [&](OpBuilder &b, Value piece) {
    VectorMemory memory = e.memory(b);
    SmallVector<Value> at = memory.delinearize(piece, {shape.batch, shape.rows(), shape.columns()});
    Value from = memory.address(kernel.pointer(0), f32, memory.mulConstant(piece, count));
    e.channels(b, count, [&](OpBuilder &b, Value first, Value mask) {
      VectorMemory memory = e.memory(b);
      Value place = memory.address(from, f32, first);
      SmallVector<Value> values;
      for (int64_t i = 0; i < shape.places(); ++i)
        values.push_back(memory.load(memory.address(place, f32, i * shape.pitch(count)), f32, lanes, mask));
      Value sums = memory.address(kernel.scratch(), f32, first);
      for (auto [i, value] : llvm::enumerate(e.transform(b, matrix, values)))
        memory.store(value, memory.address(sums, f32, int64_t(i) * rowElements));
    });
    // The part of the piece that lies inside.
    Value y0 = memory.mulConstant(at[1], m), x0 = memory.mulConstant(at[2], m);
    auto inside = [&](Value first, int64_t extent) {
      if (extent % m == 0)
        return memory.constant(m);
      Value left = arith::SubIOp::create(b, e.loc, memory.constant(extent), first);
      return memory.minConstant(left, m);
    };
    Value height = inside(y0, shape.height), width = inside(x0, shape.width);
    e.loop(b, memory.constant(0), height, 1, [&](OpBuilder &b, Value i) {
      e.loop(b, e.memory(b).constant(0), width, 1, [&](OpBuilder &b, Value j) {
        VectorMemory memory = e.memory(b);
        SmallVector<Value> index = {at[0], memory.add(y0, i), memory.add(x0, j)};
        Value linear = memory.linearize(index, {shape.height * shape.width, shape.width, 1});
        Value row = memory.mulConstant(memory.add(memory.mulConstant(i, m), j), rowElements);
        Value sums = memory.address(kernel.scratch(), f32, row);
        e.channels(b, count, [&](OpBuilder &b, Value first, Value mask) {
          VectorMemory memory = e.memory(b);
          EpilogueIndex place{kernel, {}, index, {first}, linear, first, lanes, mask, {}};
          Value value = memory.load(memory.address(sums, f32, first), f32, lanes);
          if (output.epilogue)
            value = output.epilogue(b, e.loc, value, place);
          if (!value)
            return;
          value = memory.convert(value, storageType(output.type));
          ArrayRef<int64_t> strides(output.strides);
          storeAt(b, e.loc, processor, value, kernel.pointer(target0),
                  {{}, SmallVector<int64_t>(strides.take_front(3)), {strides[3]}}, place);
        });
      });
    });
  });
  return finish(kernel, shape.pieces());
}

} // namespace colossal::cpu
