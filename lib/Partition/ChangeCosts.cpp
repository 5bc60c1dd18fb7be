//===- ChangeCosts.cpp - what changes of layouts cost -----------------------===//
#include "ChangeCosts.h"

#include "PathSearch.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

ChangeCosts::ChangeCosts(MeshAttr mesh, const cost::PlacementCost &price, bool axesAreAlike)
    : mesh(mesh), price(price) {
  sets.emplace_back();
  for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis) {
    unsigned first = axis;
    const int64_t loop = mesh.getLoopAxis();
    for (unsigned other = 0; axesAreAlike && other < axis && first == axis; ++other)
      if (mesh.getAxisSize(other) == mesh.getAxisSize(axis) && static_cast<int64_t>(axis) != loop &&
          static_cast<int64_t>(other) != loop)
        first = other;
    firstAlike.push_back(first);
    hasAlikeAxes |= first != axis;
  }
}

//===----------------------------------------------------------------------===//
// Changes
//===----------------------------------------------------------------------===//

/// What happens to a factor, as words: size, number of axes before, these, number after, these.
static void appendWords(std::vector<int64_t> &words, int64_t size, ArrayRef<unsigned> before,
                        ArrayRef<unsigned> after) {
  words.push_back(size);
  for (ArrayRef<unsigned> axes : {before, after}) {
    words.push_back(axes.size());
    words.insert(words.end(), axes.begin(), axes.end());
  }
}

/// Reads such words from place `i` on and leaves `i` behind them.
static int64_t readWords(ArrayRef<int64_t> words, size_t &i, SmallVector<unsigned, 2> &before,
                         SmallVector<unsigned, 2> &after) {
  int64_t size = words[i++];
  for (SmallVector<unsigned, 2> *axes : {&before, &after}) {
    auto count = static_cast<size_t>(words[i++]);
    axes->assign(words.begin() + i, words.begin() + i + count);
    i += count;
  }
  return size;
}

unsigned ChangeCosts::getRun(const std::vector<int64_t> &words) {
  auto [it, isNew] = idOfWords.try_emplace(words, wordsOf.size());
  unsigned id = it->second;
  if (!isNew)
    return id;
  wordsOf.push_back(&it->first); // map nodes stay where they are
  runsOf.push_back({id});
  Shape &shape = shapes.emplace_back();
  std::vector<int64_t> erased;
  for (size_t i = 0; i < words.size();) {
    SmallVector<unsigned, 2> before, after;
    int64_t size = readWords(words, i, before, after);
    for (SmallVector<unsigned, 2> *axes : {&before, &after})
      for (unsigned &axis : *axes) {
        shape.axes.push_back(axis);
        axis = firstAlike[axis];
      }
    appendWords(erased, size, before, after);
  }
  shape.number = numberOfShape.try_emplace(std::move(erased), numberOfShape.size()).first->second;
  return id;
}

unsigned ChangeCosts::getId(ArrayRef<unsigned> runs) {
  if (runs.size() == 1)
    return runs.front();
  auto [it, isNew] = idOfRuns.try_emplace(std::vector<unsigned>(runs.begin(), runs.end()), wordsOf.size());
  if (isNew) {
    wordsOf.push_back(nullptr);
    shapes.emplace_back();
    runsOf.emplace_back(runs);
  }
  return it->second;
}

