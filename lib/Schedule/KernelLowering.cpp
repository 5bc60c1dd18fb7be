//===- KernelLowering.cpp - groups to kernels and launches ------------------===//
#include "Collectives.h"
#include "FunctionLowering.h"

#include "colossal/Codegen/CPU/VectorMemory.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

std::string schedule::shortName(Operation *op) {
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

int64_t schedule::countOperations(ArrayRef<Operation *> ops) {
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
