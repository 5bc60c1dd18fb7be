//===- Recompute.cpp - which values a backward pass makes again -------------===//
#include "colossal/Autodiff/Recompute.h"

#include "colossal/Outline/OpNames.h"
#include "dialects/Colossal/Colossal.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace colossal;

std::optional<Recompute> colossal::parseRecompute(StringRef text) {
  return llvm::StringSwitch<std::optional<Recompute>>(text)
      .Case("none", Recompute::None)
      .Case("selective", Recompute::Selective)
      .Case("full", Recompute::Full)
      .Default(std::nullopt);
}

StringRef colossal::describe(Recompute recompute) {
  switch (recompute) {
  case Recompute::None: return "none";
  case Recompute::Selective: return "selective";
  case Recompute::Full: return "full";
  }
  llvm_unreachable("a kind of recomputation");
}

static double getBytes(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  const int64_t ofElement = type ? (type.getElementTypeBitWidth() + 7) / 8 : 0;
  return type ? static_cast<double>(type.getNumElements() * ofElement) : 0;
}

/// What takes no memory of a step, or stays in it anyway: parameters, constants and what is counted up.
static bool isSource(Operation *op) {
  return op->getNumOperands() == 0 && !isa<RandomOp>(op);
}

namespace {
/// The forward pass, by the numbers of its ops.
class Segments {
public:
  Segments(Operation *lastForward, Recompute what);
  /// Chooses the cuts.
  void choose();
  /// Whether the value of a forward op is still there when the backward pass reads it.
  bool isKept(Value value) const;
  /// Whether `value` is of a forward op.
  bool isForward(Value value) const {
    Operation *op = value.getDefiningOp();
    return op && position.contains(op);
  }

private:
  /// A value of the forward pass.
  struct Life {
    unsigned begin = 0, end = 0; ///< the op that makes it, and the last forward op that uses it
    double bytes = 0;
  };
  bool isHeavy(Operation *op) const {
    auto ruled = dyn_cast<dist::ShardingRuleOpInterface>(op);
    return ruled && ruled.isHeavy();
  }
  bool isKeptByKind(Operation *op) const {
    return isSource(op) || (what == Recompute::Selective && isHeavy(op));
  }
  void findPlaces();
  /// The cuts with which no segment needs more than `most` bytes and the least is kept between them; false
  /// where some segment needs more. `kept`: those bytes.
  bool cutWithin(double most, std::vector<unsigned> &chosen, double &kept) const;

  Recompute what;
  SmallVector<Operation *> ops;
  DenseMap<Operation *, unsigned> position;
  DenseMap<Value, Life> lives;
  std::vector<double> needed;   ///< by op: bytes that the backward pass reads of its results; summed up to it
  std::vector<unsigned> places; ///< where a cut may be: before the op of that number; 0 and the end included
  std::vector<std::vector<const Life *>>
      made;                   ///< by place but the last: the values of the ops up to the next
  std::vector<unsigned> cuts; ///< those chosen, in order, without 0 and the end
};

/// Puts copies before the ops of a backward pass.
class Repeater {
public:
  explicit Repeater(const Segments &segments) : segments(segments) {}
  void visit(Operation *backward);

private:
  Value again(Value value, OpBuilder &builder);

  const Segments &segments;
  DenseMap<Value, Value> copies;
};
} // namespace

Segments::Segments(Operation *lastForward, Recompute what) : what(what) {
  for (Operation &op : *lastForward->getBlock()) {
    position[&op] = static_cast<unsigned>(ops.size());
    ops.push_back(&op);
    if (&op == lastForward)
      break;
  }
  needed.assign(ops.size() + 1, 0);
  for (auto [i, op] : llvm::enumerate(ops)) {
    needed[i + 1] = needed[i];
    if (isKeptByKind(op))
      continue;
    for (Value result : op->getResults()) {
      Life life{static_cast<unsigned>(i), static_cast<unsigned>(i), getBytes(result)};
      bool isRead = false;
      for (Operation *user : result.getUsers())
        if (auto found = position.find(user); found != position.end())
          life.end = std::max(life.end, found->second);
        else
          isRead = true;
      if (isRead)
        needed[i + 1] += life.bytes;
      lives[result] = life;
    }
  }
}

