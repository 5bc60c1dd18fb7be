//===- Differentiate.cpp - gradients of a function --------------------------===//
//
// Invariant of the walk: when an op is reached, the gradients of its results are complete, since all their
// uses stand behind it.
//
//===----------------------------------------------------------------------===//
#include "colossal/Autodiff/Differentiate.h"

#include "colossal/Outline/OpNames.h"
#include "dialects/Colossal/GradientBuilder.h"
#include "dialects/Dist/Pipeline.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace colossal;

namespace {
/// A summand of a gradient that is zero but for the part from `starts` on.
struct Part {
  Value value;
  SmallVector<int64_t> starts;
};

/// The gradient of one value as far as it is known.
struct Sum {
  Value whole, products; ///< `products`: of several, and not in `whole` yet
  SmallVector<Part, 2> parts;
};

class Reverse {
public:
  Reverse(func::FuncOp function, Value loss, ArrayRef<Value> variables, bool addsProductsFirst)
      : body(function.front()), loss(loss), variables(variables), addsProductsFirst(addsProductsFirst),
        builder(function.getContext()) {
    builder.setInsertionPoint(body.getTerminator());
  }

  LogicalResult run(SmallVectorImpl<Value> &gradients);

private:
  friend class OpGradient;

  /// Finds what depends on a variable.
  void markVaried();
  void add(Value target, Value value, Location loc);
  /// The gradient of `value`, all its summands added; null where there are none.
  Value finish(Value value, Location loc);

  Block &body;
  Value loss;
  ArrayRef<Value> variables;
  bool addsProductsFirst;
  OpBuilder builder;
  llvm::DenseSet<Value> varied; ///< of floats, and dependent on a variable
  DenseMap<Value, Sum> sums;
};

/// What one op's buildGradient sees.
class OpGradient final : public GradientBuilder {
public:
  OpGradient(Reverse &reverse, Operation *op, Location loc, ArrayRef<Value> results)
      : GradientBuilder(op, reverse.builder, loc), reverse(reverse), results(results) {}

  Value resultGradient(unsigned result) override { return results[result]; }
  bool wants(unsigned operand) override { return reverse.varied.contains(op->getOperand(operand)); }

protected:
  void addWhole(unsigned operand, Value value) override {
    reverse.add(op->getOperand(operand), value, composer.loc);
  }
  void addSlice(unsigned operand, Value value, ArrayRef<int64_t> starts) override {
    Value target = op->getOperand(operand);
    if (shapeOf(value) == shapeOf(target))
      return reverse.add(target, value, composer.loc);
    if (cast<RankedTensorType>(value.getType()).getNumElements() != 0)
      reverse.sums[target].parts.push_back({value, SmallVector<int64_t>(starts)});
  }

private:
  Reverse &reverse;
  ArrayRef<Value> results;
};
} // namespace

static bool isFloatTensor(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && isa<FloatType>(type.getElementType());
}

void Reverse::markVaried() {
  for (Value variable : variables)
    if (isFloatTensor(variable))
      varied.insert(variable);
  for (Operation &op : body.without_terminator())
    if (llvm::any_of(op.getOperands(), [&](Value operand) { return varied.contains(operand); }))
      for (Value result : op.getResults())
        if (isFloatTensor(result))
          varied.insert(result);
}

static bool isContraction(Operation *op) {
  auto kernel = dyn_cast_or_null<KernelOpInterface>(op);
  return kernel && kernel.getKernelKind() == KernelKind::Contraction;
}

/// Whether a contraction makes `value`, or what it only shows in another shape.
static bool isProduct(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && isa<ReshapeOp, TransposeOp>(op))
    op = op->getOperand(0).getDefiningOp();
  return isContraction(op);
}

void Reverse::add(Value target, Value value, Location loc) {
  Sum &sum = sums[target];
  const bool isApart =
      addsProductsFirst && isProduct(value) && llvm::count_if(target.getUsers(), isContraction) > 1;
  Value &to = isApart ? sum.products : sum.whole;
  to = to ? OpComposer(builder, loc).add(to, value) : value;
}

