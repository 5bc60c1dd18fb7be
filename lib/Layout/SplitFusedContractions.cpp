//===- SplitFusedContractions.cpp - one contraction for each unequal part ---===//
//
// An axis that stands on a factor of a dimension splits all parts of that dimension alike. Equal parts, as
// queries, keys and values of as many heads, are one more factor; parts of different sizes share none that
// means the same in each. So each gets a contraction of its own, with its columns of the weights.
//
//===----------------------------------------------------------------------===//
#include "SplitFusedContractions.h"

#include "colossal/Outline/Origins.h"
#include "dialects/Colossal/Colossal.h"
#include "dialects/Dist/ParameterPart.h"
#include "mlir/IR/IRMapping.h"

#include <map>
#include <optional>

using namespace mlir;
using namespace colossal;

namespace {
using Origins = llvm::DenseMap<Value, outline::Origin>;

/// A value that is read by slices of one dimension alone.
struct Parts {
  int64_t dim = 0;
  SmallVector<SliceOp> slices;
};

RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}
} // namespace

/// The dimension of which `slice` takes neighbours, and of all others everything.
static std::optional<int64_t> getSlicedDim(SliceOp slice) {
  std::optional<int64_t> found;
  ArrayRef<int64_t> from = typeOf(slice.getInput()).getShape(), to = typeOf(slice.getResult()).getShape();
  for (auto [d, step] : llvm::enumerate(slice.getSteps())) {
    if (step != 1 && to[d] > 1)
      return std::nullopt;
    if (from[d] == to[d])
      continue;
    if (found)
      return std::nullopt;
    found = d;
  }
  return found;
}

/// None where `value` has another reader, its parts overlap, or they are equal: of those the place of a part
/// is a factor.
static std::optional<Parts> findUnequalParts(Value value) {
  Parts parts;
  std::map<int64_t, int64_t> ends; // by start
  for (Operation *user : value.getUsers()) {
    auto slice = dyn_cast<SliceOp>(user);
    std::optional<int64_t> dim = slice ? getSlicedDim(slice) : std::nullopt;
    if (!dim || (!parts.slices.empty() && *dim != parts.dim))
      return std::nullopt;
    parts.dim = *dim;
    parts.slices.push_back(slice);
    const int64_t start = slice.getStarts()[*dim], size = typeOf(slice.getResult()).getDimSize(*dim);
    if (size == 0 || !ends.try_emplace(start, start + size).second)
      return std::nullopt;
  }
  if (ends.size() < 2)
    return std::nullopt;
  const int64_t size = ends.begin()->second - ends.begin()->first;
  bool isEqual = true;
  int64_t last = 0;
  for (auto [start, end] : ends) {
    if (start < last)
      return std::nullopt;
    last = end;
    isEqual &= end - start == size && start % size == 0;
  }
  if (isEqual)
    return std::nullopt;
  // In the order of the program, and not that of the list of uses.
  llvm::sort(parts.slices, [](SliceOp a, SliceOp b) { return a->isBeforeInBlock(b); });
  return parts;
}

/// The dimension of `operand`, of an elementwise op, that is dimension `dim` of the result; none where it is
/// broadcast along that.
static std::optional<int64_t> getOperandDim(Value operand, Value result, int64_t dim) {
  const int64_t own = dim - (typeOf(result).getRank() - typeOf(operand).getRank());
  if (own < 0 || typeOf(operand).getDimSize(own) != typeOf(result).getDimSize(dim))
    return std::nullopt;
  return own;
}

namespace {
/// Of an op that leaves a dimension of its result as it is in an operand: which.
struct Kept {
  unsigned operand;
  int64_t dim;
};
} // namespace

/// Of an elementwise op, the operand that depends on inputs, where there is one, of the result's shape; of a
/// movement its operand. None for others, and where something else reads that.
static std::optional<Kept> findKept(Operation *op, int64_t dim, const Origins &origins) {
  std::optional<Kept> found;
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    found = {0, transpose.getPermutation()[dim]};
  } else if (auto reshape = dyn_cast<ReshapeOp>(op)) {
    ArrayRef<int64_t> from = typeOf(reshape.getInput()).getShape(),
                      to = typeOf(reshape.getResult()).getShape();
    auto countBehind = [](ArrayRef<int64_t> shape, int64_t d) {
      int64_t count = 1;
      for (int64_t size : shape.drop_front(d + 1))
        count *= size;
      return count;
    };
    for (int64_t d = 0; d < static_cast<int64_t>(from.size()) && !found; ++d)
      if (from[d] == to[dim] && countBehind(from, d) == countBehind(to, dim))
        found = {0, d};
  } else if (isa<ElementwiseOp>(op)) {
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      if (!origins.lookup(operand).argument)
        continue;
      if (found || typeOf(operand).getShape() != typeOf(op->getResult(0)).getShape())
        return std::nullopt;
      found = {static_cast<unsigned>(i), dim};
    }
  }
  return found && op->getOperand(found->operand).hasOneUse() ? found : std::nullopt;
}

/// The operand of `op` with dimension `dim` of the result, where that depends on parameters alone.
static std::optional<unsigned> findCutWeights(ContractOp op, int64_t dim, const Origins &origins) {
  const int64_t label = op.getResultDims()[dim];
  const bool isLeft = llvm::is_contained(op.getLhsDims(), label),
             isRight = llvm::is_contained(op.getRhsDims(), label);
  const outline::Origin weights = origins.lookup(isLeft ? op.getLhs() : op.getRhs()),
                        other = origins.lookup(isLeft ? op.getRhs() : op.getLhs());
  if (isLeft == isRight || weights.argument || !weights.parameter || !other.argument)
    return std::nullopt;
  return isLeft ? 0 : 1;
}

