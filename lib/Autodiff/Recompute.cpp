//===- Recompute.cpp - which values a backward pass makes again -------------===//
#include "colossal/Autodiff/Recompute.h"

#include "colossal/FactorGraph/RecomputeSegments.h"
#include "colossal/Outline/OpNames.h"
#include "dialects/Colossal/Colossal.h"
#include "dialects/Colossal/Precision.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace colossal;

std::optional<Recompute> colossal::parseRecompute(StringRef text) {
  return llvm::StringSwitch<std::optional<Recompute>>(text)
      .Case("none", Recompute::None)
      .Case("selective", Recompute::Selective)
      .Case("full", Recompute::Full)
      .Default(std::nullopt);
}

StringRef colossal::describe(Recompute recompute) {
  switch (recompute) {
  case Recompute::None: return "none";
  case Recompute::Selective: return "selective";
  case Recompute::Full: return "full";
  case Recompute::ByValue: return "by-value";
  }
  llvm_unreachable("a kind of recomputation");
}

static constexpr StringRef kKeptAttrName = "colossal.kept";
/// On the function: segments are marked. On an op: one begins with it, or behind it.
static constexpr StringRef kSegmentsAttrName = "colossal.segments";
static constexpr StringRef kBeginsAttrName = "colossal.begins_segment";
static constexpr StringRef kEndsAttrName = "colossal.ends_segment";

llvm::DenseMap<Operation *, std::string> colossal::nameOps(func::FuncOp function) {
  llvm::DenseMap<Operation *, std::string> names;
  llvm::StringMap<unsigned> seen;
  for (Operation &op : function.getOps()) {
    std::string name = (outline::getFirstName(op.getLoc()) + "|" + op.getName().getStringRef()).str();
    if (auto elementwise = dyn_cast<ElementwiseOp>(op))
      name += ("|" + stringifyElementwiseKind(elementwise.getKind())).str();
    const unsigned number = seen[name]++;
    names[&op] = name + "|" + std::to_string(number);
  }
  return names;
}

void colossal::markKept(func::FuncOp function, ArrayRef<std::string> names) {
  llvm::StringSet<> chosen;
  for (const std::string &name : names)
    chosen.insert(name);
  for (auto &[op, name] : nameOps(function))
    if (chosen.contains(name))
      op->setAttr(kKeptAttrName, UnitAttr::get(op->getContext()));
}

void colossal::markSegments(func::FuncOp function, ArrayRef<std::string> names) {
  llvm::StringSet<> chosen;
  for (const std::string &name : names)
    chosen.insert(name);
  const auto mark = UnitAttr::get(function.getContext());
  function->setAttr(kSegmentsAttrName, mark);
  for (auto &[op, name] : nameOps(function))
    if (chosen.contains(name))
      op->setAttr(kBeginsAttrName, mark);
  if (chosen.contains(""))
    function.front().getTerminator()->getPrevNode()->setAttr(kEndsAttrName, mark);
}

void colossal::removeMarks(func::FuncOp function) {
  function->removeAttr(kSegmentsAttrName);
  for (Operation &op : function.getOps())
    for (StringRef mark : {kKeptAttrName, kBeginsAttrName, kEndsAttrName})
      op.removeAttr(mark);
}

static double getBytes(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  const int64_t ofElement = type ? (type.getElementTypeBitWidth() + 7) / 8 : 0;
  return type ? static_cast<double>(type.getNumElements() * ofElement) : 0;
}

static bool isCast(Operation *op) {
  auto elementwise = dyn_cast<ElementwiseOp>(op);
  return elementwise && elementwise.getKind() == ElementwiseKind::Cast;
}

/// Whether nothing reads the results of an op but casts to narrower types.
static bool isOnlyRounded(Operation *op) {
  return op->getNumOperands() > 0 && !op->use_empty() && llvm::all_of(op->getUsers(), isNarrowing);
}

/// The op whose results are only rounded, by `op` and others; none where it is another op.
static Operation *findRounded(Operation *op) {
  Operation *source = isNarrowing(op) ? op->getOperand(0).getDefiningOp() : nullptr;
  return source && isOnlyRounded(source) ? source : nullptr;
}

/// What takes no memory of a step, or stays in it anyway: parameters, constants and what is counted up.
static bool isSource(Operation *op) {
  return op->getNumOperands() == 0 && !isa<RandomOp>(op);
}

namespace {
/// The forward pass, by the numbers of its ops.
class Segments {
public:
  Segments(Operation *lastForward, Recompute what);
  /// Whether the value of a forward op is still there when the backward pass reads it.
  bool isKept(Value value) const;
  /// Whether `value` is of a forward op.
  bool isForward(Value value) const {
    Operation *op = value.getDefiningOp();
    return op && position.contains(op);
  }

private:
  bool isHeavy(Operation *op) const {
    auto ruled = dyn_cast<dist::ShardingRuleOpInterface>(op);
    return ruled && ruled.isHeavy();
  }
  /// Whether what `op` makes is to be kept for what it is, or as a plan says.
  bool isChosen(Operation *op) const {
    return isSource(op) || (what == Recompute::Selective && isHeavy(op)) ||
           (what == Recompute::ByValue && op->hasAttr(kKeptAttrName));
  }
  bool isKeptByKind(Operation *op) const;