/// The one dimension in which a part is smaller than `shape`; none where there are several.
static std::optional<int64_t> findCutDimension(const Part &part, ArrayRef<int64_t> shape) {
  std::optional<int64_t> found;
  for (auto [d, sizes] : llvm::enumerate(llvm::zip_equal(shapeOf(part.value), shape)))
    if (std::get<0>(sizes) != std::get<1>(sizes)) {
      if (found)
        return std::nullopt;
      found = static_cast<int64_t>(d);
    }
  return found;
}

/// A tensor of `shape` with `parts` side by side along `axis`, zeros between.
static Value joinParts(OpComposer &ops, ArrayRef<Part> parts, int64_t axis, ArrayRef<int64_t> shape) {
  SmallVector<Value> row;
  int64_t end = 0;
  auto fillTo = [&](int64_t start) {
    if (start == end)
      return;
    SmallVector<int64_t> gap(shape);
    gap[axis] = start - end;
    row.push_back(ops.fill(RankedTensorType::get(gap, elementTypeOf(parts.front().value)), 0));
  };
  for (const Part &part : parts) {
    fillTo(part.starts[axis]);
    row.push_back(part.value);
    end = part.starts[axis] + shapeOf(part.value)[axis];
  }
  fillTo(shape[axis]);
  return ops.concat(row, axis);
}

/// The sum of `parts`, of `shape`: those that are cut along one dimension and do not overlap are joined.
static Value sumParts(OpComposer &ops, SmallVectorImpl<Part> &parts, ArrayRef<int64_t> shape) {
  Value sum;
  auto add = [&](Value value) { sum = sum ? ops.add(sum, value) : value; };
  while (!parts.empty()) {
    std::optional<int64_t> axis = findCutDimension(parts.front(), shape);
    if (!axis) { // along one dimension after the other
      Part part = parts.front();
      parts.erase(parts.begin());
      for (int64_t d = static_cast<int64_t>(shape.size()) - 1; d >= 0; --d) {
        SmallVector<int64_t> wide(shapeOf(part.value));
        wide[d] = shape[d];
        if (shapeOf(part.value)[d] != shape[d])
          part.value = joinParts(ops, part, d, wide);
      }
      add(part.value);
      continue;
    }
    SmallVector<Part, 4> row, rest;
    auto startOf = [&](const Part &part) { return part.starts[*axis]; };
    llvm::stable_sort(parts, [&](const Part &a, const Part &b) { return startOf(a) < startOf(b); });
    int64_t end = 0;
    for (Part &part : parts) {
      const bool fits = findCutDimension(part, shape) == axis && startOf(part) >= end;
      if (fits)
        end = startOf(part) + shapeOf(part.value)[*axis];
      (fits ? row : rest).push_back(std::move(part));
    }
    parts = std::move(rest);
    add(joinParts(ops, row, *axis, shape));
  }
  return sum;
}

Value Reverse::finish(Value value, Location loc) {
  auto found = sums.find(value);
  if (found == sums.end())
    return {};
  Sum sum = std::move(found->second);
  OpComposer ops(builder, loc);
  if (Value joined = sumParts(ops, sum.parts, shapeOf(value)))
    sum.whole = sum.whole ? ops.add(sum.whole, joined) : joined;
  if (sum.products)
    sum.whole = sum.whole ? ops.add(sum.whole, sum.products) : sum.products;
  sums[value] = {sum.whole, {}, {}};
  return sum.whole;
}

/// Where the gradient of `op` comes from: its name, so that reports and messages tell the two apart.
static Location makeLocation(Operation *op) {
  std::vector<std::string> names = outline::getNames(op->getLoc());
  if (names.empty())
    return op->getLoc();
  return NameLoc::get(StringAttr::get(op->getContext(), outline::nameGradient(names.front())));
}

