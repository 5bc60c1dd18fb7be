//===- StepUpdates.cpp - gradients and updates of a step -----------------------===//
#include "Gradients.h"
#include "StepBuilder.h"
#include "StoredParameters.h"
#include "UpdateFormulas.h"

#include "colossal/Autodiff/Differentiate.h"
#include "colossal/Autodiff/SeparatePasses.h"
#include "colossal/Outline/OpNames.h"
#include "colossal/Plan/Training.h"
#include "dialects/Dist/LayoutMarks.h"
#include "dialects/Dist/Pipeline.h"

#include <limits>

using namespace mlir;
using namespace colossal;
using namespace colossal::training;

/// What the sum that is differentiated is multiplied by: with it the gradients are those of the mean, about,
/// times the loss scale. How many elements count is known when all microbatches are done, and so is not in
/// it.
Value StepBuilder::getLossFactor(OpComposer &ops) {
  StepValues values(ops, stepValuesArgument, stepValues);
  return ops.scale(values.get(kLossScale), 1 / static_cast<double>(loss.places));
}

void StepBuilder::numberForward(Operation *last) {
  if (!isNumbered())
    return;
  int64_t number = 0;
  for (Operation &op : stepFunction.front()) {
    op.setAttr(dist::kUnitAttrName, builder.getI64IntegerAttr(number++));
    if (&op == last)
      return;
  }
}

void StepBuilder::markUpdate(Operation *op) {
  if (!isNumbered())
    return;
  for (op = op->getNextNode(); op && !op->hasTrait<OpTrait::IsTerminator>(); op = op->getNextNode())
    if (!op->hasAttr(dist::kUnitAttrName) && !op->hasAttr(dist::kGradientOfAttrName))
      op->setAttr(dist::kUpdateAttrName, builder.getUnitAttr());
}

LogicalResult StepBuilder::buildUpdates() {
  giveResults();
  SmallVector<Value> gradients;
  Operation *lastForward = nullptr;
  if (failed(buildGradients(gradients, lastForward)))
    return failure();
  Operation *terminator = stepFunction.front().getTerminator(), *lastGradient = terminator->getPrevNode();
  // Stages bring parameters together once a step: both passes read the same.
  if (options.zero >= 0 && !keepsPieces(3) && !dataAxes.empty() && !options.hasRecipe)
    makeOnEachRank(parameters, lastGradient, dataAxes);
  updateStates(gradients, scaleGradients(gradients));
  markUpdate(lastForward);
  if (updatesWhole())
    for (Operation *op = lastGradient->getNextNode(); op != terminator; op = op->getNextNode())
      op->setAttr(dist::kReplicatedOverAttrName, builder.getDenseI64ArrayAttr(dataAxes));
  if (scattersInTurns()) {
    SmallVector<Value> kept(parameters);
    for (ArrayRef<BlockArgument> own : slots)
      llvm::append_range(kept, own);
    keepOverAxes(kept, gradients, lastForward, lastGradient, dataAxes);
  }
  return success();
}

/// What the step gives beside its update; the reverse pass leaves it, but may find it elsewhere.
void StepBuilder::giveResults() {
  Operation *terminator = stepFunction.front().getTerminator(), *lastOfModel = terminator->getPrevNode();
  numberForward(lastOfModel);
  OpBuilder b(terminator);
  OpComposer ops(b, nameLoc("loss"));
  std::vector<StepResult> checks;
  for (auto [i, value] : llvm::enumerate(terminator->getOperands()))
    if (stepFunction.getResultAttr(i, kRangeAttr)) // indices that the model computes
      checks.push_back({value, stepFunction.getResultAttrDict(i)});
  results.push_back({getMean(ops, loss), named(plan::lossOutput)});
  if (loss.count)
    results.push_back({loss.count, named(plan::countedOutput)});
  llvm::append_range(results, checks);
  firstStatistic = results.size();
  for (const Running &each : statistics)
    results.push_back({each.after, stateNamed(each.name)});
  setResults(stepFunction, results);
  markUpdate(lastOfModel);
}

/// Those of the trained parameters, and the forward pass again where the backward pass has it made again.
/// `lastForward` gets the last operation before them.
LogicalResult StepBuilder::buildGradients(SmallVector<Value> &gradients, Operation *&lastForward) {
  Operation *terminator = stepFunction.front().getTerminator();
  lastForward = terminator->getPrevNode();
  OpBuilder b(terminator);
  Value root = loss.sum;
  if (scalesLoss) {
    OpComposer ops(b, nameLoc("loss"));
    root = ops.mul(root, ops.cast(getLossFactor(ops), elementTypeOf(root)));
    lastForward = root.getDefiningOp();
  }
  if (failed(differentiate(stepFunction, root, parameters, gradients, hasTensorAxes)))
    return failure();
  b.setInsertionPoint(terminator);
  for (auto [each, gradient] : llvm::zip_equal(trained, gradients)) {
    gradient = widenSums(gradient);
    if (each.isRow) // which is the norm's part, too
      gradient = OpComposer(b, nameLoc(each.info.name + ".gradient")).reduce(ReduceKind::Sum, gradient, {0});
  }
  for (auto [result, value] : llvm::zip_equal(results, terminator->getOperands()))
    result.value = value;
  if (loss.count)
    loss.count = results[1].value;
  recomputeForBackward(lastForward, options.recompute.value_or(Recompute::None));
  removeMarks(stepFunction);
  if (options.hasRecipe && !hasStages)
    separatePasses(lastForward);
  if (keepsPieces(3))
    gatherForPasses(lastForward);
  return success();
}

