//===- BuildStep.cpp - from a model to its step and its evaluation -----------===//
//
// The imported function, with the loss at its end, becomes `evaluate`; a copy of it that gives the loss
// alone, its gradients and the update become `step`. Both take the parameters that are trained as states.
//
// Gradients are those of a sum over the elements that count; what divides it is applied where they are used.
// So parts of a batch, of microbatches or of ranks, add up to what the whole batch gives.
//
// Two things differ between step and evaluation: in an evaluation nothing is dropped by chance, and batches
// are normalized by the running statistics, which the step changes.
//
//===----------------------------------------------------------------------===//
#include "StepBuilder.h"
#include "StoredParameters.h"
#include "WideParameters.h"

#include "colossal/Import/ParameterRoles.h"
#include "colossal/Outline/OpNames.h"
#include "colossal/Plan/Training.h"
#include "colossal/Step/PropagateBatch.h"
#include "dialects/Dist/LayoutMarks.h"
#include "dialects/Dist/Pipeline.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/StringSet.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace colossal;
using namespace colossal::training;

/// Step values of random numbers: parts of 16 bits, the lowest first.
static constexpr StringLiteral kStepParts[] = {"step0", "step1"},
                               kSeedParts[] = {"seed0", "seed1", "seed2", "seed3"};

/// All that `roots` are computed from.
static llvm::DenseSet<Operation *> findSlice(ArrayRef<Value> roots) {
  llvm::DenseSet<Operation *> slice;
  SmallVector<Value> work(roots);
  while (!work.empty())
    if (Operation *op = work.pop_back_val().getDefiningOp(); op && slice.insert(op).second)
      llvm::append_range(work, op->getOperands());
  return slice;
}

/// Whether something is computed in f16, whose range gradients may leave at both ends.
static bool hasHalf(func::FuncOp function) {
  return llvm::any_of(function.front(), [](Operation &op) {
    return !isa<ParameterOp, ConstantOp>(op) && llvm::any_of(op.getResultTypes(), [](Type type) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      return tensor && tensor.getElementType().isF16();
    });
  });
}

static FailureOr<func::FuncOp> findModel(ModuleOp module) {
  SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
  if (functions.size() == 1 && !functions.front().isExternal())
    return functions.front();
  return emitError(module.getLoc()) << "a training step is made of one program, and there are "
                                    << functions.size() << ": give every dimension one value";
}

LogicalResult StepBuilder::checkBatch() {
  bool isFound = false;
  for (BlockArgument argument : evaluate.getArguments()) {
    ArrayRef<int64_t> shape = cast<RankedTensorType>(argument.getType()).getShape();
    isFound |= !shape.empty() && shape.front() == options.globalBatch;
    auto name = evaluate.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kOnnxNameAttr);
    const bool isOwn = name && (name.getValue() == "target" || name.getValue() == "labels");
    if (isOwn && (shape.empty() || shape.front() != options.globalBatch))
      return emitError(module.getLoc())
             << "--loss: '" << name.getValue() << "' would be " << argument.getType()
             << ", whose first dimension is not the " << options.globalBatch << " samples of --global-batch";
  }
  if (!isFound)
    return emitError(module.getLoc()) << "--global-batch " << options.globalBatch
                                      << ": no input has so many samples in its first dimension; is the "
                                         "model exported with a fixed batch?";
  return success();
}

LogicalResult StepBuilder::findAxes() {
  auto mesh = module->getAttrOfType<dist::MeshAttr>(dist::kMeshAttrName);
  if (!mesh)
    return success();
  const int64_t stages = mesh.findAxis(dist::kStageAxis);
  hasStages = stages >= 0 && mesh.getAxisSize(stages) > 1;
  for (StringRef name : {"data", "context"})
    if (int64_t axis = mesh.findAxis(name); axis >= 0)
      dataAxes.push_back(hasStages && stages < axis ? axis - 1 : axis); // of a stage's own mesh
  for (int64_t axis = 0; axis < mesh.getNumAxes(); ++axis)
    hasTensorAxes |= axis != stages && axis != mesh.getLoopAxis() && mesh.getAxisSize(axis) > 1 &&
                     axis != mesh.findAxis("data") && axis != mesh.findAxis("context");
  if (options.zero > 0 && dataAxes.empty() && mesh.getNumRanks() > 1)
    return emitError(module.getLoc())
           << "--zero " << options.zero
           << " goes over the axes 'data' and 'context', and the mesh has neither; "
              "name them, as in --mesh data=2,model=2";
  return success();
}

