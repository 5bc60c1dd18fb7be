//===- UnitCut.cpp - a function's stream as units ---------------------------===//
#include "UnitCut.h"

#include "colossal/Outline/Origins.h"
#include "colossal/Outline/RepeatedBlocks.h"
#include "dialects/Colossal/Colossal.h"

#include <algorithm>
#include <map>
#include <numeric>

using namespace mlir;
using namespace colossal;
using namespace colossal::factors;

std::vector<mlir::Operation *> factors::findStream(func::FuncOp function) {
  llvm::DenseMap<Value, outline::Origin> origins = outline::findOrigins(function);
  std::vector<mlir::Operation *> stream;
  for (mlir::Operation &op : function.front().without_terminator())
    if (llvm::any_of(op.getResults(), [&](Value result) { return origins.lookup(result).isStream(); }))
      stream.push_back(&op);
  return stream;
}

std::vector<Value> factors::findLiveStream(const std::vector<mlir::Operation *> &stream, int at) {
  llvm::DenseMap<mlir::Operation *, int> place;
  for (auto [i, op] : llvm::enumerate(stream))
    place[op] = i;
  std::vector<Value> live;
  for (int i = 0; i < at; ++i)
    for (Value result : stream[i]->getResults())
      if (llvm::any_of(result.getUsers(), [&](mlir::Operation *user) {
            auto found = place.find(user);
            return found != place.end() && found->second >= at;
          }))
        live.push_back(result);
  return live;
}

namespace {

class Cutter {
public:
  explicit Cutter(func::FuncOp function) : program(findStream(function)) {
    for (auto [i, op] : llvm::enumerate(program))
      number[op] = i;
    findInstances(outline::findRepeatedBlocks(function));
  }
  UnitCut run();

private:
  /// Neighbours in the stream that are one instance of a block, or of none (-1).
  struct Segment {
    int block = -1, instance = 0;
    std::vector<mlir::Operation *> ops;
  };
  /// Of an operation: its block, which instance of it, and its place there.
  struct Home {
    int block = -1, instance = 0, place = 0;
  };

  void findInstances(const std::vector<outline::RepeatedBlock> &blocks);
  void collectSegments();
  void findUses();
  /// How the operations [begin, end) of the stream, an instance, are tied to what is around them; empty where
  /// too many values cross.
  std::vector<int> describe(int begin, int end) const;
  void addOther(int begin, int end);
  int findCut(int begin, int end) const;
  int countProducts(int begin, int end) const;

