//===- ContractionLowering.cpp - contractions with what follows them --------===//
//
// A contraction, or a convolution seen as one, becomes one kernel with the group's other ops as its epilogue.
// Dimensions are called by labels, as in contract's attributes; each is a batch, m, n or k of the kernel by
// the tensors that have it. Neighbours: ConvolutionContraction.cpp (whose operands these are),
// WinogradLowering.cpp, ContractionKernel.h.
//
//===----------------------------------------------------------------------===//
#include "FunctionLowering.h"

#include "lib/Codegen/CPU/Fusion/LoopEmitter.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

static Type accumulateTypeOf(Type a, Type result) {
  MLIRContext *context = a.getContext();
  if (a.isF64())
    return a;
  if (isa<FloatType>(a))
    return Float32Type::get(context);
  return IntegerType::get(context, result.getIntOrFloatBitWidth() <= 32 ? 32 : 64);
}

static int64_t product(ArrayRef<cpu::ContractionDim> dims) {
  int64_t size = 1;
  for (const cpu::ContractionDim &dim : dims)
    size *= dim.size;
  return size;
}

FailureOr<View> FunctionLowering::packedWeight(Value weight, Type accumulate,
                                               ArrayRef<cpu::ContractionDim> batch,
                                               ArrayRef<cpu::ContractionDim> n,
                                               ArrayRef<cpu::ContractionDim> k, const View &view) {
  RankedTensorType type = tensorOf(weight);
  std::string key = "packed " + keyOf(weight);
  for (ArrayRef<cpu::ContractionDim> dims : {batch, n, k}) {
    for (const cpu::ContractionDim &dim : dims)
      key += " " + std::to_string(dim.size) + ":" + std::to_string(dim.b);
    key += ";";
  }
  auto [entry, isNew] = shared.weightOf.try_emplace(key);
  if (!isNew)
    return View{entry->second, 0, {1}};
  int64_t elements =
      cpu::packedElements(shared.target, type.getElementType(), accumulate, product(n), product(k)) *
      product(batch);
  View packed{newWeight(elements * cpu::elementBytes(type.getElementType())), 0, {1}};
  shared.weightOf[key] = packed.storage;
  std::string problem;
  KernelKey spec(KernelKey::Kind::Pack);
  spec.add(type.getElementType()).add(accumulate).add(batch).add(n).add(k);
  const CachedKernel *kernel =
      getKernel(spec, "pack", problem, [&]() -> llvm::Expected<cpu::GeneratedKernel> {
        return cpu::generatePackWeights(*context, shared.target, type.getElementType(), accumulate, batch, n,
                                        k);
      });
  Access to{packed.storage, 0, shared.weights[packed.storage - kWeightBase].bytes, true};
  launch(*kernel, {accessOf(view, type, false), to}, 1, {}, weight.getLoc(), loadPlace);
  return packed;
}

/// Neighbours that follow each other in all three operands become one dimension.
static void mergeDims(SmallVector<cpu::ContractionDim> &dims, bool ignoreB) {
  for (unsigned i = 0; i + 1 < dims.size();) {
    const cpu::ContractionDim &outer = dims[i], inner = dims[i + 1];
    auto follows = [&](int64_t o, int64_t in) { return o == in * inner.size; };
    if (follows(outer.a, inner.a) && follows(outer.c, inner.c) && (ignoreB || follows(outer.b, inner.b))) {
      dims[i] = {outer.size * inner.size, inner.a, inner.b, inner.c};
      dims.erase(dims.begin() + i + 1);
    } else {
      ++i;
    }
  }
}

/// One group on its way to its step. Members are set in the order in which they stand.
struct FunctionLowering::ContractionLowering {
  ContractionLowering(FunctionLowering &lowering, Group &group, Place &place)
      : lowering(lowering), group(group), place(place), op(group.routine), result(op->getResult(0)) {}

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
  Value emitEpilogue(OpBuilder &builder, Location loc, Value sums, const cpu::EpilogueIndex &at);
  SmallVector<Lane> locate(cpu::LoopEmitter &e, const cpu::EpilogueIndex &at);
  llvm::Expected<cpu::GeneratedKernel> generate();
  LogicalResult emitStep(const CachedKernel &kernel);