void StepBuilder::setResults(func::FuncOp function, ArrayRef<StepResult> results) {
  Operation *terminator = function.front().getTerminator();
  SmallVector<Value> values;
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  for (const StepResult &result : results) {
    values.push_back(result.value);
    types.push_back(result.value.getType());
    attributes.push_back(result.attributes);
  }
  terminator->setOperands(values);
  function.setFunctionType(
      FunctionType::get(function.getContext(), function.front().getArgumentTypes(), types));
  function.setAllResultAttrs(attributes);
}

DictionaryAttr StepBuilder::describeParameter(ParameterOp op, StringRef kind, ArrayRef<std::string> tied) {
  NamedAttrList source, info;
  source.append("name", op.getNameAttr());
  source.append("file", op.getFileAttr());
  source.append("offset", op.getOffsetAttr());
  source.append("bytes", op.getBytesAttr());
  if (op.getDataAttr())
    source.append("data", op.getDataAttr());
  if (Attribute type = op->getAttr(kStoredTypeAttr))
    source.append("type", type);
  info.append("kind", builder.getStringAttr(kind));
  info.append("parameter", op.getNameAttr());
  info.append("source", source.getDictionary(builder.getContext()));
  if (!tied.empty()) {
    info.append("tied", builder.getStrArrayAttr(SmallVector<StringRef>(tied.begin(), tied.end())));
    if (auto transposed = op->getAttrOfType<ArrayAttr>(kTransposedAttr))
      info.append("transposed", transposed);
  }
  return info.getDictionary(builder.getContext());
}

DictionaryAttr StepBuilder::describeSlot(const Classified &trained, StringRef slot) {
  NamedAttrList info;
  info.append("kind", builder.getStringAttr("slot"));
  info.append("parameter", builder.getStringAttr(trained.info.name));
  info.append("slot", builder.getStringAttr(slot));
  return info.getDictionary(builder.getContext());
}

BlockArgument StepBuilder::addState(func::FuncOp function, StringRef name, RankedTensorType type,
                                    DictionaryAttr info, ArrayRef<int64_t> storedOver,
                                    ArrayRef<int64_t> replicatedOver) {
  NamedAttrList attributes(stateNamed(name));
  attributes.append(dist::kStateInfoAttrName, info);
  if (!storedOver.empty())
    attributes.append(dist::kStoredOverAttrName, builder.getDenseI64ArrayAttr(storedOver));
  if (!replicatedOver.empty())
    attributes.append(dist::kReplicatedOverAttrName, builder.getDenseI64ArrayAttr(replicatedOver));
  added[function].push_back(attributes.getDictionary(builder.getContext()));
  return function.front().addArgument(type, nameLoc(name));
}

/// Gives the function the arguments that its body has got. One by one they would make its type and the list
/// of their attributes anew each time.
void StepBuilder::settleStates(func::FuncOp function) {
  SmallVector<DictionaryAttr> attributes;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    DictionaryAttr known = function.getArgAttrDict(i);
    attributes.push_back(known ? known : builder.getDictionaryAttr({}));
  }
  llvm::append_range(attributes, added[function]);
  function.setFunctionType(
      builder.getFunctionType(function.front().getArgumentTypes(), function.getResultTypes()));
  function.setAllArgAttrs(attributes);
}

/// Where parts of a batch are computed each on its own, what all of them need is there before them.
void StepBuilder::sumAheadOfTurns(ArrayRef<Value> copies) {
  auto mesh = module->getAttrOfType<dist::MeshAttr>(dist::kMeshAttrName);
  if (!mesh || (mesh.getNumTurns() <= 1 && dataAxes.empty()))
    return;
  seconds = sumAhead(stepFunction, loss.count, llvm::DenseSet<Value>(copies.begin(), copies.end()));
}

