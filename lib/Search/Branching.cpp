#include "Branching.h"

#include "MiniBuckets.h"

#include <algorithm>

namespace colossal::search {

namespace {
/// Beyond this many open leaves, or bytes in their parents, the deepest come first, which holds memory down.
constexpr std::size_t kManyLeaves = 2048, kManyBytes = std::size_t{1} << 30;
} // namespace

Branching::Branching(const Core &core, const DualAscent &dual, __int128 bound) : core(core), rootDual(dual) {
  auto leaf = std::make_shared<Leaf>();
  leaf->keep.assign(core.cost.size(), 1);
  leaf->bound = bound;
  open.push_back(std::move(leaf));
}

std::optional<__int128> Branching::bound() const {
  std::optional<__int128> least;
  for (const auto &leaf : open)
    if (!least || leaf->bound < *least)
      least = leaf->bound;
  return least;
}

int Branching::pick(int count) {
  auto first = [&](const std::shared_ptr<Leaf> &a, const std::shared_ptr<Leaf> &b) {
    if ((open.size() > kManyLeaves || held > kManyBytes) && a->depth != b->depth)
      return a->depth > b->depth;
    return a->bound != b->bound ? a->bound < b->bound : a->depth > b->depth;
  };
  std::stable_sort(open.begin(), open.end(), first);
  slots.clear();
  for (std::size_t n = 0; n < open.size() && static_cast<int>(n) < count; ++n) {
    slots.emplace_back();
    slots.back().leaf = open[n];
  }
  return static_cast<int>(slots.size());
}

std::vector<int> Branching::toCore(const Leaf &leaf, std::vector<int> x) const {
  for (const Leaf *at = &leaf; at; at = at->parent.get())
    x = at->reduction->expand(x);
  return x;
}

/// Reduces what the leaf keeps of its parent's core. False where nothing is left to look at: it allows no
/// answer, or exactly one, which the slot has then.
bool Branching::reduce(Slot &slot, __int128 upper, const std::function<bool()> &stop) const {
  Leaf &leaf = *slot.leaf;
  const Core &from = getParentCore(leaf);
  Reduction::Options options;
  options.stop = stop;
  leaf.reduction = std::make_unique<Reduction>(from, leaf.keep, options);
  slot.spent += 20 * from.cost.size();
  if (leaf.reduction->infeasible())
    return false;
  const Core &sub = leaf.reduction->core();
  if (sub.nodes > 0)
    return true;
  if (sub.offset <= static_cast<double>(upper)) {
    slot.answer = toCore(leaf, {});
    slot.answerCost = sub.offset;
  }
  return false;
}

/// Goes on with the parent's dual on the reduced leaf.
void Branching::ascend(Slot &slot, std::uint64_t work, __int128 upper,
                       const std::function<bool()> &stop) const {
  Leaf &leaf = *slot.leaf;
  const Core &sub = leaf.reduction->core();
  leaf.dual = std::make_unique<DualAscent>(sub);
  leaf.dual->inherit(leaf.parent ? *leaf.parent->dual : rootDual, *leaf.reduction);
  leaf.dual->run(work, static_cast<double>(upper), stop);
  slot.spent += leaf.dual->work();
  leaf.bytes = sizeOf(sub, getParentCore(leaf), *leaf.dual);
}

/// Keeps the answer that `search` stands at if it is worth having. Returns whether it was.
bool Branching::offer(Slot &slot, const NeighborhoodSearch &search, __int128 upper) const {
  if (!search.merit().allowed() || search.merit().total.cost > static_cast<double>(upper))
    return false;
  slot.answer = toCore(*slot.leaf, search.current());
  slot.answerCost = search.merit().total.cost;
  return true;
}

/// Has some node lost all its candidates?
static bool isClosed(const Core &sub, const std::vector<char> &keep) {
  for (int i = 0; i < sub.nodes; ++i)
    if (std::find(keep.begin() + sub.first[i], keep.begin() + sub.first[i + 1], 1) ==
        keep.begin() + sub.first[i + 1])
      return true;
  return false;
}

void Branching::process(int number, std::uint64_t work, __int128 upper, const std::function<bool()> &stop) {
  Slot &slot = slots[number];
  Leaf &leaf = *slot.leaf;
  if (stop()) {
    slot.children.push_back(slot.leaf); // for another time
    return;
  }
  if (leaf.bound > upper || !reduce(slot, upper, stop))
    return;
  const Core &sub = leaf.reduction->core();
  ascend(slot, work, upper, stop);
  ExactDual exact = leaf.dual->exact();
  __int128 bound = leaf.bound;
  if (auto better = exact.bound())
    bound = std::max(bound, *better);
  if (bound > upper)
    return;

  NeighborhoodSearch search(sub, 1);
  search.setPrices(leaf.dual->prices());
  search.assign(leaf.dual->takeDecoded());
  search.improve(work / 4, stop);
  slot.spent += search.work();
  offer(slot, search, upper);

  std::vector<char> keep(sub.cost.size(), 1);
  int dropped = exact.fix(upper, keep);
  if (isClosed(sub, keep))
    return;
  if (exact.bound()) {
    MiniBuckets buckets(sub, exact, keep, upper, work, stop);
    slot.spent += buckets.work();
    auto better = buckets.bound();
    if (!better)
      return;
    bound = std::max(bound, *better);
    dropped += buckets.fix(keep);
    if (isClosed(sub, keep))
      return;
    if (buckets.exact()) {
      search.assign(buckets.decode());
      if (offer(slot, search, upper) && slot.answerCost <= static_cast<double>(bound))
        return; // the best there is
    }
  }
  if (5 * static_cast<std::size_t>(dropped) > keep.size())
    addChild(slot, std::move(keep), bound);
  else
    split(slot, keep, bound);
}

/// Bytes that a leaf adds to its parent's; tables that both have count for the parent.
std::size_t Branching::sizeOf(const Core &sub, const Core &from, const DualAscent &dual) {
  std::size_t entries = dual.size() + 6 * sub.cost.size() + 4 * sub.halves.size() + 3 * sub.pieces.size();
  for (const TablePtr &table : sub.tables)
    if (!std::binary_search(from.tables.begin(), from.tables.end(), table))
      entries += table->costs.size();
  return entries * sizeof(double);
}

/// Frees what only children need, which expanding their answers does not.
void Branching::release(Leaf &leaf) {
  held -= leaf.bytes;
  leaf.bytes = 0;
  leaf.dual.reset();
  if (leaf.reduction)
    leaf.reduction->forgetCore();
}

void Branching::addChild(Slot &slot, std::vector<char> keep, __int128 bound) const {
  auto child = std::make_shared<Leaf>();
  child->parent = slot.leaf;
  child->keep = std::move(keep);
  child->bound = bound;
  child->depth = slot.leaf->depth + 1;
  ++slot.leaf->waiting;
  slot.children.push_back(std::move(child));
}

void Branching::split(Slot &slot, const std::vector<char> &keep, __int128 bound) const {
  const Core &sub = slot.leaf->reduction->core();
  const DualAscent &dual = *slot.leaf->dual;
  // How often the dual's answers took each candidate stands for its part in the solution of the relaxation.
  const std::vector<double> &part = dual.frequencies();
  std::vector<double> charge(sub.cost.size());
  dual.chargeMemory(charge);
  int node = -1;
  double most = 0, mean = 0;
  for (int i = 0; i < sub.nodes; ++i) {
    double sum = 0, first = 0, second = 0;
    for (int c = sub.first[i]; c < sub.first[i + 1]; ++c)
      if (keep[c]) {
        sum += part[c];
        first += part[c] * charge[c];
        second += part[c] * charge[c] * charge[c];
      }
    double spread = sum > 0 ? second / sum - (first / sum) * (first / sum) : 0;
    if (spread > most * (1 + 1e-9)) {
      most = spread;
      mean = first / sum;
      node = i;
    }
  }
  std::vector<char> low(sub.cost.size(), 0); // the candidates of `node` that go to the first child
  if (node >= 0) {
    for (int c = sub.first[node]; c < sub.first[node + 1]; ++c)
      low[c] = charge[c] <= mean;
  } else {
    // No disagreement about memory: about anything; then the node with most candidates.
    double least = 2;
    int favourite = 0;
    for (int i = 0; i < sub.nodes; ++i) {
      int at = -1, kept = 0;
      for (int c = sub.first[i]; c < sub.first[i + 1]; ++c)
        if (keep[c]) {
          ++kept;
          if (at < 0 || part[c] > part[at])
            at = c;
        }
      double sure = part[at] - 1e-6 * kept;
      if (kept > 1 && sure < least) {
        least = sure;
        node = i;
        favourite = at;
      }
    }
    if (node < 0) {
      // One candidate each, and reduction left it: cannot be, but the leaf must not be lost.
      addChild(slot, keep, bound);
      return;
    }
    low[favourite] = 1;
  }
  for (char side = 0; side < 2; ++side) {
    std::vector<char> mine = keep;
    int left = 0;
    for (int c = sub.first[node]; c < sub.first[node + 1]; ++c) {
      mine[c] = keep[c] && low[c] == side;
      left += mine[c];
    }
    if (left > 0)
      addChild(slot, std::move(mine), bound);
  }
}

void Branching::merge() {
  found.clear();
  double best = 0;
  std::vector<std::shared_ptr<Leaf>> next;
  for (Slot &slot : slots) {
    spent += slot.spent + 100;
    if (!slot.children.empty() && slot.children[0] == slot.leaf) {
      next.push_back(slot.leaf);
      continue;
    }
    if (!slot.answer.empty() && (found.empty() || slot.answerCost < best)) {
      found = std::move(slot.answer);
      best = slot.answerCost;
    }
    held += slot.leaf->bytes;
    if (Leaf *parent = slot.leaf->parent.get(); parent && --parent->waiting == 0)
      release(*parent);
    if (slot.children.empty())
      release(*slot.leaf);
    next.insert(next.end(), slot.children.begin(), slot.children.end());
  }
  open.erase(open.begin(), open.begin() + static_cast<std::ptrdiff_t>(slots.size()));
  open.insert(open.end(), next.begin(), next.end());
  slots.clear();
}

} // namespace colossal::search
