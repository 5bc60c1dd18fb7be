// Tiles of 64 x 32, sixteen sums to a thread; what a few steps of k need is in shared memory at a time.
#include "Contraction.h"

#include "LibraryContraction.h"
#include "TensorCores.h"
#include "colossal/Codegen/Kernel/VectorMemory.h"
#include "dialects/Colossal/NarrowTypes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::nvidia;
using kernel::BufferSpec;

namespace {

constexpr int64_t threads = 128, rows = 64, columns = 32, each = 4;
constexpr int64_t rowThreads = rows / each, columnThreads = columns / each;
static_assert(rowThreads * columnThreads == threads);
constexpr unsigned sharedSpace = 3;

int64_t product(ArrayRef<ContractionDim> dims) {
  int64_t size = 1;
  for (const ContractionDim &dim : dims)
    size *= dim.size;
  return size;
}

/// Whether tensor cores take the factors: two of one type, whose products are added up in f32.
bool isOfTensorCores(const ContractionShape &shape) {
  Type type = shape.aType;
  return type == shape.bType && shape.accumulate.isF32() &&
         (type.isF16() || type.isBF16() || (type.isF32() && shape.isRounded));
}

/// A thread has sixteen sums: of every so-manieth row and column of the block's, or on tensor cores those
/// that TensorCores says of its warp's sixteen rows and four times eight columns.
class Generator {
public:
  Generator(MLIRContext &context, const BlockTeam &team, const ContractionShape &shape)
      : shape(shape), onTensorCores(isOfTensorCores(shape)),
        depth(onTensorCores ? 64 / kernel::elementBytes(shape.aType) : 8), buffers(describe()),
        frame(team.open(context, buffers, 0, 0)), b(frame->builder()), loc(frame->loc()),
        memory(b, loc, team.instructions(), team.indexBits(largest())), m(product(shape.m)),
        n(product(shape.n)), k(product(shape.k)), cores(b, loc, shape.aType),
        held(!onTensorCores        ? shape.accumulate
             : shape.aType.isF32() ? shape.aType
                                   : Type(b.getI16Type())) {}

  kernel::GeneratedKernel run() {
    const int64_t across = llvm::divideCeil(n, columns), down = llvm::divideCeil(m, rows);
    left = sharedArray("left", sharedElements(rows));
    right = sharedArray("right", sharedElements(columns));
    thread = toIndex(frame->member());
    frame->forEachTile([&](Value tile) {
      SmallVector<Value> at = memory.delinearize(toIndex(tile), {product(shape.batch), down, across});
      emitTile(at[0], memory.mulConstant(at[1], rows), memory.mulConstant(at[2], columns));
    });
    kernel::GeneratedKernel result;
    result.tiles = product(shape.batch) * down * across;
    result.buffers = 3;
    result.module = frame->take();
    return result;
  }

private:
  SmallVector<BufferSpec> describe() const {
    SmallVector<BufferSpec> specs;
    auto add = [&](Type type, int64_t ContractionDim::*stride) {
      BufferSpec spec{kernel::storageType(type), {}, {}, true};
      for (ArrayRef<ContractionDim> dims :
           {ArrayRef(shape.batch), ArrayRef(shape.m), ArrayRef(shape.n), ArrayRef(shape.k)})
        for (const ContractionDim &dim : dims) {
          spec.shape.push_back(dim.size);
          spec.strides.push_back(dim.*stride);
        }
      // A tensor of one element has a stride all the same: empty ones would mean a dense array.
      spec.shape.push_back(1);
      spec.strides.push_back(1);
      specs.push_back(std::move(spec));
    };
    add(shape.aType, &ContractionDim::a);
    add(shape.bType, &ContractionDim::b);
    add(shape.cType, &ContractionDim::c);
    return specs;
  }
  /// Of offsets, and of the linear indices that they come from.
  int64_t largest() const {
    const int64_t tiles = product(shape.batch) * (product(shape.m) + rows) * (product(shape.n) + columns);
    return std::max({kernel::largestOffset(buffers), product(shape.k) + depth, tiles});
  }