/// Gives the loss and, behind it, what the model gives.
void StepBuilder::buildEvaluation() {
  OpBuilder b(evaluate.front().getTerminator());
  OpComposer ops(b, nameLoc("loss"));
  const Value mean = getMean(ops, evaluated);
  std::vector<StepResult> all{{mean, named(plan::lossOutput)}};
  if (evaluated.count)
    all.push_back({evaluated.count, named(plan::countedOutput)});
  for (auto [i, value] : llvm::enumerate(evaluate.front().getTerminator()->getOperands())) {
    DictionaryAttr attributes = evaluate.getResultAttrDict(i);
    const Value given =
        evaluated.result == i ? ops.cast(ops.reshape(mean, shapeOf(value)), elementTypeOf(value)) : value;
    all.push_back({given, attributes ? attributes : builder.getDictionaryAttr({})});
  }
  setResults(evaluate, all);
}

void StepBuilder::addStates() {
  const unsigned number = stepFunction.getNumArguments();
  auto type = RankedTensorType::get({static_cast<int64_t>(stepValues.size())}, builder.getF64Type());
  (void)stepFunction.insertArgument(number, type, named(plan::stepValuesInput),
                                    nameLoc(plan::stepValuesInput));
  stepValuesArgument = stepFunction.getArgument(number);
  // Stage 1 stores slots over the axes of the data, stage 3 parameters as well; what is not stored so lies
  // whole on each of them.
  const bool isAsked = options.zero >= 0;
  ArrayRef<int64_t> none, axes(dataAxes);
  const bool ofSlots = options.zero >= 1, ofParameters = options.zero >= 3;
  for (Classified &each : trained) {
    DictionaryAttr info = describeParameter(each.op, "parameter", each.info.tied);
    auto add = [&](func::FuncOp function) {
      return addState(function, each.info.name, cast<RankedTensorType>(each.info.type), info,
                      isAsked && ofParameters ? axes : none, isAsked && !ofParameters ? axes : none);
    };
    parameters.push_back(add(stepFunction));
    BlockArgument other = add(evaluate);
    each.op.getResult().replaceAllUsesWith(other);
  }
  // What is not trained lies as what is.
  for (ParameterOp op : frozen)
    if (isAsked && !axes.empty())
      op->setAttr(ofParameters ? dist::kStoredOverAttrName : dist::kReplicatedOverAttrName,
                  builder.getDenseI64ArrayAttr(axes));
  slots.resize(trained.size());
  for (auto [each, own] : llvm::zip_equal(trained, slots))
    for (const Slot &slot : optimizer->getSlots(cast<RankedTensorType>(each.info.type)))
      own.push_back(addState(stepFunction, each.info.name + "#" + slot.name.str(),
                             RankedTensorType::get(slot.shape, elementTypeOf(each.op.getResult())),
                             describeSlot(each, slot.name), isAsked && ofSlots ? axes : none,
                             isAsked && !ofSlots ? axes : none));
  for (Running &each : statistics) {
    std::vector<std::string> tied;
    if (auto aliases = each.op.getAliasesAttr(); aliases && each.name == each.op.getName())
      for (auto alias : aliases.getAsRange<StringAttr>())
        tied.push_back(alias.str());
    DictionaryAttr info = describeParameter(each.op, "statistic", tied);
    auto type = cast<RankedTensorType>(each.op.getType());
    each.before = addState(stepFunction, each.name, type, info, none, isAsked ? axes : none);
    BlockArgument evaluated = addState(evaluate, each.name, type, info, none, isAsked ? axes : none);
    for (Running::Use &use : each.uses) {
      use.operand(use.inStep).set(each.before);
      use.operand(use.inEvaluation).set(evaluated);
    }
  }
  settleStates(stepFunction);
  settleStates(evaluate);
}

LogicalResult StepBuilder::checkStatistics() {
  const bool isTaken = !evaluate.getOps<BatchNormalizeOp>().empty();
  if (!isTaken && (options.batchNorm.value_or(false) || options.syncBatchNorm))
    return emitError(module.getLoc()) << (options.syncBatchNorm ? "--sync-batch-norm" : "--batch-norm train")
                                      << ": the model has no batch normalization "
                                      << (options.syncBatchNorm && !options.batchNorm
                                              ? "that takes the statistics of its batch (--batch-norm "
                                                "train makes those of a file for inference do so)"
                                              : "(exporters put those of a model in evaluation mode into "
                                                "the convolutions before them: export it in training mode)");
  for (Classified &each : trained)
    if (each.op->hasAttr(kStatisticAttr) &&
        llvm::any_of(each.op->getUsers(), [](Operation *user) { return isa<BatchNormalizeOp>(user); }))
      return emitError(each.op.getLoc())
             << "--train: '" << each.info.name
             << "' is a running statistic of a batch normalization that takes those of "
                "its batch; with --batch-norm frozen it could be trained";
  return success();
}

