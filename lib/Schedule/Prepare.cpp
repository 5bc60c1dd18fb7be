//===- Prepare.cpp - reshapes out of the way of fusion ----------------------===//
//
// Exporters flatten tensors before a matrix product and restore them after it, so that reshapes stand between
// a product and what could be its epilogue. Here a reshape climbs over elementwise ops into the contraction
// above, whose labels say the same; the reshapes that it leaves on operands are views. Before that, readers
// of what costs less than being read get one each, and reductions of whole tensors are cut in two. Behind it,
// the backward pass brings what the forward pass has read in another order into that order itself.
//
//===----------------------------------------------------------------------===//
#include "Prepare.h"
#include "Collectives.h"
#include "Groups.h"

#include "colossal/Schedule/Views.h"
#include "dialects/Colossal/Colossal.h"
#include "dialects/Colossal/OpComposer.h"
#include "dialects/Colossal/Precision.h"
#include "dialects/Dist/Dist.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

namespace {
/// Dimensions [fromBegin, fromEnd) of one shape hold the same elements as [toBegin, toEnd) of the other.
struct Run {
  unsigned fromBegin, fromEnd, toBegin, toEnd;
};
} // namespace

static std::optional<SmallVector<Run>> runsOf(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  SmallVector<Run> runs;
  unsigned i = 0, o = 0;
  while (i < from.size() && o < to.size()) {
    Run run{i, i + 1, o, o + 1};
    int64_t a = from[i], b = to[o];
    if (a == 0 || b == 0)
      return std::nullopt;
    while (a != b) {
      if (a < b && run.fromEnd < from.size())
        a *= from[run.fromEnd++];
      else if (b < a && run.toEnd < to.size())
        b *= to[run.toEnd++];
      else
        return std::nullopt;
    }
    runs.push_back(run);
    i = run.fromEnd;
    o = run.toEnd;
  }
  // What is left over has size 1 and belongs to the last run.
  if (runs.empty() || llvm::any_of(from.drop_front(i), [](int64_t s) { return s != 1; }) ||
      llvm::any_of(to.drop_front(o), [](int64_t s) { return s != 1; }))
    return std::nullopt;
  runs.back().fromEnd = from.size();
  runs.back().toEnd = to.size();
  return runs;
}

static Value reshapeTo(OpBuilder &b, Value value, ArrayRef<int64_t> shape) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getShape() == shape)
    return value;
  return ReshapeOp::create(b, value.getLoc(), type.clone(shape), value);
}

/// The operand of an elementwise op for the op's result in another shape.
static std::optional<SmallVector<int64_t>> operandShape(Value operand, ArrayRef<int64_t> from,
                                                        ArrayRef<int64_t> to, ArrayRef<Run> runs) {
  SmallVector<int64_t> shape(from.size() - shapeOf(operand).size(), 1), result;
  llvm::append_range(shape, shapeOf(operand));
  for (const Run &run : runs) {
    bool full = true, ones = true;
    for (unsigned d = run.fromBegin; d < run.fromEnd; ++d) {
      full &= shape[d] == from[d];
      ones &= shape[d] == 1;
    }
    if (!full && !ones)
      return std::nullopt;
    for (unsigned d = run.toBegin; d < run.toEnd; ++d)
      result.push_back(full ? to[d] : 1);
  }
  return result;
}

/// Whether a single-use chain of elementwise ops leads from `value` up to a contraction.
static bool leadsToContraction(Value value, unsigned depth = 0) {
  Operation *op = value.getDefiningOp();
  if (!op || depth > 16 || !value.hasOneUse())
    return false;
  if (isa<ContractOp>(op))
    return true;
  return isa<ElementwiseOp>(op) && llvm::any_of(op->getOperands(), [&](Value operand) {
           return operand.getType() == value.getType() && leadsToContraction(operand, depth + 1);
         });
}

