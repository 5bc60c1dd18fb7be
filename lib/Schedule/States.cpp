//===- States.cpp - where states lie, begin and change -----------------------===//
//
// A state has one place in the arena of states, which all programs share. It begins as zeros, or the load
// program reads a parameter there. A kernel that makes the new value element by element, and a collective
// that brings it together, write it over the old one, where nobody reads that any more; else the new value is
// copied there, as soon as nobody does.
//
//===----------------------------------------------------------------------===//
#include "FunctionState.h"

#include "colossal/Plan/Training.h"
#include "dialects/Dist/Stages.h"
#include "dialects/Dist/State.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

/// The name of the state that a result of a function is, or none.
static StringAttr getResultState(func::FuncOp function, unsigned result) {
  return function.getResultAttrOfType<StringAttr>(result, dist::kStateAttrName);
}

/// Fills a state of `argument`'s type from the parameter that it begins as.
LogicalResult LoweringContext::loadState(BlockArgument argument, DictionaryAttr info, const View &view) {
  RankedTensorType type = tensorOf(argument);
  auto source = info.getAs<DictionaryAttr>("source");
  if (!source || type.getNumElements() == 0) // arenas begin as zeros
    return success();
  OpBuilder b = OpBuilder::atBlockBegin(&state.function.front());
  auto storedType = source.getAs<TypeAttr>("type");
  auto stored = storedType ? cast<RankedTensorType>(type.clone(storedType.getValue())) : type;
  auto parameter = ParameterOp::create(b, argument.getLoc(), stored, source.getAs<StringAttr>("name"),
                                       source.getAs<StringAttr>("file"), source.getAs<IntegerAttr>("offset"),
                                       source.getAs<IntegerAttr>("bytes"), source.getAs<ElementsAttr>("data"),
                                       ArrayAttr());
  parameter->setAttr(dist::kShardingAttrName,
                     state.function.getArgAttr(argument.getArgNumber(), dist::kShardingAttrName));
  if (stored != type) {
    // What is computed when a plan is loaded is known by its op, so these stay.
    Value wide = ElementwiseOp::create(b, argument.getLoc(), type, ElementwiseKind::Cast,
                                       ValueRange{parameter.getResult()}, DenseF64ArrayAttr());
    auto computed = state.load.viewOf(wide);
    return failed(computed) ? failure() : state.load.copy(*computed, type, view, argument.getLoc());
  }
  LogicalResult done = loadInto(parameter.getResult(), view.storage);
  parameter.erase();
  return done;
}

LogicalResult LoweringContext::bindState(BlockArgument argument) {
  const unsigned number = argument.getArgNumber();
  auto name = state.function.getArgAttrOfType<StringAttr>(number, dist::kStateAttrName);
  auto info = state.function.getArgAttrOfType<DictionaryAttr>(number, dist::kStateInfoAttrName);
  auto sharding = state.function.getArgAttrOfType<dist::ShardingAttr>(number, dist::kShardingAttrName);
  if (!info)
    return state.function.emitError() << "argument " << number << " is the state '" << name.getValue()
                                      << "', of which nothing says what it is";
  state.stateArguments[name] = argument;
  RankedTensorType type = tensorOf(argument);
  if (!sharding)
    sharding = dist::ShardingAttr::getReplicated(mlirContext(), type.getShape());
  View view{0, 0, denseStrides(type.getShape())};
  auto [entry, isNew] = state.shared.stateOf.try_emplace(name.getValue(), state.shared.states.size());
  if (isNew) {
    view.storage = newWeight(byteSize(type));
    state.shared.weights.back().life = Life::States;
    auto global = RankedTensorType::get(sharding.getGlobalShape(), type.getElementType());
    state.shared.states.push_back({name.str(), info, global, sharding, view.storage, byteSize(type)});
    if (failed(loadState(argument, info, view)))
      return failure();
  }
  const StateEntry &known = state.shared.states[entry->second];
  if (known.sharding != sharding || known.type.getElementType() != type.getElementType())
    return state.function.emitError() << "state '" << name.getValue() << "' is a " << known.type
                                      << " in layout " << known.sharding << " in one program and of "
                                      << type.getElementType() << " in layout " << sharding << " in another";
  view.storage = known.storage;
  setView(argument, view);
  return success();
}

