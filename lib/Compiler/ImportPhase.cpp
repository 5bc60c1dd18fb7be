//===- ImportPhase.cpp - the programs of a model, imported ------------------===//
#include "ImportPhase.h"

#include "colossal/Step/PropagateBatch.h"
#include "dialects/Colossal/NarrowTypes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"

#include <chrono>
#include <map>
#include <set>

using namespace mlir;

namespace colossal {

/// Imports `binding`, one of several programs of a model. What it says of it names the program; warnings are
/// held back in `warnings`, each with the programs that it is about, as most are about all of them.
static FailureOr<OwningOpRef<ModuleOp>>
importProgram(MLIRContext *context, const ImportOptions &binding,
              std::vector<std::pair<Diagnostic, std::vector<std::string>>> &warnings) {
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() != DiagnosticSeverity::Warning) {
      diagnostic << " (program '" << binding.functionName << "')";
      return failure(); // whoever else handles it
    }
    auto same = llvm::find_if(
        warnings, [text = diagnostic.str()](auto &warning) { return warning.first.str() == text; });
    if (same == warnings.end())
      warnings.emplace_back(std::move(diagnostic), std::vector<std::string>{binding.functionName});
    else if (same->second.back() != binding.functionName)
      same->second.push_back(binding.functionName);
    return success();
  });
  return importOnnx(context, binding);
}

/// Adds the texts of the strings of `from` to those of `to`.
static void addTexts(ModuleOp from, ModuleOp to) {
  std::set<StringRef> texts;
  for (ModuleOp module : {from, to})
    if (auto known = module->getAttrOfType<ArrayAttr>(kTextsAttr))
      for (StringAttr text : known.getAsRange<StringAttr>())
        texts.insert(text.getValue());
  if (!texts.empty())
    to->setAttr(kTextsAttr,
                Builder(to.getContext()).getStrArrayAttr(SmallVector<StringRef>(texts.begin(), texts.end())));
}

/// Imports one function per combination of the dimensions with several values, into one module.
static FailureOr<OwningOpRef<ModuleOp>> importAll(MLIRContext *context, const CompileOptions &options,
                                                  const ImportHooks &hooks) {
  std::vector<ImportOptions> bindings{options.import};
  bindings.front().checkIndices = true;
  for (const auto &[names, values] : options.manyDims) {
    std::vector<ImportOptions> next;
    for (const ImportOptions &binding : bindings)
      for (int64_t value : values) {
        next.push_back(binding);
        for (const std::string &name : names)
          next.back().dims[name] = value;
        if (values.size() > 1)
          next.back().functionName += "_" + names.front() + std::to_string(value);
      }
    bindings = std::move(next);
  }
  if (bindings.size() == 1)
    return importOnnx(context, bindings.front(), hooks);
  std::vector<std::pair<Diagnostic, std::vector<std::string>>> warnings;
  bool isWhole = true;
  OwningOpRef<ModuleOp> all;
  for (const ImportOptions &binding : bindings) {
    FailureOr<OwningOpRef<ModuleOp>> one = importProgram(context, binding, warnings);
    if (failed(one)) {
      isWhole = false;
      break;
    }
    if (!all) {
      all = std::move(*one);
      continue;
    }
    addTexts(**one, *all);
    for (auto function : llvm::make_early_inc_range((*one)->getOps<func::FuncOp>())) {
      function->remove();
      all->push_back(function);
    }
  }
  for (auto &[warning, programs] : warnings) {
    if (programs.size() < bindings.size())
      warning << " (program '" << llvm::join(programs, "', '") << "')";
    context->getDiagEngine().emit(std::move(warning));
  }
  if (!isWhole)
    return failure();
  return all;
}

/// The names of the dimension that is the batch: the one that is given, or "batch" where the model has that,
/// or that of the inputs' first dimensions, where they have but one; and names that are bound together with
/// it. None: the inputs' first dimensions, whatever they are called.
static std::set<std::string> findBatchNames(const CompileOptions &options, ArrayRef<ModelInput> inputs) {
  std::set<std::string> all, first;
  for (const ModelInput &input : inputs)
    for (auto [d, dim] : llvm::enumerate(input.shape))
      if (dim.size < 0) {
        all.insert(dim.name);
        if (d == 0 && dim.isNamed)
          first.insert(dim.name);
      }
  std::set<std::string> names;
  if (!options.batchDimension.empty())
    names.insert(options.batchDimension);
  else if (all.count("batch"))
    names.insert("batch");
  else if (first.size() == 1)
    names = first;
  for (const DimValues &dim : options.manyDims)
    if (llvm::any_of(dim.names, [&](const std::string &name) { return names.count(name) > 0; }))
      names.insert(dim.names.begin(), dim.names.end());
  return names;
}

