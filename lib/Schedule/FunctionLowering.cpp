//===- FunctionLowering.cpp - where values lie, and the walk over groups ----===//
#include "FunctionLowering.h"
#include "Collectives.h"
#include "Prepare.h"

#include "colossal/Codegen/CPU/SequentialKernel.h"
#include "colossal/Codegen/CPU/VectorMemory.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MD5.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

static int64_t byteSize(RankedTensorType type) {
  return type.getNumElements() * cpu::elementBytes(type.getElementType());
}

FunctionLowering::FunctionLowering(func::FuncOp function, Shared &shared)
    : function(function), shared(shared), context(function.getContext()) {
  runPlace.program = &program;
  loadPlace.program = &shared.load;
  loadPlace.load = true;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

bool FunctionLowering::isLoadable(Value value) {
  if (!isa<RankedTensorType>(value.getType()))
    return true; // index arithmetic over coordinates
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (auto found = loadable.find(value); found != loadable.end())
    return found->second;
  bool result = !isCollective(op) && llvm::all_of(op->getOperands(), [&](Value v) { return isLoadable(v); });
  for (Value each : op->getResults())
    loadable[each] = result;
  return result;
}

bool FunctionLowering::isFree(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (isMovement(op))
    return isFree(op->getOperand(0));
  DenseElementsAttr attribute;
  return isa<IotaOp>(op) || (matchPattern(value, m_Constant(&attribute)) && attribute.isSplat());
}

std::string FunctionLowering::keyOf(Value value) {
  if (auto found = keys.find(value); found != keys.end())
    return found->second;
  Operation *op = value.getDefiningOp();
  llvm::MD5 hash;
  auto add = [&](StringRef text) {
    hash.update(text);
    hash.update(StringRef("\0", 1));
  };
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << op->getName() << ' ' << value.getType();
  if (auto result = dyn_cast<OpResult>(value))
    stream << '#' << result.getResultNumber();
  DenseElementsAttr constant;
  if (isa<ConstantOp>(op) && matchPattern(value, m_Constant(&constant))) {
    ArrayRef<char> raw = constant.getRawData();
    add(StringRef(raw.data(), raw.size()));
  } else if (auto parameter = dyn_cast<ParameterOp>(op)) {
    stream << parameter.getName() << op->getAttr("dist.sharding");
  } else {
    for (NamedAttribute attribute : op->getAttrs())
      stream << attribute.getName().strref() << '=' << attribute.getValue() << ';';
  }
  add(text);
  for (Value operand : op->getOperands())
    add(keyOf(operand));
  llvm::MD5::MD5Result digest;
  hash.final(digest);
  return keys[value] = std::string(digest.digest());
}

unsigned FunctionLowering::newStorage(Place &place, Life life, int64_t bytes) {
  place.program->storages.push_back({life, bytes, -1});
  return place.program->storages.size() - 1;
}

unsigned FunctionLowering::newWeight(int64_t bytes) {
  shared.weights.push_back({Life::Weights, bytes, -1});
  return kWeightBase + shared.weights.size() - 1;
}

/// Dimensions in the order in which they should lie in memory, outermost first: the order in which a
/// transpose that is the value's only reader wants them, so that the transpose and what reshapes it cost
/// nothing.
SmallVector<unsigned> FunctionLowering::memoryOrder(Value value) {
  SmallVector<unsigned> order;
  for (int64_t d = 0; d < tensorOf(value).getRank(); ++d)
    order.push_back(d);
  std::optional<SmallVector<unsigned>> wanted;
  for (Operation *user : value.getUsers()) {
    auto transpose = dyn_cast<TransposeOp>(user);
    SmallVector<unsigned> asks = order;
    if (transpose)
      asks.assign(transpose.getPermutation().begin(), transpose.getPermutation().end());
    if (!transpose || (wanted && *wanted != asks)) {
      wanted.reset();
      break;
    }
    wanted = asks;
  }
  if (wanted)
    return *wanted;
  if (isChannelsLast(value)) {
    order.erase(order.begin() + 1);
    order.push_back(1);
  }
  return order;
}

/// Strides of a dense tensor whose dimensions lie in that order.
SmallVector<int64_t> FunctionLowering::stridesInOrder(Value value) {
  RankedTensorType type = tensorOf(value);
  SmallVector<int64_t> strides(type.getRank(), 1);
  int64_t stride = 1;
  auto order = memoryOrder(value); // the range below refers to it
  for (unsigned d : llvm::reverse(order)) {
    strides[d] = stride;
    stride *= type.getDimSize(d);
  }
  return strides;
}

View FunctionLowering::allocate(Value value, Place &place, bool inside) {
  RankedTensorType type = tensorOf(value);
  View view;
  view.strides.assign(type.getRank(), 1);
  bool isOutput = false;
  for (Operation *user : value.getUsers())
    isOutput |= isa<func::ReturnOp>(user);
  if (isOutput && !place.load && returned.insert(value).second) {
    view.storage = newStorage(place, Life::IO, byteSize(type));
    view.strides = denseStrides(type.getShape());
  } else if (auto part = inside ? allocateInside(value, place) : std::nullopt) {
    view = *part;
  } else {
    view.storage = newStorage(place, Life::Activations, byteSize(type));
    view.strides = stridesInOrder(value);
  }
  place.views[value] = view;
  return view;
}

Access FunctionLowering::accessOf(const View &view, RankedTensorType type, bool writes) {
  int64_t size = cpu::elementBytes(type.getElementType());
  return {view.storage, view.offset * size, spanElements(view, type.getShape()) * size, writes};
}

std::optional<View> FunctionLowering::existingView(Value value, Place &place) {
  if (auto found = place.views.find(value); found != place.views.end())
    return found->second;
  Operation *op = value.getDefiningOp();
  if (!op || !isMovement(op))
    return std::nullopt;
  auto base = existingView(op->getOperand(0), place);
  return base ? viewThrough(op, *base) : std::nullopt;
}

FailureOr<View> FunctionLowering::viewOf(Value value, Place &place) {
  if (auto found = existingView(value, place))
    return *found;
  Operation *op = value.getDefiningOp();
  if (!op)
    return function.emitError("a value of the program lies nowhere");
  if (isMovement(op)) {
    auto base = viewOf(op->getOperand(0), place);
    if (failed(base))
      return failure();
    if (auto view = viewThrough(op, *base))
      return *view;
    if (place.load || !isLoadable(value)) {
      if (failed(lowerOps({op}, place, false)))
        return failure();
      return place.views[value];
    }
  }
  if (!place.load)
    return isLoadable(value) ? persist(value)
                             : FailureOr<View>(op->emitOpError("is used before it is computed"));
  if (auto found = shared.weightOf.find(keyOf(value)); found != shared.weightOf.end())
    return View{found->second, 0, denseStrides(tensorOf(value).getShape())};
  return loadTemporary(value);
}

FailureOr<View> FunctionLowering::denseViewOf(Value value, Place &place) {
  auto view = viewOf(value, place);
  RankedTensorType type = tensorOf(value);
  if (failed(view) || isDense(*view, type.getShape()))
    return view;
  View dense{newStorage(place, Life::Activations, byteSize(type)), 0, denseStrides(type.getShape())};
  if (failed(copy(*view, type, dense, place, value.getLoc())))
    return failure();
  return dense;
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

/// The text and the op of a parameter.
static std::string declareParameter(ParameterOp op, Shared &shared) {
  std::string key = op.getName().str();
  auto [entry, isNew] = shared.parameterSymbols.try_emplace(key);
  if (!isNew)
    return entry->second;
  entry->second = "p" + std::to_string(shared.parameterSymbols.size() - 1);
  OpBuilder b = OpBuilder::atBlockEnd(shared.module.getBody());
  Type type = op.getResult().getType();
  if (auto sharding = op->getAttrOfType<dist::ShardingAttr>("dist.sharding"))
    type = RankedTensorType::get(sharding.getGlobalShape(), tensorOf(op.getResult()).getElementType());
  plan::ParameterOp::create(b, op.getLoc(), b.getStringAttr(entry->second), op.getNameAttr(),
                            TypeAttr::get(type), op.getFileAttr(), op.getOffsetAttr(), op.getBytesAttr(),
                            op.getDataAttr());
  return entry->second;
}

LogicalResult FunctionLowering::loadInto(Value value, unsigned storage) {
  Operation *op = value.getDefiningOp();
  RankedTensorType type = tensorOf(value);
  Access access{storage, 0, byteSize(type), true};
  if (type.getNumElements() == 0)
    return success();
  if (auto parameter = dyn_cast<ParameterOp>(op)) {
    std::string symbol = declareParameter(parameter, shared);
    auto sharding = op->getAttrOfType<dist::ShardingAttr>("dist.sharding");
    if (!sharding)
      sharding = dist::ShardingAttr::getReplicated(context, type.getShape());
    auto reference = FlatSymbolRefAttr::get(context, symbol);
    Location loc = op->getLoc();
    shared.load.steps.push_back(
        {{access},
         false,
         loc,
         [=](OpBuilder &b, ArrayRef<plan::BufferAttr> buffers, IRMapping &) -> Operation * {
           return plan::LoadParameterOp::create(b, loc, reference, sharding, buffers[0]);
         },
         {}});
    return success();
  }
  auto constant = cast<ConstantOp>(op);
  ElementsAttr data = constant.getValue();
  Location loc = op->getLoc();
  shared.load.steps.push_back(
      {{access},
       false,
       loc,
       [=](OpBuilder &b, ArrayRef<plan::BufferAttr> buffers, IRMapping &) -> Operation * {
         return plan::LoadDataOp::create(b, loc, data, buffers[0]);
       },
       {}});
  return success();
}

FailureOr<View> FunctionLowering::loadTemporary(Value value) {
  Operation *op = value.getDefiningOp();
  if (isa<ParameterOp, ConstantOp>(op)) {
    View view = allocate(value, loadPlace);
    view.strides = denseStrides(tensorOf(value).getShape());
    loadPlace.views[value] = view;
    if (failed(loadInto(value, view.storage)))
      return failure();
    return view;
  }
  // All that it needs and that lies nowhere yet.
  llvm::SetVector<Operation *> slice;
  auto collect = [&](auto self, Operation *def) -> void {
    if (slice.contains(def))
      return;
    for (Value operand : def->getOperands())
      if (Operation *next = operand.getDefiningOp(); next && isa<RankedTensorType>(operand.getType()) &&
                                                     !loadPlace.views.count(operand) &&
                                                     !isa<ParameterOp, ConstantOp>(next))
        self(self, next);
    slice.insert(def);
  };
  collect(collect, op);
  if (failed(lowerOps(slice.getArrayRef(), loadPlace, true)))
    return failure();
  return viewOf(value, loadPlace);
}

FailureOr<View> FunctionLowering::persist(Value value) {
  std::string key = keyOf(value);
  RankedTensorType type = tensorOf(value);
  View view{0, 0, denseStrides(type.getShape())};
  if (auto found = shared.weightOf.find(key); found != shared.weightOf.end()) {
    view.storage = found->second;
    return runPlace.views[value] = view;
  }
  Operation *op = value.getDefiningOp();
  if (isa<ParameterOp, ConstantOp>(op)) {
    view.storage = newWeight(byteSize(type));
    if (failed(loadInto(value, view.storage)))
      return failure();
  } else {
    auto computed = viewOf(value, loadPlace);
    if (failed(computed))
      return failure();
    if (computed->storage < kWeightBase && computed->offset == 0 && isDense(*computed, type.getShape()) &&
        shared.load.storages[computed->storage].bytes == byteSize(type)) {
      // The temporary becomes the weight.
      unsigned old = computed->storage, storage = newWeight(byteSize(type));
      for (Step &step : shared.load.steps)
        for (Access &access : step.accesses)
          if (access.storage == old)
            access.storage = storage;
      for (auto &entry : loadPlace.views)
        if (entry.second.storage == old)
          entry.second.storage = storage;
      shared.load.storages[old].bytes = 0;
      view.storage = storage;
    } else {
      view.storage = newWeight(byteSize(type));
      if (failed(copy(*computed, type, view, loadPlace, value.getLoc())))
        return failure();
    }
  }
  shared.weightOf[key] = view.storage;
  if (isa<ParameterOp, ConstantOp>(op))
    loadPlace.views[value] = view;
  return runPlace.views[value] = view;
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

LogicalResult FunctionLowering::lowerOps(ArrayRef<Operation *> ops, Place &place, bool fuse) {
  if (ops.size() == 1 && isMovement(ops[0])) {
    Group group;
    group.ops.push_back(ops[0]);
    group.outputs.push_back(ops[0]->getResult(0));
    return lowerFused(group, place);
  }
  Grouping grouping(ops, fuse);
  for (Group *group : grouping.order()) {
    if (failed(lowerGroup(*group, place)))
      return failure();
    done.insert(group->ops.begin(), group->ops.end());
  }
  return success();
}

LogicalResult FunctionLowering::lowerGroup(Group &group, Place &place) {
  if (group.outputs.empty())
    return success();
  if (group.routine) {
    if (isContraction(group.routine))
      return lowerContraction(group, place);
    if (auto attention = dyn_cast<AttentionOp>(group.routine))
      return lowerAttention(attention, place);
    if (isPadding(group.routine))
      return lowerPadding(cast<PadOp>(group.routine), place);
    if (cpu::isSequential(group.routine))
      return lowerSequential(group, place);
    if (isCollective(group.routine))
      return lowerCollectiveStep(group.routine, place);
    auto called = lowerConvolution(group, place);
    if (failed(called))
      return failure();
    return *called ? success() : lowerSeparately(group, place);
  }
  return lowerFused(group, place);
}

LogicalResult FunctionLowering::lowerSeparately(Group &group, Place &place) {
  if (group.ops.size() == 1)
    return lowerFused(group, place);
  Group first, rest;
  first.routine = group.routine;
  first.ops.push_back(group.routine);
  llvm::append_range(first.outputs, group.routine->getResults());
  llvm::copy_if(group.ops, std::back_inserter(rest.ops), [&](Operation *op) { return op != group.routine; });
  rest.outputs = group.outputs;
  return success(succeeded(lowerGroup(first, place)) && succeeded(lowerFused(rest, place)));
}

LogicalResult FunctionLowering::lowerCollectiveStep(Operation *op, Place &place) {
  auto source = denseViewOf(op->getOperand(0), place);
  if (failed(source))
    return failure();
  RankedTensorType from = tensorOf(op->getOperand(0)), to = tensorOf(op->getResult(0));
  View result = allocate(op->getResult(0), place);
  result.strides = denseStrides(to.getShape());
  place.views[op->getResult(0)] = result;
  SmallVector<Value> scalars;
  for (Value operand : op->getOperands().drop_front())
    scalars.push_back(operand);
  place.program->steps.push_back(
      {{accessOf(*source, from, false), accessOf(result, to, true)},
       true,
       op->getLoc(),
       [op](OpBuilder &b, ArrayRef<plan::BufferAttr> buffers, IRMapping &mapping) -> Operation * {
         if (failed(lowerCollective(b, op, buffers[0], buffers[1],
                                    [&](Value v) { return mapping.lookupOrNull(v); })))
           return nullptr;
         return &*std::prev(b.getInsertionPoint());
       },
       scalars});
  return success();
}

FailureOr<Program> FunctionLowering::run() {
  prepareConvolutions(function);
  prepare(function);
  Block &body = function.getBody().front();
  // Ops that nobody reads would only cost time.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (op.use_empty() && isPure(&op) && op.getNumResults())
      op.erase();
  for (Operation &op : llvm::make_early_inc_range(body))
    if (isa<shard::AllSliceOp>(op)) {
      OpBuilder b(&op);
      auto start = getSliceStart(b, &op);
      if (failed(start))
        return failure();
      sliceStarts[&op] = start->start;
    }
  auto sharding = [&](DictionaryAttr attributes, RankedTensorType type) {
    if (attributes)
      if (auto found = attributes.getAs<dist::ShardingAttr>("dist.sharding"))
        return found;
    return dist::ShardingAttr::getReplicated(context, type.getShape());
  };
  auto bind = [&](DictionaryAttr attributes, Value value, unsigned storage, StringRef otherwise) {
    RankedTensorType type = tensorOf(value);
    dist::ShardingAttr where = sharding(attributes, type);
    auto name = attributes ? attributes.getAs<StringAttr>("colossal.name") : StringAttr();
    return Binding{name ? name.str() : otherwise.str(),
                   RankedTensorType::get(where.getGlobalShape(), type.getElementType()),
                   where,
                   storage,
                   byteSize(type),
                   attributes ? attributes.getAs<DenseI64ArrayAttr>("colossal.range") : DenseI64ArrayAttr(),
                   attributes ? attributes.getAs<StringAttr>("colossal.range_user") : StringAttr()};
  };
  for (BlockArgument argument : function.getArguments()) {
    RankedTensorType type = tensorOf(argument);
    View view{newStorage(runPlace, Life::IO, byteSize(type)), 0, denseStrides(type.getShape())};
    runPlace.views[argument] = view;
    program.inputs.push_back(bind(function.getArgAttrDict(argument.getArgNumber()), argument, view.storage,
                                  "input" + std::to_string(argument.getArgNumber())));
  }
  SmallVector<Operation *> ops;
  for (Operation &op : body)
    if (op.getNumResults() && isa<RankedTensorType>(op.getResult(0).getType()) &&
        !isLoadable(op.getResult(0)))
      ops.push_back(&op);
  if (failed(lowerOps(ops, runPlace, true)))
    return failure();

  llvm::DenseSet<unsigned> bound;
  auto terminator = cast<func::ReturnOp>(body.getTerminator());
  for (auto [i, value] : llvm::enumerate(terminator.getOperands())) {
    RankedTensorType type = tensorOf(value);
    DictionaryAttr attributes = function.getResultAttrDict(i);
    auto view = type.getNumElements() == 0 && !isa<BlockArgument>(value)
                    ? FailureOr<View>(allocate(value, runPlace))
                    : viewOf(value, runPlace);
    if (failed(view))
      return failure();
    bool own = view->storage < kWeightBase && program.storages[view->storage].life == Life::IO &&
               view->offset == 0 && isDense(*view, type.getShape()) &&
               program.storages[view->storage].bytes == byteSize(type) &&
               llvm::none_of(program.inputs, [&](Binding &input) { return input.storage == view->storage; });
    unsigned storage = view->storage;
    if (!own || !bound.insert(storage).second) {
      View to{newStorage(runPlace, Life::IO, byteSize(type)), 0, denseStrides(type.getShape())};
      if (type.getNumElements() && failed(copy(*view, type, to, runPlace, value.getLoc())))
        return failure();
      storage = to.storage;
    }
    program.outputs.push_back(bind(attributes, value, storage, "output" + std::to_string(i)));
  }
  return std::move(program);
}

FailureOr<Program> schedule::lowerFunction(func::FuncOp function, Shared &shared) {
  return FunctionLowering(function, shared).run();
}