static bool climb(ReshapeOp reshape) {
  auto op = reshape.getInput().getDefiningOp<ElementwiseOp>();
  if (!op || !leadsToContraction(reshape.getInput()))
    return false;
  ArrayRef<int64_t> from = shapeOf(reshape.getInput()), to = shapeOf(reshape.getResult());
  auto runs = runsOf(from, to);
  if (!runs)
    return false;
  SmallVector<SmallVector<int64_t>> shapes;
  for (Value operand : op.getInputs()) {
    auto shape = operandShape(operand, from, to, *runs);
    if (!shape)
      return false;
    shapes.push_back(*shape);
  }
  OpBuilder b(reshape);
  SmallVector<Value> operands;
  for (auto [operand, shape] : llvm::zip(op.getInputs(), shapes))
    operands.push_back(reshapeTo(b, operand, shape));
  auto moved = ElementwiseOp::create(b, op.getLoc(), reshape.getResult().getType(), op.getKind(), operands,
                                     op.getParamsAttr());
  reshape.getResult().replaceAllUsesWith(moved.getResult());
  reshape.erase();
  op.erase();
  return true;
}

/// An operand with some of its labels' dimensions replaced: labels `old`, which must follow each other,
/// become `fresh`.
static bool replaceLabels(SmallVector<int64_t> &labels, SmallVector<int64_t> &shape, ArrayRef<int64_t> old,
                          ArrayRef<int64_t> fresh, ArrayRef<int64_t> sizes) {
  auto first = llvm::find(labels, old.front());
  if (first == labels.end())
    return llvm::none_of(old, [&](int64_t label) { return llvm::is_contained(labels, label); });
  unsigned at = first - labels.begin();
  if (at + old.size() > labels.size() || ArrayRef<int64_t>(labels).slice(at, old.size()) != old)
    return false;
  labels.erase(labels.begin() + at, labels.begin() + at + old.size());
  shape.erase(shape.begin() + at, shape.begin() + at + old.size());
  labels.insert(labels.begin() + at, fresh.begin(), fresh.end());
  shape.insert(shape.begin() + at, sizes.begin(), sizes.end());
  return true;
}

static bool absorb(ReshapeOp reshape) {
  auto op = reshape.getInput().getDefiningOp<ContractOp>();
  if (!op || !op.getResult().hasOneUse())
    return false;
  ArrayRef<int64_t> from = shapeOf(op.getResult()), to = shapeOf(reshape.getResult());
  auto runs = runsOf(from, to);
  if (!runs)
    return false;
  SmallVector<int64_t> lhs(op.getLhsDims()), rhs(op.getRhsDims()), result;
  SmallVector<int64_t> lhsShape(shapeOf(op.getLhs())), rhsShape(shapeOf(op.getRhs()));
  int64_t next = 0;
  for (ArrayRef<int64_t> dims : {op.getLhsDims(), op.getRhsDims()})
    for (int64_t label : dims)
      next = std::max(next, label + 1);
  for (const Run &run : *runs) {
    ArrayRef<int64_t> old = op.getResultDims().slice(run.fromBegin, run.fromEnd - run.fromBegin);
    if (old.size() == 1 && run.toEnd - run.toBegin == 1) {
      result.push_back(old[0]);
      continue;
    }
    SmallVector<int64_t> fresh, sizes(to.slice(run.toBegin, run.toEnd - run.toBegin));
    for (unsigned d = run.toBegin; d < run.toEnd; ++d)
      fresh.push_back(next++);
    if (!replaceLabels(lhs, lhsShape, old, fresh, sizes) || !replaceLabels(rhs, rhsShape, old, fresh, sizes))
      return false;
    llvm::append_range(result, fresh);
  }
  // A label that only the result has would be a dimension of size 1 made from nothing.
  for (int64_t label : result)
    if (!llvm::is_contained(lhs, label) && !llvm::is_contained(rhs, label))
      return false;
  OpBuilder b(op);
  Value right = reshapeTo(b, op.getRhs(), rhsShape), left = reshapeTo(b, op.getLhs(), lhsShape);
  auto moved =
      ContractOp::create(b, op.getLoc(), reshape.getResult().getType(), left, right, lhs, rhs, result);
  reshape.getResult().replaceAllUsesWith(moved.getResult());
  reshape.erase();
  op.erase();
  return true;
}

static int64_t countElements(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}

constexpr int64_t kSmall = 8; ///< times that fit in what is read

/// Whether kernels that read what these ops do can compute it themselves.
static bool areComputedOnTheWay(Operation::user_range users) {
  return llvm::all_of(
      users, [](Operation *user) { return isa<ElementwiseOp, ReduceOp, dist::MaskPaddingOp>(user); });
}

