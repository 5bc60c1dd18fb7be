//===- FactorRule.cpp - how an op's dimensions hang together ----------------===//
#include "dialects/Dist/FactorRule.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace colossal::dist;

unsigned FactorRule::add(int64_t size, FactorKind kind, StringRef role) {
  Factor factor;
  factor.size = size;
  factor.kind = kind;
  factor.role = role;
  factors.push_back(factor);
  return factors.size() - 1;
}

unsigned FactorRule::addCarried(ArrayRef<unsigned> operands) {
  unsigned factor = add(1, FactorKind::Carried, "partial");
  factors[factor].carriers.assign(operands.begin(), operands.end());
  return factor;
}

void FactorRule::setReduction(unsigned factor, ReductionKind reduction) {
  factors[factor].kind = FactorKind::Reduction;
  factors[factor].reduction = reduction;
  switch (reduction) {
  case ReductionKind::Sum:
  case ReductionKind::Or: factors[factor].padding = PaddingFill::Zero; break;
  case ReductionKind::Prod:
  case ReductionKind::And: factors[factor].padding = PaddingFill::One; break;
  case ReductionKind::Max: factors[factor].padding = PaddingFill::Lowest; break;
  case ReductionKind::Min: factors[factor].padding = PaddingFill::Highest; break;
  }
}

FactorRule FactorRule::makeWhole(Operation *op) {
  FactorRule rule;
  auto addTensor = [&](Type type, SmallVectorImpl<TensorFactors> &tensors) {
    TensorFactors dims;
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      for (int64_t size : tensor.getShape())
        dims.push_back({rule.add(size, FactorKind::Whole)});
    tensors.push_back(dims);
  };
  for (Value operand : op->getOperands())
    addTensor(operand.getType(), rule.operands);
  for (Value result : op->getResults())
    addTensor(result.getType(), rule.results);
  return rule;
}

FactorRule FactorRule::makePointwise(Operation *op) {
  FactorRule rule;
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op->getResult(0).getType()).getShape();
  TensorFactors result;
  for (int64_t size : shape)
    result.push_back({rule.add(size)});
  for (Value operand : op->getOperands()) {
    TensorFactors dims;
    if (auto tensor = dyn_cast<RankedTensorType>(operand.getType()))
      for (auto [i, size] : llvm::enumerate(tensor.getShape())) {
        unsigned target = shape.size() - tensor.getRank() + i;
        dims.emplace_back();
        if (size == shape[target])
          dims.back().push_back(target);
      }
    rule.operands.push_back(dims);
  }
  rule.results.assign(op->getNumResults(), result);
  return rule;
}

std::string FactorRule::check(Operation *op) const {
  std::string text;
  llvm::raw_string_ostream out(text);
  auto checkTensor = [&](StringRef what, unsigned number, Type type, const TensorFactors &dims,
                         bool isResult) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor)
      return;
    if (dims.size() != static_cast<size_t>(tensor.getRank())) {
      out << what << " " << number << " has rank " << tensor.getRank() << ", its rule " << dims.size()
          << "\n";
      return;
    }
    llvm::SmallVector<unsigned> seen;
    for (auto [d, dim] : llvm::enumerate(dims)) {
      int64_t product = 1;
      for (unsigned f : dim) {
        if (f >= factors.size()) {
          out << what << " " << number << " names factor " << f << " of " << factors.size() << "\n";
          return;
        }
        if (llvm::is_contained(seen, f))
          out << what << " " << number << " holds factor " << f << " twice\n";
        seen.push_back(f);
        if (isResult && factors[f].kind == FactorKind::Joined)
          out << what << " " << number << " holds joined factor " << f << "\n";
        if (factors[f].kind == FactorKind::Carried)
          out << what << " " << number << " holds carried factor " << f << "\n";
        product *= !isResult && factors[f].operandSize >= 0 ? factors[f].operandSize : factors[f].size;
      }
      if (product != tensor.getDimSize(d))
        out << what << " " << number << " dimension " << d << " has size " << tensor.getDimSize(d)
            << ", its factors give " << product << "\n";
    }
  };
  if (operands.size() != op->getNumOperands() || results.size() != op->getNumResults())
    return "the rule has another number of tensors than the op\n";
  for (const Factor &factor : factors)
    for (unsigned carrier : factor.carriers)
      if (carrier >= operands.size() || factor.kind != FactorKind::Carried)
        out << "a factor names operand " << carrier << " as a carrier, which it cannot be\n";
  for (auto [f, factor] : llvm::enumerate(factors)) {
    if (factor.kind == FactorKind::Joined && !factor.staged)
      out << "factor " << f << " is joined, but has no stages\n";
    if (factor.kind == FactorKind::Reduction && !results.empty() &&
        llvm::all_of(results, [&, f = f](const TensorFactors &result) { return holds(result, f); }))
      out << "all results hold reduction factor " << f << "\n";
    if (factor.staged && statistics.empty())
      out << "factor " << f << " is staged, but nothing is exchanged\n";
  }
  for (auto [i, dims] : llvm::enumerate(operands))
    checkTensor("operand", i, op->getOperand(i).getType(), dims, false);
  for (auto [i, dims] : llvm::enumerate(results))
    checkTensor("result", i, op->getResult(i).getType(), dims, true);
  return text;
}

