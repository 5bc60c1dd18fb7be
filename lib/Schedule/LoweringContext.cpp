//===- LoweringContext.cpp - where values lie -------------------------------===//
#include "Collectives.h"
#include "FunctionState.h"

#include "dialects/Dist/Loop.h"
#include "dialects/Dist/Stages.h"
#include "dialects/Dist/State.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MD5.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

LoweringContext &LoweringContext::load() {
  return state.load;
}

const codegen::Target &LoweringContext::target() const {
  return state.shared.target;
}

const ScheduleOptions &LoweringContext::options() const {
  return state.shared.options;
}

MLIRContext *LoweringContext::mlirContext() const {
  return state.function.getContext();
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

bool LoweringContext::isLoadable(Value value) {
  if (!isa<RankedTensorType>(value.getType()))
    return true; // index arithmetic over coordinates
  Operation *op = value.getDefiningOp();
  if (!op || state.turnOps.contains(op))
    return false;
  if (auto found = state.loadable.find(value); found != state.loadable.end())
    return found->second;
  bool result = !isCollective(op) && llvm::all_of(op->getOperands(), [&](Value v) { return isLoadable(v); });
  for (Value each : op->getResults())
    state.loadable[each] = result;
  return result;
}

bool LoweringContext::isFree(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || isa<dist::LoopSliceOp>(op)) // kernels do not know the turn
    return false;
  if (isMovement(op))
    return isFree(op->getOperand(0));
  auto kernel = dyn_cast<KernelOpInterface>(op);
  const bool readsNothing = llvm::none_of(op->getOperandTypes(), llvm::IsaPred<RankedTensorType>);
  DenseElementsAttr attribute;
  return (readsNothing && kernel && kernel.isElementFree()) ||
         (matchPattern(value, m_Constant(&attribute)) && attribute.isSplat());
}

std::string LoweringContext::keyOf(Value value) {
  if (auto found = state.keys.find(value); found != state.keys.end())
    return found->second;
  Operation *op = value.getDefiningOp();
  llvm::MD5 hash;
  // Types and attributes are one object each in their context: it stands for what would be printed of them.
  auto add = [&](const void *unique) {
    hash.update(ArrayRef(reinterpret_cast<const uint8_t *>(&unique), sizeof(unique)));
  };
  add(op->getName().getAsOpaquePointer());
  add(value.getType().getAsOpaquePointer());
  const unsigned number = cast<OpResult>(value).getResultNumber();
  hash.update(ArrayRef(reinterpret_cast<const uint8_t *>(&number), sizeof(number)));
  DenseElementsAttr constant;
  if (matchPattern(value, m_Constant(&constant))) {
    add(constant.getAsOpaquePointer());
  } else if (auto parameter = dyn_cast<ParameterOp>(op)) {
    add(parameter.getNameAttr().getAsOpaquePointer());
    add(op->getAttr("dist.sharding").getAsOpaquePointer());
  } else {
    add(op->getAttrDictionary().getAsOpaquePointer());
  }
  for (Value operand : op->getOperands())
    hash.update(keyOf(operand));
  llvm::MD5::MD5Result digest;
  hash.final(digest);
  return state.keys[value] = std::string(digest.digest());
}

std::vector<Instruction> &LoweringContext::instructions() {
  if (!loads && state.isBehind)
    return program.after;
  return !loads && state.isInLoop && !state.hoisting ? program.body : program.instructions;
}

class LoweringContext::Hoist {
public:
  Hoist(LoweringContext &context, Value value)
      : state(context.state), hoists(!context.loads && state.isInLoop && !state.isOfTurn(value)) {
    state.hoisting += hoists;
  }
  Hoist(const Hoist &) = delete;
  Hoist &operator=(const Hoist &) = delete;
  ~Hoist() { state.hoisting -= hoists; }

private:
  FunctionState &state;
  bool hoists;
};

unsigned LoweringContext::newStorage(Life life, int64_t bytes) {
  program.storages.push_back({life, bytes, -1});
  return program.storages.size() - 1;
}

unsigned LoweringContext::newWeight(int64_t bytes) {
  state.shared.weights.push_back({Life::Weights, bytes, -1});
  return kWeightBase + state.shared.weights.size() - 1;
}

/// Dimensions in the order in which they should lie in memory, outermost first: the order in which all its
/// readers want them, if they only order them anew, so that these and what reshapes their results cost
/// nothing.
SmallVector<unsigned> LoweringContext::memoryOrder(Value value) {
  SmallVector<unsigned> order;
  for (int64_t d = 0; d < tensorOf(value).getRank(); ++d)
    order.push_back(d);
  std::optional<SmallVector<unsigned>> wanted;
  for (Operation *user : value.getUsers()) {
    auto kernel = dyn_cast<KernelOpInterface>(user);
    auto asks = kernel ? kernel.getDimensionOrder() : std::nullopt;
    if (!asks || (wanted && *wanted != *asks)) {
      wanted.reset();
      break;
    }
    wanted = std::move(asks);
  }
  if (wanted)
    return *wanted;
  return state.orders->orderOf(value).value_or(order);
}

/// Strides of a dense tensor whose dimensions lie in that order.
SmallVector<int64_t> LoweringContext::stridesInOrder(Value value) {
  return schedule::stridesInOrder(tensorOf(value).getShape(), memoryOrder(value));
}

NamedWeight LoweringContext::weightNamed(const std::string &name, int64_t bytes) {
  auto [entry, isNew] = state.shared.weightOf.try_emplace(name);
  if (isNew)
    entry->second = newWeight(bytes);
  return {entry->second, isNew};
}

int64_t LoweringContext::bytesOfWeight(unsigned storage) const {
  return state.shared.weights[storage - kWeightBase].bytes;
}