  Value toIndex(Value word) {
    return word.getType() == memory.indexType()
               ? word
               : arith::TruncIOp::create(b, loc, memory.indexType(), word).getResult();
  }
  Value below(Value index, int64_t end) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, index, memory.constant(end));
  }
  Value offsetOf(Value linear, ArrayRef<ContractionDim> dims, int64_t ContractionDim::*stride) {
    SmallVector<int64_t> sizes, strides;
    for (const ContractionDim &dim : dims) {
      sizes.push_back(dim.size);
      strides.push_back(dim.*stride);
    }
    return memory.linearize(memory.delinearize(linear, sizes), strides);
  }

  Value sharedArray(StringRef name, int64_t elements) {
    auto module = b.getInsertionBlock()->getParentOp()->getParentOfType<ModuleOp>();
    LLVM::GlobalOp global;
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(module.getBody());
      global = LLVM::GlobalOp::create(b, loc, LLVM::LLVMArrayType::get(held, elements),
                                      /*isConstant=*/false, LLVM::Linkage::Internal, name, Attribute(),
                                      /*alignment=*/16, sharedSpace);
    }
    return LLVM::AddressOfOp::create(b, loc, global);
  }

  /// In shared memory an operand lies by steps of k; for tensor cores by rows, each an odd number of 16 bytes
  /// long, so that neighbouring rows lie in different banks.
  int64_t pitch() const { return depth + 16 / kernel::elementBytes(shape.aType); }
  int64_t sharedElements(int64_t extent) const { return extent * (onTensorCores ? pitch() : depth); }
  Value sharedPlace(Value row, Value step, int64_t extent) {
    return onTensorCores ? memory.linearize({row, step}, {pitch(), 1})
                         : memory.linearize({step, row}, {extent, 1});
  }
  Value inShared(Value array, Value place) { return memory.address(array, held, place); }

  struct Load {
    Value row, step, inRow,
        offset; ///< of the tile and of k; whether the row exists; what does not change with k
  };
  /// One operand's part of a block of k: `count` elements for each thread. `alongRows`: neighbours in memory
  /// are rows, so neighbouring threads take rows.
  SmallVector<Load> prepare(int64_t extent, bool alongRows, Value first, int64_t end,
                            ArrayRef<ContractionDim> dims, int64_t ContractionDim::*stride, Value base) {
    SmallVector<Load> loads;
    for (int64_t i = 0; i < extent * depth / threads; ++i) {
      auto [quotient, remainder] =
          memory.divRem(memory.addConstant(thread, i * threads), alongRows ? extent : depth);
      Load load;
      load.row = alongRows ? remainder : quotient;
      load.step = alongRows ? quotient : remainder;
      Value row = memory.add(first, load.row);
      load.inRow = below(row, end);
      load.offset = memory.add(base, offsetOf(memory.minConstant(row, end - 1), dims, stride));
      loads.push_back(load);
    }
    return loads;
  }
  void fetch(const Load &load, Value firstStep, Value shared, int64_t extent, unsigned buffer, Type type,
             int64_t ContractionDim::*stride) {
    Value step = memory.add(firstStep, load.step);
    Value exists = arith::AndIOp::create(b, loc, load.inRow, below(step, k));
    auto branch = scf::IfOp::create(b, loc, TypeRange{held}, exists, /*withElseRegion=*/true);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(&branch.getThenRegion().front());
      Value offset = memory.add(load.offset, offsetOf(step, shape.k, stride));
      Value address = memory.address(frame->pointer(buffer), type, offset), value;
      if (onTensorCores) // as it lies there
        value = memory.load(address, held, 1);
      else
        value = memory.convert(memory.load(address, type, 1), held, kernel::isUnsignedElement(type));
      scf::YieldOp::create(b, loc, value);
      b.setInsertionPointToStart(&branch.getElseRegion().front());
      scf::YieldOp::create(b, loc, memory.constantLike(held, 0));
    }
    LLVM::StoreOp::create(b, loc, branch.getResult(0),
                          inShared(shared, sharedPlace(load.row, load.step, extent)));
  }

  Value multiplyAdd(Value x, Value y, Value sum) {
    if (isa<FloatType>(shape.accumulate))
      return math::FmaOp::create(b, loc, x, y, sum);
    return arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, x, y), sum);
  }

  /// The sums with what shared memory holds.
  SmallVector<Value> multiplyBlock(ValueRange sums) {
    SmallVector<Value> next(sums);
    auto [row, column] = memory.divRem(thread, columnThreads);
    for (int64_t step = 0; step < depth; ++step) {
      auto read = [&](Value shared, Value first, int64_t at) -> Value {
        return LLVM::LoadOp::create(b, loc, held, inShared(shared, memory.addConstant(first, at)));
      };
      SmallVector<Value> x, y;
      for (int64_t i = 0; i < each; ++i) {
        x.push_back(read(left, row, step * rows + i * rowThreads));
        y.push_back(read(right, column, step * columns + i * columnThreads));
      }
      for (int64_t i = 0; i < each; ++i)
        for (int64_t j = 0; j < each; ++j)
          next[i * each + j] = multiplyAdd(x[i], y[j], next[i * each + j]);
    }
    return next;
  }

  SmallVector<Value> multiplyOnTensorCores(ValueRange sums) {
    SmallVector<Value> next(sums);
    const int64_t line = 16 / kernel::elementBytes(shape.aType);
    auto [warp, lane] = memory.divRem(thread, TensorCores::lanes);
    auto [matrix, matrixRow] = memory.divRem(lane, 8);
    auto [upper, odd] = memory.divRem(matrix, 2);
    auto load = [&](Value array, Value row, Value part, int64_t step) {
      Value column = memory.addConstant(memory.mulConstant(part, line), step);
      SmallVector<Value, 4> words =
          cores.loadMatrices(inShared(array, memory.linearize({row, column}, {pitch(), 1})), 4, false);
      for (Value &word : words)
        word = cores.toOperand(word);
      return words;
    };
    for (int64_t step = 0; step < depth; step += cores.depth()) {
      // Of A the rows change with the matrix first, of B the steps.
      Value row = memory.add(memory.mulConstant(warp, TensorCores::rows),
                             memory.add(memory.mulConstant(odd, 8), matrixRow));
      SmallVector<Value, 4> a = load(left, row, upper, step);
      for (int64_t block = 0; block < each; block += 2) {
        Value column =
            memory.addConstant(memory.add(memory.mulConstant(upper, TensorCores::columns), matrixRow),
                               block * TensorCores::columns);
        SmallVector<Value, 4> words = load(right, column, odd, step);
        for (int64_t i = 0; i < 2; ++i) {
          auto own = MutableArrayRef<Value>(next).slice((block + i) * each, each);
          llvm::copy(cores.multiply(a, ArrayRef<Value>(words).slice(2 * i, 2), own), own.begin());
        }
      }
    }
    return next;
  }

  /// Of the block's tile, where the sum lies.
  std::pair<Value, Value> placeOf(int64_t sum) {
    if (!onTensorCores) {
      auto [row, column] = memory.divRem(thread, columnThreads);
      return {memory.addConstant(row, sum / each * rowThreads),
              memory.addConstant(column, sum % each * columnThreads)};
    }
    auto [warp, lane] = memory.divRem(thread, TensorCores::lanes);
    auto [group, place] = memory.divRem(lane, 4);
    const int64_t block = sum / each, value = sum % each;
    return {
        memory.addConstant(memory.add(memory.mulConstant(warp, TensorCores::rows), group), 8 * (value / 2)),
        memory.addConstant(memory.mulConstant(place, 2), block * TensorCores::columns + value % 2)};
  }

  void emitTile(Value batch, Value firstRow, Value firstColumn) {
    Value baseA = offsetOf(batch, shape.batch, &ContractionDim::a),
          baseB = offsetOf(batch, shape.batch, &ContractionDim::b),
          baseC = offsetOf(batch, shape.batch, &ContractionDim::c);
    // Neighbours in memory: the last dimension of k in A, unless its last row dimension lies closer.
    const bool rowsFirst = !shape.m.empty() && shape.m.back().a == 1,
               columnsFirst = !shape.n.empty() && shape.n.back().b == 1;
    SmallVector<Load> a = prepare(rows, rowsFirst, firstRow, m, shape.m, &ContractionDim::a, baseA);
    SmallVector<Load> c = prepare(columns, columnsFirst, firstColumn, n, shape.n, &ContractionDim::b, baseB);
    SmallVector<Value> sums(each * each, memory.constantLike(shape.accumulate, 0));
    auto loop =
        scf::ForOp::create(b, loc, memory.constant(0), memory.constant(k), memory.constant(depth), sums);
    {
      OpBuilder::InsertionGuard guard(b);
      Block *body = loop.getBody();
      if (!body->empty() && body->back().hasTrait<OpTrait::IsTerminator>())
        body->back().erase();
      b.setInsertionPointToEnd(body);
      for (const Load &load : a)
        fetch(load, loop.getInductionVar(), left, rows, 0, shape.aType, &ContractionDim::a);
      for (const Load &load : c)
        fetch(load, loop.getInductionVar(), right, columns, 1, shape.bType, &ContractionDim::b);
      NVVM::Barrier0Op::create(b, loc);
      SmallVector<Value> next = onTensorCores ? multiplyOnTensorCores(loop.getRegionIterArgs())
                                              : multiplyBlock(loop.getRegionIterArgs());
      NVVM::Barrier0Op::create(b, loc);
      scf::YieldOp::create(b, loc, next);
    }
    for (auto [number, sum] : llvm::enumerate(loop.getResults())) {
      auto [row, column] = placeOf(int64_t(number));
      Value atRow = memory.add(firstRow, row), atColumn = memory.add(firstColumn, column);
      Value exists = arith::AndIOp::create(b, loc, below(atRow, m), below(atColumn, n));
      auto branch = scf::IfOp::create(b, loc, exists);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(&branch.getThenRegion().front());
      Value offset = memory.add(baseC, memory.add(offsetOf(atRow, shape.m, &ContractionDim::c),
                                                  offsetOf(atColumn, shape.n, &ContractionDim::c)));
      Value value = memory.convert(sum, shape.cType);
      memory.store(value, memory.address(frame->pointer(2), shape.cType, offset));
    }
  }

  const ContractionShape &shape;
  const bool onTensorCores;
  const int64_t depth; ///< of a block's step along k
  SmallVector<BufferSpec> buffers;
  std::unique_ptr<kernel::Frame> frame;
  OpBuilder &b;
  Location loc;
  kernel::VectorMemory memory;
  const int64_t m, n, k;
  TensorCores cores;
  Type held; ///< of elements in shared memory
  Value left, right, thread;
};