  FunctionLowering &lowering;
  Group &group;
  Place &place;
  Operation *op;
  Value result;
  SmallVector<Operation *> epilogue;
  Operands operands;
  Outline outlined;
  std::optional<unsigned> taken; ///< the input whose memory the output takes
  SmallVector<View> places;      ///< of the group's outputs
  llvm::MapVector<int64_t, Label> labels;
  SmallVector<int64_t> order[4]; ///< labels of each kind, outermost first
  cpu::ContractionSpec spec;
  std::optional<cpu::WinogradShape> winograd;
  View right;
  int64_t rightBytes = 0;
  unsigned sides = 2; ///< buffers before the extra inputs: both sides, or the products
  std::string problem;
};

LogicalResult FunctionLowering::lowerContraction(Group &group, Place &place) {
  return ContractionLowering(*this, group, place).run();
}

LogicalResult FunctionLowering::ContractionLowering::run() {
  for (Operation *member : group.ops)
    if (member != op)
      epilogue.push_back(member);
  if (tensorOf(result).getNumElements() == 0 || tensorOf(op->getOperand(0)).getNumElements() == 0)
    return separately();
  auto found = lowering.operandsOf(op, place);
  if (failed(found))
    return failure();
  operands = std::move(*found);
  auto outline =
      lowering.outline(epilogue, epilogue.empty() ? ValueRange() : ValueRange(group.outputs), place, op);
  if (failed(outline))
    return failure();
  outlined = std::move(*outline);
  taken = lowering.takenInput(group, outlined, {operands.a.storage, operands.b.storage}, place);
  for (Value output : group.outputs)
    places.push_back(taken ? place.views[output] = outlined.inputs[*taken]
                           : lowering.allocate(output, place, /*inside=*/true));
  collectLabels();
  fillDims();
  winograd = lowering.winogradOf(op, operands, place);
  // Its places are counted batch, height, width.
  if (winograd && (!order[Batch].empty() || !llvm::is_sorted(order[M]) || order[N].size() != 1))
    winograd.reset();
  sides = winograd ? 1 : 2;
  right = operands.b;
  if (operands.packs && !winograd && failed(packRight()))
    return failure();
  describeBuffers();
  std::string name = epilogue.empty() ? "contract" : "contract_" + shortName(epilogue.back()), reason;
  const CachedKernel *kernel = lowering.getKernel(makeKey(), name, reason, [&] { return generate(); });
  return kernel ? emitStep(*kernel) : separately();
}

LogicalResult FunctionLowering::ContractionLowering::separately() {
  for (Value output : group.outputs)
    place.views.erase(output);
  return lowering.lowerSeparately(group, place);
}

void FunctionLowering::ContractionLowering::collectLabels() {
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
  add(operands.rhsDims, shapeOf(operands.rhs), operands.b.strides, &Label::b, &Label::inB);
  for (auto &[label, dim] : labels)
    if (dim.size != 1)
      order[!dim.inC ? K : dim.inA && dim.inB ? Batch : dim.inA ? M : N].push_back(label);
  for (Kind kind : {Batch, M, N, K})
    llvm::stable_sort(order[kind], [&](int64_t x, int64_t y) {
      return kind == K ? labels[x].a > labels[y].a : labels[x].c > labels[y].c;
    });
}

