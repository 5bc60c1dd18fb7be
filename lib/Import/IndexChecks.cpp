//===- IndexChecks.cpp - ranges of indices, against what they index -----------===//
#include "IndexChecks.h"
#include "HostTensor.h"

#include "colossal/Import/ONNX.h"
#include "dialects/Colossal/Colossal.h"
#include "mlir/Analysis/DataFlow/DeadCodeAnalysis.h"
#include "mlir/Analysis/DataFlow/IntegerRangeAnalysis.h"
#include "mlir/Analysis/DataFlowFramework.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <optional>

using namespace mlir;

namespace colossal {

namespace {

/// Constants of more elements than that are not looked at.
constexpr int64_t kMostConstants = int64_t(1) << 20;

/// What integers a function computes may be; found where it is asked for first.
class Ranges {
public:
  explicit Ranges(func::FuncOp function) : function(function) {}

  /// Whether all elements of `indices` are known to be indices of a dimension of `size` elements.
  FailureOr<bool> areWithin(Value indices, int64_t size) {
    if (!solver) {
      solver.emplace();
      solver->load<dataflow::DeadCodeAnalysis>();
      solver->load<dataflow::IntegerRangeAnalysis>();
      if (failed(solver->initializeAndRun(function)))
        return failure();
    }
    const auto *state = solver->lookupState<dataflow::IntegerValueRangeLattice>(indices);
    if (!state || state->getValue().isUninitialized())
      return false;
    const ConstantIntRanges &range = state->getValue().getValue();
    if (getElementTypeOrSelf(indices.getType()).isUnsignedInteger())
      return range.umax().ult(size);
    return range.smin().getSExtValue() >= -size && range.smax().getSExtValue() < size;
  }

private:
  func::FuncOp function;
  std::optional<DataFlowSolver> solver;
};

/// The argument whose elements these are, each at least once; null where they are computed.
BlockArgument findArgument(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    auto emission = dyn_cast<ElementEmissionOpInterface>(op);
    if (!emission || emission.getForwarding() != Forwarding::All)
      return {};
    value = op->getOperand(0);
  }
  return cast<BlockArgument>(value);
}

bool dependsOnArgument(Value value) {
  SmallVector<Value> work = {value};
  llvm::DenseSet<Value> seen;
  while (!work.empty()) {
    Value next = work.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    Operation *op = next.getDefiningOp();
    if (!op)
      return true;
    llvm::append_range(work, op->getOperands());
  }
  return false;
}

std::string describe(Operation *op) {
  if (auto parameter = dyn_cast<ParameterOp>(op))
    return parameter.getName().str();
  auto name = op->getLoc()->findInstanceOf<NameLoc>();
  return name ? name.getName().str() : op->getName().getStringRef().str();
}

LogicalResult checkConstant(IndexingOpInterface op) {
  const int64_t size = op.getIndexedSize();
  auto values = evaluate(op.getIndexOperand(), nullptr, kMostConstants);
  if (!values)
    return success();
  for (int64_t i = 0, count = values->splat ? std::min<int64_t>(1, values->count()) : values->count();
       i < count; ++i) {
    int64_t index = values->getInt(i);
    if (index >= -size && index < size)
      continue;
    InFlightDiagnostic error = emitError(op->getLoc());
    error << "index " << index << " is outside a dimension of size " << size;
    if (Operation *data = op->getOperand(0).getDefiningOp())
      error << " of '" << describe(data) << "'";
    error << "; a dimension of the inputs may be bound too large";
    return error;
  }
  return success();
}

} // namespace

LogicalResult checkIndices(func::FuncOp function) {
  Ranges ranges(function);
  llvm::DenseMap<Value, std::pair<int64_t, Operation *>> checks; // the least extent, and who asks for it
  SmallVector<Value> order;
  for (Operation &op : function.getBody().front()) {
    auto indexing = dyn_cast<IndexingOpInterface>(op);
    if (!indexing || llvm::is_contained(shapeOf(indexing.getIndexOperand()), 0))
      continue;
    Value checked = indexing.getIndexOperand();
    const int64_t size = indexing.getIndexedSize();
    if (!dependsOnArgument(checked)) {
      if (failed(checkConstant(indexing)))
        return failure();
      continue;
    }
    BlockArgument argument = findArgument(checked);
    // What is given may be anything that its type can say.
    const unsigned width = getElementTypeOrSelf(checked.getType()).getIntOrFloatBitWidth();
    if (!argument || (width < 64 && size >= int64_t(1) << (width - 1))) {
      FailureOr<bool> areWithin = ranges.areWithin(checked, size);
      if (failed(areWithin))
        return failure();
      if (*areWithin)
        continue;
    }
    if (argument)
      checked = argument;
    auto [known, isNew] = checks.try_emplace(checked, size, &op);
    if (isNew)
      order.push_back(checked);
    else if (size < known->second.first)
      known->second = {size, &op};
  }
  Builder builder(function.getContext());
  auto terminator = cast<func::ReturnOp>(function.getBody().front().getTerminator());
  for (Value value : order) {
    auto [extent, op] = checks.lookup(value);
    NamedAttrList attributes;
    attributes.set(kRangeAttr, builder.getDenseI64ArrayAttr({-extent, extent - 1}));
    attributes.set(kRangeUserAttr, builder.getStringAttr(describe(op)));
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      for (NamedAttribute attribute : attributes)
        function.setArgAttr(argument.getArgNumber(), attribute.getName(), attribute.getValue());
      continue;
    }
    attributes.set(kOnnxNameAttr, builder.getStringAttr("indices of " + describe(op)));
    unsigned at = terminator.getNumOperands();
    terminator.getOperandsMutable().append(value);
    if (failed(function.insertResult(at, value.getType(), attributes.getDictionary(builder.getContext()))))
      return failure();
  }
  return success();
}

} // namespace colossal
