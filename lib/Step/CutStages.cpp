//===- CutStages.cpp - the stages of a pipeline -----------------------------===//
//
// Reads each function as a chain of units, has it cut, and has the stages built.
//
//===----------------------------------------------------------------------===//
#include "colossal/Step/CutStages.h"

#include "PassOrder.h"
#include "StageChain.h"
#include "StageFunctions.h"
#include "colossal/Step/PropagateBatch.h"
#include "dialects/Dist/State.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <numeric>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::step;

static constexpr StringLiteral kPinPrefix = "stage:";

bool step::isStagePin(StringRef pin) {
  StringRef layout = pin.rsplit('=').second;
  int64_t stage;
  return layout.consume_front(kPinPrefix) && !layout.getAsInteger(10, stage);
}

MeshAttr step::getStageMesh(MeshAttr mesh) {
  const int64_t axis = mesh.findAxis(kStageAxis);
  if (axis < 0 || mesh.getAxisSize(axis) < 2)
    return {};
  MLIRContext *context = mesh.getContext();
  SmallVector<MeshAxisAttr> axes(mesh.getAxes());
  axes.erase(axes.begin() + axis);
  if (axes.empty() || axes.front().getLoop())
    axes.insert(axes.begin(), MeshAxisAttr::get(context, StringAttr::get(context, "x"), 1));
  return MeshAttr::get(context, axes);
}

/// The number of stages, 1 where the mesh has none.
static int countStages(MeshAttr mesh) {
  const int64_t axis = mesh ? mesh.findAxis(kStageAxis) : -1;
  return axis < 0 ? 1 : static_cast<int>(mesh.getAxisSize(axis));
}

std::string step::checkStagePins(ArrayRef<std::string> pins, MeshAttr mesh, int64_t chunks) {
  const int stages = countStages(mesh);
  const int64_t parts = stages * chunks;
  for (const std::string &pin : pins) {
    if (!isStagePin(pin))
      continue;
    if (stages < 2)
      return "pin '" + pin +
             "' puts operators into a stage, and the mesh has none: give it an axis 'stage' of two or more, "
             "as in --mesh stage=2";
    int64_t stage = 0;
    (void)StringRef(pin).rsplit('=').second.drop_front(kPinPrefix.size()).getAsInteger(10, stage);
    if (stage < 0 || stage >= parts)
      return "pin '" + pin + "': the mesh has " + std::to_string(stages) + " stages, " +
             (chunks > 1 ? "whose " + std::to_string(chunks) + " chunks each are numbered from 0 to " +
                               std::to_string(parts - 1) + " in the model's order"
                         : "which are numbered from 0 to " + std::to_string(stages - 1));
  }
  return "";
}

static FailureOr<std::vector<StagePin>> parsePins(ModuleOp module, ArrayRef<std::string> texts) {
  std::vector<StagePin> pins;
  for (const std::string &text : texts) {
    auto [expression, layout] = StringRef(text).rsplit('=');
    int part = 0;
    if (!layout.consume_front(kPinPrefix) || layout.getAsInteger(10, part))
      return emitError(module.getLoc()) << "pin '" << text << "' is not of the form REGEX=stage:K", failure();
    std::string error;
    std::optional<outline::NamePattern> name = outline::NamePattern::parse(expression.str(), error);
    if (!name)
      return emitError(module.getLoc()) << "pin '" << text << "': " << error, failure();
    pins.push_back({text, std::move(*name), part});
  }
  return pins;
}