/// Whether a choice between small tensors that are stretched, by a comparison of such, gives `op`: one class'
/// part of a gradient.
static bool choosesFromSmall(ElementwiseOp op) {
  const int64_t given = countElements(op.getResult());
  auto isSmall = [&](Value operand) {
    auto broadcast = operand.getDefiningOp<BroadcastOp>();
    return countElements(broadcast ? broadcast.getInput() : operand) * kSmall <= given;
  };
  auto comparison = op.getOperand(0).getDefiningOp<ElementwiseOp>();
  return op.getKind() == ElementwiseKind::Select && comparison &&
         llvm::all_of(comparison->getOperands(), isSmall) &&
         llvm::all_of(op->getOperands().drop_front(), isSmall);
}

/// Whether `op` takes what ranks have found of rows over all of them, or its logarithm, from these, which
/// some other op reads as well: logits less their maximum, and that less the logarithm of their sum.
static bool subtractsStatistics(ElementwiseOp op) {
  if (op.getKind() != ElementwiseKind::Sub || op.getOperand(0).hasOneUse() ||
      countElements(op.getOperand(1)) * kSmall > countElements(op.getOperand(0)))
    return false;
  Operation *maker = op.getOperand(1).getDefiningOp();
  if (auto logarithm = dyn_cast_or_null<ElementwiseOp>(maker);
      logarithm && logarithm.getKind() == ElementwiseKind::Log)
    maker = logarithm.getOperand(0).getDefiningOp();
  return maker && isCollective(maker);
}

/// Whether `op` costs less than reading what it gives: widening of 16 bits reads half of that, also where
/// something small is added to it or taken from it, as of what a normalization of the batch centers; and a
/// comparison of small tensors that are stretched, and a choice by such a one, read hardly anything; what is
/// taken from rows is there at what it is taken from, which others read.
static bool isCheaperThanReading(ElementwiseOp op) {
  if (isWidening(op))
    return true;
  if (choosesFromSmall(op) || subtractsStatistics(op))
    return areComputedOnTheWay(op->getUsers());
  const int64_t given = countElements(op.getResult());
  if (op.getKind() == ElementwiseKind::Add || op.getKind() == ElementwiseKind::Sub) {
    auto isSmall = [&](Value operand) { return countElements(operand) * kSmall <= given; };
    auto isWidened = [](Value operand) { return isWidening(operand.getDefiningOp()); };
    return llvm::count_if(op->getOperands(), isWidened) == 1 &&
           llvm::count_if(op->getOperands(), isSmall) == 1 && op->getNumOperands() == 2 &&
           llvm::all_of(op->getUsers(), [](Operation *user) { return isa<ElementwiseOp, ReduceOp>(user); });
  }
  if (!elementTypeOf(op.getResult()).isInteger(1))
    return false;
  int64_t read = 0;
  for (Value operand : op->getOperands())
    read += countElements(operand);
  return read * kSmall <= given &&
         llvm::all_of(op->getUsers(), [](Operation *user) { return isa<ElementwiseOp>(user); });
}

/// What was widened and is narrowed again is what it was.
static void foldWidenings(func::FuncOp function) {
  SmallVector<ElementwiseOp> again;
  function.walk([&](ElementwiseOp op) {
    if (op.getKind() == ElementwiseKind::Cast && isWidening(op.getOperand(0).getDefiningOp()) &&
        op.getOperand(0).getDefiningOp()->getOperand(0).getType() == op.getType())
      again.push_back(op);
  });
  for (ElementwiseOp op : again) {
    op.getResult().replaceAllUsesWith(op.getOperand(0).getDefiningOp()->getOperand(0));
    op.erase();
  }
}

/// A part of what is the same everywhere is so, too, whichever turn or rank takes it.
static void cutConstants(func::FuncOp function) {
  SmallVector<Operation *> slices;
  function.walk([&](Operation *op) {
    if (isa<dist::LoopSliceOp, shard::AllSliceOp>(op))
      slices.push_back(op);
  });
  for (Operation *op : slices) {
    DenseElementsAttr all;
    auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
    if (!type || !matchPattern(op->getOperand(0), m_Constant(&all)) || !all.isSplat())
      continue;
    OpBuilder b(op);
    auto part = ConstantOp::create(b, op->getLoc(), type, all.resizeSplat(type));
    op->getResult(0).replaceAllUsesWith(part);
    op->erase();
  }
}