const ChangeCosts::Change &ChangeCosts::getChange(DimShardingAttr from, DimShardingAttr to) {
  std::unique_ptr<Change> &change = changes[{from, to}];
  if (change)
    return *change;
  change = std::make_unique<Change>();
  Dim before = toDigits(from, mesh), after = toDigits(to, mesh);
  if (from != to && !unify(before, after)) {
    change->isForeign = true;
    return *change;
  }
  // A factor that has in both what it shall have is never touched: its axes stay, and none is brought there.
  SmallVector<unsigned> runs;
  std::vector<int64_t> words;
  auto endRun = [&] {
    if (!words.empty())
      runs.push_back(getRun(words));
    words.clear();
  };
  auto isDigit = [&](const ShardedFactor &factor) {
    return !factor.axes.empty() && factor.size == mesh.getAxisSize(factor.axes.front());
  };
  bool wasGathered = false, wasScattered = false;
  for (auto [have, want] : llvm::zip_equal(before, after)) {
    const bool changes = have.axes != want.axes;
    // Only neighbours that one axis splits fully are ever moved together: gathered, or scattered to.
    const bool isGathered = changes && isDigit(have), isScattered = changes && isDigit(want);
    if (!(isGathered && wasGathered) && !(isScattered && wasScattered))
      endRun();
    if (changes)
      appendWords(words, have.size, have.axes, want.axes);
    else
      change->unchanged *= getLocalSize(have.size, have.axes, mesh);
    wasGathered = isGathered;
    wasScattered = isScattered;
  }
  endRun();
  llvm::sort(runs);
  if (!runs.empty())
    change->id = getId(runs);
  return *change;
}

//===----------------------------------------------------------------------===//
// Names of axes
//===----------------------------------------------------------------------===//

/// The names that a walk over a change gives to the axes that it meets, among those that are alike.
class ChangeCosts::Renaming {
public:
  explicit Renaming(ArrayRef<unsigned> firstAlike) : firstAlike(firstAlike), names(firstAlike.size(), -1) {}
  unsigned operator[](unsigned axis) {
    if (names[axis] >= 0)
      return static_cast<unsigned>(names[axis]);
    unsigned name = firstAlike[axis];
    while (taken >> name & 1 || firstAlike[name] != firstAlike[axis])
      ++name;
    taken |= 1u << name;
    names[axis] = static_cast<int>(name);
    return name;
  }

private:
  ArrayRef<unsigned> firstAlike;
  SmallVector<int, 16> names;
  uint32_t taken = 0;
};

unsigned ChangeCosts::rename(unsigned run, Renaming &names) {
  constexpr unsigned kBits = 5, kMostPacked = 7; // of an axis; beside the change
  const Shape &shape = shapes[run];
  uint64_t packed = 0;
  for (unsigned axis : shape.axes)
    packed = packed << kBits | names[axis];
  packed |= static_cast<uint64_t>(run) << (kBits * kMostPacked);
  const bool isPacked = shape.axes.size() <= kMostPacked;
  if (isPacked)
    if (auto known = renamedIds.find(packed); known != renamedIds.end())
      return known->second;
  std::vector<int64_t> words;
  ArrayRef<int64_t> old = *wordsOf[run];
  for (size_t i = 0; i < old.size();) {
    SmallVector<unsigned, 2> before, after;
    int64_t size = readWords(old, i, before, after);
    for (SmallVector<unsigned, 2> *axes : {&before, &after})
      for (unsigned &axis : *axes)
        axis = names[axis];
    appendWords(words, size, before, after);
  }
  const unsigned renamed = getRun(words); // may move `shape`
  if (isPacked)
    renamedIds[packed] = renamed;
  return renamed;
}

unsigned ChangeCosts::rename(unsigned set) {
  const uint32_t from = sets[set].from, to = sets[set].to;
  SmallVector<unsigned, 4> order(sets[set].changes);
  llvm::stable_sort(order, [&](unsigned a, unsigned b) { return shapes[a].number < shapes[b].number; });
  Renaming names(firstAlike);
  for (unsigned id : order)
    for (unsigned axis : shapes[id].axes)
      names[axis];
  for (unsigned &id : order)
    id = rename(id, names);
  llvm::sort(order);
  uint32_t renamedFrom = 0, renamedTo = 0;
  for (auto [axes, renamed] : {std::pair(from, &renamedFrom), std::pair(to, &renamedTo)})
    for (unsigned axis = 0; axis < firstAlike.size(); ++axis)
      if (axes >> axis & 1)
        *renamed |= 1u << names[axis];
  return getSet(order, renamedFrom, renamedTo);
}

//===----------------------------------------------------------------------===//
// Sets of changes
//===----------------------------------------------------------------------===//

/// Marks what is added to a set as sums, not as a change.
static constexpr uint64_t kAreSums = uint64_t(1) << 63;

