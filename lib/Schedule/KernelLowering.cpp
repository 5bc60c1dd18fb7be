//===- KernelLowering.cpp - groups to kernels and launches ------------------===//
#include "Collectives.h"
#include "FunctionLowering.h"

#include "colossal/Codegen/CPU/VectorMemory.h"
#include "lib/Codegen/CPU/Fusion/LoopEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

static RankedTensorType tensorOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// "add" of colossal.elementwise add, "softmax" of colossal.softmax: what a trace shows.
static std::string shortName(Operation *op) {
  if (auto elementwise = dyn_cast<ElementwiseOp>(op))
    return stringifyElementwiseKind(elementwise.getKind()).str();
  return op->getName().stripDialect().str();
}

const CachedKernel *
FunctionLowering::getKernel(const KernelKey &key, StringRef name, std::string &problem,
                            llvm::function_ref<llvm::Expected<cpu::GeneratedKernel>()> generate) {
  auto [entry, isNew] = shared.generated.try_emplace(key);
  if (isNew) {
    llvm::Expected<cpu::GeneratedKernel> kernel = generate();
    if (kernel) {
      std::string symbol = shared.compiler.add(*kernel->module, name);
      shared.kernels[symbol] = {kernel->buffers, kernel->params};
      entry->second =
          CachedKernel{symbol, kernel->tiles, kernel->scratchBytes, kernel->buffers, kernel->params};
    } else {
      problem = llvm::toString(kernel.takeError());
    }
  }
  return entry->second ? &*entry->second : nullptr;
}

void FunctionLowering::launch(const CachedKernel &kernel, ArrayRef<Access> accesses, unsigned writes,
                              ArrayRef<Value> scalars, Location loc, Place &place,
                              ArrayRef<int64_t> alsoWritten) {
  auto reference = FlatSymbolRefAttr::get(context, kernel.symbol);
  SmallVector<Value> operands(scalars);
  SmallVector<int64_t> both(alsoWritten);
  int64_t tiles = kernel.tiles, scratch = kernel.scratch;
  place.program->steps.push_back(
      {SmallVector<Access>(accesses), false, loc,
       [=](OpBuilder &b, ArrayRef<plan::BufferAttr> buffers, IRMapping &mapping) -> Operation * {
         SmallVector<Value> params;
         for (Value scalar : operands)
           params.push_back(mapping.lookup(scalar));
         SmallVector<Attribute> attributes(buffers.begin(), buffers.end());
         return plan::LaunchOp::create(b, loc, reference, params, b.getArrayAttr(attributes),
                                       b.getI64IntegerAttr(writes), b.getI64IntegerAttr(tiles),
                                       b.getI64IntegerAttr(scratch),
                                       both.empty() ? DenseI64ArrayAttr() : b.getDenseI64ArrayAttr(both));
       },
       operands});
}

static int64_t countOperations(ArrayRef<Operation *> ops) {
  double count = 0;
  for (Operation *op : ops)
    if (auto ruled = dyn_cast<dist::ShardingRuleOpInterface>(op))
      count += ruled.getFlops();
  return static_cast<int64_t>(std::min(count, 1e18));
}

//===----------------------------------------------------------------------===//
// Fused groups
//===----------------------------------------------------------------------===//