/// Each pass reads parameters of which ranks keep pieces, and so brings them together.
void StepBuilder::gatherForPasses(Operation *lastForward) {
  SmallVector<Value> read(parameters), evaluated;
  for (ParameterOp op : frozen)
    (op->getParentOp() == stepFunction ? read : evaluated).push_back(op.getResult());
  readInEachPass(read, lastForward, dataAxes, options.loss.kind == Loss::CrossEntropy);
  for (BlockArgument argument : evaluate.getArguments())
    if (evaluate.getArgAttr(argument.getArgNumber(), dist::kStoredOverAttrName))
      evaluated.push_back(argument);
  readInEachPass(evaluated, evaluate.front().getTerminator()->getPrevNode(), dataAxes, /*hasLoss=*/false);
}

/// Of a number that is not negative.
static Value isFinite(OpComposer &ops, Value number) {
  return ops.compare(ElementwiseKind::LessOrEqual, number,
                     static_cast<double>(std::numeric_limits<float>::max()));
}

/// Adds the norm of all gradients to the results.
StepBuilder::Scaling StepBuilder::scaleGradients(ArrayRef<Value> gradients) {
  OpBuilder b(stepFunction.front().getTerminator());
  OpComposer ops(b, nameLoc("gradient norm"));
  Value norm = buildNorm(ops, gradients);
  Type wide = elementTypeOf(norm);
  // What the gradients are of, over what they are wanted of.
  Value count = loss.count ? ops.cast(loss.count, wide) : Value();
  if (count) // of a batch in which nothing counts all gradients are zeros, and stay so
    count = ops.apply(ElementwiseKind::Max, {count, ops.constant(1, count)});
  if (scalesLoss) {
    Value factor = ops.cast(getLossFactor(ops), wide);
    count = count ? ops.mul(count, factor) : factor;
  }
  if (count)
    norm = ops.div(norm, count);
  results.push_back({norm, named(plan::gradientNormOutput)});
  StepValues values(ops, stepValuesArgument, stepValues);
  const Value clip = values.get(kClip, wide);
  Value scale = ops.div(clip, ops.shift(norm, 1e-6)), one = ops.constant(1, scale);
  scale = ops.apply(ElementwiseKind::Min, {scale, one});
  // Without a limit the norm does not matter, also where it has overflowed.
  scale = ops.select(isFinite(ops, clip), scale, one);
  if (count)
    scale = ops.div(scale, count);
  return {scale, scalesLoss ? isFinite(ops, norm) : Value()};
}

/// Statistics, parameters and slots behind the step: as before where gradients have overflowed.
void StepBuilder::updateStates(ArrayRef<Value> gradients, Scaling scaling) {
  OpBuilder b(stepFunction.front().getTerminator());
  auto keep = [&](OpComposer &ops, Value after, Value before) {
    return scaling.isFinite ? ops.select(scaling.isFinite, after, before) : after;
  };
  for (auto [i, each] : llvm::enumerate(statistics)) {
    OpComposer ops(b, nameLoc(each.name + "#update"));
    Value &after = results[firstStatistic + i].value;
    after = keep(ops, after, each.before);
  }
  OpComposer ofValues(b, nameLoc("gradient norm"));
  StepValues values(ofValues, stepValuesArgument, stepValues);
  UpdateFormulas formulas;
  for (auto [each, parameter, ofWhole, own] : llvm::zip_equal(trained, parameters, gradients, slots)) {
    OpComposer ops(b, nameLoc(each.info.name + "#update"));
    Value gradient = each.isRow ? ops.broadcast(ofWhole, shapeOf(parameter)) : ofWhole;
    SmallVector<Value> before{parameter, gradient};
    llvm::append_range(before, own);
    SmallVector<Value> after = formulas.apply(ops, each.info.decays, before, [&] {
      Update update;
      update.parameter = before[0];
      update.gradient = ops.mul(before[1], ops.cast(scaling.scale, elementTypeOf(before[1])));
      update.slots.assign(before.begin() + 2, before.end());
      update.decays = each.info.decays;
      Updated updated = optimizer->update(ops, update, values);
      SmallVector<Value> after{keep(ops, updated.parameter, parameter)};
      for (auto [slot, value] : llvm::zip_equal(update.slots, updated.slots))
        after.push_back(keep(ops, value, slot));
      return after;
    });
    results.push_back({after.front(), stateNamed(each.info.name)});
    for (auto [slot, value] : llvm::zip_equal(optimizer->getSlots(cast<RankedTensorType>(each.info.type)),
                                              ArrayRef(after).drop_front()))
      results.push_back({value, stateNamed(each.info.name + "#" + slot.name.str())});
  }
}
