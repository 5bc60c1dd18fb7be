//===- Loss.cpp - ONNX losses by composition --------------------------------===//
//
// The chosen class is selected by comparison with a range and summed, so that a split vocabulary needs no
// gather.
//
//===----------------------------------------------------------------------===//
#include "../Operator.h"

#include "colossal/Import/ParameterRoles.h"

using namespace mlir;

namespace colossal::onnx_import {

namespace {

/// -weight[target] * logits[target], reduced as the node says; `logits` [N, C, ...], target [N, ...].
LogicalResult setLoss(Node &n, Value logits, Value target, Value weight) {
  if (!logits || !target)
    return n.error() << "takes scores and targets";
  auto shape = GraphBuilder::shapeOf(logits);
  SmallVector<int64_t> expected = {shape.empty() ? 0 : shape[0]};
  if (shape.size() >= 2)
    llvm::append_range(expected, shape.drop_front(2));
  if (shape.size() < 2 || GraphBuilder::shapeOf(target) != ArrayRef<int64_t>(expected) ||
      (weight && GraphBuilder::typeOf(weight).getNumElements() != shape[1]))
    return n.error() << "scores " << logits.getType() << " and targets " << target.getType() << " do not fit";
  if (auto parameter = weight ? weight.getDefiningOp<ParameterOp>() : ParameterOp())
    parameter->setAttr(kClassWeightsAttr, n.b.ops().getUnitAttr());
  Type element = GraphBuilder::elementOf(logits), i64 = n.b.ops().getI64Type();
  target = n.b.cast(target, i64);
  SmallVector<int64_t> classes(shape.size(), 1);
  classes[1] = shape[1];
  Value chosen =
      n.b.elementwise(ElementwiseKind::Equal, {n.b.unsqueeze(target, {1}), n.b.iota(classes, i64, 1)});
  Value zero = n.b.scalar(element, 0);
  auto pick = [&](Value from) {
    return n.b.reduce(ReduceKind::Sum, n.b.select(chosen, from, zero), {1}, false);
  };
  Value loss = n.b.unary(ElementwiseKind::Neg, pick(logits)), weights;
  if (weight) {
    weights = pick(n.b.broadcast(n.b.reshape(weight, classes), shape));
    loss = n.b.mul(loss, weights);
  }
  if (n.hasAttr("ignore_index")) {
    Value kept = n.b.unary(ElementwiseKind::Not,
                           n.b.elementwise(ElementwiseKind::Equal,
                                           {target, n.b.scalar(i64, double(n.intAttr("ignore_index", 0)))}));
    Value ones = weights ? weights : n.b.splat(expected, element, 1);
    weights = n.b.select(kept, ones, zero);
    loss = n.b.select(kept, loss, zero);
  }
  StringRef reduction = n.stringAttr("reduction", "mean");
  if (reduction == "none")
    return n.set(loss);
  SmallVector<int64_t> all;
  for (size_t d = 0; d < expected.size(); ++d)
    all.push_back(d);
  if (reduction == "sum")
    return n.set(n.b.reduce(ReduceKind::Sum, loss, all, false));
  if (reduction != "mean")
    return n.error() << "reduction '" << reduction << "' is unknown";
  if (!weights)
    return n.set(n.b.reduce(ReduceKind::Mean, loss, all, false));
  Value total = n.b.reduce(ReduceKind::Sum, weights, all, false);
  return n.set(n.b.div(n.b.reduce(ReduceKind::Sum, loss, all, false), total));
}

LogicalResult importNegativeLogLikelihoodLoss(Node &n) {
  return failed(n.require(2)) ? failure() : setLoss(n, n.in(0), n.in(1), n.in(2));
}

LogicalResult importSoftmaxCrossEntropyLoss(Node &n) {
  if (failed(n.require(2)))
    return failure();
  if (n.rank(0) < 2)
    return n.error() << "scores [N, C, ...] are expected";
  Value logProbability = n.b.softmax(n.in(0), 1, /*log=*/true);
  n.give(1, logProbability);
  return setLoss(n, logProbability, n.in(1), n.in(2));
}

} // namespace

void addLossOperators(OperatorTable &table) {
  table.push_back({"", "NegativeLogLikelihoodLoss", 12, 0, importNegativeLogLikelihoodLoss});
  table.push_back({"", "SoftmaxCrossEntropyLoss", 12, 0, importSoftmaxCrossEntropyLoss});
}

} // namespace colossal::onnx_import
