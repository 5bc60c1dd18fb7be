//===- Report.cpp - what the search chose, in words -------------------------===//
#include "Report.h"

#include "Names.h"

#include "colossal/Layout/Device.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"

#include <map>
#include <set>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::layout;

std::string layout::printBytes(double bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  unsigned unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit)
    bytes /= 1024;
  return llvm::formatv(unit ? "{0:F1} {1}" : "{0:F0} {1}", bytes, units[unit]).str();
}

static std::string printSeconds(double seconds) {
  if (seconds < 1e-3)
    return llvm::formatv("{0:F1} us", seconds * 1e6).str();
  if (seconds < 1)
    return llvm::formatv("{0:F2} ms", seconds * 1e3).str();
  return llvm::formatv("{0:F2} s", seconds).str();
}

/// Numbers in names count repeated blocks: "h.3.attn" and "h.11.attn" are both "h.*.attn".
static std::string getPattern(StringRef name) {
  std::string pattern;
  for (size_t i = 0; i < name.size(); ++i) {
    bool isDigit = llvm::isDigit(name[i]);
    if (!isDigit)
      pattern += name[i];
    else if (i == 0 || !llvm::isDigit(name[i - 1]))
      pattern += '*';
  }
  return pattern;
}

static std::string printLayout(const Model &model, const NodeInfo &node, int32_t candidate) {
  if (node.kind == NodeInfo::Kind::Op)
    return printAssignment(model.getBuilder().getRule(node.ops.front()), node.choices->assignments[candidate],
                           model.getMesh());
  return printSharding(node.layouts[candidate], model.getMesh());
}

static StringRef getKindName(const NodeInfo &node) {
  switch (node.kind) {
  case NodeInfo::Kind::Op: return node.ops.front()->getName().stripDialect();
  case NodeInfo::Kind::Parameter: return "parameter";
  case NodeInfo::Kind::State: return "state";
  case NodeInfo::Kind::Argument: return "input";
  case NodeInfo::Kind::Result: return "output";
  case NodeInfo::Kind::Copy:
  case NodeInfo::Kind::Shared: return "copy";
  }
  return "";
}

namespace {
struct Memory {
  int64_t weights = 0, activations = 0, boundary = 0, copies = 0;
  std::vector<std::pair<int64_t, std::string>> largest; ///< parameters, greatest first
};
} // namespace

/// Bytes by kind at the step where their sum is greatest.
static Memory measureMemory(const Model &model, const search::Assignment &chosen) {
  std::map<int64_t, int64_t> changes;
  for (auto [i, node] : llvm::enumerate(model.problem.nodes))
    for (const search::MemoryUse &use : node.candidates[chosen[i]].memory)
      if (use.begin < use.end) {
        changes[use.begin] += use.bytes;
        changes[use.end] -= use.bytes;
      }
  int64_t held = 0, most = -1, peak = 0;
  for (auto [step, change] : changes)
    if ((held += change) > most) {
      most = held;
      peak = step;
    }
  Memory memory;
  for (auto [i, node] : llvm::enumerate(model.problem.nodes))
    for (const search::MemoryUse &use : node.candidates[chosen[i]].memory) {
      if (use.begin > peak || use.end <= peak)
        continue;
      switch (model.getNodes()[i].kind) {
      case NodeInfo::Kind::Op: memory.activations += use.bytes; break;
      case NodeInfo::Kind::Parameter:
      case NodeInfo::Kind::State:
        memory.weights += use.bytes;
        memory.largest.push_back({use.bytes, model.getNodes()[i].name});
        break;
      case NodeInfo::Kind::Argument:
      case NodeInfo::Kind::Result: memory.boundary += use.bytes; break;
      case NodeInfo::Kind::Copy:
      case NodeInfo::Kind::Shared: memory.copies += use.bytes; break;
      }
    }
  llvm::stable_sort(memory.largest, [](const auto &a, const auto &b) { return a.first > b.first; });
  return memory;
}

static std::string printMemory(const Memory &memory) {
  std::string text = "weights " + printBytes(memory.weights) + ", activations " +
                     printBytes(memory.activations) + ", inputs and outputs " + printBytes(memory.boundary);
  if (memory.copies)
    text += ", copies in other layouts " + printBytes(memory.copies);
  return text;
}

std::string layout::describeMemory(const Model &model, const search::Assignment &chosen) {
  Memory memory = measureMemory(model, chosen);
  std::string text = printMemory(memory);
  for (size_t i = 0; i < memory.largest.size() && i < 3; ++i)
    text += (i ? ", " : "; largest parameters: ") + ("'" + memory.largest[i].second + "' ") +
            printBytes(memory.largest[i].first);
  return text;
}