/// Marks in the arguments of all functions which dimension is the batch, where names say that.
static LogicalResult markBatch(ModuleOp module, const CompileOptions &options) {
  FailureOr<std::vector<ModelInput>> inputs = listInputs(module.getContext(), options.import.modelPath);
  if (failed(inputs))
    return failure();
  const std::set<std::string> names = findBatchNames(options, *inputs);
  std::map<std::string, int64_t> dimOf; // by input
  for (const ModelInput &input : *inputs)
    for (auto [d, dim] : llvm::enumerate(input.shape))
      if (dim.size < 0 && names.count(dim.name))
        dimOf.try_emplace(input.name, static_cast<int64_t>(d));
  if (!options.batchDimension.empty() && dimOf.empty())
    return emitError(module.getLoc()) << "--batch-dim: no input has a dimension named '"
                                      << options.batchDimension << "' (--print-inputs lists them)";
  Builder builder(module.getContext());
  for (auto function : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (auto name = function.getArgAttrOfType<StringAttr>(i, kOnnxNameAttr))
        if (auto found = dimOf.find(name.str()); found != dimOf.end())
          function.setArgAttr(i, step::kBatchAttrName, builder.getI64IntegerAttr(found->second));
  return success();
}

std::string checkMicrobatches(MLIRContext *context, const CompileOptions &options) {
  if (options.microbatches <= 1 && options.batchDimension.empty())
    return "";
  ScopedDiagnosticHandler quiet(context, [](Diagnostic &) { return success(); });
  FailureOr<std::vector<ModelInput>> inputs = listInputs(context, options.import.modelPath);
  if (failed(inputs))
    return ""; // the import says why
  const std::set<std::string> names = findBatchNames(options, *inputs);
  bool isFound = false;
  for (const ModelInput &input : *inputs)
    for (const InputDim &dim : input.shape)
      isFound |= dim.size < 0 && names.count(dim.name);
  if (!options.batchDimension.empty() && !isFound)
    return "--batch-dim: no input has a dimension named '" + options.batchDimension +
           "' (--print-inputs lists them)";
  // What the batch is bound to, by its name or as the import takes it where dimensions have numbers only.
  std::vector<int64_t> rows;
  auto isBatch = [&](const std::string &name) { return name == "batch" || names.count(name) > 0; };
  for (const DimValues &dim : options.manyDims)
    if (llvm::any_of(dim.names, isBatch))
      rows = dim.values;
  for (const auto &[name, value] : options.import.dims)
    if (isBatch(name))
      rows = {value};
  for (const ModelInput &input : *inputs)
    for (auto [d, dim] : llvm::enumerate(input.shape))
      if (auto shape = options.import.shapes.find(input.name);
          shape != options.import.shapes.end() && d < shape->second.size() &&
          (isFound ? dim.size < 0 && names.count(dim.name) : d == 0))
        rows.push_back(shape->second[d]);
  for (int64_t count : rows)
    if (count < options.microbatches)
      return "--microbatches " + std::to_string(options.microbatches) + ": the batch has " +
             std::to_string(count) + (count == 1 ? " row" : " rows") +
             ", of which each microbatch takes one or more: " +
             (count > 1 ? "--microbatches " + std::to_string(count) + " or fewer, or a larger batch, would do"
                        : "a larger batch, or no microbatches, would do");
  return "";
}

FailureOr<Imported> importModel(MLIRContext *context, const CompileOptions &options, Phase last,
                                const std::function<void(OwningOpRef<ModuleOp>)> &shorter) {
  if (options.progress)
    options.progress(getPhaseName(Phase::Import));
  auto begin = std::chrono::steady_clock::now();
  std::shared_ptr<void> source;
  FailureOr<OwningOpRef<ModuleOp>> module = importAll(context, options, {&source, shorter});
  if (failed(module))
    return failure();
  uint64_t operations = 0;
  (**module).walk([&](Operation *) { ++operations; });
  std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  // All files of the model are known now, and the work of minutes begins.
  if (last == Phase::Plan && !options.planPath.empty())
    if (OutputError error = checkOutput(options.planPath))
      return emitError(UnknownLoc::get(context)) << error.message;
  if ((options.microbatches > 1 || options.devices > 0) && failed(markBatch(**module, options)))
    return failure();
  return Imported{
      std::move(*module), {getPhaseName(Phase::Import).str(), taken.count(), operations}, std::move(source)};
}

} // namespace colossal
