//===- Assignments.cpp - what ops and values say of how they lie ------------===//
#include "colossal/Partition/Partition.h"

#include "dialects/Colossal/Colossal.h"
#include "dialects/Dist/LayoutMarks.h"
#include "dialects/Dist/State.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

bool colossal::dist::isUneven(int64_t size, ArrayRef<unsigned> axes, MeshAttr mesh) {
  int64_t total = getLocalSize(size, axes, mesh);
  for (unsigned axis : axes)
    total *= mesh.getAxisSize(axis);
  return total != size;
}

MeshAttr colossal::dist::getMesh(ModuleOp module) {
  if (auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttrName))
    return mesh;
  MLIRContext *context = module.getContext();
  return MeshAttr::get(context, MeshAxisAttr::get(context, StringAttr::get(context, "x"), 1));
}

bool colossal::dist::scattersInTurns(ModuleOp module) {
  auto training = module->getAttrOfType<DictionaryAttr>(kTrainingAttrName);
  return training && training.contains(kScattersInTurnsAttrName);
}

FailureOr<Assignment> colossal::dist::getAssignment(Operation *op, const FactorRule &rule, MeshAttr mesh) {
  Assignment assignment(rule.factors.size());
  Attribute given = op->getAttr(kAssignmentAttrName);
  if (!given)
    return assignment;
  auto array = dyn_cast<ArrayAttr>(given);
  if (!array || array.size() != rule.factors.size()) {
    op->emitOpError() << "expected '" << kAssignmentAttrName
                      << "' to be an array with one entry for each of the " << rule.factors.size()
                      << " factors, found " << given;
    return failure();
  }
  uint32_t seen = 0;
  for (auto [f, entry] : llvm::enumerate(array)) {
    auto axes = dyn_cast<DenseI64ArrayAttr>(entry);
    if (!axes) {
      op->emitOpError() << "expected entry " << f << " of '" << kAssignmentAttrName
                        << "' to be an array of i64, found " << entry;
      return failure();
    }
    for (int64_t axis : axes.asArrayRef()) {
      if (axis < 0 || axis >= mesh.getNumAxes() || (seen >> axis & 1)) {
        op->emitOpError() << "'" << kAssignmentAttrName << "' names mesh axis " << axis
                          << (axis >= 0 && axis < mesh.getNumAxes() ? " twice" : ", which the mesh lacks");
        return failure();
      }
      seen |= 1u << axis;
      assignment[f].push_back(axis);
    }
    if (!assignment[f].empty() && rule.factors[f].kind == FactorKind::Whole) {
      op->emitOpError() << "factor " << f << " of size " << rule.factors[f].size << " cannot be split";
      return failure();
    }
    if (rule.factors[f].even && isUneven(rule.factors[f].size, assignment[f], mesh)) {
      op->emitOpError() << "factor " << f << " of size " << rule.factors[f].size
                        << " is split only by axes that divide it";
      return failure();
    }
  }
  return assignment;
}

void colossal::dist::setAssignment(Operation *op, const Assignment &assignment) {
  SmallVector<Attribute> entries;
  for (const auto &axes : assignment)
    entries.push_back(
        DenseI64ArrayAttr::get(op->getContext(), SmallVector<int64_t>(axes.begin(), axes.end())));
  op->setAttr(kAssignmentAttrName, ArrayAttr::get(op->getContext(), entries));
}

ShardingAttr colossal::dist::getSharedLayout(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
    return function ? function.getArgAttrOfType<ShardingAttr>(argument.getArgNumber(), kSharedAttrName)
                    : ShardingAttr();
  }
  auto result = cast<OpResult>(value);
  auto layouts = result.getOwner()->getAttrOfType<ArrayAttr>(kSharedAttrName);
  if (!layouts || layouts.size() != result.getOwner()->getNumResults())
    return {};
  return dyn_cast<ShardingAttr>(layouts[result.getResultNumber()]);
}

void colossal::dist::setSharedLayout(Value value, ShardingAttr layout) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    cast<func::FuncOp>(argument.getOwner()->getParentOp())
        .setArgAttr(argument.getArgNumber(), kSharedAttrName, layout);
    return;
  }
  auto result = cast<OpResult>(value);
  Operation *op = result.getOwner();
  SmallVector<Attribute> layouts(op->getNumResults(), UnitAttr::get(op->getContext()));
  if (auto known = op->getAttrOfType<ArrayAttr>(kSharedAttrName); known && known.size() == layouts.size())
    llvm::copy(known, layouts.begin());
  layouts[result.getResultNumber()] = layout;
  op->setAttr(kSharedAttrName, ArrayAttr::get(op->getContext(), layouts));
}

ShardingAttr colossal::dist::getOperandSharding(Operation *op, unsigned operand, const FactorRule &rule,
                                                const Assignment &assignment) {
  ShardingAttr sharding =
      getSharding(op->getContext(), rule, rule.operands[operand], assignment, /*isOperand=*/true);
  SmallVector<unsigned> partial;
  for (auto [factor, axes] : llvm::zip_equal(rule.factors, assignment))
    if (llvm::is_contained(factor.carriers, operand))
      partial.append(axes.begin(), axes.end());
  if (partial.empty())
    return sharding;
  llvm::sort(partial);
  return ShardingAttr::get(op->getContext(), sharding.getDims(), partial, ReductionKind::Sum);
}

ShardingAttr colossal::dist::getResultSharding(Operation *op, unsigned result, const FactorRule &rule,
                                               const Assignment &assignment) {
  ShardingAttr sharding = getSharding(op->getContext(), rule, rule.results[result], assignment);
  SmallVector<unsigned> partial;
  ReductionKind kind = ReductionKind::Sum;
  for (auto [f, factor] : llvm::enumerate(rule.factors))
    if ((factor.kind == FactorKind::Reduction || factor.kind == FactorKind::Carried) &&
        !assignment[f].empty() && !holds(rule.results[result], f)) {
      partial.append(assignment[f].begin(), assignment[f].end());
      kind = factor.reduction;
    }
  llvm::sort(partial);
  return ShardingAttr::get(op->getContext(), sharding.getDims(), partial, kind);
}

ShardRange colossal::dist::getShardRange(OpBuilder &builder, Location loc, int64_t size,
                                         ArrayRef<unsigned> axes, MeshAttr mesh) {
  auto constant = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(builder, loc, value); };
  ShardRange range{Value(), constant(size)};
  int64_t chunk = size;
  for (unsigned axis : axes) {
    chunk = getLocalSize(chunk, axis, mesh);
    Value coordinate = CoordinateOp::create(builder, loc, builder.getIndexType(), axis);
    Value step = arith::MulIOp::create(builder, loc, coordinate, constant(chunk));
    range.start = range.start ? arith::AddIOp::create(builder, loc, range.start, step).getResult() : step;
    Value left = arith::SubIOp::create(builder, loc, range.valid, step);
    range.valid = arith::MaxSIOp::create(
        builder, loc, arith::MinSIOp::create(builder, loc, left, constant(chunk)), constant(0));
  }
  if (!range.start)
    range.start = constant(0);
  return range;
}
