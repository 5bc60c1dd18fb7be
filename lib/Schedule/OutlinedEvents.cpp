//===- OutlinedEvents.cpp - events of instructions that become one text -----===//
#include "OutlinedEvents.h"
#include "Messages.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringMap.h"

#include <array>
#include <map>

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

static llvm::ArrayRef<int64_t> getWaits(Operation *op) {
  auto waits = op->getAttrOfType<DenseI64ArrayAttr>("waits");
  return waits ? waits.asArrayRef() : llvm::ArrayRef<int64_t>();
}

static int64_t getNumber(Operation *op, llvm::StringRef name) {
  auto number = op->getAttrOfType<IntegerAttr>(name);
  return number ? number.getInt() : 0;
}

static void setWaits(Operation *op, llvm::ArrayRef<int64_t> waits) {
  if (waits.empty())
    op->removeAttr("waits");
  else
    op->setAttr("waits", DenseI64ArrayAttr::get(op->getContext(), waits));
}

OutlinedEvents::OutlinedEvents(plan::ProgramOp program, std::vector<Operation *> items) : program(program) {
  llvm::DenseSet<Operation *> own(items.begin(), items.end());
  // Events of messages, and of instructions that stand in repeats.
  llvm::DenseSet<int64_t> fixed;
  program.walk([&](Operation *op) {
    if (own.contains(op) && getNumber(op, "queue") != kMessageQueue)
      return;
    fixed.insert(getWaits(op).begin(), getWaits(op).end());
    fixed.insert(getNumber(op, "signals"));
  });
  fixed.erase(0);
  for (auto [i, op] : llvm::enumerate(items)) {
    waits.emplace_back(getWaits(op));
    signals.push_back(getNumber(op, "signals"));
    queues.push_back(getNumber(op, "queue"));
    if (signals.back())
      signallers[signals.back()] = i;
    isFixed.push_back(fixed.contains(signals.back()) ||
                      llvm::any_of(waits.back(), [&](int64_t event) { return fixed.contains(event); }));
  }
}

int64_t OutlinedEvents::resolve(int64_t event) const {
  auto found = aliases.find(event);
  return found == aliases.end() ? event : found->second;
}

std::optional<llvm::SmallVector<uint64_t>> OutlinedEvents::getDistances(size_t item) const {
  if (isFixed[item])
    return std::nullopt;
  llvm::SmallVector<uint64_t> distances;
  for (int64_t event : waits[item]) {
    auto signaller = signallers.find(event);
    if (signaller == signallers.end() || signaller->second >= item)
      return std::nullopt;
    distances.push_back(item - signaller->second);
  }
  llvm::sort(distances);
  return distances;
}

std::optional<std::vector<llvm::SmallVector<int64_t>>>
OutlinedEvents::findWaits(const Repetition &repetition) const {
  const size_t begin = repetition.starts.front();
  // Of an item, its place in the text, if it is in an instance.
  auto getPlace = [&](size_t item) -> std::optional<size_t> {
    auto next = llvm::upper_bound(repetition.starts, item);
    if (next == repetition.starts.begin() || item - *std::prev(next) >= repetition.length)
      return std::nullopt;
    return item - *std::prev(next);
  };
  std::vector<llvm::SmallVector<int64_t>> text(repetition.length);
  for (size_t place = 0; place < repetition.length; ++place) {
    llvm::SmallSet<int64_t, 4> found;
    std::map<int64_t, size_t> last; // by queue, the last item outside
    for (size_t start : repetition.starts)
      for (int64_t event : waits[start + place]) {
        const size_t signaller = signallers.find(event)->second;
        if (std::optional<size_t> inside = getPlace(signaller)) {
          // What merge() will make one event.
          for (size_t other : repetition.starts)
            if (signals[other + *inside]) {
              found.insert(resolve(signals[other + *inside]));
              break;
            }
        } else if (int64_t known = resolve(event); known != event) {
          // The first of those that it stands for signals it first.
          if (signallers.find(known)->second >= begin)
            return std::nullopt;
          found.insert(known);
        } else if (signaller < begin) {
          size_t &item = last.try_emplace(queues[signaller], signaller).first->second;
          item = std::max(item, signaller);
        } else {
          return std::nullopt; // of one instance only
        }
      }
    for (auto [queue, item] : last)
      found.insert(signals[item]);
    text[place].assign(found.begin(), found.end());
    llvm::sort(text[place]);
  }
  return text;
}