/// Whether `op` is one of the group's and reads each element just before the kernel writes the one at the
/// same place.
static bool readsInPlace(Operation *op, const FusionGroup &group) {
  auto kernel = dyn_cast<KernelOpInterface>(op);
  return kernel && kernel.readsAtOwnIndex() && group.aligned.lookup(op);
}

BlockArgument LoweringContext::findReplaced(Value output) {
  if (auto sum = state.accumulations.find(output.getDefiningOp()); sum != state.accumulations.end())
    return sum->second;
  StringAttr name;
  for (OpOperand &use : output.getUses())
    if (isa<func::ReturnOp>(use.getOwner()) && !name)
      name = getResultState(state.function, use.getOperandNumber());
  return name ? state.stateArguments.lookup(name) : BlockArgument();
}

LogicalResult LoweringContext::settleAccumulations(const FusionGroup &group) {
  for (Operation *op : group.ops) {
    auto sum = state.accumulations.find(op);
    if (sum == state.accumulations.end())
      continue;
    const View place = views.lookup(sum->second);
    auto made = viewOf(op->getResult(0));
    if (failed(made))
      return failure();
    if (made->storage != place.storage &&
        failed(copy(*made, tensorOf(op->getResult(0)), place, op->getLoc())))
      return failure();
    views[op->getResult(0)] = place;
  }
  return success();
}

std::optional<View> LoweringContext::findStatePlace(const FusionGroup &group, const ExtractedGroup &extracted,
                                                    Value output) {
  if (loads || !group.reduced.empty())
    return std::nullopt;
  BlockArgument argument = findReplaced(output);
  if (!argument)
    return std::nullopt;
  View place = views.lookup(argument);
  // In another place or order, it cannot be seen which element is overwritten when.
  for (const View &view : extracted.inputs)
    if (view.storage == place.storage && (view.offset != place.offset || view.strides != place.strides))
      return std::nullopt;
  auto isRead = [&](auto self, Value value, bool moved) -> bool {
    return llvm::all_of(value.getUsers(), [&](Operation *user) {
      if (isa<func::ReturnOp>(user)) // the old value, as something else
        return false;
      if (isMovement(user) && !llvm::is_contained(group.ops, user))
        return self(self, user->getResult(0), true);
      return llvm::is_contained(group.ops, user) ? !moved && readsInPlace(user, group)
                                                 : state.done.contains(user);
    });
  };
  if (!isRead(isRead, argument, false) || tensorOf(output) != tensorOf(argument))
    return std::nullopt;
  return place;
}

std::optional<TakenInput> LoweringContext::findReplacedInput(const FusionGroup &group,
                                                             const ExtractedGroup &extracted,
                                                             ArrayRef<unsigned> others) {
  if (group.outputs.size() != 1)
    return std::nullopt;
  std::optional<View> place = findStatePlace(group, extracted, group.outputs.front());
  if (!place || llvm::is_contained(others, place->storage))
    return std::nullopt;
  std::optional<TakenInput> found;
  for (auto [i, view] : llvm::enumerate(extracted.inputs))
    if (view.storage == place->storage) {
      if (found)
        return std::nullopt;
      found = TakenInput{static_cast<unsigned>(i), 0};
    }
  return found;
}

bool LoweringContext::isReplaceable(Value old) const {
  return llvm::all_of(old.getUsers(), [&](Operation *user) {
    if (isa<func::ReturnOp>(user)) // the old value, as something else
      return false;
    return isMovement(user) ? isReplaceable(user->getResult(0)) : state.done.contains(user);
  });
}

