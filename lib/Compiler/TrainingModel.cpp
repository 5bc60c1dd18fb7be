//===- TrainingModel.cpp - a model as the joint search sees it --------------===//
#include "TrainingModel.h"

#include "colossal/Training/OwnLoss.h"

#include "dialects/Colossal/Colossal.h"

#include <map>
#include <set>

using namespace mlir;

namespace colossal {

namespace {

/// Two batches at which every size is told apart: what does not grow, and what grows with the batch.
constexpr int64_t kFewSequences = 2, kManySequences = 3;

/// Tokens of a sequence that are tried, by halves, where no option says.
constexpr int64_t kLongestAssumed = 2048, kShortestAssumed = 16;

/// Names of the dimensions that hold the batch: the first of each input, unless bound. `lengths` gets each
/// other dimension that is left open, and where it stands.
FailureOr<std::set<std::string>> findBatch(MLIRContext *context, const PlanTrainingOptions &options,
                                           const std::vector<ModelInput> &inputs, std::string &told,
                                           std::map<std::string, std::string> &lengths) {
  Location loc = UnknownLoc::get(context);
  std::set<std::string> batch;
  std::string fixed, bound;
  for (const ModelInput &input : inputs) {
    if (options.import.values.count(input.name))
      continue;
    if (auto shape = options.import.shapes.find(input.name); shape != options.import.shapes.end()) {
      bound = "--shape " + input.name;
      continue;
    }
    if (!input.hasShape)
      return emitError(loc) << "input '" << input.name
                            << "' has no shape: its batch cannot be found; export the model with shapes";
    for (auto [d, dim] : llvm::enumerate(input.shape)) {
      bool isBound = dim.size >= 0 || options.import.dims.count(dim.name);
      bool isBatch = options.batchDimension.empty() ? d == 0 : dim.name == options.batchDimension;
      if (isBatch && !isBound) {
        batch.insert(dim.name);
        if (told.empty())
          told = "dimension " + std::to_string(d) + " of '" + input.name + "'" +
                 (dim.isNamed ? " ('" + dim.name + "')" : "");
      } else if (d == 0 && dim.size >= 0) {
        fixed = "input '" + input.name + "' has a fixed first dimension of " + std::to_string(dim.size);
      } else if (d == 0 && isBound) {
        bound = "--dim " + dim.name;
      }
    }
  }
  if (batch.empty()) {
    if (!options.batchDimension.empty())
      return emitError(loc) << "--batch-dim '" << options.batchDimension
                            << "': no input has a dimension of that name that is left open";
    auto diagnostic = emitError(loc) << "no batch is left open for the search to choose microbatches: ";
    if (!bound.empty())
      return diagnostic << "leave out " << bound
                        << ", the first dimension is the batch (or name another with --batch-dim)";
    return diagnostic << (fixed.empty() ? "the model has no inputs" : fixed)
                      << "; export the model with a symbolic batch, or name its dimension with --batch-dim";
  }
  for (const ModelInput &input : inputs)
    for (auto [d, dim] : llvm::enumerate(input.shape)) {
      if (dim.size >= 0 || batch.count(dim.name) || lengths.count(dim.name) ||
          options.import.dims.count(dim.name) || options.import.shapes.count(input.name) ||
          options.import.values.count(input.name))
        continue;
      lengths[dim.name] = "dimension " + std::to_string(d) + " of input '" + input.name + "'";
    }
  return batch;
}

/// Imports the model with the longest of a few lengths that it takes for the dimensions of `lengths` (a table
/// of positions may end before), and says so.
FailureOr<OwningOpRef<ModuleOp>> importWithLengths(MLIRContext *context, ImportOptions &import,
                                                   const std::map<std::string, std::string> &lengths) {
  if (lengths.empty())
    return importOnnx(context, import);
  std::vector<Diagnostic> refused;
  for (int64_t length = kLongestAssumed; length >= kShortestAssumed; length /= 2) {
    for (const auto &[name, where] : lengths)
      import.dims[name] = length;
    std::vector<Diagnostic> told;
    FailureOr<OwningOpRef<ModuleOp>> module = failure();
    {
      ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
        told.push_back(std::move(diagnostic));
        return success();
      });
      module = importOnnx(context, import);
    }
    if (succeeded(module)) {
      for (const auto &[name, where] : lengths)
        emitWarning(UnknownLoc::get(context))
            << where << " is not bound: " << length << " assumed; --dim " << name << "=LENGTH gives another";
      for (Diagnostic &diagnostic : told)
        context->getDiagEngine().emit(std::move(diagnostic));
      return module;
    }
    if (refused.empty())
      refused = std::move(told);
  }
  for (Diagnostic &diagnostic : refused)
    context->getDiagEngine().emit(std::move(diagnostic));
  std::string names, options;
  for (const auto &[name, where] : lengths) {
    names += (names.empty() ? "" : ", ") + where;
    options += " --dim " + name + "=LENGTH";
  }
  return emitError(UnknownLoc::get(context))
         << names << (lengths.size() > 1 ? " are" : " is")
         << " not bound, and the model takes no length from " << kShortestAssumed << " to " << kLongestAssumed
         << " that was tried for " << (lengths.size() > 1 ? "all of them" : "it") << ": give" << options;
}

