//===- AffineIndex.cpp - index expressions and causal masks -----------------===//
//
// Exporters build positions and masks from ranges, reshapes, sums and comparisons. Followed symbolically they
// are affine in the index, at any size.
//
//===----------------------------------------------------------------------===//
#include "Matching.h"

#include "dialects/Colossal/NarrowTypes.h"

using namespace mlir;

namespace colossal {

static std::optional<Affine> matchAffine(Value value, unsigned depth);

/// Elements `first`, `first` + `step`, ... of a small constant, as those of a tensor of `shape`.
static std::optional<Affine> matchContents(const HostTensor &tensor, ArrayRef<int64_t> shape, int64_t first,
                                           int64_t step) {
  if (tensor.count() == 0 || tensor.isFloat())
    return std::nullopt;
  Affine affine{SmallVector<int64_t>(shape.size(), 0), tensor.getInt(first)};
  if (tensor.splat)
    return affine;
  int64_t stride = step;
  for (int64_t d = int64_t(shape.size()) - 1; d >= 0; --d) {
    if (shape[d] > 1)
      affine.coefficients[d] = tensor.getInt(first + stride) - affine.constant;
    stride *= shape[d];
  }
  for (int64_t i = first, n = 0; i < tensor.count(); i += step, ++n) {
    int64_t expected = affine.constant, rest = n;
    for (int64_t d = int64_t(shape.size()) - 1; d >= 0; --d) {
      expected += affine.coefficients[d] * (rest % shape[d]);
      rest /= shape[d];
    }
    if (tensor.getInt(i) != expected)
      return std::nullopt;
  }
  return affine;
}

/// Reshapes that only add or remove dimensions of size 1.
static std::optional<Affine> matchReshape(ReshapeOp op, unsigned depth) {
  auto inner = matchAffine(op.getInput(), depth);
  if (!inner)
    return std::nullopt;
  auto from = GraphBuilder::shapeOf(op.getInput()), to = GraphBuilder::shapeOf(op.getResult());
  Affine affine{SmallVector<int64_t>(to.size(), 0), inner->constant};
  size_t next = 0;
  for (size_t d = 0; d < to.size(); ++d) {
    if (to[d] == 1)
      continue;
    while (next < from.size() && from[next] == 1)
      ++next;
    if (next == from.size() || from[next] != to[d])
      return std::nullopt;
    affine.coefficients[d] = inner->coefficients[next++];
  }
  while (next < from.size() && from[next] == 1)
    ++next;
  return next == from.size() ? std::optional<Affine>(affine) : std::nullopt;
}

/// `operand` in the index space of a result that it broadcasts to.
static std::optional<Affine> matchOperand(Value operand, ArrayRef<int64_t> shape, unsigned depth) {
  auto inner = matchAffine(operand, depth);
  if (!inner)
    return std::nullopt;
  Affine affine{SmallVector<int64_t>(shape.size(), 0), inner->constant};
  size_t skip = shape.size() - inner->coefficients.size();
  for (size_t d = 0; d < inner->coefficients.size(); ++d)
    if (GraphBuilder::shapeOf(operand)[d] != 1)
      affine.coefficients[d + skip] = inner->coefficients[d];
  return affine;
}

static std::optional<Affine> matchAffine(Value value, unsigned depth) {
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0)
    return std::nullopt;
  --depth;
  ArrayRef<int64_t> shape = GraphBuilder::shapeOf(value);
  if (auto iota = dyn_cast<IotaOp>(op)) {
    if (iota.getOffset() || isa<FloatType>(GraphBuilder::elementOf(value)))
      return std::nullopt;
    Affine affine{SmallVector<int64_t>(shape.size(), 0), int64_t(iota.getStart().convertToDouble())};
    affine.coefficients[iota.getAxis()] = int64_t(iota.getStep().convertToDouble());
    return affine;
  }
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    auto tensor = HostTensor::fromAttr(constant.getValue());
    return tensor ? matchContents(*tensor, shape, 0, 1) : std::nullopt;
  }
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    return matchReshape(reshape, depth);
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return matchOperand(broadcast.getInput(), shape, depth);
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    auto inner = matchAffine(transpose.getInput(), depth);
    if (!inner)
      return std::nullopt;
    Affine affine{{}, inner->constant};
    for (int64_t d : transpose.getPermutation())
      affine.coefficients.push_back(inner->coefficients[d]);
    return affine;
  }
  if (auto slice = dyn_cast<SliceOp>(op)) {
    auto affine = matchAffine(slice.getInput(), depth);
    if (!affine)
      return std::nullopt;
    for (size_t d = 0; d < shape.size(); ++d) {
      affine->constant += affine->coefficients[d] * slice.getStarts()[d];
      affine->coefficients[d] *= slice.getSteps()[d];
    }
    return affine;
  }
  auto elementwise = dyn_cast<ElementwiseOp>(op);
  if (!elementwise || isa<FloatType>(GraphBuilder::elementOf(value)) ||
      GraphBuilder::elementOf(value).isInteger(1))
    return std::nullopt;
  auto operand = [&](unsigned i) { return matchOperand(elementwise.getInputs()[i], shape, depth); };
  ElementwiseKind kind = elementwise.getKind();
  if (kind == ElementwiseKind::Cast &&
      isa<IntegerType>(GraphBuilder::elementOf(elementwise.getInputs()[0])) &&
      !isNarrow(GraphBuilder::elementOf(value)))
    return operand(0);
  if (kind != ElementwiseKind::Add && kind != ElementwiseKind::Sub && kind != ElementwiseKind::Mul)
    return std::nullopt;
  auto a = operand(0), b = operand(1);
  if (!a || !b)
    return std::nullopt;
  if (kind == ElementwiseKind::Mul) {
    if (llvm::any_of(a->coefficients, [](int64_t c) { return c != 0; }))
      std::swap(a, b);
    if (llvm::any_of(a->coefficients, [](int64_t c) { return c != 0; }))
      return std::nullopt;
    for (int64_t &coefficient : b->coefficients)
      coefficient *= a->constant;
    b->constant *= a->constant;
    return b;
  }
  int64_t sign = kind == ElementwiseKind::Sub ? -1 : 1;
  for (size_t d = 0; d < shape.size(); ++d)
    a->coefficients[d] += sign * b->coefficients[d];
  a->constant += sign * b->constant;
  return a;
}