BatchParts StepBuilder::getBatchParts() const {
  BatchParts parts;
  if (auto mesh = module->getAttrOfType<dist::MeshAttr>(dist::kMeshAttrName)) {
    parts.turns = std::max<int64_t>(1, mesh.getNumTurns());
    if (int64_t axis = mesh.findAxis("data"); axis >= 0 && !options.syncBatchNorm)
      parts.ranks = mesh.getAxisSize(axis);
  }
  return parts;
}

/// Gives each random op of the step a stream: its own key, changed by the seed, and the step. In an
/// evaluation nothing is dropped.
void StepBuilder::drawRandomNumbers() {
  for (auto op : llvm::make_early_inc_range(evaluate.getOps<DropoutOp>())) {
    op.getResult().replaceAllUsesWith(op.getInput());
    op.erase();
  }
  SmallVector<Operation *> all;
  for (Operation &op : stepFunction.front())
    if (isa<RandomOp, DropoutOp>(op))
      all.push_back(&op);
  if (all.empty())
    return;
  OpBuilder b = OpBuilder::atBlockBegin(&stepFunction.front());
  OpComposer ops(b, nameLoc("random numbers"));
  StepValues read(ops, stepValuesArgument, stepValues);
  const Type i64 = b.getI64Type();
  auto join = [&](ArrayRef<StringLiteral> parts) {
    Value number;
    for (auto [i, name] : llvm::enumerate(parts)) {
      Value part = ops.scale(ops.cast(read.get(name), i64), std::ldexp(1.0, static_cast<int>(16 * i)));
      number = number ? ops.add(number, part) : part;
    }
    return number;
  };
  Value seed = join(kSeedParts), step = join(kStepParts);
  // In memory, one row for each op, so that layers that are alike have one kernel.
  const auto count = static_cast<int64_t>(all.size());
  SmallVector<int64_t> own;
  for (Operation *op : all)
    own.push_back(isa<DropoutOp>(op) ? static_cast<int64_t>(cast<DropoutOp>(op).getSeed())
                                     : static_cast<int64_t>(cast<RandomOp>(op).getSeed()));
  auto type = RankedTensorType::get({count, 1}, i64);
  Value keys = ConstantOp::create(b, ops.loc, type, DenseElementsAttr::get(type, ArrayRef<int64_t>(own)));
  keys = ops.apply(ElementwiseKind::BitXor, {keys, seed});
  Value streams = ops.concat({keys, ops.broadcast(step, {count, 1})}, 1);
  for (auto [i, op] : llvm::enumerate(all)) {
    Value stream = ops.reshape(ops.slice(streams, 0, static_cast<int64_t>(i), 1), {2});
    auto take = [&](auto random) {
      random.getStreamMutable().assign(stream);
      random.setSeed(0); // which the key holds
    };
    if (auto dropout = dyn_cast<DropoutOp>(op))
      take(dropout);
    else
      take(cast<RandomOp>(op));
  }
}

void StepBuilder::finishStep() {
  setResults(stepFunction, results);
  for (func::FuncOp function : {stepFunction, evaluate})
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.front())))
      if (op.getNumResults() && op.use_empty() && isPure(&op))
        op.erase();
}

/// What a step computes in products, convolutions and attention, by the type of what is multiplied; what is
/// made again does not count.
static DictionaryAttr countFlops(func::FuncOp step) {
  llvm::MapVector<Type, double> flops;
  step.walk([&](dist::ShardingRuleOpInterface op) {
    std::vector<std::string> names = outline::getNames(op->getLoc());
    const bool isAgain = outline::nameFirstTime(names);
    auto type = op->getNumOperands() > 0 ? dyn_cast<RankedTensorType>(op->getOperand(0).getType()) : Type();
    if (type && !isAgain && op.isHeavy())
      flops[cast<RankedTensorType>(type).getElementType()] += op.getFlops();
  });
  Builder b(step.getContext());
  SmallVector<NamedAttribute> attributes;
  for (auto [type, count] : flops) {
    std::string name;
    llvm::raw_string_ostream(name) << type;
    attributes.push_back(
        b.getNamedAttr(name, b.getDictionaryAttr({b.getNamedAttr("element", TypeAttr::get(type)),
                                                  b.getNamedAttr("flops", b.getF64FloatAttr(count))})));
  }
  return b.getDictionaryAttr(attributes);
}