FailureOr<FunctionLowering::Outline> FunctionLowering::outline(ArrayRef<Operation *> ops, ValueRange outputs,
                                                               Place &place, Operation *routine) {
  Outline result;
  OpBuilder b(context);
  Location loc = b.getUnknownLoc();
  result.module = ModuleOp::create(loc);
  b.setInsertionPointToEnd(result.module->getBody());
  result.function = func::FuncOp::create(b, loc, "group", b.getFunctionType({}, {}));
  Block *block = result.function.addEntryBlock();
  b.setInsertionPointToEnd(block);
  IRMapping mapping;
  llvm::DenseMap<Operation *, bool> inGroup;
  for (Operation *op : ops)
    inGroup[op] = true;
  if (routine)
    for (Value value : routine->getResults())
      mapping.map(value, block->addArgument(value.getType(), loc)); // stands for the sums in registers

  bool failedAny = false;
  auto addScalar = [&](Value source) {
    for (auto [i, known] : llvm::enumerate(result.scalars))
      if (known == source)
        return (int64_t)i;
    result.scalars.push_back(source);
    return (int64_t)result.scalars.size() - 1;
  };
  // Index arguments follow the tensors'; until all tensors are known they are numbered by attributes of their
  // users.
  SmallVector<std::tuple<Operation *, unsigned, int64_t>> scalarUses;
  auto cloneOp = [&](auto import, Operation *op) {
    OperationState state(loc, op->getName().getStringRef());
    SmallVector<std::pair<unsigned, int64_t>> pending;
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      if (isa<RankedTensorType>(operand.getType())) {
        state.operands.push_back(import(import, operand));
      } else {
        pending.push_back({i, addScalar(operand)});
        state.operands.push_back(Value());
      }
    }
    Value zero;
    for (auto [i, number] : pending) {
      if (!zero)
        zero = arith::ConstantIndexOp::create(b, loc, 0);
      state.operands[i] = zero;
    }
    state.addTypes(op->getResultTypes());
    SmallVector<NamedAttribute> attributes;
    for (NamedAttribute attribute : op->getAttrs())
      if (!attribute.getName().strref().starts_with("dist.") &&
          !attribute.getName().strref().starts_with("colossal."))
        attributes.push_back(attribute);
    state.addAttributes(attributes);
    state.propertiesAttr = op->getPropertiesAsAttribute();
    Operation *clone = b.create(state);
    for (auto [i, number] : pending)
      scalarUses.push_back({clone, i, number});
    if (auto start = sliceStarts.find(op); start != sliceStarts.end())
      clone->setAttr("start_argument", b.getI64IntegerAttr(addScalar(start->second)));
    mapping.map(op->getResults(), clone->getResults());
    return clone;
  };
  auto import = [&](auto self, Value value) -> Value {
    if (Value known = mapping.lookupOrNull(value))
      return known;
    Operation *def = value.getDefiningOp();
    if (def && inGroup.count(def))
      return cloneOp(self, def)->getResult(cast<OpResult>(value).getResultNumber());
    if (isFree(value))
      return cloneOp(self, def)->getResult(0);
    if (def && isMovement(def)) {
      Value base = value;
      while (base.getDefiningOp() && isMovement(base.getDefiningOp()) && !mapping.contains(base) &&
             !inGroup.count(base.getDefiningOp()))
        base = base.getDefiningOp()->getOperand(0);
      bool inside = mapping.contains(base) || (base.getDefiningOp() && inGroup.count(base.getDefiningOp()));
      if (inside || (!place.load && isLoadable(value)
                         ? false
                         : !existingView(value, place) && (place.load || !isLoadable(value)) &&
                               existingView(base, place)))
        return cloneOp(self, def)->getResult(0);
    }
    auto view = viewOf(value, place);
    if (failed(view)) {
      failedAny = true;
      return Value();
    }
    Value argument = block->addArgument(value.getType(), loc);
    result.inputs.push_back(*view);
    result.values.push_back(value);
    result.types.push_back(tensorOf(value));
    mapping.map(value, argument);
    return argument;
  };
  for (Operation *op : ops) {
    if (op == routine)
      continue;
    if (op->getNumResults() && !mapping.contains(op->getResult(0)))
      cloneOp(import, op);
    if (failedAny)
      return failure();
  }
  SmallVector<Value> results;
  for (Value output : outputs)
    results.push_back(import(import, output));
  if (failedAny)
    return failure();
  for (auto [i, scalar] : llvm::enumerate(result.scalars)) {
    Value argument = block->addArgument(b.getIndexType(), loc);
    for (auto [user, operand, number] : scalarUses)
      if (number == (int64_t)i)
        user->setOperand(operand, argument);
  }
  func::ReturnOp::create(b, loc, results);
  result.function.setFunctionType(
      b.getFunctionType(block->getArgumentTypes(), ValueRange(results).getTypes()));
  // Constants and ops that fell out of use are no part of the group's text.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block)))
    if (op.use_empty() && isPure(&op) && op.getNumResults())
      op.erase();
  return result;
}

