// Lines of running sums, merge sorts and scattered updates, as scalar loops over a line.
#include "colossal/Codegen/CPU/SequentialKernel.h"
#include "LoopEmitter.h"

#include "dialects/Colossal/Indexing/ScatterCombine.h"
#include "dialects/Colossal/Reduction/Accumulate.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::cpu;

bool cpu::isSequential(Operation *op) {
  return isa<CumulateOp, TopKOp, ScatterElementsOp, ScatterNDOp>(op);
}

bool cpu::updatesOutput(Operation *op) {
  return isa<ScatterElementsOp, ScatterNDOp>(op);
}

namespace {

class SequentialGenerator {
public:
  SequentialGenerator(MLIRContext &context, const Target &target, Operation *op,
                      ArrayRef<SmallVector<int64_t>> strides)
      : context(context), target(target), op(op), strides(strides) {}

  llvm::Expected<GeneratedKernel> run() {
    SmallVector<Value> tensors(op->getOperands().drop_front(updatesOutput(op) ? 1 : 0));
    llvm::append_range(tensors, op->getResults());
    SmallVector<BufferSpec> buffers;
    for (auto [i, tensor] : llvm::enumerate(tensors))
      buffers.push_back({storageType(elementTypeOf(tensor)), SmallVector<int64_t>(shapeOf(tensor)),
                         strides[i], !updatesOutput(op)});
    plan();
    KernelFunction kernel(context, buffers, 0, scratchBytes);
    OpBuilder &b = kernel.builder();
    LoopEmitter emitter(b, kernel.loc(), target, 1);
    e = &emitter;
    for (auto [i, tensor] : llvm::enumerate(tensors))
      views.push_back({kernel.pointer(i), elementTypeOf(tensor), strides[i]});
    if (scratchBytes)
      scratch = kernel.scratch();
    auto loop = scf::ForOp::create(b, kernel.loc(), kernel.begin(), kernel.end(), number(1));
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(loop.getBody()->getTerminator());
      emitter.enterRegion();
      emitTile(loop.getInductionVar());
      emitter.leaveRegion();
    }
    if (!emitter.error().empty())
      return llvm::createStringError(emitter.error());
    GeneratedKernel result;
    result.tiles = tiles;
    result.scratchBytes = scratchBytes;
    result.buffers = buffers.size();
    result.module = kernel.take();
    return result;
  }

private:
  using Carried = SmallVector<Value>;

  Value number(int64_t value) { return e->vectorMemory().constant(value); }
  Element i64(Value value) { return {*e, value, e->builder().getI64Type()}; }
  Element i64(int64_t value) { return i64(number(value)); }
  Value at(ArrayRef<Lane> index, unsigned buffer) { return e->read(views[buffer], index); }
  /// Runs `body` where `condition` (i1) holds.
  void when(Value condition, llvm::function_ref<void()> body) {
    e->choose(condition, [&] { return body(), number(0); }, [&] { return number(0); });
  }
  /// Runs `body` for every index of `shape`.
  void over(ArrayRef<int64_t> shape, SmallVector<Lane> &index, llvm::function_ref<void()> body) {
    if (shape.empty())
      return body();
    e->reduce(shape[0], number(0), [&](Value counter, ValueRange carried) -> Carried {
      index.push_back(e->uniform(counter));
      over(shape.drop_front(), index, body);
      index.pop_back();
      return {carried[0]};
    });
  }

  /// How many tiles there are, and what scratch each needs.
  void plan() {
    ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
    if (isa<ScatterNDOp>(op))
      return;
    int64_t axis = op->getAttrOfType<IntegerAttr>("axis").getInt();
    for (auto [d, size] : llvm::enumerate(shape))
      if (int64_t(d) < axis || (int64_t(d) > axis && !isa<ScatterElementsOp>(op)))
        lines.push_back(size);
    for (int64_t size : lines)
      tiles *= size;
    if (isa<TopKOp>(op))
      scratchBytes = 2 * 8 * shapeOf(op->getOperand(0))[axis];
  }