/// Cuts stand where no more goes on than a little before and behind.
void Segments::findPlaces() {
  const auto count = static_cast<unsigned>(ops.size());
  std::vector<double> across(count + 1, 0);
  for (auto &[value, life] : lives)
    if (life.end > life.begin) {
      across[life.begin + 1] += life.bytes;
      across[life.end + 1 > count ? count : life.end + 1] -= life.bytes;
    }
  for (unsigned i = 1; i <= count; ++i)
    across[i] += across[i - 1];
  places = {0};
  for (unsigned i = 1; i < count; ++i)
    if (across[i] <= across[i - 1] && (i + 1 == count || across[i] <= across[i + 1]))
      places.push_back(i);
  places.push_back(count);
  made.resize(places.size() - 1);
  for (auto &[value, life] : lives) {
    auto behind = std::upper_bound(places.begin(), places.end(), life.begin);
    made[static_cast<size_t>(behind - places.begin()) - 1].push_back(&life);
  }
}

bool Segments::cutWithin(double most, std::vector<unsigned> &chosen, double &kept) const {
  const size_t count = places.size();
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> best(count, kNever);
  std::vector<size_t> from(count, 0);
  best[0] = 0;
  std::vector<double> ends(count); // of what the segment made: bytes that are gone at each place
  for (size_t i = 0; i + 1 < count; ++i) {
    if (best[i] == kNever)
      continue;
    std::fill(ends.begin() + static_cast<ptrdiff_t>(i), ends.end(), 0);
    double across = 0;
    for (size_t j = i + 1; j < count && needed[places[j]] - needed[places[i]] <= most; ++j) {
      for (const Life *life : made[j - 1]) {
        // Its last use stands before this place, or it goes on.
        auto end = std::upper_bound(places.begin() + static_cast<ptrdiff_t>(j), places.end(), life->end);
        if (life->end < places[j])
          continue;
        across += life->bytes;
        if (end != places.end())
          ends[static_cast<size_t>(end - places.begin())] += life->bytes;
      }
      across -= ends[j];
      const double total = best[i] + (j + 1 == count ? 0 : across);
      if (total < best[j]) {
        best[j] = total;
        from[j] = i;
      }
    }
  }
  kept = best.back();
  if (kept == kNever)
    return false;
  chosen.clear();
  for (size_t j = from.back(); j > 0; j = from[j])
    chosen.push_back(places[j]);
  std::reverse(chosen.begin(), chosen.end());
  return true;
}

void Segments::choose() {
  findPlaces();
  // What one segment may need, from all in one down to the least that works.
  constexpr double kStep = 0.84;
  double least = std::numeric_limits<double>::infinity(), kept = 0;
  std::vector<unsigned> chosen;
  for (double most = needed.back(); cutWithin(most, chosen, kept) && most > 0; most *= kStep) {
    double largest = 0;
    unsigned begin = 0;
    for (size_t i = 0; i <= chosen.size(); ++i) {
      unsigned end = i < chosen.size() ? chosen[i] : static_cast<unsigned>(ops.size());
      largest = std::max(largest, needed[end] - needed[begin]);
      begin = end;
    }
    if (kept + largest < least) {
      least = kept + largest;
      cuts = chosen;
    }
    most = std::min(most, largest);
  }
}

bool Segments::isKept(Value value) const {
  Operation *op = value.getDefiningOp();
  if (!isForward(value) || isKeptByKind(op))
    return true;
  const Life &life = lives.at(value);
  auto cut = std::upper_bound(cuts.begin(), cuts.end(), life.begin);
  return cut == cuts.end() || life.end >= *cut;
}

Value Repeater::again(Value value, OpBuilder &builder) {
  if (segments.isKept(value))
    return value;
  if (Value copy = copies.lookup(value))
    return copy;
  Operation *op = value.getDefiningOp();
  IRMapping mapping;
  for (Value operand : op->getOperands())
    mapping.map(operand, again(operand, builder));
  Operation *copy = builder.clone(*op, mapping);
  if (std::vector<std::string> names = outline::getNames(op->getLoc()); !names.empty())
    copy->setLoc(NameLoc::get(builder.getStringAttr(names.front() + ".again")));
  for (auto [result, repeated] : llvm::zip_equal(op->getResults(), copy->getResults()))
    copies[result] = repeated;
  return copies.lookup(value);
}

void Repeater::visit(Operation *backward) {
  OpBuilder builder(backward);
  for (OpOperand &operand : backward->getOpOperands())
    if (segments.isForward(operand.get()))
      operand.set(again(operand.get(), builder));
}

void colossal::recomputeForBackward(Operation *lastForward, Recompute what) {
  if (what == Recompute::None)
    return;
  Segments segments(lastForward, what);
  segments.choose();
  Repeater repeater(segments);
  SmallVector<Operation *> backward;
  for (Operation *op = lastForward->getNextNode(); op && !op->hasTrait<OpTrait::IsTerminator>();
       op = op->getNextNode())
    backward.push_back(op);
  for (Operation *op : backward)
    repeater.visit(op);
}