/// Decides the part of every unit of all programs; `first`: that takes longest.
static LogicalResult chooseStages(ModuleOp module, std::vector<Chain> &chains, size_t first,
                                  const Weights &weights, double memoryBytes, StageCut &cut) {
  Chain &longest = chains[first];
  CutProblem problem = longest.makeProblem(weights);
  problem.memoryBytes = memoryBytes;
  if (longest.chain.size() < static_cast<size_t>(problem.stages))
    return emitError(module.getLoc())
           << "--mesh asks for " << longest.stages << " stages"
           << (longest.parts > longest.stages
                   ? " and --chunks for " + std::to_string(longest.parts / longest.stages) + " of each"
                   : std::string())
           << ", but the model has only " << longest.chain.size()
           << " operators that can stand in one of their own";
  cut = cutStages(problem);
  if (cut.firsts.empty())
    return emitError(module.getLoc())
           << "the pins leave one of the " << problem.stages
           << (longest.parts > longest.stages ? " chunks of stages" : " stages") << " without any operator";
  llvm::StringMap<int> partOfName;
  int part = -1;
  for (auto [u, op] : llvm::enumerate(longest.chain)) {
    while (part + 1 < problem.stages && cut.firsts[part + 1] == u)
      ++part;
    longest.partOf[op] = part;
    partOfName[longest.names[op]] = part;
  }
  for (auto [c, chain] : llvm::enumerate(chains)) {
    if (c == first)
      continue;
    std::vector<int> wanted;
    for (Operation *op : chain.chain) {
      auto known = partOfName.find(chain.names[op]);
      wanted.push_back(known == partOfName.end() ? -1 : known->second);
    }
    std::vector<int> followed = followCut(chain.makeProblem(weights), wanted);
    if (followed.size() != chain.chain.size())
      return chain.function.emitError()
             << "the pins leave no stages for program '" << chain.function.getName() << "'";
    for (auto [op, part] : llvm::zip_equal(chain.chain, followed))
      chain.partOf[op] = part;
  }
  return success();
}

/// By how much something must be faster to be worth telling.
static constexpr double kTold = 1.005;

static void describe(const Chain &chain, const StageCut &cut, ArrayRef<ModuleOp> stages, bool isPinned,
                     StepReport &report) {
  llvm::StringMap<uint64_t> all;
  for (auto [s, stage] : llvm::enumerate(stages)) {
    StageInfo &info = report.stages.emplace_back();
    info.firstRank = getFirstRank(stage);
    info.ranks = stage->getAttrOfType<MeshAttr>(kMeshAttrName).getNumRanks();
    for (int64_t c = 0; c < chain.pipeline.chunks; ++c) {
      const auto part = static_cast<int>(chain.pipeline.getPart(static_cast<int64_t>(s), c));
      ChunkInfo &chunk = info.chunks.emplace_back();
      chunk.seconds = cut.seconds[part];
      for (Operation *op : chain.chain)
        if (chain.partOf.lookup(op) == part) {
          if (chunk.ops++ == 0)
            chunk.first = chain.names.lookup(op);
          chunk.last = chain.names.lookup(op);
        }
      info.seconds += chunk.seconds;
      info.ops += chunk.ops;
    }
    llvm::StringMap<uint64_t> own;
    ModuleOp(stage).walk(
        [&](ParameterOp op) { own[op.getName()] = static_cast<uint64_t>(getBytes(op.getType())); });
    for (auto function : ModuleOp(stage).getOps<func::FuncOp>())
      for (unsigned i = 0; i < function.getNumArguments(); ++i)
        if (auto state = function.getArgAttrOfType<DictionaryAttr>(i, kStateInfoAttrName);
            state && state.getAs<StringAttr>("kind").getValue() == "parameter")
          own[function.getArgAttrOfType<StringAttr>(i, kStateAttrName).getValue()] =
              static_cast<uint64_t>(getBytes(function.getArgumentTypes()[i]));
    for (auto &entry : own) {
      info.weightBytes += entry.second;
      all[entry.getKey()] = entry.second;
    }
  }
  for (auto &entry : all)
    report.weightBytes += entry.second;
  report.why =
      std::string(isPinned ? "as pinned, and elsewhere " : "") +
      (chain.parts > chain.stages
           ? "cut where the slowest chunk takes least while none holds more than 1.2 times its even part of "
             "the weights, or little more than one must"
           : "cut where the slowest stage takes least while none holds more than 1.2 times its even part of "
             "the weights, or little more than one must");
  const double total = std::accumulate(cut.seconds.begin(), cut.seconds.end(), 0.0);
  const double slowest = *llvm::max_element(cut.seconds);
  if (total <= 0)
    return;
  auto percent = [&](double seconds) { return llvm::formatv("{0:F1} %", 100 * seconds / total).str(); };
  report.why += ": " + percent(slowest) + " of the time";
  if (slowest > cut.slowestAnywhere * kTold)
    report.why += ", between blocks (inside of one: " + percent(cut.slowestAnywhere) + ")";
  if (cut.slowestAnywhere > cut.slowestUnlimited * kTold)
    report.why += "; whatever stages hold, it could be " + percent(cut.slowestUnlimited);
}