namespace {

/// Fills a report of one answer, node by node.
class Describer {
public:
  Describer(Model &model, const search::Assignment &chosen, bool explains, LayoutReport &report)
      : model(model), chosen(chosen), explains(explains), report(report), moves(model.getNodes().size()) {}

  void addTransfers();
  void addNode(int number);
  void summarize(const search::Solution &solution);

private:
  /// A collective that is run once, in the report's sums and at the line of node `number`.
  void addCollective(const std::string &kind, double sent, int64_t times, int number) {
    auto &[count, bytes] = report.collectives[kind];
    count += times;
    sent *= static_cast<double>(times);
    bytes += sent;
    moves[number] += ", " + kind + " " + printBytes(sent);
  }
  double countStatistics(const NodeInfo &node, int32_t candidate) const;
  /// What is chosen for a node, and what it takes, in words.
  struct Choice {
    std::string layout, seconds;
    double statistics = 0; ///< bytes that the ranks of an op exchange between its stages
  };
  /// Layers have most choices in common.
  const Choice &print(const NodeInfo &node, int32_t candidate) {
    const bool isOp = node.kind == NodeInfo::Kind::Op;
    Choice &choice =
        printed[isOp ? std::pair<const void *, int32_t>(node.choices.get(), candidate)
                     : std::pair<const void *, int32_t>(node.layouts[candidate].getAsOpaquePointer(), -1)];
    if (choice.layout.empty()) {
      choice.layout = printLayout(model, node, candidate);
      if (double seconds = node.getSeconds(candidate); seconds > 0)
        choice.seconds = ", " + printSeconds(seconds);
      if (isOp)
        choice.statistics = countStatistics(node, candidate);
    }
    return choice;
  }
  void printPrediction(const search::Solution &solution);