std::optional<Affine> matchAffine(Value value) {
  return matchAffine(value, 32);
}

bool matchTuples(Value tuples, SmallVectorImpl<Affine> &parts) {
  const ArrayRef<int64_t> shape = GraphBuilder::shapeOf(tuples);
  if (auto affine = matchAffine(tuples)) {
    const int64_t last = affine->coefficients.pop_back_val();
    for (int64_t i = 0; i < shape.back(); ++i)
      parts.push_back({affine->coefficients, affine->constant + last * i});
    return true;
  }
  // Tuples that an exporter has computed: each part is affine, which the whole is for equal coefficients
  // only.
  auto constant = tuples.getDefiningOp<ConstantOp>();
  const auto tensor = constant ? HostTensor::fromAttr(constant.getValue()) : std::nullopt;
  return tensor && matchTuples(*tensor, parts);
}

bool matchTuples(const HostTensor &tuples, SmallVectorImpl<Affine> &parts) {
  const ArrayRef<int64_t> shape = tuples.type.getShape();
  for (int64_t i = 0; i < shape.back(); ++i) {
    auto part = matchContents(tuples, shape.drop_back(), i, shape.back());
    if (!part)
      return false;
    parts.push_back(std::move(*part));
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Causal masks
//===----------------------------------------------------------------------===//

/// A constant mask: every matrix is true exactly for key <= query + offset.
static std::optional<int64_t> matchCausalContents(const HostTensor &mask) {
  int64_t rank = mask.type.getRank();
  if (rank < 2 || mask.count() == 0)
    return std::nullopt;
  int64_t queries = mask.type.getDimSize(rank - 2), keys = mask.type.getDimSize(rank - 1);
  if (mask.splat) // of any size: true everywhere, or nowhere
    return mask.getInt(0) ? std::optional(keys - 1) : std::nullopt;
  // The first row that does not see all keys tells the offset.
  int64_t offset = keys - 1;
  for (int64_t q = 0; q < queries; ++q) {
    int64_t seen = 0;
    while (seen < keys && mask.getInt(q * keys + seen))
      ++seen;
    if (seen < keys) {
      offset = seen - 1 - q;
      break;
    }
  }
  for (int64_t i = 0; i < mask.count(); ++i)
    if ((mask.getInt(i) != 0) != (i % keys <= i / keys % queries + offset))
      return std::nullopt;
  return offset;
}

static std::optional<int64_t> matchComparison(ElementwiseOp op, bool negated) {
  ElementwiseKind kind = op.getKind();
  bool less = kind == ElementwiseKind::Less || kind == ElementwiseKind::LessOrEqual;
  bool strict = kind == ElementwiseKind::Less || kind == ElementwiseKind::Greater;
  if (!less && kind != ElementwiseKind::Greater && kind != ElementwiseKind::GreaterOrEqual)
    return std::nullopt;
  if (negated) { // !(a < b) is a >= b
    less = !less;
    strict = !strict;
  }
  ArrayRef<int64_t> shape = GraphBuilder::shapeOf(op.getResult());
  size_t rank = shape.size();
  if (rank < 2)
    return std::nullopt;
  auto low = matchOperand(op.getInputs()[less ? 0 : 1], shape, 32),
       high = matchOperand(op.getInputs()[less ? 1 : 0], shape, 32);
  if (!low || !high)
    return std::nullopt;
  // low <= high (+ 1 if strict): key - query + constant <= 0.
  for (size_t d = 0; d < rank; ++d) {
    int64_t coefficient = low->coefficients[d] - high->coefficients[d];
    int64_t wanted = d + 1 == rank ? 1 : d + 2 == rank ? -1 : 0;
    if (shape[d] != 1 && coefficient != wanted)
      return std::nullopt;
  }
  return -(low->constant - high->constant + (strict ? 1 : 0));
}

std::optional<int64_t> matchCausal(Value condition) {
  Operation *op = condition.getDefiningOp();
  if (!op)
    return std::nullopt;
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    auto tensor = HostTensor::fromAttr(constant.getValue());
    return tensor ? matchCausalContents(*tensor) : std::nullopt;
  }
  // Broadcasts and reshapes that keep the matrix.
  if (isa<ReshapeOp, BroadcastOp>(op)) {
    Value inner = op->getOperand(0);
    if (GraphBuilder::rankOf(inner) >= 2 && GraphBuilder::rankOf(condition) >= 2 &&
        GraphBuilder::shapeOf(inner).take_back(2) == GraphBuilder::shapeOf(condition).take_back(2))
      return matchCausal(inner);
    return std::nullopt;
  }
  auto elementwise = dyn_cast<ElementwiseOp>(op);
  if (!elementwise)
    return std::nullopt;
  if (elementwise.getKind() == ElementwiseKind::Not)
    if (auto inner = elementwise.getInputs()[0].getDefiningOp<ElementwiseOp>()) {
      auto parts = inner.getKind() == ElementwiseKind::Equal ? matchWithSplat(inner) : std::nullopt;
      if (parts && parts->second == 0 && parts->first.getDefiningOp<ElementwiseOp>() &&
          GraphBuilder::shapeOf(parts->first) == GraphBuilder::shapeOf(condition))
        return matchCausal(parts->first); // a lower triangle of ones is not 0
      return matchComparison(inner, true);
    }
  if (elementwise.getKind() == ElementwiseKind::Cast && GraphBuilder::elementOf(condition).isInteger(1))
    if (auto inner = matchKind(elementwise.getInputs()[0], ElementwiseKind::Select))
      if (isSplat(inner.getInputs()[1], 1) && isSplat(inner.getInputs()[2], 0) &&
          GraphBuilder::shapeOf(inner.getInputs()[0]) == GraphBuilder::shapeOf(condition))
        return matchCausal(inner.getInputs()[0]); // lower triangle of ones
  if (elementwise.getKind() == ElementwiseKind::Select && isSplat(elementwise.getInputs()[1], 1) &&
      isSplat(elementwise.getInputs()[2], 0) &&
      GraphBuilder::shapeOf(elementwise.getInputs()[0]) == GraphBuilder::shapeOf(condition))
    return matchCausal(elementwise.getInputs()[0]);
  return matchComparison(elementwise, false);
}

} // namespace colossal