LogicalResult step::cutStages(ModuleOp module, const StepOptions &options, StepReport &report) {
  MeshAttr mesh = module->getAttrOfType<MeshAttr>(kMeshAttrName);
  const int stages = countStages(mesh);
  if (getStages(module).front() != module)
    return success();
  if (std::string error = checkStagePins(options.pins, mesh, options.chunks); !error.empty())
    return emitError(module.getLoc()) << error;
  if (stages < 2)
    return success();
  if (mesh.getNumRanks() > options.machine.devices())
    return emitError(module.getLoc())
           << "the mesh has " << mesh.getNumRanks() << " ranks, machine '" << options.machine.name << "' "
           << options.machine.devices() << " devices";
  FailureOr<std::vector<StagePin>> pins = parsePins(module, options.pins);
  if (failed(pins))
    return failure();
  MeshAttr ofStage = getStageMesh(mesh);
  SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
  Weights weights;
  std::vector<Chain> chains;
  const bool trains = module->hasAttr(kTrainingAttrName);
  for (func::FuncOp function : functions) {
    Pipeline pipeline{stages, options.chunks};
    if (trains) {
      pipeline.isV = options.schedule == cost::Schedule::ZeroBubbleV;
      pipeline.hasBackward = function->hasAttr(kRoleAttrName);
      pipeline.splits = pipeline.hasBackward && cost::splitsBackward(options.schedule);
    }
    chains.emplace_back(function, pipeline, trains);
    if (failed(chains.back().read(*pins, ofStage, mesh.getNumRanks(), options.machine, functions.size() > 1,
                                  weights)))
      return failure();
  }
  for (const StagePin &pin : *pins)
    if (!pin.isUsed)
      return emitError(module.getLoc()) << "pin '" << pin.text << "' matches no operator";
  if (chains.empty())
    return success();
  size_t longest = 0;
  for (size_t c = 1; c < chains.size(); ++c)
    if (chains[c].getSeconds() > chains[longest].getSeconds())
      longest = c;
  double memory =
      static_cast<double>(options.memoryBytes ? options.memoryBytes
                                              : options.machine.memoryOfRank(mesh.getNumRanks())) *
      static_cast<double>(ofStage.getNumRanks()) / static_cast<double>(options.chunks);
  StageCut cut;
  if (failed(chooseStages(module, chains, longest, weights, memory, cut)))
    return failure();

  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  SmallVector<ModuleOp> modules;
  for (int s = 0; s < stages; ++s) {
    auto stage = ModuleOp::create(b, module.getLoc(), "stage" + std::to_string(s));
    stage->setAttr(kMeshAttrName, ofStage);
    stage->setAttr(kStageAttrName, b.getI64IntegerAttr(s));
    modules.push_back(stage);
  }
  for (Chain &chain : chains) {
    chain.placeDerived();
    chain.narrowMessages();
  }
  report.messages = std::move(buildStages(chains, modules, mesh)[longest]);
  for (Chain &chain : chains) {
    if (failed(orderPasses(chain, modules, mesh.getNumTurns(), options.schedule, options.passes)))
      return failure();
    for (Operation *op : chain.chain) {
      std::string name = chain.names[op];
      if (chains.size() > 1)
        name += ("@" + chain.function.getName()).str();
      report.pins +=
          outline::escapeName(name) + "=" + kPinPrefix.str() + std::to_string(chain.partOf[op]) + "\n";
    }
  }
  if (mesh.getLoopAxis() >= 0)
    for (ModuleOp stage : modules)
      if (failed(propagateBatchInStage(stage)))
        return failure();
  describe(chains[longest], cut, modules, !pins->empty(), report);
  for (func::FuncOp function : functions)
    function.erase();
  return success();
}