void FunctionLowering::ContractionLowering::fillDims() {
  SmallVector<cpu::ContractionDim> *lists[4] = {&spec.batch, &spec.m, &spec.n, &spec.k};
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

LogicalResult FunctionLowering::ContractionLowering::packRight() {
  auto packed = lowering.packedWeight(operands.rhs, spec.accumulate, spec.batch, spec.n, spec.k, operands.b);
  if (failed(packed))
    return failure();
  right = *packed;
  spec.packed = true;
  int64_t stride = cpu::packedElements(lowering.shared.target, spec.bType, spec.accumulate, product(spec.n),
                                       product(spec.k));
  for (cpu::ContractionDim &dim : llvm::reverse(spec.batch)) {
    dim.b = stride;
    stride *= dim.size;
  }
  rightBytes = lowering.shared.weights[right.storage - kWeightBase].bytes;
  // The packed matrix is row-major over n and k: their strides no longer matter.
  mergeDims(spec.n, true);
  return success();
}

void FunctionLowering::ContractionLowering::describeBuffers() {
  auto describe = [](RankedTensorType type, const View &view) {
    cpu::BufferSpec buffer{cpu::storageType(type.getElementType()), {}, view.strides, true};
    buffer.shape.assign(type.getShape().begin(), type.getShape().end());
    return buffer;
  };
  for (auto [view, type] : llvm::zip_equal(outlined.inputs, outlined.types))
    spec.extraInputs.push_back(describe(type, view));
  for (auto [view, output] :
       llvm::zip_equal(ArrayRef<View>(places).drop_front(), ArrayRef<Value>(group.outputs).drop_front()))
    spec.extraOutputs.push_back(describe(tensorOf(output), view));
  spec.params = outlined.scalars.size();
  if (taken)
    spec.extraInputs[*taken].noalias = spec.noaliasC = false;
  if (epilogue.empty())
    return;
  if (spec.cType.isInteger(1))
    spec.cType = IntegerType::get(lowering.context, 8);
  spec.epilogue = [this](OpBuilder &builder, Location loc, Value sums, const cpu::EpilogueIndex &at) {
    return emitEpilogue(builder, loc, sums, at);
  };
}

KernelKey FunctionLowering::ContractionLowering::makeKey() const {
  KernelKey key(KernelKey::Kind::Contraction);
  key.add(op)
      .add(operands.lhs.getType())
      .add(operands.rhs.getType())
      .add(int64_t(operands.lhs == op->getOperand(0)))
      .add(int64_t(operands.packs));
  key.add(operands.a.strides).add(operands.b.strides).add(outlined.function);
  for (const View &view : outlined.inputs)
    key.add(view.strides);
  for (auto [view, output] : llvm::zip_equal(places, group.outputs))
    key.add(output.getType()).add(view.strides);
  key.add(taken ? int64_t(*taken) : int64_t(-1)).add(winograd ? winograd->m : int64_t(0));
  return key;
}

/// The index of the result's element(s) from the linear ones of each kind.
SmallVector<Lane> FunctionLowering::ContractionLowering::locate(cpu::LoopEmitter &e,
                                                                const cpu::EpilogueIndex &at) {
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

Value FunctionLowering::ContractionLowering::emitEpilogue(OpBuilder &builder, Location loc, Value sums,
                                                          const cpu::EpilogueIndex &at) {
  cpu::LoopEmitter e(builder, loc, lowering.shared.target, at.width);
  e.setMask(at.mask);
  SmallVector<Lane> index = locate(e, at);
  Block &block = outlined.function.getBody().front();
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
                   {at.kernel.pointer(next++), elementTypeOf(argument), outlined.inputs[tensor++].strides});
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
    value = e.convert(value, type, IntegerType::get(lowering.context, 8));
  return at.width == 1 ? value : e.widen(value);
}

llvm::Expected<cpu::GeneratedKernel> FunctionLowering::ContractionLowering::generate() {
  const cpu::Target &target = lowering.shared.target;
  ArrayRef<int64_t> to = places[0].strides;
  llvm::Expected<cpu::GeneratedKernel> generated =
      winograd ? cpu::generateWinogradOutput(*lowering.context, target, *winograd,
                                             {spec.cType,
                                              {to[0], to[2], to[3], to[1]},
                                              spec.epilogue,
                                              spec.extraInputs,
                                              spec.extraOutputs,
                                              spec.noaliasC,
                                              spec.params})
               : cpu::generateContraction(*lowering.context, target, spec);
  if (generated && !problem.empty())
    return llvm::createStringError(problem);
  return generated;
}

LogicalResult FunctionLowering::ContractionLowering::emitStep(const CachedKernel &kernel) {
  SmallVector<Access> accesses;
  if (!winograd) {
    accesses.push_back(lowering.accessOf(operands.a, operands.lhsType, false));
    accesses.push_back(operands.packs ? Access{right.storage, 0, rightBytes, false}
                                      : lowering.accessOf(right, tensorOf(operands.rhs), false));
  }
  for (auto [view, type] : llvm::zip_equal(outlined.inputs, outlined.types))
    accesses.push_back(lowering.accessOf(view, type, false));
  for (auto [view, output] : llvm::zip_equal(places, group.outputs))
    accesses.push_back(lowering.accessOf(view, tensorOf(output), true));
  SmallVector<int64_t> alsoWritten;
  if (taken)
    alsoWritten.push_back(*taken + sides);
  if (winograd)
    return lowering.lowerWinograd(cast<ConvOp>(op), *winograd, operands, kernel, accesses, places.size(),
                                  outlined.scalars, alsoWritten, place);
  lowering.launch(kernel, accesses, places.size(), outlined.scalars, op->getLoc(), place, alsoWritten);
  bool windows = isa<ConvOp, ConvTransposeOp>(op);
  place.program->steps.back().work = {windows ? Work::Kind::Convolution : Work::Kind::Contraction,
                                      product(spec.batch),
                                      product(spec.m),
                                      product(spec.n),
                                      product(spec.k),
                                      countOperations(epilogue)};
  return success();
}