  void emitTile(Value tile) {
    SmallVector<Lane> line = delinearize(*e, e->uniform(tile), lines);
    if (auto cumulate = dyn_cast<CumulateOp>(op))
      emitCumulate(cumulate, line);
    else if (auto topk = dyn_cast<TopKOp>(op))
      emitTopK(topk, line);
    else if (auto scatter = dyn_cast<ScatterElementsOp>(op))
      emitScatterElements(scatter, line);
    else
      emitScatterND(cast<ScatterNDOp>(op));
  }

  void emitCumulate(CumulateOp cumulate, SmallVector<Lane> index) {
    int64_t axis = cumulate.getAxis(), extent = shapeOf(cumulate.getInput())[axis];
    Type type = elementTypeOf(cumulate.getInput()), inner = computeType(type);
    ReduceKind kind = cumulate.getProduct() ? ReduceKind::Prod : ReduceKind::Sum;
    index.insert(index.begin() + axis, Lane());
    e->reduce(extent, reduceIdentity(*e, kind, inner).get(),
              [&](Value counter, ValueRange carried) -> Carried {
                Element place = cumulate.getReverse() ? i64(extent - 1) - i64(counter) : i64(counter);
                index[axis] = e->uniform(place.get());
                Element before(*e, carried[0], inner);
                Element after = reduceCombine(kind, before, Element(*e, at(index, 0), type).to(inner));
                e->store((cumulate.getExclusive() ? before : after).to(type).get(), views[1], index);
                return {after.get()};
              });
  }

  /// Sorts the places of a line by merging runs of 1, 2, 4, ... from one half of the scratch into the other.
  void emitTopK(TopKOp topk, SmallVector<Lane> index) {
    int64_t axis = topk.getAxis(), extent = shapeOf(topk.getInput())[axis],
            k = shapeOf(topk.getValues())[axis];
    Type type = elementTypeOf(topk.getInput()), word = e->builder().getI64Type();
    index.insert(index.begin() + axis, Lane());
    TensorView places{scratch, word, {1}};
    auto valueAt = [&](Element place) {
      index[axis] = e->uniform(place.get());
      return Element(*e, at(index, 0), type);
    };
    e->reduce(extent, number(0), [&](Value counter, ValueRange carried) -> Carried {
      e->store(counter, places, {e->uniform(counter)});
      return {carried[0]};
    });
    int64_t passes = 0;
    while ((int64_t(1) << passes) < extent)
      ++passes;
    // Carried: the run's length, where the runs lie, where the merged ones go.
    Carried sorted =
        e->reduce(passes, {number(1), number(0), number(extent)}, [&](Value, ValueRange pass) -> Carried {
          Element run = i64(pass[0]), from = i64(pass[1]), to = i64(pass[2]), both = run + run;
          auto placeAt = [&](Element position) {
            return i64(e->read(places, {e->uniform((from + position).get())}));
          };
          e->reduce(extent, {number(0), number(0), number(0)},
                    [&](Value counter, ValueRange carried) -> Carried {
                      // Carried: the next of the left run, of the right run, and where this pair of runs
                      // began.
                      Element position = i64(counter), last = i64(extent);
                      Element isNew = position == (i64(carried[2]) + both).min(last);
                      Element start = (isNew | (position == i64(0))).select(position, i64(carried[2]));
                      Element fresh = isNew | (position == i64(0));
                      Element middle = (start + run).min(last), end = (start + both).min(last);
                      Element left = fresh.select(start, i64(carried[0])),
                              right = fresh.select(middle, i64(carried[1]));
                      Element hasLeft = left < middle, hasRight = right < end;
                      Element a = placeAt(left.min(i64(extent - 1))), b = placeAt(right.min(i64(extent - 1)));
                      Element first = comesBefore(topk.getLargest(), valueAt(a), a, valueAt(b), b);
                      Element takesLeft = hasLeft & (!hasRight | first);
                      e->store(takesLeft.select(a, b).get(), places, {e->uniform((to + position).get())});
                      Element one = i64(1), none = i64(int64_t(0));
                      return {(left + takesLeft.select(one, none)).get(),
                              (right + takesLeft.select(none, one)).get(), start.get()};
                    });
          return {both.get(), pass[2], pass[1]};
        });
    e->reduce(k, number(0), [&](Value counter, ValueRange carried) -> Carried {
      Element place = i64(e->read(places, {e->uniform((i64(sorted[1]) + i64(counter)).get())}));
      Value value = valueAt(place).get();
      index[axis] = e->uniform(counter);
      e->store(value, views[1], index);
      e->store(place.to(elementTypeOf(topk.getIndices())).get(), views[2], index);
      return {carried[0]};
    });
  }

