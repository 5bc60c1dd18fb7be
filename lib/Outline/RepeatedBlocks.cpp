//===- RepeatedBlocks.cpp - what a function does again and again ------------===//
//
// Ops become words, one for each kind of op that is alike; repetitions are runs in which word i equals word i
// + period. Then the operands decide which of them are instances, and where the block begins.
//
//===----------------------------------------------------------------------===//
#include "colossal/Outline/RepeatedBlocks.h"

#include "dialects/Colossal/AlikeOps.h"
#include "dialects/Colossal/Colossal.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::outline;

/// Longer blocks are not looked for: time grows with it, and no model's layer is near it.
static constexpr unsigned kMaxPeriod = 4096;

bool outline::isSource(Operation *op) {
  // Each layer's random values are of a stream of its own, as its parameters are.
  if (isa<RandomOp>(op))
    return llvm::all_of(op->getOperands(), [](Value operand) { return operand.getDefiningOp<ConstantOp>(); });
  return isa<ParameterOp, ConstantOp>(op);
}

/// Bytes of a tensor; 0 for other types.
static double getBytes(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type
             ? static_cast<double>(type.getNumElements() * llvm::divideCeil(type.getElementTypeBitWidth(), 8))
             : 0;
}

static bool isHeavy(Operation *op) {
  auto ruled = dyn_cast<dist::ShardingRuleOpInterface>(op);
  return ruled && ruled.isHeavy();
}

static Attribute getConstant(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  return constant ? constant.getValue() : Attribute();
}

namespace {
/// A repetition: ops [begin, begin + count * period).
struct Run {
  unsigned begin = 0, period = 0, count = 0;
  unsigned saved() const { return (count - 1) * period; }
};

class Finder {
public:
  explicit Finder(func::FuncOp function);
  std::vector<RepeatedBlock> run();

private:
  SmallVector<Operation *> ops; ///< without sources and terminator
  SmallVector<unsigned> words;  ///< equal for ops that are alike
  llvm::DenseMap<Operation *, unsigned> position;
  std::vector<double> bytesAcross;   ///< bytes that are alive between op i - 1 and op i, sources left out
  std::vector<unsigned> heavyBefore; ///< heavy ops among the first i

  /// What an operand is, whichever block its op stands in.
  struct Operand {
    const void *constant = nullptr; ///< its value, or null
    unsigned position = ~0u;        ///< of the op that gives it; ~0u: none of `ops` does
    unsigned result = 0;            ///< of that op
    unsigned value = 0;             ///< a number for the value
  };
  std::vector<Operand> operands;      ///< of all ops, in order
  std::vector<unsigned> firstOperand; ///< by op, its first in `operands`, and one past all

  void measureCuts();
  /// What the operands of ops [begin, begin + size) are, in the sense of RepeatedBlocks.h; equal for
  /// instances.
  std::vector<uint64_t> describe(unsigned begin, unsigned size) const;
  /// The repetition in [begin, end) that leaves the fewest ops, or one with count 0.
  Run findBest(unsigned begin, unsigned end) const;
  /// The instances among the ops [begin, end), whose words repeat with `period`, at the rotation with the
  /// narrowest cut.
  Run confirm(unsigned begin, unsigned end, unsigned period) const;
  void readOperands();
  /// Saves at least two heavy ops. Ops that are alike are heavy or not alike, so where a stretch of them is
  /// not worth it, no part of it with that period is.
  bool isWorthIt(const Run &run) const {
    return (heavyBefore[run.begin + run.period] - heavyBefore[run.begin]) * (run.count - 1) >= 2;
  }
  double getCutBytes(const Run &run) const { return bytesAcross[run.begin + run.period]; }
  void collect(unsigned begin, unsigned end, std::vector<RepeatedBlock> &blocks) const;
};
} // namespace