  Model &model;
  const search::Assignment &chosen;
  const bool explains;
  LayoutReport &report;
  double compute = 0, communication = 0;
  func::FuncOp lastFunction; ///< of the last node that has one
  double *secondsOfLast = nullptr;
  std::vector<std::string> moves;                       ///< by node, what its operands need
  std::vector<std::pair<std::string, unsigned>> blocks; ///< lines in order, and how often they stand
  llvm::StringMap<size_t> blockOf;
  std::map<std::pair<const void *, int32_t>, Choice> printed;
};

/// What brings values to their users; one transfer serves all that ask for the same layout.
void Describer::addTransfers() {
  std::set<std::tuple<void *, const void *>> seen;
  for (const Transfer &transfer : model.getTransfers()) {
    ShardingAttr have = transfer.have[chosen[transfer.from]];
    ShardingAttr want = transfer.want[chosen[transfer.to]];
    // What is made as it is wanted is taken as it is, and equal copies are one.
    if (have == want || want == transfer.made[chosen[transfer.maker]] ||
        !seen.insert({transfer.value.getAsOpaquePointer(), want.getAsOpaquePointer()}).second)
      continue;
    Type element = cast<RankedTensorType>(transfer.value.getType()).getElementType();
    const ReshardPath *path = model.getResharder().find(have, want, getElementBytes(element));
    if (!path)
      continue;
    const int64_t times = transfer.moved == MovedValue::EachTurn ? model.getMesh().getNumTurns() : 1;
    const double cost = path->cost * static_cast<double>(times);
    communication += cost;
    Value value = transfer.value;
    auto function = value.getParentRegion()->getParentOfType<func::FuncOp>();
    report.predictedByFunction[function.getName().str()] += cost;
    for (const Move &move : path->moves)
      if (isCollective(move.kind) && move.ranks > 1) // what turns add up goes nowhere
        addCollective(stringify(move.kind).str(), getSentBytes(move.kind, move.bytes, move.ranks),
                      move.times * times, transfer.shownAt);
  }
}

/// What the ranks of an op exchange between its stages.
double Describer::countStatistics(const NodeInfo &node, int32_t candidate) const {
  double sent = 0;
  for (const Exchange &exchange : model.getBuilder().getStatistics(
           model.getBuilder().getRule(node.ops.front()).rule, node.choices->assignments[candidate]))
    sent += getSentBytes(exchange.kind, exchange.bytes, exchange.ranks);
  return sent;
}

void Describer::addNode(int number) {
  const NodeInfo &node = model.getNodes()[number];
  int32_t candidate = chosen[number];
  double seconds = node.getSeconds(candidate);
  compute += seconds;
  if (!node.ops.empty()) {
    auto function = node.ops.front()->getParentOfType<func::FuncOp>();
    if (function != lastFunction)
      secondsOfLast = &report.predictedByFunction[function.getName().str()];
    lastFunction = function;
    *secondsOfLast += seconds;
  }
  if (node.kind == NodeInfo::Kind::Copy || node.kind == NodeInfo::Kind::Shared)
    return;
  const Choice &choice = print(node, candidate);
  if (choice.statistics > 0)
    addCollective("statistics", choice.statistics, model.getBuilder().getTimes(node.ops.front()), number);
  const std::string &layout = choice.layout, name = model.getProgramName(node.name, node.function),
                    &needs = moves[number];
  outline::appendEscaped(name, report.pins);
  report.pins += '=';
  report.pins += layout;
  report.pins += '\n';
  const StringRef kind = getKindName(node);
  if (explains) {
    report.explanation += (kind + " '" + name + "': " + layout + choice.seconds + needs + "\n").str();
    report.chosen.push_back({kind.str(), name, layout, seconds, StringRef(needs).ltrim(", ").str()});
  }
  // The summary names what works: ops that do more than move and add, and all that communicates.
  bool isHeavy = node.kind == NodeInfo::Kind::Op && seconds > 0 &&
                 cast<dist::ShardingRuleOpInterface>(node.ops.front()).isHeavy();
  if (!isHeavy && needs.empty())
    return;
  std::string block = ("  " + kind + " " + getPattern(node.name) + ": " + layout + needs).str();
  auto [it, isNew] = blockOf.try_emplace(block, blocks.size());
  if (isNew)
    blocks.push_back({block, 0});
  ++blocks[it->second].second;
}

/// That the program is for.
static StringRef getDeviceOf(const Model &model) {
  for (const NodeInfo &node : model.getNodes())
    if (!node.ops.empty())
      return getDevice(node.ops.front()->getParentOfType<ModuleOp>());
  return "cpu";
}

void Describer::printPrediction(const search::Solution &solution) {
  std::string &out = report.summary;
  report.predictedSeconds = compute + communication;
  const std::string foreign = describeForeignTimes(model.getMachine(), getDeviceOf(model));
  if (!foreign.empty()) {
    out += foreign + "\n";
    report.explanation = foreign + "\n" + report.explanation;
  }
  out += (foreign.empty() ? "predicted time: " : "predicted time on '" + model.getMachine().name + "': ") +
         printSeconds(report.predictedSeconds) + " (computing " + printSeconds(compute) + ", communicating " +
         printSeconds(communication) + ")";
  if (solution.lowerBound && solution.cost > 0) {
    report.gap =
        static_cast<double>(solution.cost - *solution.lowerBound) / static_cast<double>(solution.cost);
    out += llvm::formatv(", at most {0:F1} % above the best layout of this model of costs", 100 * *report.gap)
               .str();
  }
  out += "\n";
}

void Describer::summarize(const search::Solution &solution) {
  std::string &out = report.summary;
  for (auto &[line, count] : blocks)
    out += line + (count > 1 ? " (" + std::to_string(count) + " times)" : "") + "\n";
  out += "memory per rank, as searched: " + printMemory(measureMemory(model, chosen)) + "\n";
  out += "bytes sent per rank:";
  for (auto &[kind, use] : report.collectives)
    out += " " + kind + " " + printBytes(use.bytes) + " in " + std::to_string(use.count) + ";";
  out += report.collectives.empty() ? " none\n" : "\n";
  printPrediction(solution);
  if (unsigned cut = model.countCutOps())
    out += llvm::formatv(
               "{0} ops have more layouts on this mesh than were searched (those that put the axes on few "
               "factors, in the mesh's order); pins reach the others\n",
               cut)
               .str();
  if (boundsMoves(model.getMesh()))
    out += llvm::formatv("between layouts that differ in more than {0} axes of this mesh, one order of "
                         "collectives was looked "
                         "at: what leaves fewer bytes first, all-gathers last\n",
                         countFreeAxes(model.getMesh()))
               .str();
}

} // namespace

void layout::describe(Model &model, const search::Solution &solution, LayoutReport &report, bool explains) {
  Describer describer(model, solution.assignment, explains, report);
  describer.addTransfers();
  for (int node = 0; node < static_cast<int>(model.getNodes().size()); ++node)
    describer.addNode(node);
  describer.summarize(solution);
}
