//===- Report.cpp - what the search chose, in words -------------------------===//
#include "Report.h"

#include "Names.h"
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
    return printAssignment(model.getRule(node.ops.front()), node.choices->assignments[candidate],
                           model.getMesh());
  return printSharding(node.layouts[candidate], model.getMesh());
}

static StringRef getKindName(const NodeInfo &node) {
  switch (node.kind) {
  case NodeInfo::Kind::Op: return node.ops.front()->getName().stripDialect();
  case NodeInfo::Kind::Parameter: return "parameter";
  case NodeInfo::Kind::Argument: return "input";
  case NodeInfo::Kind::Result: return "output";
  case NodeInfo::Kind::Copy: return "copy";
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
        memory.weights += use.bytes;
        memory.largest.push_back({use.bytes, model.getNodes()[i].name});
        break;
      case NodeInfo::Kind::Argument:
      case NodeInfo::Kind::Result: memory.boundary += use.bytes; break;
      case NodeInfo::Kind::Copy: memory.copies += use.bytes; break;
      }
    }
  llvm::stable_sort(memory.largest, [](const auto &a, const auto &b) { return a.first > b.first; });
  return memory;
}

static std::string printMemory(const Memory &memory) {
  std::string text = "weights " + printBytes(memory.weights) + ", activations " +
                     printBytes(memory.activations) + ", inputs and outputs " + printBytes(memory.boundary);
  if (memory.copies)
    text += ", gathered parameters " + printBytes(memory.copies);
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

void layout::describe(Model &model, const search::Solution &solution, LayoutReport &report) {
  const search::Assignment &chosen = solution.assignment;
  double compute = 0, communication = 0;
  std::set<std::tuple<void *, const void *>> seen;
  std::map<int, std::string> moves; // by user, what its operands need
  for (const Transfer &transfer : model.getTransfers()) {
    ShardingAttr have = transfer.have[chosen[transfer.from]];
    ShardingAttr want = transfer.want[chosen[transfer.to]];
    if (have == want || !seen.insert({transfer.value.getAsOpaquePointer(), want.getAsOpaquePointer()}).second)
      continue;
    Type element = cast<RankedTensorType>(transfer.value.getType()).getElementType();
    const ReshardPath *path = model.getResharder().find(have, want, getElementBytes(element));
    if (!path)
      continue;
    communication += path->cost;
    Value value = transfer.value;
    auto function = value.getParentRegion()->getParentOfType<func::FuncOp>();
    report.predictedByFunction[function.getName().str()] += path->cost;
    for (const Move &move : path->moves) {
      double sent = getSentBytes(move.kind, move.bytes, move.ranks) * static_cast<double>(move.times);
      if (!isCollective(move.kind))
        continue;
      auto &[count, bytes] = report.collectives[stringify(move.kind).str()];
      count += move.times;
      bytes += sent;
      moves[transfer.to] += ", " + stringify(move.kind).str() + " " + printBytes(sent);
    }
  }
  std::vector<std::pair<std::string, unsigned>> blocks; // lines in order, and how often they stand
  llvm::StringMap<size_t> blockOf;
  for (auto [i, node] : llvm::enumerate(model.getNodes())) {
    int32_t candidate = chosen[i];
    compute += node.getSeconds(candidate);
    if (!node.ops.empty())
      report.predictedByFunction[node.ops.front()->getParentOfType<func::FuncOp>().getName().str()] +=
          node.getSeconds(candidate);
    if (node.kind == NodeInfo::Kind::Copy)
      continue;
    if (node.kind == NodeInfo::Kind::Op) {
      Operation *op = node.ops.front();
      double sent = 0;
      for (const Model::Exchange &exchange :
           model.getStatistics(model.getRule(op).rule, node.choices->assignments[candidate]))
        sent += getSentBytes(exchange.kind, exchange.bytes, exchange.ranks) *
                static_cast<double>(model.getTimes(op));
      if (sent > 0) {
        auto &[count, bytes] = report.collectives["statistics"];
        count += model.getTimes(op);
        bytes += sent;
        moves[static_cast<int>(i)] += ", statistics " + printBytes(sent);
      }
    }
    std::string layout = printLayout(model, node, candidate);
    std::string name = model.getProgramName(node.name, node.function);
    report.pins += escapeName(name) + "=" + layout + "\n";
    std::string line = getKindName(node).str() + " '" + name + "': " + layout;
    if (node.getSeconds(candidate) > 0)
      line += ", " + printSeconds(node.getSeconds(candidate));
    report.explanation += line + moves[i] + "\n";
    report.chosen.push_back({getKindName(node).str(), name, layout, node.getSeconds(candidate),
                             StringRef(moves[i]).ltrim(", ").str()});
    // The summary names what works: ops that do more than move and add, and all that communicates.
    bool isHeavy = node.kind == NodeInfo::Kind::Op && node.getSeconds(candidate) > 0 &&
                   cast<dist::ShardingRuleOpInterface>(node.ops.front()).isHeavy();
    if (isHeavy || !moves[i].empty()) {
      std::string block =
          "  " + getKindName(node).str() + " " + getPattern(node.name) + ": " + layout + moves[i];
      auto [it, isNew] = blockOf.try_emplace(block, blocks.size());
      if (isNew)
        blocks.push_back({block, 0});
      ++blocks[it->second].second;
    }
  }
  report.predictedSeconds = compute + communication;
  std::string &out = report.summary;
  for (auto &[line, count] : blocks)
    out += line + (count > 1 ? " (" + std::to_string(count) + " times)" : "") + "\n";
  out += "memory per rank, as searched: " + printMemory(measureMemory(model, chosen)) + "\n";
  out += "bytes sent per rank:";
  for (auto &[kind, use] : report.collectives)
    out += " " + kind + " " + printBytes(use.bytes) + " in " + std::to_string(use.count) + ";";
  out += report.collectives.empty() ? " none\n" : "\n";
  const std::string foreign = describeForeignTimes(model.getMachine());
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
  if (unsigned cut = model.countCutOps())
    out += llvm::formatv(
               "{0} ops have more layouts on this mesh than were searched (those that put the axes on few "
               "factors, in the mesh's order); pins reach the others\n",
               cut)
               .str();
}