/// Ops that several blocks may share, such as masks and tables of angles: all that they need is cheap, and
/// either two ops use them or only such ops do. Exporters compute them where the first layer uses them.
static llvm::DenseSet<Operation *> findShared(Block &body) {
  llvm::DenseSet<Operation *> cheap, shared;
  for (Operation &op : body.without_terminator()) {
    auto isCheap = [&](Value operand) {
      Operation *from = operand.getDefiningOp();
      return !from || isSource(from) || cheap.contains(from);
    };
    if (!isHeavy(&op) && !op.getNumRegions() && !isa<func::CallOp>(op) &&
        llvm::all_of(op.getOperands(), isCheap))
      cheap.insert(&op);
  }
  for (Operation &op : llvm::reverse(body.without_terminator())) {
    if (!cheap.contains(&op))
      continue;
    auto isOther = [first = op.user_begin()](Operation *user) { return user != *first; };
    if (llvm::any_of(op.getUsers(), isOther) ||
        llvm::all_of(op.getUsers(), [&](Operation *user) { return shared.contains(user); }))
      shared.insert(&op);
  }
  return shared;
}

Finder::Finder(func::FuncOp function) {
  Block &body = function.front();
  llvm::DenseSet<Operation *> shared = findShared(body);
  llvm::DenseMap<Operation *, unsigned, AlikeInfo> known;
  unsigned numWords = 0;
  auto getWord = [&](Operation *op) {
    // Ops with regions or calls are never alike: nothing here looks into them.
    if (op->getNumRegions() || isa<func::CallOp>(op))
      return numWords++;
    auto [place, isNew] = known.try_emplace(op, numWords);
    numWords += isNew;
    return place->second;
  };
  auto add = [&](Operation *op) {
    position[op] = ops.size();
    ops.push_back(op);
    words.push_back(getWord(op));
  };
  for (Operation &op : body.without_terminator())
    if (!isSource(&op) && shared.contains(&op))
      add(&op);
  for (Operation &op : body.without_terminator())
    if (!isSource(&op) && !shared.contains(&op))
      add(&op);
  measureCuts();
  heavyBefore.push_back(0);
  for (Operation *op : ops)
    heavyBefore.push_back(heavyBefore.back() + isHeavy(op));
}

void Finder::measureCuts() {
  // What begins and ends to be alive there: added up in the end, since values of training live long.
  std::vector<double> change(ops.size() + 2, 0);
  for (auto [i, op] : llvm::enumerate(ops))
    for (Value result : op->getResults()) {
      unsigned last = i;
      for (Operation *user : result.getUsers())
        last = std::max<unsigned>(last, position.count(user) ? position[user] : ops.size());
      if (last == i)
        continue;
      // A value that all later blocks read is no boundary of one of them: it counts for the longest period
      // only.
      change[i + 1] += getBytes(result);
      change[std::min<unsigned>(last, i + kMaxPeriod) + 1] -= getBytes(result);
    }
  bytesAcross.assign(ops.size() + 1, 0);
  for (unsigned at = 1; at <= ops.size(); ++at)
    bytesAcross[at] = bytesAcross[at - 1] + change[at];
}

void Finder::readOperands() {
  llvm::DenseMap<Value, unsigned> numbers;
  for (Operation *op : ops) {
    firstOperand.push_back(static_cast<unsigned>(operands.size()));
    for (Value value : op->getOperands()) {
      Operand &operand = operands.emplace_back();
      if (Attribute constant = getConstant(value)) {
        operand.constant = constant.getAsOpaquePointer();
        continue;
      }
      operand.value = numbers.try_emplace(value, numbers.size()).first->second;
      Operation *from = value.getDefiningOp();
      if (auto at = from ? position.find(from) : position.end(); at != position.end()) {
        operand.position = at->second;
        operand.result = cast<OpResult>(value).getResultNumber();
      }
    }
  }
  firstOperand.push_back(static_cast<unsigned>(operands.size()));
}