  void findPlaces();
  std::vector<unsigned> findMarked() const;

  Recompute what;
  SmallVector<Operation *> ops;
  DenseMap<Operation *, unsigned> position;
  DenseMap<Operation *, unsigned> made; ///< where a value is there to be kept: an op's own place, mostly
  DenseMap<Value, unsigned> lastUses;   ///< of values that are not kept by their kind: the last forward op
  std::vector<unsigned> cuts;           ///< the ops that begin a segment, in order, without the first
};

/// Puts copies before the ops of a backward pass.
class Repeater {
public:
  explicit Repeater(const Segments &segments) : segments(segments) {}
  void visit(Operation *backward);

private:
  Value again(Value value, OpBuilder &builder);

  const Segments &segments;
  DenseMap<Value, Value> copies;
};
} // namespace

Segments::Segments(Operation *lastForward, Recompute what) : what(what) {
  for (Operation &op : *lastForward->getBlock()) {
    position[&op] = static_cast<unsigned>(ops.size());
    ops.push_back(&op);
    if (&op == lastForward)
      break;
  }
  findPlaces();
  std::vector<factors::ForwardValue> values;
  for (Operation *op : ops) {
    if (isKeptByKind(op) || isWidening(op))
      continue;
    for (Value result : op->getResults())
      values.push_back(
          {made.lookup(op), lastUses.lookup(result), getBytes(result),
           llvm::any_of(result.getUsers(), [&](Operation *user) { return !position.contains(user); })});
  }
  cuts = lastForward->getParentOp()->hasAttr(kSegmentsAttrName)
             ? findMarked()
             : factors::RecomputeSegments(static_cast<unsigned>(ops.size()), values).choose();
}

/// What is only rounded is there, to be kept, where it is made; what is widened as long as what is made wide
/// of it, which is made again.
void Segments::findPlaces() {
  for (Operation *op : ops) {
    Operation *source = findRounded(op);
    made[op] = source ? made.lookup(source) : position.lookup(op);
  }
  for (Operation *op : llvm::reverse(ops))
    for (Value result : op->getResults()) {
      unsigned last = made.lookup(op);
      for (Operation *user : result.getUsers())
        if (auto found = made.find(user); found != made.end())
          last = std::max({last, found->second, isWidening(user) ? lastUses.lookup(user->getResult(0)) : 0});
      lastUses[result] = last;
    }
}

/// What is only cast for the op that begins a segment is of the segment, too.
std::vector<unsigned> Segments::findMarked() const {
  std::vector<unsigned> marked;
  for (auto [i, op] : llvm::enumerate(ops)) {
    auto begin = static_cast<unsigned>(i);
    if (op->hasAttr(kBeginsAttrName)) {
      while (begin > 0 && isCast(ops[begin - 1]))
        --begin;
      marked.push_back(begin);
    }
    if (op->hasAttr(kEndsAttrName) && op != ops.back())
      marked.push_back(static_cast<unsigned>(i) + 1);
  }
  marked.erase(std::unique(marked.begin(), marked.end()), marked.end());
  return marked;
}

/// What is only rounded is kept as it is rounded.
bool Segments::isKeptByKind(Operation *op) const {
  if (Operation *source = findRounded(op); source && isChosen(source))
    return true;
  return isChosen(op) && !isOnlyRounded(op);
}

bool Segments::isKept(Value value) const {
  Operation *op = value.getDefiningOp();
  if (!isForward(value) || isKeptByKind(op))
    return true;
  return !isWidening(op) && factors::RecomputeSegments::isKept(cuts, made.at(op), lastUses.at(value));
}

Value Repeater::again(Value value, OpBuilder &builder) {
  if (segments.isKept(value))
    return value;
  if (Value copy = copies.lookup(value))
    return copy;
  Operation *op = value.getDefiningOp();
  IRMapping mapping;
  for (Value operand : op->getOperands())
    mapping.map(operand, again(operand, builder));
  Operation *copy = builder.clone(*op, mapping);
  if (std::vector<std::string> names = outline::getNames(op->getLoc()); !names.empty())
    copy->setLoc(NameLoc::get(builder.getStringAttr(outline::nameAgain(names.front()))));
  for (auto [result, repeated] : llvm::zip_equal(op->getResults(), copy->getResults()))
    copies[result] = repeated;
  return copies.lookup(value);
}

void Repeater::visit(Operation *backward) {
  OpBuilder builder(backward);
  for (OpOperand &operand : backward->getOpOperands())
    if (segments.isForward(operand.get()))
      operand.set(again(operand.get(), builder));
}

void colossal::recomputeForBackward(Operation *lastForward, Recompute what) {
  if (what == Recompute::None)
    return;
  Segments segments(lastForward, what);
  Repeater repeater(segments);
  SmallVector<Operation *> backward;
  for (Operation *op = lastForward->getNextNode(); op && !op->hasTrait<OpTrait::IsTerminator>();
       op = op->getNextNode())
    backward.push_back(op);
  for (Operation *op : backward)
    repeater.visit(op);
}