void StepBuilder::describe() {
  stepFunction->setAttr(dist::kRoleAttrName, builder.getStringAttr(plan::stepProgram));
  SmallVector<Attribute> samples;
  for (BlockArgument argument : stepFunction.getArguments()) {
    auto name = stepFunction.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kOnnxNameAttr);
    if (!name || argument == stepValuesArgument)
      continue;
    ArrayRef<int64_t> shape = cast<RankedTensorType>(argument.getType()).getShape();
    const bool isBatched = !shape.empty() && shape.front() == options.globalBatch;
    NamedAttrList sample;
    sample.append("input", name);
    sample.append("batched", builder.getBoolAttr(isBatched));
    auto *second = llvm::find_if(seconds, [&](auto &pair) { return pair.first == argument; });
    if (second != seconds.end())
      sample.append("data_of", stepFunction.getArgAttr(second->second.getArgNumber(), kOnnxNameAttr));
    samples.push_back(sample.getDictionary(builder.getContext()));
    if (second != seconds.end()) // is in no microbatch
      continue;
    // The model's inputs have the same numbers in both.
    for (func::FuncOp function : {stepFunction, evaluate})
      if (isBatched)
        function.setArgAttr(argument.getArgNumber(), step::kBatchAttrName, builder.getI64IntegerAttr(0));
  }
  NamedAttrList training;
  training.append("optimizer", builder.getStringAttr(options.optimizer));
  training.append("step_values", builder.getStrArrayAttr(stepValues));
  training.append("global_batch", builder.getI64IntegerAttr(options.globalBatch));
  training.append("loss", builder.getStringAttr(options.loss.text));
  training.append("samples", builder.getArrayAttr(samples));
  if (const BatchParts parts = getBatchParts(); !statistics.empty() && parts.count() > 1)
    training.append(kStatisticsOverAttrName, builder.getI64IntegerAttr(options.globalBatch / parts.count()));
  training.append(kStepFlopsAttr, countFlops(stepFunction));
  if (scalesLoss)
    training.append("skips_overflow", builder.getBoolAttr(true));
  // Who names a stage of ZeRO asks for data parallelism as its papers have it.
  auto mesh = module->getAttrOfType<dist::MeshAttr>(dist::kMeshAttrName);
  if (options.zero >= 0 && !options.hasRecipe && mesh && mesh.findAxis("data") >= 0)
    training.append(dist::kBatchAxisAttrName, builder.getStringAttr("data"));
  if (updatesWhole())
    training.append(dist::kWholeSumsAttrName, builder.getUnitAttr());
  if (scattersInTurns())
    training.append(dist::kScattersInTurnsAttrName, builder.getUnitAttr());
  module->setAttr(dist::kTrainingAttrName, training.getDictionary(builder.getContext()));
}

