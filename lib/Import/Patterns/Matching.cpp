//===- Matching.cpp - looking at values -------------------------------------===//
//
// Products, constants, pairs, reductions. Index expressions are in AffineIndex.cpp.
//
//===----------------------------------------------------------------------===//
#include "Matching.h"

#include <cmath>

using namespace mlir;

namespace colossal {

ElementwiseOp matchKind(Value value, ElementwiseKind kind) {
  auto op = value.getDefiningOp<ElementwiseOp>();
  return op && op.getKind() == kind ? op : ElementwiseOp();
}

std::optional<double> matchSplat(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      if (!constant.getValue().isSplat()) // as one element is
        return std::nullopt;
      auto tensor = HostTensor::fromAttr(constant.getValue());
      return tensor && tensor->count() ? std::optional(tensor->getFloat(0)) : std::nullopt;
    }
    if (!isa<ReshapeOp, BroadcastOp>(op))
      return std::nullopt;
    value = op->getOperand(0);
  }
  return std::nullopt;
}

bool isSplat(Value value, double expected, double tolerance) {
  auto number = matchSplat(value);
  return number && (*number == expected || std::fabs(*number - expected) <= tolerance * std::fabs(expected));
}

std::optional<std::pair<Value, double>> matchWithSplat(ElementwiseOp op) {
  if (op.getInputs().size() != 2)
    return std::nullopt;
  for (int i : {1, 0})
    if (auto number = matchSplat(op.getInputs()[i]))
      return std::make_pair(Value(op.getInputs()[1 - i]), *number);
  return std::nullopt;
}

static void takeProduct(Value value, Product &product, unsigned depth) {
  if (auto number = matchSplat(value)) {
    product.number *= *number;
    return;
  }
  auto op = depth < 8 ? value.getDefiningOp<ElementwiseOp>() : ElementwiseOp();
  if (op && op.getKind() == ElementwiseKind::Mul) {
    takeProduct(op.getInputs()[0], product, depth + 1);
    takeProduct(op.getInputs()[1], product, depth + 1);
    return;
  }
  if (op && op.getKind() == ElementwiseKind::Div && isa<FloatType>(GraphBuilder::elementOf(value)))
    if (auto number = matchSplat(op.getInputs()[1])) {
      product.number /= *number;
      takeProduct(op.getInputs()[0], product, depth + 1);
      return;
    }
  product.factors.push_back(value);
}

Product takeProduct(Value value) {
  Product product;
  takeProduct(value, product, 0);
  return product;
}

Value stripBroadcast(Value value) {
  while (true) {
    if (auto broadcast = value.getDefiningOp<BroadcastOp>()) {
      value = broadcast.getInput();
      continue;
    }
    if (auto reshape = value.getDefiningOp<ReshapeOp>()) {
      auto to = GraphBuilder::shapeOf(value), from = GraphBuilder::shapeOf(reshape.getInput());
      size_t more = to.size() > from.size() ? to.size() - from.size() : 0;
      if (to.drop_front(more) == from &&
          llvm::all_of(to.take_front(more), [](int64_t size) { return size == 1; })) {
        value = reshape.getInput();
        continue;
      }
    }
    return value;
  }
}

/// [..., n, 2], or [..., n, 2, 1, ...] as some exporters repeat elements, which holds one thing twice.
static bool isTwice(Value value, int64_t n) {
  auto shape = GraphBuilder::shapeOf(value);
  int64_t behind = 0; // dimensions behind the one of size 2
  while (!shape.empty() && shape.back() == 1) {
    shape = shape.drop_back();
    ++behind;
  }
  if (shape.size() < 2 || shape.back() != 2 || shape[shape.size() - 2] != n)
    return false;
  if (auto broadcast = value.getDefiningOp<BroadcastOp>()) {
    auto from = GraphBuilder::shapeOf(broadcast.getInput());
    return int64_t(from.size()) <= behind || from[from.size() - 1 - behind] == 1;
  }
  auto concat = value.getDefiningOp<ConcatOp>();
  return concat && int64_t(concat.getAxis()) == int64_t(shape.size()) - 1 && concat.getInputs().size() == 2 &&
         concat.getInputs()[0] == concat.getInputs()[1];
}

bool hasEqualPairs(Value value, bool interleaved) {
  Operation *op = value.getDefiningOp();
  auto type = GraphBuilder::typeOf(value);
  if (!op || type.getRank() == 0 || type.getShape().back() % 2)
    return false;
  int64_t size = type.getShape().back();
  if (matchSplat(value))
    return true;
  if (auto concat = dyn_cast<ConcatOp>(op); concat && !interleaved)
    return int64_t(concat.getAxis()) == type.getRank() - 1 && concat.getInputs().size() == 2 &&
           concat.getInputs()[0] == concat.getInputs()[1];
  if (auto elementwise = dyn_cast<ElementwiseOp>(op))
    return llvm::all_of(elementwise.getInputs(), [&](Value input) {
      return GraphBuilder::rankOf(input) == 0 || GraphBuilder::shapeOf(input).back() == 1 ||
             hasEqualPairs(input, interleaved);
    });
  if (auto gather = dyn_cast<GatherOp>(op))
    return int64_t(gather.getAxis()) + 1 < GraphBuilder::rankOf(gather.getData()) &&
           hasEqualPairs(gather.getData(), interleaved);
  if (auto slice = dyn_cast<SliceOp>(op))
    return GraphBuilder::shapeOf(slice.getInput()).back() == size && slice.getSteps().back() == 1 &&
           hasEqualPairs(slice.getInput(), interleaved);
  if (isa<ReshapeOp, BroadcastOp>(op)) {
    Value input = op->getOperand(0);
    auto from = GraphBuilder::shapeOf(input);
    if (interleaved && isa<ReshapeOp>(op) && isTwice(input, size / 2))
      return true;
    return !from.empty() && from.back() == size && hasEqualPairs(input, interleaved);
  }
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return transpose.getPermutation().back() == type.getRank() - 1 &&
           hasEqualPairs(transpose.getInput(), interleaved);
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    auto tensor = HostTensor::fromAttr(constant.getValue());
    int64_t next = interleaved ? 1 : size / 2, step = interleaved ? 2 : 1;
    for (int64_t i = 0; tensor && i < tensor->count(); i += size)
      for (int64_t k = 0; k < size / 2; ++k)
        if (tensor->getFloat(i + k * step) != tensor->getFloat(i + k * step + next))
          return false;
    return tensor.has_value();
  }
  return false;
}

ReduceOp matchKeptReduction(Value value, ReduceKind kind) {
  auto reduce = value.getDefiningOp<ReduceOp>();
  if (auto reshape = value.getDefiningOp<ReshapeOp>()) {
    reduce = reshape.getInput().getDefiningOp<ReduceOp>();
    if (!reduce || reduce.getKeepdims())
      return {};
    SmallVector<int64_t> kept(GraphBuilder::shapeOf(reduce.getInput()));
    for (int64_t axis : reduce.getAxes())
      kept[axis] = 1;
    if (GraphBuilder::shapeOf(value) != ArrayRef<int64_t>(kept))
      return {};
  } else if (!reduce || !reduce.getKeepdims()) {
    return {};
  }
  return reduce.getKind() == kind ? reduce : ReduceOp();
}

Location fuseLocations(Location loc, ValueRange values) {
  SmallVector<Location> locations;
  for (Value value : values)
    if (value && value.getDefiningOp())
      locations.push_back(value.getLoc());
  locations.push_back(loc);
  return FusedLoc::get(loc.getContext(), locations);
}

} // namespace colossal