unsigned ChangeCosts::add(unsigned set, unsigned change) {
  auto [at, isNew] = setOf.try_emplace(uint64_t(set) << 32 | change, static_cast<unsigned>(sets.size()));
  if (!isNew)
    return at->second;
  ChangeSet next;
  next.changes = sets[set].changes;
  next.changes.push_back(change);
  sets.push_back(std::move(next));
  return at->second;
}

unsigned ChangeCosts::addSums(unsigned set, uint32_t from, uint32_t to) {
  if (from == 0 && to == 0)
    return set;
  const unsigned number =
      numberOfSums.try_emplace(uint64_t(from) << 32 | to, static_cast<unsigned>(numberOfSums.size()))
          .first->second;
  auto [at, isNew] =
      setOf.try_emplace(kAreSums | uint64_t(set) << 32 | number, static_cast<unsigned>(sets.size()));
  if (!isNew)
    return at->second;
  ChangeSet next;
  next.changes = sets[set].changes;
  next.from = from;
  next.to = to;
  sets.push_back(std::move(next));
  return at->second;
}

unsigned ChangeCosts::getSet(ArrayRef<unsigned> changes, uint32_t from, uint32_t to) {
  unsigned set = kNothing;
  for (unsigned change : changes)
    set = add(set, change);
  return addSums(set, from, to);
}

unsigned ChangeCosts::getLikeness(unsigned set) {
  if (sets[set].likeness >= 0)
    return static_cast<unsigned>(sets[set].likeness);
  SmallVector<unsigned, 8> sorted;
  for (unsigned change : sets[set].changes)
    llvm::append_range(sorted, runsOf[change]);
  llvm::sort(sorted);
  const unsigned plain = getSet(sorted, sets[set].from, sets[set].to);
  if (sets[plain].likeness < 0) {
    const unsigned renamed = hasAlikeAxes ? rename(plain) : plain;
    // Names are given once: those that the walk gives to a renamed one may be others again.
    if (sets[renamed].likeness < 0)
      sets[renamed].likeness = static_cast<int>(renamed);
    sets[plain].likeness = sets[renamed].likeness;
  }
  return static_cast<unsigned>(sets[set].likeness = sets[plain].likeness);
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

/// Graphs are kept while they have this many nodes together, and each no more than that: beyond them, and
/// between layouts that many axes set apart, they are made again for other bytes.
static constexpr size_t kMostKept = 200'000, kLargestKept = 1'000;

void ChangeCosts::makeGraph(ChangeSet &set) const {
  State from, to;
  for (unsigned run : set.changes) {
    ArrayRef<int64_t> words = *wordsOf[run];
    Dim before, after;
    for (size_t i = 0; i < words.size();) {
      SmallVector<unsigned, 2> have, want;
      int64_t size = readWords(words, i, have, want);
      before.push_back({size, have});
      after.push_back({size, want});
    }
    from.dims.push_back(before);
    to.dims.push_back(after);
  }
  for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis) {
    if (set.from >> axis & 1)
      from.partial.push_back(axis);
    if (set.to >> axis & 1)
      to.partial.push_back(axis);
  }
  set.graph = std::make_unique<cost::PlacementGraph>(dist::makeGraph(to, mesh));
  set.start = set.graph->getNode(getPlacement(from));
}

double ChangeCosts::search(unsigned number, int64_t bytes) {
  ChangeSet &set = sets[number];
  if (!set.graph)
    makeGraph(set);
  else
    keptNodes -= set.graph->countNodes();
  const double cost = placements.run(*set.graph, set.start, static_cast<double>(bytes), price);
  if (const size_t nodes = set.graph->countNodes(); nodes <= kLargestKept && keptNodes + nodes <= kMostKept)
    keptNodes += nodes;
  else
    set.graph = nullptr;
  return cost;
}

double ChangeCosts::getCost(unsigned set, int64_t bytes) {
  if (set == kNothing)
    return 0;
  const unsigned like = getLikeness(set);
  if (sets[like].changes.empty() && sets[like].from == sets[like].to)
    return 0;
  auto [known, isNew] = costs.try_emplace({like, bytes}, 0);
  if (isNew)
    known->second = search(like, bytes);
  return known->second;
}
