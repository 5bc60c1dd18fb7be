//===- Contraction.cpp - contractions with what follows them --------===//
//
// A contraction, or a convolution seen as one, becomes one kernel with the group's other ops as its epilogue.
// Dimensions are called by labels, as in contract's attributes; each is a batch, m, n or k of the kernel by
// the tensors that have it.
//
//===----------------------------------------------------------------------===//
#include "Lowerings.h"

#include "colossal/Codegen/Kernel/LoopEmitter.h"
#include "colossal/Schedule/Schedule.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::cpu;
using namespace colossal::schedule;

static Type accumulateTypeOf(Type a, Type result) {
  MLIRContext *context = a.getContext();
  if (a.isF64())
    return a;
  if (isa<FloatType>(a))
    return Float32Type::get(context);
  return IntegerType::get(context, result.getIntOrFloatBitWidth() <= 32 ? 32 : 64);
}

int64_t CpuTarget::copiedBytes(Type element, int64_t rows, int64_t columns, int64_t depth) const {
  ContractionSpec spec;
  spec.aType = spec.bType = element;
  spec.accumulate = spec.cType = accumulateTypeOf(element, element);
  spec.m = {{rows, 1, 0, columns}};
  spec.n = {{columns, 0, 1, 1}};
  spec.k = {{depth, rows, columns, 0}};
  return copiedElements(processor(), spec) * elementBytes(spec.accumulate);
}

static int64_t product(ArrayRef<ContractionDim> dims) {
  int64_t size = 1;
  for (const ContractionDim &dim : dims)
    size *= dim.size;
  return size;
}

void cpu::addDims(KernelKey &key, ArrayRef<ContractionDim> dims) {
  key.add(int64_t(dims.size()));
  for (const ContractionDim &dim : dims)
    key.add(dim.size).add(dim.a).add(dim.b).add(dim.c);
}

FailureOr<View> cpu::packedWeight(const CpuTarget &target, LoweringContext &context, Value weight,
                                  Type accumulate, ArrayRef<ContractionDim> batch, ArrayRef<ContractionDim> n,
                                  ArrayRef<ContractionDim> k, const View &view, bool pairs, int64_t first) {
  RankedTensorType type = tensorOf(weight);
  std::string name = "packed " + context.keyOf(weight);
  for (ArrayRef<ContractionDim> dims : {batch, n, k}) {
    for (const ContractionDim &dim : dims)
      name += " " + std::to_string(dim.size) + ":" + std::to_string(dim.b);
    name += ";";
  }
  name += std::to_string(first);
  if (pairs)
    name += "pairs";
  int64_t elements =
      packedElements(target.processor(), type.getElementType(), accumulate, product(n), product(k), pairs) *
      product(batch);
  int64_t bytes = elements * elementBytes(type.getElementType());
  NamedWeight packed = context.weightNamed(name, bytes);
  if (!packed.isNew)
    return View{packed.storage, 0, {1}};
  std::string problem;
  KernelKey key(kPackKernel);
  key.add(type.getElementType()).add(accumulate).add(first).add(int64_t(pairs));
  for (ArrayRef<ContractionDim> dims : {batch, n, k})
    addDims(key, dims);
  const CachedKernel *kernel =
      context.getKernel(key, "pack", problem, [&]() -> llvm::Expected<GeneratedKernel> {
        return generatePackWeights(*context.mlirContext(), target.processor(), type.getElementType(),
                                   accumulate, batch, n, k, pairs, first);
      });
  LoweringContext &load = context.load();
  load.launch(*kernel, {load.accessOf(view, type, false), Access{packed.storage, 0, bytes, true}}, 1, {},
              weight.getLoc());
  return View{packed.storage, 0, {1}};
}

/// Neighbours that follow each other in all three operands become one dimension.
static void mergeDims(SmallVector<ContractionDim> &dims, bool ignoreB) {
  for (unsigned i = 0; i + 1 < dims.size();) {
    const ContractionDim &outer = dims[i], inner = dims[i + 1];
    auto follows = [&](int64_t o, int64_t in) { return o == in * inner.size; };
    if (follows(outer.a, inner.a) && follows(outer.c, inner.c) && (ignoreB || follows(outer.b, inner.b))) {
      dims[i] = {outer.size * inner.size, inner.a, inner.b, inner.c};
      dims.erase(dims.begin() + i + 1);
    } else {
      ++i;
    }
  }
}