/// Whether dimension `dim` of `value` is that of the columns of a contraction with weights, behind ops that
/// leave it as it is.
static bool isOfContraction(Value value, int64_t dim, const Origins &origins) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto contract = dyn_cast<ContractOp>(op))
      return findCutWeights(contract, dim, origins).has_value();
    std::optional<Kept> kept = findKept(op, dim, origins);
    if (!kept)
      return false;
    value = op->getOperand(kept->operand);
    dim = kept->dim;
  }
  return false;
}

namespace {
/// Makes what gives a part of a value, of a dimension from `start` to `start` + `size`.
class PartBuilder {
public:
  PartBuilder(SliceOp slice, int64_t start, int64_t size, const Origins &origins, bool readsParts)
      : b(slice), location(slice.getLoc()), start(start), size(size), origins(origins),
        readsParts(readsParts) {}
  /// Of what a contraction gives, or is made of that: the same ops for the part alone.
  Value compute(Value value, int64_t dim);

private:
  /// Of what depends on no input.
  Value take(Value value, int64_t dim);
  ParameterOp read(ParameterOp parameter, int64_t dim);
  RankedTensorType getType(Value value, int64_t dim) const {
    SmallVector<int64_t> shape(typeOf(value).getShape());
    shape[dim] = size;
    return typeOf(value).clone(shape);
  }

  OpBuilder b;
  Location location; ///< of what takes the part
  int64_t start, size;
  const Origins &origins;
  bool readsParts;
};
} // namespace

ParameterOp PartBuilder::read(ParameterOp parameter, int64_t dim) {
  SmallVector<int64_t> starts(typeOf(parameter).getRank(), 0);
  starts[dim] = start;
  std::string name = parameter.getName().str() + "[";
  for (int64_t d = 0; d < dim; ++d)
    name += ":,";
  name += std::to_string(start) + ":" + std::to_string(start + size) + "]";
  OpBuilder atParameter(parameter);
  auto part = cast<ParameterOp>(atParameter.clone(*parameter));
  part.setName(name);
  part.removeAliasesAttr();
  part.getResult().setType(getType(parameter, dim));
  dist::setParameterPart(part, parameter.getNameAttr(), typeOf(parameter).getShape(), starts);
  return part;
}

Value PartBuilder::take(Value value, int64_t dim) {
  Operation *op = value.getDefiningOp();
  if (readsParts && op && value.hasOneUse()) {
    if (auto parameter = dyn_cast<ParameterOp>(op); parameter && !dist::getParameterPart(op))
      return read(parameter, dim);
    auto transpose = dyn_cast<TransposeOp>(op);
    auto cast = dyn_cast<ElementwiseOp>(op);
    if (transpose || (cast && cast.getKind() == ElementwiseKind::Cast)) {
      IRMapping mapping;
      mapping.map(op->getOperand(0),
                  take(op->getOperand(0), transpose ? transpose.getPermutation()[dim] : dim));
      Operation *part = b.clone(*op, mapping);
      part->getResult(0).setType(getType(value, dim));
      return part->getResult(0);
    }
  }
  SmallVector<int64_t> starts(typeOf(value).getRank(), 0);
  starts[dim] = start;
  return SliceOp::create(b, location, getType(value, dim), value, starts,
                         SmallVector<int64_t>(starts.size(), 1));
}

Value PartBuilder::compute(Value value, int64_t dim) {
  Operation *op = value.getDefiningOp();
  IRMapping mapping;
  if (auto contract = dyn_cast<ContractOp>(op)) {
    const unsigned weights = *findCutWeights(contract, dim, origins);
    ArrayRef<int64_t> labels = weights == 0 ? contract.getLhsDims() : contract.getRhsDims();
    const int64_t column = llvm::find(labels, contract.getResultDims()[dim]) - labels.begin();
    mapping.map(op->getOperand(weights), take(op->getOperand(weights), column));
  } else {
    const Kept kept = *findKept(op, dim, origins);
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      if (mapping.contains(operand))
        continue;
      if (i == kept.operand)
        mapping.map(operand, compute(operand, kept.dim));
      else if (std::optional<int64_t> own = getOperandDim(operand, value, dim))
        mapping.map(operand, take(operand, *own));
    }
  }
  Operation *part = b.clone(*op, mapping);
  part->getResult(0).setType(getType(value, dim));
  return part->getResult(0);
}

void layout::splitFusedContractions(func::FuncOp function, bool readsParts) {
  const Origins origins = outline::findOrigins(function);
  SmallVector<std::pair<Value, Parts>> found;
  for (Operation &op : function.front())
    if (isa<ContractOp, ElementwiseOp, ReshapeOp, TransposeOp>(op))
      if (std::optional<Parts> parts = findUnequalParts(op.getResult(0));
          parts && isOfContraction(op.getResult(0), parts->dim, origins))
        found.push_back({op.getResult(0), std::move(*parts)});
  for (auto &[value, parts] : found) {
    for (SliceOp slice : parts.slices) {
      const int64_t start = slice.getStarts()[parts.dim],
                    size = typeOf(slice.getResult()).getDimSize(parts.dim);
      PartBuilder builder(slice, start, size, origins, readsParts);
      slice.replaceAllUsesWith(builder.compute(value, parts.dim));
      slice.erase();
    }
    // What made the whole, and what was read for that, has lost its one reader.
    SmallVector<Operation *> open{value.getDefiningOp()};
    while (!open.empty()) {
      Operation *op = open.pop_back_val();
      if (!op || !op->use_empty())
        continue;
      for (Value operand : op->getOperands())
        if (!llvm::is_contained(open, operand.getDefiningOp()))
          open.push_back(operand.getDefiningOp());
      // Its operands first lose this use.
      op->erase();
    }
  }
}
