//===- TurnSums.cpp - what turns of the loop add up -------------------------===//
#include "TurnSums.h"

#include "Collectives.h"

#include "colossal/Schedule/Views.h"
#include "dialects/Colossal/Colossal.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

/// Parts of sums over turns that ranks exchange before the first of them is added.
static constexpr size_t kExchangesUnderWay = 2;

/// Moves what ranks exchange of a turn's part before they add it up, as `sum` does, to where its operand is
/// made, and returns what makes that. Null where they exchange nothing, or others read it, too.
static Operation *hoistExchange(Operation *sum) {
  SmallVector<Operation *> exchange; // the last first
  bool isExchanged = false;
  Operation *made = sum->getOperand(0).getDefiningOp();
  for (; made && made->getNumOperands() == 1 && made->hasOneUse() && (isCollective(made) || isMovement(made));
       made = made->getOperand(0).getDefiningOp()) {
    exchange.push_back(made);
    isExchanged |= isCollective(made);
  }
  if (!made || !isExchanged)
    return nullptr;
  for (Operation *op : exchange)
    op->moveAfter(made);
  return made;
}

llvm::DenseMap<Operation *, Operation *> schedule::delaySums(ArrayRef<Operation *> sums) {
  llvm::DenseMap<Operation *, Operation *> behind;
  SmallVector<std::pair<Operation *, Operation *>> exchanged; // what is made, and the sum
  for (Operation *sum : sums)
    if (Operation *made = hoistExchange(sum))
      exchanged.push_back({made, sum});
  llvm::sort(exchanged, [](auto &a, auto &b) {
    return a.first != b.first ? a.first->isBeforeInBlock(b.first) : a.second->isBeforeInBlock(b.second);
  });
  for (auto [i, pair] : llvm::enumerate(exchanged)) {
    auto [made, sum] = pair;
    Operation *part = sum->getOperand(0).getDefiningOp();
    behind[sum] = sum; // as late as it is
    if (i + kExchangesUnderWay < exchanged.size())
      if (Operation *later = exchanged[i + kExchangesUnderWay].first;
          part->isBeforeInBlock(later) && later->isBeforeInBlock(sum)) // and so before what reads the sum
        behind[sum] = later;
  }
  return behind;
}

/// Of a part of a sum that is itself one, of something and of rows that a kernel can add to what lies in
/// their place, the latter; null of others.
static Value findAddedRows(Value part) {
  auto addition = part.getDefiningOp<ElementwiseOp>();
  if (!addition || addition.getKind() != ElementwiseKind::Add || addition->getNumOperands() != 2 ||
      !part.hasOneUse())
    return nullptr;
  for (Value summand : addition->getOperands())
    if (auto tiles = summand.getDefiningOp<TileEmissionOpInterface>();
        tiles && tiles.canAddToResult() && summand.hasOneUse() && summand.getType() == part.getType() &&
        addition->getOperand(0).getType() == addition->getOperand(1).getType())
      return summand;
  return nullptr;
}

static bool isProduct(Operation *maker) {
  auto kernel = dyn_cast_or_null<KernelOpInterface>(maker);
  return kernel && kernel.getKernelKind() == KernelKind::Contraction;
}

/// A product, or products added up, as those of a loss in parts.
static bool isOfProducts(Operation *maker) {
  auto addition = dyn_cast_or_null<ElementwiseOp>(maker);
  return isProduct(maker) || (addition && addition.getKind() == ElementwiseKind::Add &&
                              llvm::all_of(addition->getOperands(), [](Value operand) {
                                return isOfProducts(operand.getDefiningOp());
                              }));
}

/// Has `sum`, of an addition and of what turns before have summed up, add `first` of the addition where that
/// is made, and `rest` to that. Gives the first of the two sums.
static Operation *addInTwo(FunctionState &state, Operation *sum, Value first, Value rest) {
  Operation *addition = sum->getOperand(0).getDefiningOp(), *after = first.getDefiningOp();
  Value old = sum->getOperand(1);
  // The sum that this one goes on with may come behind it.
  if (Operation *before = old.getDefiningOp(); before && after->isBeforeInBlock(before))
    after = before;
  OpBuilder b(sum->getContext());
  b.setInsertionPointAfter(after);
  Operation *own = ElementwiseOp::create(b, first.getLoc(), tensorOf(old), ElementwiseKind::Add,
                                         ValueRange{first, old}, DenseF64ArrayAttr());
  sum->setOperands({rest, own->getResult(0)});
  state.accumulations[own] = state.accumulations.lookup(sum);
  state.turnOps.insert(own);
  state.turnOps.erase(addition);
  addition->erase();
  return own;
}