std::vector<int64_t> OutlinedEvents::merge(const Repetition &repetition) {
  std::vector<int64_t> events(repetition.length, 0);
  for (size_t place = 0; place < repetition.length; ++place)
    for (size_t start : repetition.starts)
      if (int64_t event = signals[start + place]) {
        if (!events[place])
          events[place] = event;
        aliases[event] = events[place];
      }
  return events;
}

namespace {
constexpr unsigned kQueues = 3;
/// How many instructions of each queue have ended for certain.
using Clock = std::array<int64_t, kQueues>;

/// Walks a program as it runs, and finds which waits tell more than is known without them.
class Walk {
public:
  explicit Walk(llvm::ArrayRef<plan::FunctionOp> functions) {
    for (plan::FunctionOp function : functions)
      bodies[function.getSymName()] = &function.getBody().front();
  }
  void visit(Block &block) {
    for (Operation &op : block) {
      if (auto call = dyn_cast<plan::CallOp>(op)) {
        if (Block *body = bodies.lookup(call.getCallee()))
          visit(*body);
      } else if (auto repeat = dyn_cast<plan::RepeatOp>(op)) {
        // From the third on rounds know what the one before did.
        for (int64_t round = 0; round < std::min<int64_t>(repeat.getCount(), 3); ++round)
          visit(repeat.getBody().front());
      } else if (op.getNumResults() == 0 && !isa<plan::InputOp, plan::OutputOp, plan::FixedInputOp>(op)) {
        enqueue(&op);
      }
    }
  }
  llvm::DenseMap<Operation *, llvm::SmallSet<int64_t, 2>> needed;

private:
  void enqueue(Operation *op) {
    const int64_t queue = getNumber(op, "queue");
    Clock &clock = reached[queue];
    llvm::SmallVector<int64_t> waits(getWaits(op));
    auto getSum = [&](int64_t event) {
      const Clock &ended = ends[event];
      return ended[0] + ended[1] + ended[2];
    };
    llvm::stable_sort(waits, [&](int64_t a, int64_t b) { return getSum(a) > getSum(b); });
    for (int64_t event : waits) {
      const Clock &ended = ends[event];
      for (unsigned q = 0; q < kQueues; ++q)
        if (ended[q] > clock[q]) {
          needed[op].insert(event);
          clock[q] = ended[q];
        }
    }
    clock[queue] = ++counts[queue];
    if (int64_t event = getNumber(op, "signals"))
      ends[event] = clock;
  }

  llvm::StringMap<Block *> bodies;
  std::array<Clock, kQueues> reached = {};
  Clock counts = {};
  llvm::DenseMap<int64_t, Clock> ends;
};
} // namespace

void OutlinedEvents::dropImplied(llvm::ArrayRef<plan::FunctionOp> functions) {
  Walk walk(functions);
  walk.visit(program.getBody().front());
  llvm::SmallVector<Operation *> all(functions.begin(), functions.end());
  all.push_back(program);
  llvm::DenseSet<int64_t> waited;
  for (Operation *owner : all)
    owner->walk([&](Operation *op) {
      llvm::SmallVector<int64_t> kept;
      for (int64_t event : getWaits(op))
        if (auto found = walk.needed.find(op); found != walk.needed.end() && found->second.contains(event))
          kept.push_back(event);
      if (kept.size() != getWaits(op).size())
        setWaits(op, kept);
      waited.insert(kept.begin(), kept.end());
    });
  for (Operation *owner : all)
    owner->walk([&](Operation *op) {
      if (int64_t event = getNumber(op, "signals"); event && !waited.contains(event))
        op->removeAttr("signals");
    });
}

void OutlinedEvents::finish(llvm::ArrayRef<plan::FunctionOp> functions) {
  if (aliases.empty())
    return;
  llvm::SmallVector<Operation *> all(functions.begin(), functions.end());
  all.push_back(program);
  for (Operation *owner : all)
    owner->walk([&](Operation *op) {
      llvm::SmallVector<int64_t> resolved;
      for (int64_t event : getWaits(op))
        resolved.push_back(resolve(event));
      llvm::sort(resolved);
      resolved.erase(llvm::unique(resolved), resolved.end());
      if (llvm::ArrayRef<int64_t>(resolved) != getWaits(op))
        setWaits(op, resolved);
    });
  dropImplied(functions);
}