  std::vector<mlir::Operation *> program;               ///< the stream in program order
  llvm::DenseMap<mlir::Operation *, int> number, place; ///< in the program, and in cut.stream
  llvm::DenseMap<mlir::Operation *, Home> homes;
  std::map<std::pair<int, int>, int> sizes; ///< of instances: operations of the stream
  std::vector<Segment> segments;
  std::vector<int> lastUse; ///< by place in the stream: the last that uses a result, or itself
  /// By place in the stream: how many values of before it those behind use, and their elements.
  std::vector<int64_t> live, liveElements;
  int firstGiven = 0; ///< the place that makes the first value which the function gives back
  UnitCut cut;
};

void Cutter::findInstances(const std::vector<outline::RepeatedBlock> &blocks) {
  for (auto [b, block] : llvm::enumerate(blocks))
    for (auto [i, instance] : llvm::enumerate(block.instances))
      for (auto [j, op] : llvm::enumerate(instance))
        if (number.contains(op)) {
          homes[op] = {static_cast<int>(b), static_cast<int>(i), static_cast<int>(j)};
          ++sizes[{b, i}];
        }
}

/// What stands inside of an instance without being its own is what several share: it comes before the first
/// of them.
void Cutter::collectSegments() {
  std::map<int, size_t> firstOf; // by block: its first instance's segment
  std::vector<mlir::Operation *> early;
  size_t open = 0; // operations that the current instance still lacks
  for (mlir::Operation *op : program) {
    Home home = homes.lookup(op);
    if (home.block < 0 && open > 0) {
      Segment &current = segments.back();
      size_t first = firstOf[current.block];
      if (first == 0 || segments[first - 1].block >= 0) {
        segments.insert(segments.begin() + first, Segment());
        for (auto &[block, at] : firstOf)
          at += at >= first;
        ++first;
      }
      // As early as its operands allow: values that all units hand on come before those that each makes anew.
      std::vector<mlir::Operation *> &before = segments[first - 1].ops;
      size_t at = before.size();
      while (at > 0 && !llvm::is_contained(before[at - 1]->getUsers(), op))
        --at;
      before.insert(before.begin() + static_cast<std::ptrdiff_t>(at), op);
      continue;
    }
    bool isSame = !segments.empty() && segments.back().block == home.block &&
                  (home.block < 0 || segments.back().instance == home.instance);
    if (!isSame) {
      segments.push_back({home.block, home.instance, {}});
      if (home.block >= 0) {
        firstOf.try_emplace(home.block, segments.size() - 1);
        open = sizes[{home.block, home.instance}];
      }
    }
    segments.back().ops.push_back(op);
    if (home.block >= 0)
      --open;
  }
  for (const Segment &segment : segments)
    for (mlir::Operation *op : segment.ops) {
      place[op] = cut.stream.size();
      cut.stream.push_back(op);
      cut.places.push_back(number[op]);
    }
}

void Cutter::findUses() {
  firstGiven = static_cast<int>(cut.stream.size());
  if (!cut.stream.empty())
    for (Value given : cut.stream.front()->getBlock()->getTerminator()->getOperands())
      if (auto found = place.find(given.getDefiningOp()); found != place.end())
        firstGiven = std::min(firstGiven, found->second);
  live.resize(cut.stream.size() + 1);
  liveElements.resize(live.size());
  for (auto [i, op] : llvm::enumerate(cut.stream)) {
    int ofOp = i;
    for (Value result : op->getResults()) {
      int last = i;
      for (mlir::Operation *user : result.getUsers())
        if (auto found = place.find(user); found != place.end())
          last = std::max(last, found->second);
      ofOp = std::max(ofOp, last);
      ++live[i + 1];
      --live[last + 1];
      auto type = dyn_cast<RankedTensorType>(result.getType());
      const int64_t elements = type ? type.getNumElements() : 0;
      liveElements[i + 1] += elements;
      liveElements[last + 1] -= elements;
    }
    lastUse.push_back(ofOp);
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  std::partial_sum(liveElements.begin(), liveElements.end(), liveElements.begin());
}

static bool isProduct(mlir::Operation *op) {
  auto ruled = dyn_cast<dist::ShardingRuleOpInterface>(op);
  return ruled && ruled.isHeavy();
}

int Cutter::countProducts(int begin, int end) const {
  return static_cast<int>(std::count_if(cut.stream.begin() + begin, cut.stream.begin() + end, isProduct));
}

/// A stretch in which nothing repeats is cut where it hands on one value alone, so that stages can begin
/// there.
void Cutter::addOther(int begin, int end) {
  for (int at = begin; at < end; begin = at) {
    at = findCut(begin, end);
    cut.units.push_back({begin, at, cut.kinds++});
  }
}

/// Where the first part of [begin, end) ends: before a product, behind what belongs to that before it. Of the
/// first place and those with one product more, the one with the smallest value. `end`: it is not cut. What
/// the function gives back, of which a loss is, stays in one part with all behind it.
int Cutter::findCut(int begin, int end) const {
  int best = end, most = 0;
  for (int at = begin, single = begin; at < end; ++at) {
    if (live[at] == 1 && at <= firstGiven)
      single = at;
    if (!isProduct(cut.stream[at]) || single == begin)
      continue;
    const int products = countProducts(begin, single);
    if (products < kMinProducts || countProducts(single, end) < kMinProducts)
      continue;
    if (best == end)
      most = products + 1;
    if (products > most)
      break;
    if (best == end || liveElements[single] < liveElements[best])
      best = single;
  }
  return best;
}

std::vector<int> Cutter::describe(int begin, int end) const {
  std::vector<int> text;
  int in = 0, out = 0;
  for (int i = begin; i < end; ++i)
    text.push_back(homes.lookup(cut.stream[i]).place);
  if (countProducts(begin, end) < kMinProducts)
    return {};
  auto usersFrom = [&](Value value, int from, int to) {
    std::vector<std::pair<int, int>> uses;
    for (OpOperand &use : value.getUses())
      if (auto found = place.find(use.getOwner());
          found != place.end() && found->second >= from && found->second < to)
        uses.push_back({found->second, static_cast<int>(use.getOperandNumber())});
    std::sort(uses.begin(), uses.end());
    return uses;
  };
  int count = static_cast<int>(cut.stream.size());
  for (int i = 0; i < end; ++i) {
    if (lastUse[i] < begin || (i >= begin && lastUse[i] < end))
      continue;
    for (Value result : cut.stream[i]->getResults()) {
      bool passes = !usersFrom(result, end, count).empty();
      if (i >= begin) {
        if (passes) {
          ++out;
          text.insert(text.end(),
                      {-1, i - begin, static_cast<int>(cast<OpResult>(result).getResultNumber())});
        }
        continue;
      }
      auto uses = usersFrom(result, begin, end);
      if (uses.empty() && !passes)
        continue;
      ++in;
      out += passes;
      text.push_back(passes ? -3 : -2);
      for (auto [at, operand] : uses)
        text.insert(text.end(), {at - begin, operand});
    }
  }
  if (in > kMaxBoundary || out > kMaxBoundary)
    return {};
  return text;
}

UnitCut Cutter::run() {
  collectSegments();
  findUses();
  // Neighbouring instances that are described alike are units of one kind; all else lies between such runs.
  int begin = 0, otherBegin = 0;
  for (size_t s = 0; s < segments.size();) {
    int at = begin, block = segments[s].block;
    std::vector<std::pair<int, int>> run; // the units' ends
    std::vector<int> first;
    size_t next = s;
    for (; block >= 0 && next < segments.size() && segments[next].block == block; ++next) {
      int end = at + static_cast<int>(segments[next].ops.size());
      std::vector<int> text = describe(at, end);
      if (run.empty())
        first = text;
      if (text.empty() || text != first)
        break;
      run.push_back({at, end});
      at = end;
    }
    if (run.size() < 2) {
      begin += static_cast<int>(segments[s++].ops.size());
      continue;
    }
    addOther(otherBegin, begin);
    for (auto [from, to] : run)
      cut.units.push_back({from, to, cut.kinds});
    ++cut.kinds;
    begin = otherBegin = at;
    s = next;
  }
  addOther(otherBegin, static_cast<int>(cut.stream.size()));
  return std::move(cut);
}

} // namespace

UnitCut factors::cutUnits(func::FuncOp function) {
  return Cutter(function).run();
}