bool FunctionLowering::mayTake(Value value, const View &view, Value output, ArrayRef<Operation *> last,
                               Place &place) {
  if (place.load || value.getType() != output.getType() || view.storage >= kWeightBase || view.offset != 0 ||
      insides.count(value) || view.strides != stridesInOrder(output) ||
      program.storages[view.storage].bytes !=
          tensorOf(output).getNumElements() * cpu::elementBytes(elementTypeOf(output)) ||
      llvm::any_of(output.getUsers(),
                   [](Operation *user) { return isa<func::ReturnOp>(user) || isPadding(user); }))
    return false;
  SmallVector<Operation *> added;
  for (Operation *op : last)
    if (done.insert(op).second)
      added.push_back(op);
  bool dead = isDead(value);
  for (Operation *op : added)
    done.erase(op);
  return dead;
}

std::optional<unsigned> FunctionLowering::takenInput(Group &group, const Outline &outlined,
                                                     ArrayRef<unsigned> others, Place &place) {
  if (place.load || group.outputs.size() != 1 || !group.reduced.empty())
    return std::nullopt;
  auto readsInPlace = [&](Value value) {
    auto visit = [&](auto self, Value v, bool moved) -> bool {
      return llvm::all_of(v.getUsers(), [&](Operation *user) {
        if (isMovement(user))
          return self(self, user->getResult(0), true);
        return !llvm::is_contained(group.ops, user) ||
               (!moved && isa<ElementwiseOp>(user) && group.aligned.lookup(user));
      });
    };
    return visit(visit, value, false);
  };
  for (auto [i, value, view] : llvm::enumerate(outlined.values, outlined.inputs)) {
    unsigned readers =
        llvm::count_if(outlined.inputs, [&](const View &other) { return other.storage == view.storage; });
    if (readers == 1 && !llvm::is_contained(others, view.storage) && readsInPlace(value) &&
        mayTake(value, view, group.outputs.front(), group.ops, place))
      return i;
  }
  return std::nullopt;
}

LogicalResult FunctionLowering::lowerFused(Group &group, Place &place) {
  SmallVector<Value> outputs;
  for (Value output : group.outputs)
    if (tensorOf(output).getNumElements() != 0)
      outputs.push_back(output);
    else
      allocate(output, place);
  if (outputs.empty())
    return success();
  Operation *first = group.ops.front();
  auto outlined = outline(group.ops, outputs, place, nullptr);
  if (failed(outlined))
    return failure();
  cpu::FusedSpec spec;
  spec.function = outlined->function;
  for (const View &view : outlined->inputs)
    spec.inputs.push_back({view.strides, true});
  SmallVector<View> places;
  std::optional<unsigned> taken = takenInput(group, *outlined, {}, place);
  if (taken)
    spec.inputs[*taken].noalias = false;
  for (Value output : outputs) {
    places.push_back(taken ? place.views[output] = outlined->inputs[*taken]
                           : allocate(output, place, /*inside=*/true));
    spec.outputs.push_back({places.back().strides, !taken});
  }
  KernelKey key(KernelKey::Kind::Fused);
  key.add(outlined->function);
  for (const auto *buffers : {&spec.inputs, &spec.outputs})
    for (const cpu::FusedBuffer &buffer : *buffers)
      key.add(buffer.strides).add(int64_t(buffer.noalias));
  std::string name = shortName(group.ops.back()), problem;
  if (group.ops.size() > 1)
    name = shortName(first) + "_" + name;
  const CachedKernel *kernel =
      getKernel(key, name, problem, [&] { return cpu::generateFused(*context, shared.target, spec); });
  if (!kernel) {
    if (group.ops.size() == 1)
      return first->emitOpError("cannot be generated for this target: ") << problem;
    // One op at a time; what was to stay in registers is stored.
    for (Value output : outputs)
      place.views.erase(output);
    for (Operation *op : group.ops) {
      Group single;
      single.ops.push_back(op);
      for (Value result : op->getResults())
        if (isa<RankedTensorType>(result.getType()))
          single.outputs.push_back(result);
      if (failed(lowerFused(single, place)))
        return failure();
    }
    return success();
  }
  SmallVector<Access> accesses;
  for (auto [view, type] : llvm::zip(outlined->inputs, outlined->types))
    accesses.push_back(accessOf(view, type, false));
  for (auto [view, output] : llvm::zip(places, outputs))
    accesses.push_back(accessOf(view, tensorOf(output), true));
  launch(*kernel, accesses, outputs.size(), outlined->scalars, group.ops.back()->getLoc(), place,
         taken ? SmallVector<int64_t>{*taken} : SmallVector<int64_t>());
  place.program->steps.back().work.operations = countOperations(group.ops);
  return success();
}