std::optional<View> LoweringContext::findStatePlace(Value output) {
  if (loads || state.isInLoop)
    return std::nullopt;
  for (const auto &[value, name] : state.statesOf.lookup(output.getDefiningOp())) {
    // In another shape its elements lie in the same order.
    Value source = value;
    while (source != output && isa<ReshapeOp>(source.getDefiningOp()))
      source = source.getDefiningOp()->getOperand(0);
    const BlockArgument old = state.stateArguments.lookup(name);
    if (source == output && old && tensorOf(value) == tensorOf(old) && isReplaceable(old))
      return View{views.lookup(old).storage, 0, denseStrides(tensorOf(output).getShape())};
  }
  return std::nullopt;
}

LogicalResult LoweringContext::storeMade(const FusionGroup &group) {
  if (loads || state.isInLoop)
    return success();
  for (Operation *op : group.ops)
    for (const auto &[value, name] : state.statesOf.lookup(op)) {
      const BlockArgument old = state.stateArguments.lookup(name);
      if (old && isReplaceable(old) && failed(storeState(value, name)))
        return failure();
    }
  return success();
}

LogicalResult LoweringContext::storeState(Value value, StringRef name) {
  const StateEntry &known = state.shared.states[state.shared.stateOf.lookup(name)];
  RankedTensorType type = tensorOf(value);
  if (type.getNumElements() == 0)
    return success();
  auto view = viewOf(value);
  if (failed(view))
    return failure();
  const View place{known.storage, 0, denseStrides(type.getShape())};
  // (Strides of dimensions of one element may be others.)
  if (view->storage == place.storage && view->offset == 0 && isDense(*view, type.getShape()))
    return success();
  if (failed(copy(*view, type, place, value.getLoc())))
    return failure();
  setView(value, place); // what it was made in is free
  return success();
}

void schedule::emitStates(Shared &shared) {
  // A stage without states has a part of the programs as well.
  auto outer = shared.module->getParentOfType<ModuleOp>();
  if (shared.states.empty() && !(outer && outer->hasAttr(dist::kTrainingAttrName)))
    return;
  MLIRContext *context = shared.module.getContext();
  OpBuilder b = OpBuilder::atBlockEnd(shared.module.getBody());
  for (const StateEntry &entry : shared.states) {
    auto kind = entry.info.getAs<StringAttr>("kind");
    std::optional<plan::StateKind> known = plan::symbolizeStateKind(kind ? kind.getValue() : "");
    auto parameter = entry.info.getAs<StringAttr>("parameter");
    auto declared = plan::StateOp::create(
        b, shared.module.getLoc(), b.getStringAttr(entry.name),
        plan::StateKindAttr::get(context, known.value_or(plan::StateKind::Parameter)),
        parameter ? parameter : b.getStringAttr(entry.name), entry.info.getAs<StringAttr>("slot"),
        entry.info.getAs<ArrayAttr>("tied"), entry.info.getAs<ArrayAttr>("transposed"));
    if (auto place = entry.info.getAs<IntegerAttr>("place"))
      declared->setAttr(dist::kPlaceAttrName, place);
  }
  Program save, restore;
  for (const StateEntry &entry : shared.states)
    for (auto *bindings : {&save.outputs, &restore.inputs})
      if (bindings == &restore.inputs || !entry.info.contains("copy"))
        bindings->push_back({entry.name,
                             entry.type,
                             entry.sharding,
                             entry.storage,
                             entry.bytes,
                             {},
                             {},
                             entry.info.getAs<IntegerAttr>("place")});
  emitProgram(save, shared, plan::saveProgram, plan::Role::Save, {}, {}, shared.module.getLoc());
  emitProgram(restore, shared, plan::restoreProgram, plan::Role::Restore, {}, {}, shared.module.getLoc());
}