/// The number of the output that a loss is of.
unsigned findLossOutput(func::FuncOp function, const training::Loss &loss) {
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (auto known = function.getResultAttrOfType<StringAttr>(i, kOnnxNameAttr);
        known && known.getValue() == loss.output)
      return i;
  return 0;
}

StringRef nameOfInput(func::FuncOp function, unsigned number) {
  auto known = function.getArgAttrOfType<StringAttr>(number, kOnnxNameAttr);
  return known ? known.getValue() : StringRef();
}

/// Marks the inputs of the model that a loss reads as well: tokens, or what is called as its target is.
void markLossInputs(func::FuncOp function, const training::Loss &loss,
                    std::vector<factors::GivenInput> &inputs) {
  const bool hasClasses = loss.kind == training::Loss::CrossEntropy;
  std::string read = loss.kind == training::Loss::Own ? "" : "target";
  if (hasClasses && (!loss.shift || !loss.labels.empty()))
    read = loss.labels.empty() ? "labels" : loss.labels;
  else if (hasClasses)
    read = loss.tokens.empty() ? "input_ids" : loss.tokens;
  for (factors::GivenInput &input : inputs)
    input.isForLoss = !read.empty() && nameOfInput(function, input.number) == read;
  const bool isNamed = llvm::any_of(inputs, [](const factors::GivenInput &input) { return input.isForLoss; });
  for (factors::GivenInput &input : inputs) // the only ones of integers
    input.isForLoss |= hasClasses && loss.shift && !isNamed && input.isInteger;
}

/// Bytes of what a loss takes in beside what the model has, for one sequence: targets, or classes.
double countLossInputs(func::FuncOp function, const training::Loss &loss) {
  auto takes = [&](StringRef name) {
    return llvm::any_of(llvm::seq(function.getNumArguments()),
                        [&](unsigned i) { return nameOfInput(function, i) == name; });
  };
  const bool hasClasses = loss.kind == training::Loss::CrossEntropy;
  const std::string name = !hasClasses ? "target" : loss.labels.empty() ? "labels" : loss.labels;
  if (loss.kind == training::Loss::Own || (hasClasses && loss.shift) || takes(name))
    return 0;
  auto type = cast<RankedTensorType>(function.getFunctionType().getResult(findLossOutput(function, loss)));
  if (!type.hasStaticShape() || type.getRank() == 0)
    return 0;
  const double elements = static_cast<double>(type.getNumElements()) / kFewSequences;
  constexpr double kClassBytes = 8; // i64
  return hasClasses
             ? elements / static_cast<double>(std::max<int64_t>(1, type.getShape().back())) * kClassBytes
             : elements * std::max(32u, type.getElementTypeBitWidth()) / 8;
}