namespace {
/// One group on its way to its instruction. Members are set in the order in which they stand.
class ContractionLowering {
public:
  ContractionLowering(const CpuTarget &target, LoweringContext &context, FusionGroup &group)
      : target(target), context(context), group(group), op(group.routine), result(op->getResult(0)) {}

  LogicalResult run();

private:
  /// A dimension: its strides in the tensors that have it.
  struct Label {
    int64_t size = 1, a = 0, b = 0, c = 0;
    bool inA = false, inB = false, inC = false;
  };
  enum Kind : unsigned { Batch, M, N, K };

  LogicalResult separately();
  void collectLabels();
  void fillDims();
  LogicalResult packRight();
  void describeBuffers();
  KernelKey makeKey() const;
  Value emitEpilogue(OpBuilder &builder, Location loc, Value sums, const EpilogueIndex &at);
  SmallVector<Lane> locate(LoopEmitter &e, const EpilogueIndex &at);
  llvm::Expected<GeneratedKernel> generate();
  FailureOr<Access> copyLeft();
  LogicalResult emitInstructions(const CachedKernel &kernel);

  const CpuTarget &target;
  LoweringContext &context;
  FusionGroup &group;
  Operation *op;
  Value result;
  SmallVector<Operation *> epilogue;
  ContractionOperands operands;
  ExtractedGroup extracted;
  std::optional<TakenInput> taken; ///< the input whose memory an output takes
  SmallVector<View> places;        ///< of the group's outputs
  llvm::MapVector<int64_t, Label> labels;
  SmallVector<int64_t> order[4]; ///< labels of each kind, outermost first
  ContractionSpec spec;
  std::optional<WinogradShape> winograd;
  View right;
  int64_t rightBytes = 0;
  int64_t copied = 0; ///< elements of a copy of the left side that a kernel of its own makes
  unsigned sides = 2; ///< buffers before the extra inputs: both sides, or the products
  std::string problem;
};
} // namespace

LogicalResult cpu::lowerContraction(const CpuTarget &target, LoweringContext &context, FusionGroup &group) {
  return ContractionLowering(target, context, group).run();
}

LogicalResult ContractionLowering::run() {
  for (Operation *member : group.ops)
    if (member != op)
      epilogue.push_back(member);
  if (tensorOf(result).getNumElements() == 0 || tensorOf(op->getOperand(0)).getNumElements() == 0)
    return separately();
  if (auto convolution = dyn_cast<ConvOp>(op)) {
    if (!epilogue.empty() && context.options().winograd && winogradOfFilter(target, convolution))
      return separately();
    auto lowered = lowerWinogradFilter(target, context, convolution);
    if (failed(lowered) || *lowered)
      return success(succeeded(lowered));
  }
  auto found = operandsOf(target, op, context);
  if (failed(found))
    return failure();
  operands = std::move(*found);
  auto made = context.extract(epilogue, epilogue.empty() ? ValueRange() : ValueRange(group.outputs), op);
  if (failed(made))
    return failure();
  extracted = std::move(*made);
  taken = context.takenInput(group, extracted, {operands.a.storage, operands.b.storage});
  if (!taken)
    taken = context.findReplacedInput(group, extracted, {operands.a.storage, operands.b.storage});
  for (auto [i, output] : llvm::enumerate(group.outputs)) {
    places.push_back(taken && taken->output == i ? extracted.inputs[taken->input]
                                                 : context.allocate(output, /*inside=*/true));
    context.setView(output, places.back());
  }
  collectLabels();
  fillDims();
  winograd = winogradOf(target, op, operands, context);
  // Its places are counted batch, height, width.
  if (winograd && (!order[Batch].empty() || !llvm::is_sorted(order[M]) || order[N].size() != 1))
    winograd.reset();
  sides = winograd ? 1 : 2;
  right = operands.b;
  if (operands.packs && !winograd && failed(packRight()))
    return failure();
  describeBuffers();
  copied = winograd ? 0 : copiedElements(target.processor(), spec);
  spec.copied = copied != 0;
  std::string name = epilogue.empty() ? "contract" : "contract_" + shortName(epilogue.back()), reason;
  const CachedKernel *kernel = context.getKernel(makeKey(), name, reason, [&] { return generate(); });
  return kernel ? emitInstructions(*kernel) : separately();
}