LogicalResult Reverse::run(SmallVectorImpl<Value> &gradients) {
  auto type = dyn_cast<RankedTensorType>(loss.getType());
  if (!type || !isa<FloatType>(type.getElementType()) || type.getNumElements() != 1)
    return emitError(loss.getLoc()) << "the loss must be one number, but is " << loss.getType();
  markVaried();
  SmallVector<Operation *> ops;
  for (Operation &op : body.without_terminator())
    ops.push_back(&op);
  OpComposer atLoss(builder, loss.getLoc());
  sums[loss].whole = atLoss.fill(type, 1);
  for (Operation *op : llvm::reverse(ops)) {
    if (llvm::none_of(op->getOperands(), [&](Value operand) { return varied.contains(operand); }))
      continue;
    Location loc = makeLocation(op);
    SmallVector<Value> results;
    for (Value result : op->getResults())
      results.push_back(varied.contains(result) ? finish(result, loc) : Value());
    if (llvm::none_of(results, [](Value value) { return static_cast<bool>(value); }))
      continue;
    auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
    if (!differentiable)
      return op->emitOpError("has no gradient");
    OpGradient gradient(*this, op, loc, results);
    if (failed(differentiable.buildGradient(gradient)))
      return failure();
    if (auto unit = op->getAttrOfType<IntegerAttr>(dist::kUnitAttrName))
      for (Operation *made = body.getTerminator()->getPrevNode();
           made && !made->hasAttr(dist::kGradientOfAttrName) && !made->hasAttr(dist::kUnitAttrName) &&
           !made->hasAttr(dist::kUpdateAttrName);
           made = made->getPrevNode())
        made->setAttr(dist::kGradientOfAttrName, unit);
  }
  for (Value variable : variables) {
    Value gradient = varied.contains(variable) ? finish(variable, variable.getLoc()) : Value();
    if (!gradient) {
      auto zeros = dyn_cast<RankedTensorType>(variable.getType());
      if (!zeros || !isFloatTensor(variable))
        return emitError(variable.getLoc()) << "has no gradient, being of " << variable.getType();
      gradient = OpComposer(builder, variable.getLoc()).fill(zeros, 0);
    }
    gradients.push_back(gradient);
  }
  return success();
}

/// Ops by what they compute, wherever they come from, and whatever number they have.
struct ComputationInfo : llvm::DenseMapInfo<Operation *> {
  static OperationEquivalence::Flags getFlags(Operation *op) {
    const bool isNumbered = op->hasAttr(dist::kUnitAttrName) || op->hasAttr(dist::kGradientOfAttrName);
    return isNumbered ? OperationEquivalence::Flags(OperationEquivalence::IgnoreLocations |
                                                    OperationEquivalence::IgnoreDiscardableAttrs)
                      : OperationEquivalence::IgnoreLocations;
  }
  static unsigned getHashValue(Operation *op) {
    return OperationEquivalence::computeHash(op, OperationEquivalence::directHashValue,
                                             OperationEquivalence::ignoreHashValue, getFlags(op));
  }
  static bool isEqual(Operation *a, Operation *b) {
    if (a == b || a == getEmptyKey() || b == getEmptyKey() || a == getTombstoneKey() ||
        b == getTombstoneKey())
      return a == b;
    return OperationEquivalence::isEquivalentTo(a, b, getFlags(a));
  }
};

/// Of the ops of `body` behind `last` (null: all), removes those that compute what another before them does,
/// and those whose results nobody needs. Those before stay as they are: callers hold their values.
static void simplifyBehind(Operation *last, Block &body) {
  bool isNew = !last;
  llvm::DenseSet<Operation *, ComputationInfo> known;
  for (Operation &op : llvm::make_early_inc_range(body.without_terminator())) {
    if (isMemoryEffectFree(&op) && op.getNumRegions() == 0 && op.getNumResults() > 0) {
      auto [same, isFirst] = known.insert(&op);
      if (isNew && !isFirst) {
        op.replaceAllUsesWith(*same);
        op.erase();
        continue;
      }
    }
    isNew |= &op == last;
  }
  for (Operation *op = body.getTerminator()->getPrevNode(); op && op != last;) {
    Operation *before = op->getPrevNode();
    if (isOpTriviallyDead(op))
      op->erase();
    op = before;
  }
}

LogicalResult colossal::differentiate(func::FuncOp function, Value loss, ArrayRef<Value> variables,
                                      SmallVectorImpl<Value> &gradients, bool addsProductsFirst) {
  if (!function.getBody().hasOneBlock())
    return function.emitError() << "expected a function of one block";
  Block &body = function.front();
  Operation *last = body.getTerminator()->getPrevNode();
  if (failed(Reverse(function, loss, variables, addsProductsFirst).run(gradients)))
    return failure();
  // A use that nobody takes for dead, and that follows what is replaced.
  OpBuilder builder(body.getTerminator());
  Operation *uses = func::ReturnOp::create(builder, function.getLoc(), gradients);
  simplifyBehind(last, body);
  gradients.assign(uses->operand_begin(), uses->operand_end());
  uses->erase();
  return success();
}