LogicalResult FunctionLowering::copy(const View &from, RankedTensorType type, const View &to, Place &place,
                                     Location loc) {
  Access source = accessOf(from, type, false), target = accessOf(to, type, true);
  if (isDense(from, type.getShape()) && isDense(to, type.getShape())) {
    place.program->steps.push_back(
        {{source, target},
         false,
         loc,
         [=](OpBuilder &b, ArrayRef<plan::BufferAttr> buffers, IRMapping &) -> Operation * {
           return plan::CopyOp::create(b, loc, buffers[0], buffers[1]);
         },
         {}});
    return success();
  }
  std::string problem;
  KernelKey key(KernelKey::Kind::Copy);
  key.add(Type(type)).add(from.strides).add(to.strides);
  const CachedKernel *kernel = getKernel(key, "copy", problem, [&] {
    OpBuilder b(context);
    OwningOpRef<ModuleOp> module = ModuleOp::create(b.getUnknownLoc());
    b.setInsertionPointToEnd(module->getBody());
    auto function = func::FuncOp::create(b, b.getUnknownLoc(), "group", b.getFunctionType({type}, {type}));
    b.setInsertionPointToEnd(function.addEntryBlock());
    func::ReturnOp::create(b, b.getUnknownLoc(), function.getArguments());
    return cpu::generateFused(*context, shared.target,
                              {function, {{from.strides, true}}, {{to.strides, true}}});
  });
  if (!kernel)
    return emitError(loc, "a copy cannot be generated") << (problem.empty() ? "" : ": ") << problem;
  launch(*kernel, {source, target}, 1, {}, loc, place);
  return success();
}

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

static Type accumulateTypeOf(Type a, Type result) {
  MLIRContext *context = a.getContext();
  if (a.isF64())
    return a;
  if (isa<FloatType>(a))
    return Float32Type::get(context);
  return IntegerType::get(context, result.getIntOrFloatBitWidth() <= 32 ? 32 : 64);
}