/// Has a model that computes a cross-entropy itself give the logits instead, at both batches: what the loss
/// does with them is planned as that of `--loss cross-entropy`. `read`: the inputs that only the loss reads.
bool cutBeforeOwnLoss(ReadModel &model, unsigned number, std::set<std::string> &read) {
  std::optional<training::OwnCrossEntropy> found[2];
  for (int i = 0; i < 2; ++i)
    found[i] = training::matchCrossEntropy(model.functions[i].front().getTerminator()->getOperand(number));
  if (!found[0] || !found[1])
    return false;
  for (int i = 0; i < 2; ++i) {
    func::FuncOp function = model.functions[i];
    llvm::SmallVector<bool> wasRead;
    for (BlockArgument argument : function.getArguments())
      wasRead.push_back(!argument.use_empty());
    Operation *terminator = function.front().getTerminator();
    terminator->setOperand(number, found[i]->logits);
    function.setFunctionType(
        FunctionType::get(function.getContext(), function.getArgumentTypes(), terminator->getOperandTypes()));
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.front())))
      if (op.getNumResults() && op.use_empty() && isPure(&op))
        op.erase();
    for (BlockArgument argument : function.getArguments())
      if (wasRead[argument.getArgNumber()] && argument.use_empty())
        read.insert(nameOfInput(function, argument.getArgNumber()).str());
  }
  return true;
}

} // namespace

FailureOr<ReadModel> readModel(MLIRContext *context, PlanTrainingOptions options) {
  FailureOr<std::vector<ModelInput>> inputs = listInputs(context, options.import.modelPath);
  if (failed(inputs))
    return failure();
  bindByPosition(*inputs, options.import.dims);
  std::string told;
  std::map<std::string, std::string> lengths; // by name: which input's dimension
  std::map<std::string, int64_t> chosen;
  FailureOr<std::set<std::string>> batch = findBatch(context, options, *inputs, told, lengths);
  if (failed(batch))
    return failure();
  ReadModel model;
  std::set<std::string> frozen;
  for (int i = 0; i < 2; ++i) {
    ImportOptions import = options.import;
    import.allowMissingWeights = true;
    import.isTrained = import.computesBatchStatistics = true; // the ops are those of a step
    import.dims.insert(chosen.begin(), chosen.end());
    for (const std::string &name : *batch)
      import.dims[name] = i == 0 ? kFewSequences : kManySequences;
    FailureOr<OwningOpRef<ModuleOp>> module =
        i == 0 ? importWithLengths(context, import, lengths) : importOnnx(context, import);
    if (failed(module))
      return failure();
    for (const auto &[name, where] : lengths)
      chosen[name] = import.dims[name];
    model.modules[i] = std::move(*module);
    model.functions[i] = *model.modules[i]->getOps<func::FuncOp>().begin();
    FailureOr<std::set<std::string>> separated =
        training::separateMerged(model.functions[i], options.parameters, import.modelPath);
    if (failed(separated))
      return failure();
    frozen = std::move(*separated);
    // Which elements are dropped is nothing to plan by: layers that differ in it are alike.
    model.functions[i].walk([](DropoutOp op) { op.setSeed(0); });
  }
  if (options.progress)
    options.progress("units");
  std::optional<factors::LossOutput> loss;
  std::set<std::string> ofLoss;
  if (options.loss) {
    loss = {findLossOutput(model.functions[0], *options.loss),
            options.loss->kind == training::Loss::CrossEntropy};
    if (options.loss->kind == training::Loss::Own)
      loss->hasClasses = cutBeforeOwnLoss(model, loss->number, ofLoss);
  }
  std::optional<factors::Reading> read = factors::readFactorGraph(
      model.functions[0], kFewSequences, model.functions[1], kManySequences, frozen, loss);
  if (!read)
    return failure();
  std::string path = options.import.modelPath;
  read->graph.name = path.substr(path.find_last_of('/') + 1);
  read->graph.batchDimension = told;
  if (options.loss) {
    read->graph.lossBytes = countLossInputs(model.functions[0], *options.loss);
    markLossInputs(model.functions[0], *options.loss, read->graph.inputs);
    for (factors::GivenInput &input : read->graph.inputs)
      input.isForLoss |= ofLoss.count(nameOfInput(model.functions[0], input.number).str()) > 0;
  }
  model.reading = std::move(*read);
  return model;
}

} // namespace colossal