/// The products that are added up in the end.
static void collectProducts(Operation *maker, SmallVectorImpl<Operation *> &products) {
  if (isProduct(maker)) {
    products.push_back(maker);
    return;
  }
  for (Value operand : maker->getOperands())
    collectProducts(operand.getDefiningOp(), products);
}

static bool areOfOneNode(Operation *addition) {
  SmallVector<Operation *> products;
  collectProducts(addition, products);
  return llvm::all_of(products,
                      [&](Operation *product) { return product->getLoc() == products.front()->getLoc(); });
}

void schedule::addProductsApart(FunctionState &state, Operation *sum, bool ofOneNode) {
  for (;;) {
    auto addition = sum->getOperand(0).getDefiningOp<ElementwiseOp>();
    if (!addition || addition->getNumOperands() != 2 || !isOfProducts(addition) || !addition->hasOneUse() ||
        !state.turnOps.contains(addition) || (ofOneNode && !areOfOneNode(addition)))
      return;
    Value first = addition->getOperand(0), last = addition->getOperand(1), old = sum->getOperand(1);
    if (last.getDefiningOp()->isBeforeInBlock(first.getDefiningOp()))
      std::swap(first, last);
    if (!isProduct(last.getDefiningOp()) || !first.hasOneUse() || !last.hasOneUse() ||
        first.getType() != old.getType() || last.getType() != old.getType())
      return;
    sum = addInTwo(state, sum, first, last);
  }
}

void schedule::addApart(FunctionState &state, Operation *sum) {
  Value rows = findAddedRows(sum->getOperand(0));
  if (!rows)
    return;
  Operation *parts = sum->getOperand(0).getDefiningOp();
  Value other = parts->getOperand(parts->getOperand(0) == rows ? 1 : 0);
  Operation *maker = other.getDefiningOp();
  // Nothing else adds to the sum where it lies: what ranks have exchanged is added with the rows.
  if (isOfProducts(maker) && state.turnOps.contains(maker))
    addProductsApart(state, addInTwo(state, sum, other, rows));
}

/// Whether ranks exchange a turn's part before `sum` adds it up.
static bool hasExchange(Operation *sum) {
  for (Operation *made = sum->getOperand(0).getDefiningOp();
       made && made->getNumOperands() == 1 && (isCollective(made) || isMovement(made));
       made = made->getOperand(0).getDefiningOp())
    if (isCollective(made))
      return true;
  return false;
}

llvm::DenseMap<Operation *, Operation *> schedule::chainSums(FunctionState &state,
                                                             SmallVectorImpl<Operation *> &sums) {
  llvm::DenseMap<Operation *, Operation *> goesOn;
  for (Operation &op : llvm::make_early_inc_range(state.function.front())) {
    auto addition = dyn_cast<ElementwiseOp>(&op);
    auto isOwn = [&](Value operand) {
      Operation *sum = operand.getDefiningOp();
      return state.accumulations.contains(sum) && operand.hasOneUse() &&
             operand.getType() == op.getResult(0).getType() && sum->getOperand(0).getDefiningOp() &&
             !hasExchange(sum); // parts that are, are small and wait for that
    };
    if (!addition || addition.getKind() != ElementwiseKind::Add || op.getNumOperands() != 2 ||
        !llvm::all_of(op.getOperands(), isOwn))
      continue;
    Operation *first = op.getOperand(0).getDefiningOp(), *second = op.getOperand(1).getDefiningOp();
    auto makerOf = [](Operation *sum) { return sum->getOperand(0).getDefiningOp(); };
    if (goesOn.contains(second) ||
        (!goesOn.contains(first) && makerOf(second)->isBeforeInBlock(makerOf(first))))
      std::swap(first, second);
    if (goesOn.contains(second)) // each has gone on with another
      continue;
    goesOn[second] = first;
    op.getResult(0).replaceAllUsesWith(second->getResult(0));
    state.opsBehind.erase(&op);
    op.erase();
  }
  auto depthOf = [&](Operation *sum) {
    unsigned depth = 0;
    for (; goesOn.contains(sum); sum = goesOn.lookup(sum))
      ++depth;
    return depth;
  };
  llvm::stable_sort(sums, [&](Operation *a, Operation *b) { return depthOf(a) < depthOf(b); });
  return goesOn;
}