LogicalResult ContractionLowering::separately() {
  for (Value output : group.outputs)
    context.eraseView(output);
  return context.lowerSeparately(group);
}

void ContractionLowering::collectLabels() {
  auto add = [&](ArrayRef<int64_t> dims, ArrayRef<int64_t> shape, ArrayRef<int64_t> strides,
                 int64_t Label::*stride, bool Label::*isIn) {
    for (auto [label, size, step] : llvm::zip_equal(dims, shape, strides)) {
      labels[label].*stride = step;
      labels[label].*isIn = true;
      labels[label].size = size;
    }
  };
  add(operands.resultDims, shapeOf(result), places[0].strides, &Label::c, &Label::inC);
  add(operands.lhsDims, operands.lhsType.getShape(), operands.a.strides, &Label::a, &Label::inA);
  SmallVector<int64_t> right(operands.b.strides);
  if (operands.reversed)
    for (auto [stride, size] : llvm::drop_begin(llvm::zip_equal(right, operands.rhsType.getShape()), 2))
      spec.bFirst += (size - 1) * stride, stride = -stride;
  add(operands.rhsDims, operands.rhsType.getShape(), right, &Label::b, &Label::inB);
  for (auto &[label, dim] : labels)
    if (dim.size != 1)
      order[!dim.inC ? K : dim.inA && dim.inB ? Batch : dim.inA ? M : N].push_back(label);
  for (Kind kind : {Batch, M, N, K})
    llvm::stable_sort(order[kind], [&](int64_t x, int64_t y) {
      return kind == K ? labels[x].a > labels[y].a : labels[x].c > labels[y].c;
    });
}

void ContractionLowering::fillDims() {
  SmallVector<ContractionDim> *lists[4] = {&spec.batch, &spec.m, &spec.n, &spec.k};
  for (Kind kind : {Batch, M, N, K}) {
    for (int64_t label : order[kind]) {
      const Label &dim = labels[label];
      lists[kind]->push_back({dim.size, dim.a, dim.b, dim.c});
    }
    if (kind != Batch || !operands.packs)
      mergeDims(*lists[kind], false);
  }
  spec.aType = elementTypeOf(operands.lhs);
  spec.bType = elementTypeOf(operands.rhs);
  spec.cType = elementTypeOf(group.outputs.front());
  spec.accumulate = accumulateTypeOf(spec.aType, elementTypeOf(result));
}

LogicalResult ContractionLowering::packRight() {
  const bool pairs = multipliesPairs(target.processor(), spec.aType, spec.bType, spec.accumulate);
  auto packed = packedWeight(target, context, operands.rhs, spec.accumulate, spec.batch, spec.n, spec.k,
                             operands.b, pairs, spec.bFirst);
  if (failed(packed))
    return failure();
  right = *packed;
  spec.packed = true;
  int64_t stride = packedElements(target.processor(), spec.bType, spec.accumulate, product(spec.n),
                                  product(spec.k), pairs);
  for (ContractionDim &dim : llvm::reverse(spec.batch)) {
    dim.b = stride;
    stride *= dim.size;
  }
  rightBytes = context.bytesOfWeight(right.storage);
  // The packed matrix is row-major over n and k: their strides no longer matter.
  mergeDims(spec.n, true);
  return success();
}