/// Gives each reader of `op` one of its own, so that each kernel computes it on the way.
static void separateReaders(Operation *op) {
  llvm::SmallDenseMap<Operation *, Value> ofReader;
  for (OpOperand &use : llvm::make_early_inc_range(op->getResult(0).getUses())) {
    Value &own = ofReader[use.getOwner()];
    if (!own)
      own = ofReader.size() == 1 ? op->getResult(0) : OpBuilder(op).clone(*op)->getResult(0);
    use.set(own);
  }
}

/// Whether `op` masks what was widened, so that the mask costs less than to read the wide.
static bool masksWidened(Operation *op) {
  auto mask = dyn_cast<dist::MaskPaddingOp>(op);
  return mask && isWidening(mask.getInput().getDefiningOp()) && areComputedOnTheWay(op->getUsers());
}

static void separateReaders(func::FuncOp function) {
  SmallVector<Operation *> cheap;
  function.walk([&](Operation *op) {
    if (isa<ElementwiseOp, dist::MaskPaddingOp>(op))
      cheap.push_back(op);
  });
  for (Operation *op : llvm::reverse(cheap)) { // a reader that has become several reads several times
    auto elementwise = dyn_cast<ElementwiseOp>(op);
    if (!op->hasOneUse() && (elementwise ? isCheaperThanReading(elementwise) : masksWidened(op)))
      separateReaders(op);
  }
}

/// A logarithm of a softmax that elementwise ops alone read, as a loss and its gradient do, is a difference
/// from one number a row. That is all that is stored: the readers take it from the softmax's operand.
static void subtractLogarithms(func::FuncOp function) {
  SmallVector<SoftmaxOp> all;
  function.walk([&](SoftmaxOp op) {
    Type type = elementTypeOf(op.getResult());
    if (op.getLog() && !op.getGuard() && (type.isF32() || type.isF64()) && !op.getResult().use_empty() &&
        !op.getResult().hasOneUse() &&
        llvm::all_of(op->getUsers(), [](Operation *user) { return isa<ElementwiseOp>(user); }))
      all.push_back(op);
  });
  for (SoftmaxOp op : all) {
    OpBuilder b(op);
    OpComposer ops(b, op.getLoc());
    Value whole = ops.reduce(ReduceKind::LogSumExp, op.getInput(), {static_cast<int64_t>(op.getAxis())});
    auto difference = ops.sub(op.getInput(), whole).getDefiningOp<ElementwiseOp>();
    op.getResult().replaceAllUsesWith(difference.getResult());
    op.erase();
    separateReaders(difference);
  }
}

/// What combines the results of a reduction over parts; none where that is not the same as over all.
static std::optional<ReduceKind> getOuterKind(ReduceKind kind) {
  switch (kind) {
  case ReduceKind::Sum:
  case ReduceKind::SumSquare:
  case ReduceKind::L1: return ReduceKind::Sum;
  case ReduceKind::Max: return ReduceKind::Max;
  case ReduceKind::Min: return ReduceKind::Min;
  default: return std::nullopt;
  }
}

/// A kernel deals rows out to threads, and a whole tensor is one row: what reduces a large one to one element
/// does so with the rows of its first dimensions, and then with what these gave.
static void reduceByRows(func::FuncOp function) {
  constexpr int64_t kLarge = 65536, kEnoughRows = 64;
  SmallVector<ReduceOp> all;
  function.walk([&](ReduceOp op) {
    auto input = cast<RankedTensorType>(op.getInput().getType());
    Type element = input.getElementType(); // what rows give is not rounded to 16 bits
    if ((element.isF32() || element.isF64()) && input.getNumElements() >= kLarge &&
        cast<RankedTensorType>(op.getType()).getNumElements() == 1 && getOuterKind(op.getKind()))
      all.push_back(op);
  });
  for (ReduceOp op : all) {
    ArrayRef<int64_t> shape = shapeOf(op.getInput());
    const auto rank = static_cast<int64_t>(shape.size());
    int64_t outer = 0, rows = 1;
    while (outer < rank && rows < kEnoughRows)
      rows *= shape[outer++];
    if (outer == rank) // rows of one element
      rows /= shape[--outer];
    const std::optional<ReduceKind> outerKind = getOuterKind(op.getKind());
    if (rows == 1 || !outerKind)
      continue;
    OpBuilder b(op);
    OpComposer ops(b, op.getLoc());
    Value ofRows = ops.reduce(op.getKind(), op.getInput(), llvm::to_vector(llvm::seq(outer, rank)));
    Value ofAll = ops.reduce(*outerKind, ofRows, llvm::to_vector(llvm::seq(outer)));
    op.getResult().replaceAllUsesWith(ops.reshape(ofAll, shapeOf(op.getResult())));
    op.erase();
  }
}