Type accumulateTypeOf(Type a, Type result) {
  MLIRContext *context = a.getContext();
  if (a.isF64())
    return a;
  if (isa<FloatType>(a))
    return Float32Type::get(context);
  return IntegerType::get(context, result.getIntOrFloatBitWidth() <= 32 ? 32 : 64);
}

/// Dimensions by what tensors have them, from the op's labels.
ContractionShape shapeOfOp(ContractOp op, ArrayRef<int64_t> a, ArrayRef<int64_t> b, ArrayRef<int64_t> c) {
  struct Label {
    ContractionDim dim;
    bool inA = false, inB = false, inC = false;
  };
  llvm::MapVector<int64_t, Label> labels;
  auto add = [&](ArrayRef<int64_t> dims, Value tensor, ArrayRef<int64_t> strides,
                 int64_t ContractionDim::*stride, bool Label::*isIn) {
    for (auto [label, size, step] : llvm::zip_equal(dims, shapeOf(tensor), strides)) {
      labels[label].dim.*stride = step;
      labels[label].dim.size = size;
      labels[label].*isIn = true;
    }
  };
  add(op.getResultDims(), op.getResult(), c, &ContractionDim::c, &Label::inC);
  add(op.getLhsDims(), op.getLhs(), a, &ContractionDim::a, &Label::inA);
  add(op.getRhsDims(), op.getRhs(), b, &ContractionDim::b, &Label::inB);
  ContractionShape shape;
  shape.aType = elementTypeOf(op.getLhs());
  shape.bType = elementTypeOf(op.getRhs());
  shape.cType = elementTypeOf(op.getResult());
  shape.accumulate = accumulateTypeOf(shape.aType, shape.cType);
  shape.isRounded = roundsToTf32(op);
  for (auto &[name, label] : labels)
    if (label.dim.size != 1)
      (!label.inC               ? shape.k
       : label.inA && label.inB ? shape.batch
       : label.inA              ? shape.m
                                : shape.n)
          .push_back(label.dim);
  for (auto *dims : {&shape.m, &shape.n, &shape.batch})
    llvm::stable_sort(*dims, [](const auto &x, const auto &y) { return x.c > y.c; });
  llvm::stable_sort(shape.k, [](const auto &x, const auto &y) { return x.a > y.a; });
  return shape;
}

} // namespace