LogicalResult StepBuilder::run() {
  optimizer = Optimizer::create(options.optimizer);
  if (!optimizer)
    return emitError(module.getLoc())
           << "--training: '" << options.optimizer << "' is none of " << listOptimizers();
  stepValues = optimizer->getStepValues();
  stepValues.push_back(kClip);
  FailureOr<func::FuncOp> model = findModel(module);
  if (failed(model) || failed(findAxes()))
    return failure();
  evaluate = *model;
  markKept(evaluate, options.kept);
  if (options.segments)
    markSegments(evaluate, *options.segments);
  FailureOr<LossSum> built = buildLoss(evaluate, options.loss);
  if (failed(built) || failed(checkBatch()))
    return failure();
  evaluated = *built;
  scalesLoss = hasHalf(evaluate);
  if (scalesLoss)
    stepValues.push_back(kLossScale);
  llvm::DenseSet<Operation *> reached = findSlice(evaluated.sum);
  FailureOr<std::vector<Classified>> all =
      classify(evaluate, options.parameters, options.modelPath, options.globalBatch,
               [&](Operation *op) { return reached.contains(op); });
  if (failed(all))
    return failure();
  for (Classified &each : *all) {
    if (each.isFrozen)
      frozen.push_back(each.op);
    if (!each.info.isTrained)
      continue;
    if (auto type = cast<RankedTensorType>(each.info.type); type.getElementTypeBitWidth() < 32) {
      each.op = widen(each.op);
      each.info.type = each.op.getType();
    }
    trained.push_back(std::move(each));
  }
  if (trained.empty())
    return emitError(module.getLoc()) << "the loss depends on no parameter that could be trained "
                                         "(--print-parameters says why not on which)";
  if (failed(normalizeParameters(evaluate)) || failed(checkStatistics()))
    return failure();
  llvm::StringSet<> taken;
  for (const Classified &each : trained)
    taken.insert(each.info.name);
  statistics = findStatistics(evaluate, taken, options.modelPath);
  evaluate.setName(plan::evaluateProgram);
  IRMapping mapping;
  OpBuilder b(evaluate);
  stepFunction = cast<func::FuncOp>(b.clone(*evaluate, mapping));
  stepFunction.setName(plan::stepProgram);
  removeMarks(evaluate);
  loss = evaluated;
  loss.sum = mapping.lookup(evaluated.sum);
  loss.count = evaluated.count ? mapping.lookup(evaluated.count) : Value();
  SmallVector<Value> copies;
  for (Classified &each : trained)
    copies.push_back(mapping.lookup(each.op.getResult()));
  for (ParameterOp op : SmallVector<ParameterOp>(frozen))
    frozen.push_back(mapping.lookup(op.getResult()).getDefiningOp<ParameterOp>());
  for (Running &each : statistics)
    for (Running::Use &use : each.uses)
      use.inStep = mapping.lookup(use.inEvaluation.getResult()).getDefiningOp<BatchNormalizeOp>();
  if (llvm::any_of(stepFunction.front(), [](Operation &op) { return isa<RandomOp, DropoutOp>(op); })) {
    llvm::append_range(stepValues, kStepParts);
    llvm::append_range(stepValues, kSeedParts);
  }
  sumAheadOfTurns(copies);
  buildEvaluation();
  addStates();
  for (auto [copy, parameter] : llvm::zip_equal(copies, parameters))
    copy.replaceAllUsesWith(parameter);
  if (failed(normalizeBatches(evaluate, stepFunction, statistics, getBatchParts())))
    return failure();
  drawRandomNumbers();
  if (failed(buildUpdates()))
    return failure();
  finishStep();
  describe();
  return success();
}

LogicalResult training::buildStep(ModuleOp module, const TrainingOptions &options) {
  return StepBuilder(module, options).run();
}

FailureOr<std::vector<ParameterInfo>> training::listParameters(ModuleOp module,
                                                               const TrainingOptions &options) {
  FailureOr<func::FuncOp> model = findModel(module);
  if (failed(model))
    return failure();
  SmallVector<Value> roots;
  if (options.loss.text.empty()) {
    llvm::append_range(roots, model->front().getTerminator()->getOperands());
  } else {
    FailureOr<unsigned> output = findLossOutput(*model, options.loss);
    if (failed(output))
      return failure();
    roots.push_back(model->front().getTerminator()->getOperand(*output));
  }
  llvm::DenseSet<Operation *> reached = findSlice(roots);
  FailureOr<std::vector<Classified>> all =
      classify(*model, options.parameters, options.modelPath, options.globalBatch,
               [&](Operation *op) { return reached.contains(op); });
  if (failed(all))
    return failure();
  std::vector<ParameterInfo> infos;
  for (Classified &each : *all)
    infos.push_back(std::move(each.info));
  return infos;
}

namespace {
struct DifferentiatePass : PassWrapper<DifferentiatePass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DifferentiatePass)
  explicit DifferentiatePass(const TrainingOptions &options) : training(options) {}
  DifferentiatePass(const DifferentiatePass &other) : PassWrapper(other), training(other.training) {}

  StringRef getArgument() const final { return "colossal-differentiate"; }
  StringRef getDescription() const final { return "Make a model its training step and its evaluation"; }
  void runOnOperation() override {
    if (failed(buildStep(getOperation(), training)))
      signalPassFailure();
  }

  TrainingOptions training;
};
} // namespace

std::unique_ptr<Pass> training::createDifferentiatePass(const TrainingOptions &options) {
  return std::make_unique<DifferentiatePass>(options);
}