  void update(ScatterReduction reduction, ArrayRef<Lane> from, ArrayRef<Lane> to, Type type) {
    Element next(*e, at(from, 1), type);
    if (reduction != ScatterReduction::None)
      next = scatterCombine(reduction, Element(*e, at(to, 2), type), next);
    e->store(next.get(), views[2], to);
  }

  /// A loaded index, negative ones counted from the end.
  Lane wrapped(Value loaded, Type type, int64_t extent) {
    Element place = Element(*e, loaded, type).to(e->builder().getI64Type());
    return e->fromValue((place < i64(int64_t(0))).select(place + i64(extent), place).get());
  }

  void emitScatterElements(ScatterElementsOp scatter, ArrayRef<Lane> line) {
    int64_t axis = scatter.getAxis(), extent = shapeOf(scatter.getData())[axis];
    ArrayRef<int64_t> updates = shapeOf(scatter.getUpdates());
    Type type = elementTypeOf(scatter.getData()), indexType = elementTypeOf(scatter.getIndices());
    Value inside = e->scalar(e->builder().getI1Type(), 1);
    for (auto [d, lane] : llvm::enumerate(line))
      inside = (Element(*e, inside, e->builder().getI1Type()) &
                Element(*e, e->inRange(lane, 0, updates[d]), e->builder().getI1Type()))
                   .get();
    when(inside, [&] {
      SmallVector<Lane> index(line);
      over(updates.drop_front(axis), index, [&] {
        SmallVector<Lane> to(index);
        to[axis] = wrapped(at(index, 0), indexType, extent);
        when(e->inRange(to[axis], 0, extent), [&] { update(scatter.getReduction(), index, to, type); });
      });
    });
  }

  void emitScatterND(ScatterNDOp scatter) {
    ArrayRef<int64_t> indices = shapeOf(scatter.getIndices()), data = shapeOf(scatter.getData());
    int64_t depth = indices.back();
    Type type = elementTypeOf(scatter.getData()), boolean = e->builder().getI1Type();
    SmallVector<Lane> tuple;
    over(indices.drop_back(), tuple, [&] {
      SmallVector<Lane> from(tuple), to, element(tuple);
      element.push_back(Lane());
      Element inside(*e, e->scalar(boolean, 1), boolean);
      for (int64_t d = 0; d < depth; ++d) {
        element.back() = e->constant(d);
        to.push_back(wrapped(at(element, 0), elementTypeOf(scatter.getIndices()), data[d]));
        inside = inside & Element(*e, e->inRange(to.back(), 0, data[d]), boolean);
      }
      when(inside.get(), [&] {
        SmallVector<Lane> slice;
        over(data.drop_front(depth), slice, [&] {
          SmallVector<Lane> source(from), target(to);
          llvm::append_range(source, slice);
          llvm::append_range(target, slice);
          update(scatter.getReduction(), source, target, type);
        });
      });
    });
  }

  MLIRContext &context;
  const Target &target;
  Operation *op;
  ArrayRef<SmallVector<int64_t>> strides;
  LoopEmitter *e = nullptr;
  SmallVector<TensorView> views;
  SmallVector<int64_t> lines;
  Value scratch;
  int64_t tiles = 1, scratchBytes = 0;
};

} // namespace

llvm::Expected<GeneratedKernel> cpu::generateSequential(MLIRContext &context, const Target &target,
                                                        Operation *op,
                                                        ArrayRef<SmallVector<int64_t>> strides) {
  KernelFunction::loadDialects(context);
  for (Value tensor : op->getOperands())
    if (llvm::is_contained(shapeOf(tensor), 0))
      return llvm::createStringError("a sequential kernel of an empty tensor");
  return SequentialGenerator(context, target, op, strides).run();
}