void ContractionLowering::describeBuffers() {
  auto describe = [](RankedTensorType type, const View &view) {
    BufferSpec buffer{storageType(type.getElementType()), {}, view.strides, true};
    buffer.shape.assign(type.getShape().begin(), type.getShape().end());
    return buffer;
  };
  for (auto [view, type] : llvm::zip_equal(extracted.inputs, extracted.types))
    spec.extraInputs.push_back(describe(type, view));
  for (auto [view, output] :
       llvm::zip_equal(ArrayRef<View>(places).drop_front(), ArrayRef<Value>(group.outputs).drop_front()))
    spec.extraOutputs.push_back(describe(tensorOf(output), view));
  auto areLikeC = [&](const View &view, ArrayRef<int64_t> shape) {
    return shape == shapeOf(result) && view.strides == places[0].strides;
  };
  for (auto [i, input] : llvm::enumerate(extracted.inputs))
    if (areLikeC(input, extracted.types[i].getShape()) && (!taken || taken->input != i))
      spec.inputsLikeC.push_back(i);
  for (unsigned i = 1; i < places.size(); ++i)
    if (areLikeC(places[i], shapeOf(group.outputs[i])))
      spec.outputsLikeC.push_back(i - 1);
  spec.params = extracted.scalars.size();
  if (taken) {
    spec.extraInputs[taken->input].noalias = false;
    (taken->output == 0 ? spec.noaliasC : spec.extraOutputs[taken->output - 1].noalias) = false;
  }
  if (epilogue.empty())
    return;
  if (spec.cType.isInteger(1))
    spec.cType = IntegerType::get(context.mlirContext(), 8);
  spec.epilogue = [this](OpBuilder &builder, Location loc, Value sums, const EpilogueIndex &at) {
    return emitEpilogue(builder, loc, sums, at);
  };
}

KernelKey ContractionLowering::makeKey() const {
  KernelKey key(kContractionKernel);
  key.add(op)
      .add(operands.lhs.getType())
      .add(operands.rhs.getType())
      .add(int64_t(operands.lhs == op->getOperand(0)))
      .add(int64_t(operands.packs));
  key.add(operands.a.strides).add(operands.b.strides).add(extracted.function);
  for (const View &view : extracted.inputs)
    key.add(view.strides);
  for (auto [view, output] : llvm::zip_equal(places, group.outputs))
    key.add(output.getType()).add(view.strides);
  key.add(taken ? int64_t(taken->input) : int64_t(-1))
      .add(taken ? int64_t(taken->output) : int64_t(-1))
      .add(winograd ? winograd->m : int64_t(0))
      .add(copied);
  return key;
}

/// The index of the result's element(s) from the linear ones of each kind.
SmallVector<Lane> ContractionLowering::locate(LoopEmitter &e, const EpilogueIndex &at) {
  Value zero = e.vectorMemory().constant(0);
  Lane batch = e.constant(0);
  for (auto [value, dim] : llvm::zip(at.batch, spec.batch))
    batch = e.add(e.mul(batch, dim.size), e.uniform(value));
  Lane linear[3] = {batch, e.uniform(at.mLinear ? at.mLinear : zero),
                    Lane{at.nLinear ? at.nLinear : zero, at.width == 1 ? 0 : 1, {}, at.width}};
  llvm::DenseMap<int64_t, Lane> where;
  for (Kind kind : {Batch, M, N}) {
    SmallVector<int64_t> sizes;
    for (int64_t label : order[kind])
      sizes.push_back(labels[label].size);
    for (auto [label, lane] : llvm::zip(order[kind], delinearize(e, linear[kind], sizes)))
      where[label] = lane;
  }
  SmallVector<Lane> index;
  for (auto [label, size] : llvm::zip_equal(operands.resultDims, shapeOf(result)))
    index.push_back(size == 1 ? e.constant(0) : where[label]);
  return index;
}

Value ContractionLowering::emitEpilogue(OpBuilder &builder, Location loc, Value sums,
                                        const EpilogueIndex &at) {
  LoopEmitter e(builder, loc, target.processor(), at.width);
  e.setMask(at.mask);
  SmallVector<Lane> index = locate(e, at);
  Block &block = extracted.function.getBody().front();
  Value converted = e.convert(sums, spec.accumulate, elementTypeOf(result));
  e.bindCode(block.getArgument(0), [&, converted](ArrayRef<Lane> asked) {
    for (auto [i, lane] : llvm::enumerate(asked))
      if (shapeOf(result)[i] != 1 && (lane.base != index[i].base || lane.vector != index[i].vector))
        e.fail("an epilogue reads its contraction at another place");
    return converted;
  });
  unsigned next = sides, param = 0, tensor = 0;
  for (BlockArgument argument : block.getArguments().drop_front()) {
    if (isa<RankedTensorType>(argument.getType()))
      e.bindMemory(argument,
                   {at.kernel.pointer(next++), elementTypeOf(argument), extracted.inputs[tensor++].strides});
    else
      e.bindScalar(argument, at.kernel.param(param++));
  }
  for (Operation &member : block)
    if (auto start = member.getAttrOfType<IntegerAttr>("start_argument"))
      e.bindScalar(member.getResult(0), at.kernel.param(start.getInt()));
  SmallVector<Value> values;
  for (Value output : block.getTerminator()->getOperands())
    values.push_back(e.load(output, index));
  for (unsigned i = 1; i < values.size(); ++i)
    e.store(values[i], {at.kernel.pointer(next + i), elementTypeOf(group.outputs[i]), places[i].strides},
            index);
  if (!e.error().empty())
    problem = e.error();
  Value value = values[0];
  Type type = elementTypeOf(group.outputs.front());
  if (type.isInteger(1))
    value = e.convert(value, type, IntegerType::get(context.mlirContext(), 8));
  return at.width == 1 ? value : e.widen(value);
}

