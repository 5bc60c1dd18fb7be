//===- Repeats.cpp - the blocks that a model repeats ------------------------===//
#include "Repeats.h"

#include "dialects/Colossal/Colossal.h"

#include <algorithm>

using namespace mlir;
using namespace colossal;
using namespace colossal::layout;

llvm::DenseMap<Value, Origin> layout::findOrigins(func::FuncOp function) {
  llvm::DenseMap<Value, Origin> origins;
  for (BlockArgument argument : function.getArguments())
    origins[argument] = {true, false};
  for (Operation &op : function.front().without_terminator()) {
    Origin origin;
    origin.parameter = isa<ParameterOp>(op);
    for (Value operand : op.getOperands()) {
      Origin from = origins.lookup(operand);
      origin.argument |= from.argument;
      origin.parameter |= from.parameter;
    }
    for (Value result : op.getResults())
      origins[result] = origin;
  }
  return origins;
}

std::vector<Value> layout::findLiveStream(const std::vector<Operation *> &stream, int at) {
  llvm::DenseMap<Operation *, int> place;
  for (auto [i, op] : llvm::enumerate(stream))
    place[op] = i;
  std::vector<Value> live;
  for (int i = 0; i < at; ++i)
    for (Value result : stream[i]->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) {
            auto found = place.find(user);
            return found != place.end() && found->second >= at;
          }))
        live.push_back(result);
  return live;
}

namespace {

class Cutter {
public:
  explicit Cutter(func::FuncOp function) : origins(findOrigins(function)) {
    for (Operation &op : function.front().without_terminator())
      if (llvm::any_of(op.getResults(), [&](Value result) { return origins.lookup(result).isStream(); })) {
        place[&op] = cut.stream.size();
        cut.stream.push_back(&op);
      }
    for (Operation *op : cut.stream)
      signatures.push_back(sign(op));
    // A value crosses the cuts after the operation that makes it up to the last one that uses it.
    crossing.assign(cut.stream.size() + 1, 0);
    for (auto [i, op] : llvm::enumerate(cut.stream))
      for (Value result : op->getResults()) {
        int last = i;
        for (Operation *user : result.getUsers())
          if (auto found = place.find(user); found != place.end())
            last = std::max(last, found->second);
        if (last > static_cast<int>(i)) {
          ++crossing[i + 1];
          --crossing[last + 1];
        }
      }
    for (size_t i = 1; i < crossing.size(); ++i)
      crossing[i] += crossing[i - 1];
  }

  UnitCut run() {
    divide(0, cut.stream.size());
    return std::move(cut);
  }

private:
  struct Repeat {
    int start = 0, period = 0, count = 0;
    int covered() const { return period * count; }
  };

  uint64_t sign(Operation *op) {
    llvm::hash_code hash =
        llvm::hash_combine(op->getName().getAsOpaquePointer(), op->getAttrDictionary().getAsOpaquePointer());
    for (Value operand : op->getOperands()) {
      Origin origin = origins.lookup(operand);
      hash =
          llvm::hash_combine(hash, operand.getType().getAsOpaquePointer(), origin.argument, origin.parameter);
    }
    for (Value result : op->getResults())
      hash = llvm::hash_combine(hash, result.getType().getAsOpaquePointer());
    return hash;
  }

  /// Whether the op is a product with work of its own, as every layer has some.
  bool isProduct(int i) const {
    auto kernel = dyn_cast<KernelOpInterface>(cut.stream[i]);
    switch (kernel ? kernel.getKernelKind() : KernelKind::Element) {
    case KernelKind::Contraction:
    case KernelKind::Convolution:
    case KernelKind::Attention: return true;
    default: return false;
    }
  }

  /// Is every unit of the repeat connected as the first is?
  bool isConnectedAlike(const Repeat &repeat) const {
    for (int k = 1; k < repeat.count; ++k)
      for (int j = 0; j < repeat.period; ++j) {
        int first = repeat.start + j, other = first + k * repeat.period;
        for (auto [a, b] :
             llvm::zip_equal(cut.stream[first]->getOperands(), cut.stream[other]->getOperands())) {
          if (!origins.lookup(a).isStream())
            continue;
          int from = place.lookup(a.getDefiningOp()), at = place.lookup(b.getDefiningOp());
          bool isInside = from >= repeat.start;
          // Inside: the same place of its own unit. From outside: a value that all units share, or that the
          // unit before gives.
          if (isInside ? at - from != k * repeat.period
                       : a != b && (at < other - j - repeat.period || at >= other - j))
            return false;
        }
      }
    return true;
  }

  Repeat find(int low, int high) const {
    Repeat best;
    for (int period = 1; period <= (high - low) / 2; ++period) {
      int run = 0;
      for (int i = low; i + period <= high; ++i) {
        if (i + period < high && signatures[i] == signatures[i + period]) {
          ++run;
          continue;
        }
        Repeat repeat{i - run, period, run / period + 1};
        run = 0;
        if (repeat.count < 2 || repeat.covered() <= best.covered())
          continue;
        int length = (i - repeat.start) + period;
        int products = 0;
        for (int j = 0; j < period; ++j)
          products += isProduct(repeat.start + j);
        if (products < 2)
          continue;
        // The run may begin anywhere in what is left over: where the fewest values cross.
        int start = repeat.start;
        for (int shift = 1; shift <= length - repeat.covered() && shift < period; ++shift)
          if (crossing[repeat.start + shift] < crossing[start])
            start = repeat.start + shift;
        repeat.start = start;
        if (crossing[start] <= kMaxBoundary && isConnectedAlike(repeat))
          best = repeat;
      }
    }
    return best;
  }

  void divide(int low, int high) {
    if (low >= high)
      return;
    Repeat repeat = find(low, high);
    if (repeat.count < 2) {
      cut.units.push_back({low, high, cut.kinds++});
      return;
    }
    divide(low, repeat.start);
    int kind = cut.kinds++;
    for (int k = 0; k < repeat.count; ++k)
      cut.units.push_back({repeat.start + k * repeat.period, repeat.start + (k + 1) * repeat.period, kind});
    divide(repeat.start + repeat.covered(), high);
  }

  llvm::DenseMap<Value, Origin> origins;
  llvm::DenseMap<Operation *, int> place;
  std::vector<uint64_t> signatures;
  std::vector<int> crossing; ///< per place: stream values made before and used at or after it
  UnitCut cut;
};

} // namespace

UnitCut layout::findUnits(func::FuncOp function) {
  return Cutter(function).run();
}