std::optional<TurnParts> schedule::findTurnParts(RankedTensorType type, dist::ShardingAttr sharding,
                                                 dist::MeshAttr mesh) {
  std::optional<dist::LoopPlace> place = sharding && mesh ? dist::findLoop(sharding, mesh) : std::nullopt;
  if (!place)
    return std::nullopt;
  TurnParts parts;
  for (int64_t size : type.getShape().take_front(place->dim))
    parts.runs *= size;
  for (dist::FactorShardAttr factor : sharding.getDims()[place->dim].getFactors()) {
    if (!factor.getAxes().empty() && factor.getAxes().front() == mesh.getLoopAxis())
      break;
    parts.runs *= dist::getLocalSize(factor.getSize(), factor.getAxes(), mesh);
  }
  parts.length = type.getNumElements() / std::max<int64_t>(parts.runs, 1);
  return parts;
}

std::optional<View> LoweringContext::allocateOutput(Value value) {
  RankedTensorType type = tensorOf(value);
  View view{0, 0, denseStrides(type.getShape())};
  auto results = state.function.front().getTerminator()->getOperands();
  auto number = static_cast<unsigned>(std::distance(results.begin(), llvm::find(results, value)));
  auto parts = findTurnParts(
      type, state.function.getResultAttrOfType<dist::ShardingAttr>(number, dist::kShardingAttrName),
      state.mesh);
  if (parts && parts->runs > 1)
    return std::nullopt;
  view.storage = newStorage(Life::IO, byteSize(type) * (parts ? state.program.turns : 1));
  view.turn = parts ? parts->length : 0;
  return view;
}

View LoweringContext::allocate(Value value, bool inside) {
  RankedTensorType type = tensorOf(value);
  View view;
  view.strides.assign(type.getRank(), 1);
  bool isOutput = false;
  for (OpOperand &use : value.getUses()) // what goes to another stage is none, nor is a state
    isOutput |= isa<func::ReturnOp>(use.getOwner()) &&
                !state.function.getResultAttr(use.getOperandNumber(), dist::kSendsAttrName) &&
                !state.function.getResultAttr(use.getOperandNumber(), dist::kStateAttrName);
  std::optional<View> output;
  if (isOutput && !loads && state.returned.insert(value).second)
    output = allocateOutput(value);
  if (output) {
    view = *output;
  } else if (auto part = inside ? allocateInside(value) : std::nullopt) {
    view = *part;
  } else {
    view.storage = newStorage(byteSize(type));
    view.strides = stridesInOrder(value);
  }
  views[value] = view;
  return view;
}

Access LoweringContext::accessOf(const View &view, RankedTensorType type, bool writes) {
  int64_t size = kernel::elementBytes(type.getElementType());
  return {view.storage, view.offset * size, spanElements(view, type.getShape()) * size, writes,
          view.turn * size};
}

std::optional<View> LoweringContext::existingView(Value value) {
  if (auto found = views.find(value); found != views.end())
    return found->second;
  Operation *op = value.getDefiningOp();
  if (!op || !isMovement(op))
    return std::nullopt;
  auto base = existingView(op->getOperand(0));
  return base ? viewThrough(op, *base) : std::nullopt;
}

bool LoweringContext::isDead(Value value) {
  auto view = views.find(value);
  // What all turns read must outlast the one that is made here.
  if (state.isInLoop && !state.isOfTurn(value))
    return false;
  if (loads || view == views.end() || view->second.storage >= kWeightBase || !value.getDefiningOp() ||
      isMovement(value.getDefiningOp()) || program.storages[view->second.storage].life != Life::Activations)
    return false;
  auto visit = [&](auto self, Value v) -> bool {
    return llvm::all_of(v.getUsers(), [&](Operation *user) {
      return isMovement(user) || isPadding(user) ? self(self, user->getResult(0)) : state.done.contains(user);
    });
  };
  return visit(visit, value);
}

bool LoweringContext::isDeadAfter(Value value, ArrayRef<Operation *> last) {
  SmallVector<Operation *> added;
  for (Operation *op : last)
    if (state.done.insert(op).second)
      added.push_back(op);
  bool dead = isDead(value);
  for (Operation *op : added)
    state.done.erase(op);
  return dead;
}

//===----------------------------------------------------------------------===//
// Views and storages
//===----------------------------------------------------------------------===//

FailureOr<View> LoweringContext::viewOf(Value value) {
  if (auto found = existingView(value))
    return *found;
  Hoist hoist(*this, value);
  Operation *op = value.getDefiningOp();
  if (!op)
    return state.function.emitError("a value of the program lies nowhere");
  if (isMovement(op)) {
    auto base = viewOf(op->getOperand(0));
    if (failed(base))
      return failure();
    if (auto view = viewThrough(op, *base))
      return *view;
    if (loads || !isLoadable(value)) {
      if (failed(lowerOps({op}, false)))
        return failure();
      return views[value];
    }
  }
  if (!loads)
    return isLoadable(value) ? persist(value)
                             : FailureOr<View>(op->emitOpError("is used before it is computed"));
  if (auto found = state.shared.weightOf.find(keyOf(value)); found != state.shared.weightOf.end())
    return View{found->second, 0, denseStrides(tensorOf(value).getShape())};
  return loadTemporary(value);
}

FailureOr<View> LoweringContext::denseViewOf(Value value) {
  auto view = viewOf(value);
  RankedTensorType type = tensorOf(value);
  if (failed(view) || isDense(*view, type.getShape()))
    return view;
  Hoist hoist(*this, value);
  View dense{newStorage(byteSize(type)), 0, denseStrides(type.getShape())};
  if (failed(copy(*view, type, dense, value.getLoc())))
    return failure();
  return dense;
}