std::vector<uint64_t> Finder::describe(unsigned begin, unsigned size) const {
  std::vector<uint64_t> text;
  llvm::SmallDenseMap<unsigned, unsigned, 32> outside;
  const unsigned first = firstOperand[begin], last = firstOperand[begin + size];
  text.reserve(2 * (last - first));
  for (const Operand &operand : ArrayRef(operands).slice(first, last - first)) {
    if (operand.constant) {
      text.push_back(~uint64_t(0));
      text.push_back(reinterpret_cast<uintptr_t>(operand.constant));
    } else if (operand.position != ~0u && operand.position >= begin) {
      text.push_back(uint64_t(1) << 32 | (operand.position - begin));
      text.push_back(operand.result);
    } else {
      text.push_back(outside.try_emplace(operand.value, outside.size()).first->second);
    }
  }
  return text;
}

Run Finder::confirm(unsigned begin, unsigned end, unsigned period) const {
  Run best;
  unsigned most = 0; // instances that any rotation has; one may be given up for a narrower cut
  for (unsigned start = begin; start < begin + period; ++start) {
    unsigned count = (end - start) / period;
    double bytes = count < 2 ? 0 : bytesAcross[start + period];
    if (count < 2 || count + 1 < most)
      break;
    if (best.count && bytes >= getCutBytes(best))
      continue;
    // The longest stretch of equal descriptions.
    Run found, stretch;
    std::vector<uint64_t> last;
    for (unsigned i = 0; i < count; ++i) {
      std::vector<uint64_t> text = describe(start + i * period, period);
      if (stretch.count && text == last)
        ++stretch.count;
      else
        stretch = {start + i * period, period, 1};
      last = std::move(text);
      if (stretch.count > found.count)
        found = stretch;
    }
    if (found.count < 2 || found.count + 1 < most)
      continue;
    best = found;
    most = std::max(most, found.count);
  }
  return best;
}

Run Finder::findBest(unsigned begin, unsigned end) const {
  Run best;
  // Repetitions of a period leave at least one block: longer periods cannot save more than what is found
  // already.
  for (unsigned period = 1;
       period <= std::min((end - begin) / 2, kMaxPeriod) && best.saved() + period < end - begin; ++period) {
    // A run of equal words that is long enough holds a multiple of the period: only there runs are looked
    // for.
    for (unsigned at = begin; at + period < end; at += period) {
      if (words[at] != words[at + period])
        continue;
      unsigned from = at, to = at + 1; // the run is [from, to)
      while (from > begin && words[from - 1] == words[from - 1 + period])
        --from;
      while (to + period < end && words[to] == words[to + period])
        ++to;
      if (unsigned stretch = to - from + period; to - from >= period &&
                                                 (stretch / period - 1) * period > best.saved() &&
                                                 isWorthIt({from, period, stretch / period})) {
        Run found = confirm(from, from + stretch, period);
        if (found.count && found.saved() > best.saved() && isWorthIt(found))
          best = found;
      }
      while (at + period < to)
        at += period;
    }
  }
  return best;
}

void Finder::collect(unsigned begin, unsigned end, std::vector<RepeatedBlock> &blocks) const {
  if (end - begin < 2)
    return;
  Run best = findBest(begin, end);
  if (!best.count)
    return;
  collect(begin, best.begin, blocks);
  RepeatedBlock &block = blocks.emplace_back();
  for (unsigned i = 0; i < best.count; ++i) {
    ArrayRef<Operation *> instance = ArrayRef(ops).slice(best.begin + i * best.period, best.period);
    block.instances.emplace_back(instance.begin(), instance.end());
  }
  collect(best.begin + best.count * best.period, end, blocks);
}

std::vector<RepeatedBlock> Finder::run() {
  std::vector<RepeatedBlock> blocks;
  readOperands();
  collect(0, ops.size(), blocks);
  return blocks;
}

std::vector<RepeatedBlock> outline::findRepeatedBlocks(func::FuncOp function) {
  return Finder(function).run();
}

SmallVector<Value> outline::getOutsideOperands(ArrayRef<Operation *> instance) {
  llvm::DenseSet<Operation *> inside(instance.begin(), instance.end());
  llvm::DenseSet<Value> seen;
  SmallVector<Value> outside;
  for (Operation *op : instance)
    for (Value operand : op->getOperands())
      if (!getConstant(operand) && !inside.contains(operand.getDefiningOp()) && seen.insert(operand).second)
        outside.push_back(operand);
  return outside;
}