FailureOr<View> FunctionLowering::packedWeight(Value weight, Type accumulate,
                                               ArrayRef<cpu::ContractionDim> batch,
                                               ArrayRef<cpu::ContractionDim> n,
                                               ArrayRef<cpu::ContractionDim> k, const View &view) {
  RankedTensorType type = tensorOf(weight);
  std::string key = "packed " + keyOf(weight);
  int64_t count = 1, columns = 1, depth = 1;
  auto describe = [&](ArrayRef<cpu::ContractionDim> dims, int64_t &product) {
    for (const cpu::ContractionDim &dim : dims) {
      product *= dim.size;
      key += " " + std::to_string(dim.size) + ":" + std::to_string(dim.b);
    }
    key += ";";
  };
  describe(batch, count);
  describe(n, columns);
  describe(k, depth);
  auto [entry, isNew] = shared.weightOf.try_emplace(key);
  if (!isNew)
    return View{entry->second, 0, {1}};
  int64_t elements =
      cpu::packedElements(shared.target, type.getElementType(), accumulate, columns, depth) * count;
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

LogicalResult FunctionLowering::lowerContraction(Group &group, Place &place) {
  Operation *op = group.routine;
  SmallVector<Operation *> epilogue;
  for (Operation *member : group.ops)
    if (member != op)
      epilogue.push_back(member);
  Value main = group.outputs.front();
  auto separately = [&]() -> LogicalResult {
    for (Value output : group.outputs)
      place.views.erase(output);
    return lowerSeparately(group, place);
  };
  Value result = op->getResult(0);
  if (tensorOf(result).getNumElements() == 0 || tensorOf(op->getOperand(0)).getNumElements() == 0)
    return separately();
  auto operands = operandsOf(op, place);
  if (failed(operands))
    return failure();
  Value lhs = operands->lhs, rhs = operands->rhs;
  const View *a = &operands->a, *b = &operands->b;
  bool packs = operands->packs;
  FailureOr<Outline> outlined =
      outline(epilogue, epilogue.empty() ? ValueRange() : ValueRange(group.outputs), place, op);
  if (failed(outlined))
    return failure();
  SmallVector<View> places;
  std::optional<unsigned> taken = takenInput(group, *outlined, {a->storage, b->storage}, place);
  for (Value output : group.outputs)
    places.push_back(taken ? place.views[output] = outlined->inputs[*taken]
                           : allocate(output, place, /*inside=*/true));

  struct Label {
    int64_t size = 1, a = 0, b = 0, c = 0;
    bool inA = false, inB = false, inC = false;
  };
  llvm::MapVector<int64_t, Label> labels;
  for (auto [i, label] : llvm::enumerate(operands->resultDims)) {
    labels[label].c = places[0].strides[i];
    labels[label].inC = true;
    labels[label].size = tensorOf(result).getDimSize(i);
  }
  for (auto [i, label] : llvm::enumerate(operands->lhsDims)) {
    labels[label].a = a->strides[i];
    labels[label].inA = true;
    labels[label].size = operands->lhsType.getDimSize(i);
  }
  for (auto [i, label] : llvm::enumerate(operands->rhsDims)) {
    labels[label].b = b->strides[i];
    labels[label].inB = true;
    labels[label].size = tensorOf(rhs).getDimSize(i);
  }
  cpu::ContractionSpec spec;
  SmallVector<int64_t> order[4]; // labels of batch, m, n, k
  for (auto &[label, dim] : labels) {
    if (dim.size == 1)
      continue;
    unsigned kind = !dim.inC ? 3 : dim.inA && dim.inB ? 0 : dim.inA ? 1 : 2;
    order[kind].push_back(label);
  }
  auto sortBy = [&](SmallVector<int64_t> &list, auto stride) {
    llvm::stable_sort(list, [&](int64_t x, int64_t y) { return stride(labels[x]) > stride(labels[y]); });
  };
  for (unsigned kind = 0; kind < 3; ++kind)
    sortBy(order[kind], [](const Label &l) { return l.c; });
  sortBy(order[3], [](const Label &l) { return l.a; });
  SmallVector<cpu::ContractionDim> *lists[4] = {&spec.batch, &spec.m, &spec.n, &spec.k};
  for (unsigned kind = 0; kind < 4; ++kind) {
    for (int64_t label : order[kind]) {
      const Label &dim = labels[label];
      lists[kind]->push_back({dim.size, dim.a, dim.b, dim.c});
    }
    if (kind > 0 || !packs)
      mergeDims(*lists[kind], false);
  }
  spec.aType = elementTypeOf(lhs);
  spec.bType = elementTypeOf(rhs);
  spec.cType = elementTypeOf(main);
  spec.accumulate = accumulateTypeOf(spec.aType, elementTypeOf(result));
  View right = *b;
  int64_t rightBytes = 0;
  std::optional<cpu::WinogradShape> winograd = winogradOf(op, *operands, place);
  // Its places are counted batch, height, width.
  if (winograd && (!order[0].empty() || !llvm::is_sorted(order[1]) || order[2].size() != 1))
    winograd.reset();
  if (packs && !winograd) {
    auto packed = packedWeight(rhs, spec.accumulate, spec.batch, spec.n, spec.k, *b);
    if (failed(packed))
      return failure();
    right = *packed;
    spec.packed = true;
    int64_t columns = 1, depth = 1;
    for (auto &dim : spec.n)
      columns *= dim.size;
    for (auto &dim : spec.k)
      depth *= dim.size;
    int64_t stride = cpu::packedElements(shared.target, spec.bType, spec.accumulate, columns, depth);
    for (cpu::ContractionDim &dim : llvm::reverse(spec.batch)) {
      dim.b = stride;
      stride *= dim.size;
    }
    rightBytes = shared.weights[right.storage - kWeightBase].bytes;
    // The packed matrix is row-major over n and k: their strides no longer matter.
    mergeDims(spec.n, true);
  }
  for (const View &view : outlined->inputs)
    spec.extraInputs.push_back({cpu::storageType(outlined->types[spec.extraInputs.size()].getElementType()),
                                {},
                                view.strides,
                                true});
  for (auto [i, view] : llvm::enumerate(ArrayRef<View>(places).drop_front()))
    spec.extraOutputs.push_back(
        {cpu::storageType(elementTypeOf(group.outputs[i + 1])), {}, view.strides, true});
  for (auto [i, extra] : llvm::enumerate(spec.extraInputs))
    extra.shape.assign(outlined->types[i].getShape().begin(), outlined->types[i].getShape().end());
  for (auto [i, extra] : llvm::enumerate(spec.extraOutputs))
    extra.shape.assign(tensorOf(group.outputs[i + 1]).getShape().begin(),
                       tensorOf(group.outputs[i + 1]).getShape().end());
  spec.params = outlined->scalars.size();
  if (taken)
    spec.extraInputs[*taken].noalias = spec.noaliasC = false;

  KernelKey key(KernelKey::Kind::Contraction);
  key.add(op)
      .add(lhs.getType())
      .add(rhs.getType())
      .add(int64_t(lhs == op->getOperand(0)))
      .add(int64_t(packs));
  key.add(a->strides).add(b->strides).add(outlined->function);
  for (const View &view : outlined->inputs)
    key.add(view.strides);
  for (auto [view, output] : llvm::zip_equal(places, group.outputs))
    key.add(output.getType()).add(view.strides);
  key.add(taken ? int64_t(*taken) : int64_t(-1)).add(winograd ? winograd->m : int64_t(0));

  std::string problem;
  // Buffers before the extra inputs: the products, or both sides.
  const unsigned sides = winograd ? 1 : 2;
  ArrayRef<int64_t> resultDims = operands->resultDims, resultShape = shapeOf(result);
  if (!epilogue.empty()) {
    spec.epilogue = [&](OpBuilder &builder, Location loc, Value sums, const cpu::EpilogueIndex &at) -> Value {
      cpu::LoopEmitter e(builder, loc, shared.target, at.width);
      e.setMask(at.mask);
      // The index of each label from the linear ones of its kind.
      llvm::DenseMap<int64_t, Lane> where;
      Value zero = e.vectorMemory().constant(0);
      auto batchLinear = [&]() -> Lane {
        Lane linear = e.constant(0);
        for (auto [value, dim] : llvm::zip(at.batch, spec.batch))
          linear = e.add(e.mul(linear, dim.size), e.uniform(value));
        return linear;
      };
      Lane linear[3] = {batchLinear(), e.uniform(at.mLinear ? at.mLinear : zero),
                        Lane{at.nLinear ? at.nLinear : zero, at.width == 1 ? 0 : 1, {}, at.width}};
      for (unsigned kind = 0; kind < 3; ++kind) {
        SmallVector<int64_t> sizes;
        for (int64_t label : order[kind])
          sizes.push_back(labels[label].size);
        for (auto [label, lane] : llvm::zip(order[kind], delinearize(e, linear[kind], sizes)))
          where[label] = lane;
      }
      SmallVector<Lane> index;
      for (auto [i, label] : llvm::enumerate(resultDims))
        index.push_back(resultShape[i] == 1 ? e.constant(0) : where[label]);
      Block &block = outlined->function.getBody().front();
      Type resultType = elementTypeOf(result);
      Value converted = e.convert(sums, spec.accumulate, resultType);
      e.bindCode(block.getArgument(0), [&, converted](ArrayRef<Lane> asked) {
        for (auto [i, lane] : llvm::enumerate(asked))
          if (resultShape[i] != 1 && (lane.base != index[i].base || lane.vector != index[i].vector))
            e.fail("an epilogue reads its contraction at another place");
        return converted;
      });
      unsigned next = sides, param = 0, tensor = 0;
      for (BlockArgument argument : block.getArguments().drop_front()) {
        if (isa<RankedTensorType>(argument.getType()))
          e.bindMemory(argument, {at.kernel.pointer(next++), elementTypeOf(argument),
                                  outlined->inputs[tensor++].strides});
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
      if (elementTypeOf(main).isInteger(1))
        value = e.convert(value, elementTypeOf(main), IntegerType::get(context, 8));
      return at.width == 1 ? value : e.widen(value);
    };
    if (elementTypeOf(main).isInteger(1))
      spec.cType = IntegerType::get(context, 8);
  }
  std::string name = epilogue.empty() ? "contract" : "contract_" + shortName(epilogue.back()), reason;
  const CachedKernel *kernel = getKernel(key, name, reason, [&]() -> llvm::Expected<cpu::GeneratedKernel> {
    auto make = [&]() -> llvm::Expected<cpu::GeneratedKernel> {
      if (!winograd)
        return cpu::generateContraction(*context, shared.target, spec);
      ArrayRef<int64_t> to = places[0].strides;
      return cpu::generateWinogradOutput(*context, shared.target, *winograd,
                                         {spec.cType,
                                          {to[0], to[2], to[3], to[1]},
                                          spec.epilogue,
                                          spec.extraInputs,
                                          spec.extraOutputs,
                                          spec.noaliasC,
                                          spec.params});
    };
    auto generated = make();
    if (generated && !problem.empty())
      return llvm::createStringError(problem);
    return generated;
  });
  if (!kernel)
    return separately();
  SmallVector<Access> accesses;
  if (!winograd) {
    accesses.push_back(accessOf(*a, operands->lhsType, false));
    accesses.push_back(packs ? Access{right.storage, 0, rightBytes, false}
                             : accessOf(right, tensorOf(rhs), false));
  }
  for (auto [view, type] : llvm::zip(outlined->inputs, outlined->types))
    accesses.push_back(accessOf(view, type, false));
  for (auto [view, output] : llvm::zip(places, group.outputs))
    accesses.push_back(accessOf(view, tensorOf(output), true));
  SmallVector<int64_t> alsoWritten;
  if (taken)
    alsoWritten.push_back(*taken + sides);
  if (winograd)
    return lowerWinograd(cast<ConvOp>(op), *winograd, *operands, *kernel, accesses, places.size(),
                         outlined->scalars, alsoWritten, place);
  launch(*kernel, accesses, places.size(), outlined->scalars, op->getLoc(), place, alsoWritten);
  auto product = [](ArrayRef<cpu::ContractionDim> dims) {
    int64_t size = 1;
    for (const cpu::ContractionDim &dim : dims)
      size *= dim.size;
    return size;
  };
  bool windows = isa<ConvOp, ConvTransposeOp>(op);
  place.program->steps.back().work = {windows ? Work::Kind::Convolution : Work::Kind::Contraction,
                                      product(spec.batch),
                                      product(spec.m),
                                      product(spec.n),
                                      product(spec.k),
                                      countOperations(epilogue)};
  return success();
}