namespace {
/// Where the ops of a function stand.
class Places {
public:
  explicit Places(func::FuncOp function) {
    unsigned heavy = 0;
    for (Operation &op : function.front())
      places[&op] = heavy += classify(&op) == OpClass::Routine;
  }
  /// Behind how many contractions and the like.
  unsigned of(Operation *op) const { return places.lookup(op); }
  /// The last that reads `value` from its own memory.
  unsigned lastReader(Value value) const {
    unsigned last = 0;
    for (Operation *user : value.getUsers())
      last = std::max(last, isMovement(user) ? lastReader(user->getResult(0)) : of(user));
    return last;
  }

private:
  llvm::DenseMap<Operation *, unsigned> places;
};
} // namespace

/// A tensor in another order is a copy, which would stay from its first reader to its last. Readers that many
/// products lie between get a copy each, where the tensor itself stays that long in any case: so it is with
/// the heads of an attention, which its gradient reads, and their rows, which the product behind reads and
/// the gradient of that product's weights.
static void copyAgain(func::FuncOp function) {
  constexpr unsigned kFar = 8; // products: a copy takes as long as a small part of one
  SmallVector<Operation *> movements;
  for (Operation &op : function.front())
    if (isMovement(&op) && !op.getResult(0).hasOneUse())
      movements.push_back(&op);
  if (movements.empty())
    return;
  const Places places(function);
  for (Operation *op : movements) {
    bool isCopy = false;
    SmallVector<Operation *> chain; // from `op` up
    Value base = op->getResult(0);
    for (Operation *maker = op; maker && isMovement(maker); maker = base.getDefiningOp()) {
      isCopy |= isa<TransposeOp>(maker);
      chain.push_back(maker);
      base = maker->getOperand(0);
    }
    unsigned first = UINT_MAX, last = 0;
    for (Operation *user : op->getUsers()) {
      first = std::min(first, places.of(user));
      last = std::max(last, places.of(user));
    }
    // Without these readers.
    unsigned kept = 0;
    for (Operation *user : base.getUsers())
      if (user != chain.back())
        kept = std::max(kept, isMovement(user) ? places.lastReader(user->getResult(0)) : places.of(user));
    if (!isCopy || !base.getDefiningOp() || last - first < kFar || kept < last)
      continue;
    OpBuilder b(function.getContext());
    Value again;
    for (OpOperand &use : llvm::make_early_inc_range(op->getResult(0).getUses())) {
      if (places.of(use.getOwner()) - first < kFar)
        continue;
      if (!again) {
        b.setInsertionPoint(op);
        Value made = base;
        for (Operation *movement : llvm::reverse(chain)) {
          IRMapping mapping;
          mapping.map(movement->getOperand(0), made);
          made = b.clone(*movement, mapping)->getResult(0);
        }
        again = made;
      }
      use.set(again);
    }
  }
}

void schedule::prepare(func::FuncOp function) {
  subtractLogarithms(function);
  foldWidenings(function);
  cutConstants(function);
  separateReaders(function);
  reduceByRows(function);
  for (bool changed = true; changed;) {
    changed = false;
    SmallVector<ReshapeOp> reshapes;
    function.walk([&](ReshapeOp op) { reshapes.push_back(op); });
    for (ReshapeOp reshape : reshapes) {
      Value input = reshape.getInput();
      // Reshapes of reshapes are one.
      if (auto inner = input.getDefiningOp<ReshapeOp>()) {
        reshape.getInputMutable().assign(inner.getInput());
        input = inner.getInput();
        changed = true;
      }
      changed |= absorb(reshape) || climb(reshape);
    }
  }
  copyAgain(function);
}