bool colossal::dist::holds(const TensorFactors &tensor, unsigned factor) {
  return llvm::any_of(tensor, [&](const DimFactors &dim) { return llvm::is_contained(dim, factor); });
}

ShardingAttr colossal::dist::getSharding(MLIRContext *context, const FactorRule &rule,
                                         const TensorFactors &factors, const Assignment &assignment,
                                         bool isOperand) {
  SmallVector<DimShardingAttr> dims;
  for (const DimFactors &dim : factors) {
    SmallVector<std::pair<int64_t, ArrayRef<unsigned>>> parts;
    for (unsigned f : dim) {
      const Factor &factor = rule.factors[f];
      int64_t size = isOperand && factor.operandSize >= 0 ? factor.operandSize : factor.size;
      parts.push_back(
          {size, f < assignment.size() ? ArrayRef<unsigned>(assignment[f]) : ArrayRef<unsigned>()});
    }
    dims.push_back(makeDimSharding(context, parts));
  }
  return ShardingAttr::get(context, dims, {}, ReductionKind::Sum);
}

SmallVector<unsigned> LocalContext::stagedAxes() const {
  SmallVector<unsigned> all;
  for (auto [f, factor] : llvm::enumerate(rule().factors))
    if (factor.staged)
      llvm::append_range(all, axes(f));
  return all;
}

FailureOr<SmallVector<Value>> colossal::dist::cloneWithLocalTypes(Operation *op, OpBuilder &builder,
                                                                  LocalContext &context) {
  SmallVector<Value> operands;
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    operands.push_back(context.operand(i));
  SmallVector<Type> types;
  for (auto [i, result] : llvm::enumerate(op->getResults()))
    types.push_back(RankedTensorType::get(context.localResultShape(i),
                                          cast<RankedTensorType>(result.getType()).getElementType()));
  NamedAttrList attributes(op->getDiscardableAttrDictionary());
  attributes.erase(kAssignmentAttrName);
  // Properties are copied as they are: as attributes they would be made, sorted and looked up for each op.
  Operation *local = Operation::create(op->getLoc(), op->getName(), types, operands, std::move(attributes),
                                       op->getPropertiesStorage(), BlockRange(), /*numRegions=*/0);
  builder.insert(local);
  return SmallVector<Value>(local->getResults());
}

Value colossal::dist::keepOnFirst(OpBuilder &builder, Location loc, Value operand, ArrayRef<unsigned> axes) {
  // valid = max(0, 1 - sum of coordinates) * elements: everything at the origin, nothing elsewhere.
  auto type = cast<RankedTensorType>(operand.getType());
  auto constant = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(builder, loc, value); };
  Value valid = constant(1);
  for (unsigned axis : axes)
    valid = arith::SubIOp::create(builder, loc, valid,
                                  CoordinateOp::create(builder, loc, builder.getIndexType(), axis));
  valid = arith::MaxSIOp::create(builder, loc, valid, constant(0));
  valid = arith::MulIOp::create(builder, loc, valid, constant(type.getNumElements()));
  SmallVector<int64_t> extents{type.getNumElements()};
  return MaskPaddingOp::create(builder, loc, type, operand, ValueRange{valid}, extents, ArrayRef<int64_t>{0},
                               builder.getF64FloatAttr(0.0).getValue());
}

double colossal::dist::countResultElements(Operation *op) {
  double count = 0;
  for (Type type : op->getResultTypes())
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      count += tensor.getNumElements();
  return count;
}

double colossal::dist::countGradientElements(Operation *op, unsigned operand) {
  auto type = dyn_cast<RankedTensorType>(op->getOperand(operand).getType());
  return type && isa<FloatType>(type.getElementType()) ? static_cast<double>(type.getNumElements()) : 0;
}

ShardingAttr colossal::dist::getGradientSharding(MLIRContext *context, const FactorRule &rule,
                                                 const TensorFactors &factors, const Assignment &assignment) {
  llvm::SmallDenseSet<unsigned> held;
  for (const DimFactors &dim : factors)
    held.insert(dim.begin(), dim.end());
  SmallVector<unsigned> partial;
  for (unsigned factor = 0; factor < rule.factors.size(); ++factor)
    // Each partial sum has the gradient of the sum: carried factors leave gradients as they are.
    if (!held.contains(factor) && rule.factors[factor].kind != FactorKind::Carried)
      partial.append(assignment[factor].begin(), assignment[factor].end());
  llvm::sort(partial);
  ShardingAttr own = getSharding(context, rule, factors, assignment, /*isOperand=*/true);
  return ShardingAttr::get(context, own.getDims(), partial, ReductionKind::Sum);
}
