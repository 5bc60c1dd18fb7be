//===- Statistics.cpp - running statistics of a step ------------------------===//
#include "Statistics.h"

#include "Contents.h"
#include "colossal/Outline/OpNames.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::training;

std::vector<Running> training::findStatistics(func::FuncOp evaluate, llvm::StringSet<> &taken,
                                              const std::string &modelPath) {
  ContentsReader reader(modelPath);
  std::vector<Running> statistics;
  llvm::MapVector<StringRef, SmallVector<Running::Use>> uses;
  llvm::StringMap<ParameterOp> ops;
  for (auto op : evaluate.getOps<BatchNormalizeOp>())
    for (bool isVariance : {false, true})
      if (auto parameter = (isVariance ? op.getVariance() : op.getMean()).getDefiningOp<ParameterOp>()) {
        uses[parameter.getName()].push_back({op, {}, isVariance});
        ops.try_emplace(parameter.getName(), parameter);
      }
  auto add = [&](StringRef name, ArrayRef<Running::Use> group) {
    std::vector<std::string> nodes = outline::getNames(group.front().inEvaluation->getLoc());
    const std::string node = nodes.empty() ? "batch_normalize" : nodes.front();
    std::string own = name.str();
    for (const char *suffix : {"", group.front().isVariance ? ".variance" : ".mean"}) {
      if (taken.insert(own).second)
        break;
      own = name.str() + "@" + node + suffix;
    }
    statistics.push_back({own, ops[name], {group.begin(), group.end()}, {}, {}});
  };
  for (auto &[name, group] : uses) {
    std::optional<Contents> contents = group.size() > 1 ? reader.read(ops[name]) : std::nullopt;
    if (contents && contents->isUniform())
      for (const Running::Use &use : group)
        add(name, use);
    else
      add(name, group);
  }
  return statistics;
}

LogicalResult training::normalizeParameters(func::FuncOp evaluate) {
  llvm::DenseSet<Value> ofSamples(evaluate.getArguments().begin(), evaluate.getArguments().end());
  for (Operation &op : llvm::make_early_inc_range(evaluate.front())) {
    auto normalize = dyn_cast<BatchNormalizeOp>(op);
    auto isOfSamples = [&](Value value) { return ofSamples.contains(value); };
    if (normalize ? isOfSamples(normalize.getInput()) : llvm::any_of(op.getOperands(), isOfSamples)) {
      ofSamples.insert(op.result_begin(), op.result_end());
    } else if (normalize) {
      const ArrayRef<int64_t> shape = shapeOf(normalize.getInput());
      if (shape[1] > 0 && cast<RankedTensorType>(normalize.getInput().getType()).getNumElements() == shape[1])
        return op.emitOpError() << "takes the statistics of one element of each channel, and no sample goes "
                                   "into it: it gives its bias alone, which PyTorch refuses, too";
      FailureOr<BatchNormalized> made = buildByBatch(normalize, 1);
      if (failed(made))
        return failure();
      op.replaceAllUsesWith(ValueRange{made->result, normalize.getMean(), normalize.getVariance()});
      op.erase();
    }
  }
  return success();
}

LogicalResult training::normalizeBatches(func::FuncOp evaluate, func::FuncOp step,
                                         MutableArrayRef<Running> statistics, BatchParts parts) {
  for (auto op : llvm::make_early_inc_range(evaluate.getOps<BatchNormalizeOp>())) {
    op->replaceAllUsesWith(ValueRange{buildByRunning(op), op.getMean(), op.getVariance()});
    op.erase();
  }
  llvm::DenseMap<Operation *, BatchNormalized> made;
  for (auto op : step.getOps<BatchNormalizeOp>()) {
    FailureOr<BatchNormalized> one = buildByBatch(op, parts.count());
    if (failed(one))
      return failure();
    made[op] = *one;
  }
  for (Running &each : statistics) {
    SmallVector<StatisticUse> uses;
    for (Running::Use &use : each.uses) {
      const BatchNormalized &one = made[use.inStep];
      // As PyTorch, cuDNN and TensorFlow do it: the running variance estimates that of all data.
      const auto count = static_cast<double>(one.elements);
      uses.push_back({use.isVariance ? one.variance : one.mean, use.inStep.getMomentum().convertToDouble(),
                      use.isVariance ? count / (count - 1) : 1});
      OpBuilder b(use.inStep);
      OpComposer ops(b, NameLoc::get(b.getStringAttr(each.name + "#update")));
      each.after = updateStatistic(ops, each.before, uses, parts);
      use.inStep->getResult(use.isVariance ? 2 : 1).replaceAllUsesWith(each.after);
    }
  }
  for (auto op : llvm::make_early_inc_range(step.getOps<BatchNormalizeOp>())) {
    op->replaceAllUsesWith(ValueRange{made[op].result, op.getMean(), op.getVariance()});
    op.erase();
  }
  return success();
}