kernel::GeneratedKernel nvidia::generateContraction(MLIRContext &context, const BlockTeam &team,
                                                    const ContractionShape &shape) {
  return Generator(context, team, shape).run();
}

LogicalResult nvidia::lowerContraction(const BlockTeam &team, schedule::LoweringContext &context,
                                       schedule::FusionGroup &group) {
  auto op = dyn_cast<ContractOp>(group.routine);
  if (op && isOfLibrary(op)) {
    auto called = callLibrary(context, group);
    if (failed(called) || *called)
      return success(succeeded(called));
  }
  auto computes = [](Type type) { return !isNarrow(type) && !type.isInteger(1) && type.isIntOrFloat(); };
  if (!op || group.ops.size() != 1 || schedule::tensorOf(op.getResult()).getNumElements() == 0 ||
      schedule::tensorOf(op.getLhs()).getNumElements() == 0 || !computes(elementTypeOf(op.getLhs())) ||
      !computes(elementTypeOf(op.getRhs())) || !computes(elementTypeOf(op.getResult())))
    return context.lowerSeparately(group);
  auto a = context.viewOf(op.getLhs()), b = context.viewOf(op.getRhs());
  if (failed(a) || failed(b))
    return failure();
  schedule::View c = context.allocate(op.getResult(), /*inside=*/true);
  context.setView(op.getResult(), c);
  const ContractionShape shape = shapeOfOp(op, a->strides, b->strides, c.strides);
  schedule::KernelKey key(0u);
  key.add(op.getOperation()).add(op.getLhs().getType()).add(op.getRhs().getType());
  key.add(a->strides).add(b->strides).add(c.strides);
  std::string problem;
  const schedule::CachedKernel *kernel =
      context.getKernel(key, "contract", problem, [&]() -> llvm::Expected<kernel::GeneratedKernel> {
        return generateContraction(*context.mlirContext(), team, shape);
      });
  schedule::Work work{schedule::Work::Kind::Contraction,
                      product(shape.batch),
                      product(shape.m),
                      product(shape.n),
                      product(shape.k),
                      0};
  context.launch(*kernel,
                 {context.accessOf(*a, schedule::tensorOf(op.getLhs()), false),
                  context.accessOf(*b, schedule::tensorOf(op.getRhs()), false),
                  context.accessOf(c, schedule::tensorOf(op.getResult()), true)},
                 1, {}, op.getLoc(), work);
  return success();
}