llvm::Expected<GeneratedKernel> ContractionLowering::generate() {
  const Processor &processor = target.processor();
  ArrayRef<int64_t> to = places[0].strides;
  llvm::Expected<GeneratedKernel> generated =
      winograd ? generateWinogradOutput(*context.mlirContext(), processor, *winograd,
                                        {spec.cType,
                                         {to[0], to[2], to[3], to[1]},
                                         spec.epilogue,
                                         spec.extraInputs,
                                         spec.extraOutputs,
                                         spec.noaliasC,
                                         spec.params})
               : generateContraction(*context.mlirContext(), processor, spec);
  if (generated && !problem.empty())
    return llvm::createStringError(problem);
  return generated;
}

/// The left side as the contraction reads it fastest: once for all threads, whatever tiles each of them
/// takes.
FailureOr<Access> ContractionLowering::copyLeft() {
  KernelKey key(kRowCopyKernel);
  key.add(spec.aType).add(spec.bType).add(spec.accumulate);
  for (ArrayRef<ContractionDim> dims : {spec.m, spec.n, spec.k})
    addDims(key, dims);
  const CachedKernel *kernel =
      context.getKernel(key, "copy_rows", problem, [&]() -> llvm::Expected<GeneratedKernel> {
        return generateRowCopy(*context.mlirContext(), target.processor(), spec);
      });
  if (!kernel)
    return op->emitOpError("cannot copy its left side: ") << problem;
  const int64_t bytes = copied * elementBytes(spec.accumulate);
  Access copy{context.newStorage(bytes), 0, bytes, true};
  context.launch(*kernel, {context.accessOf(operands.a, operands.lhsType, false), copy}, 1, {}, op->getLoc());
  copy.writes = false;
  return copy;
}

LogicalResult ContractionLowering::emitInstructions(const CachedKernel &kernel) {
  SmallVector<Access> accesses;
  if (!winograd) {
    auto left =
        copied ? copyLeft() : FailureOr<Access>(context.accessOf(operands.a, operands.lhsType, false));
    if (failed(left))
      return failure();
    accesses.push_back(*left);
    accesses.push_back(operands.packs ? Access{right.storage, 0, rightBytes, false}
                                      : context.accessOf(right, operands.rhsType, false));
  }
  for (auto [view, type] : llvm::zip_equal(extracted.inputs, extracted.types))
    accesses.push_back(context.accessOf(view, type, false));
  for (auto [view, output] : llvm::zip_equal(places, group.outputs))
    accesses.push_back(context.accessOf(view, tensorOf(output), true));
  SmallVector<int64_t> alsoWritten;
  if (taken)
    alsoWritten.push_back(taken->input + sides);
  if (winograd)
    return lowerWinograd(target, context, cast<ConvOp>(op), *winograd, operands, kernel, accesses,
                         places.size(), extracted.scalars, alsoWritten);
  const bool windows = isa<ConvOp, ConvTransposeOp>(op);
  Work work{windows ? Work::Kind::Convolution : Work::Kind::Contraction,
            product(spec.batch),
            product(spec.m),
            product(spec.n),
            product(spec.k),
            countOperations(epilogue)};
  context.launch(kernel, accesses, places.size(), extracted.scalars, op->getLoc(), work, alsoWritten);
  return success();
}
