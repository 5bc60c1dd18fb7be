// The sizes of a contraction's tiles, from its own and the processor's; no code is emitted here.
#include "ContractionBlocking.h"

#include <algorithm>
#include <limits>

using namespace mlir;

namespace colossal::cpu {

ContractionBlocking::ContractionBlocking(const Processor &processor, const ContractionSpec &spec)
    : M(product(spec.m)), N(product(spec.n)), K(product(spec.k)), batchCount(product(spec.batch)),
      panel(panelShape(processor, spec.accumulate, N)), rows(evenRows()), panels(panel.count(N)) {
  int64_t tail = N - (panels - 1) * panel.width();
  tailVectors = divideUp(std::max<int64_t>(tail, 1), panel.lanes);

  aDims = collapse(spec.m, true, false, false);
  SmallVector<ContractionDim> bn = collapse(spec.n, false, true, false);
  bool bConsecutive = bn.size() == 1 && bn[0].b == 1;
  packB = !spec.packed && !(bConsecutive && M <= 2 * rows);
  pairs = (spec.packed || packB) && multipliesPairs(processor, spec.aType, spec.bType, spec.accumulate);
  widenB = !pairs && spec.packed && storageType(spec.bType) != spec.accumulate && M > 2 * rows;

  // k as A, in place or while it is packed, and B see it; B packed at load follows it linearly.
  kDims = collapse(spec.k, true, !spec.packed, false);
  // Pairs are read where they lie if none begins in one run and ends in another.
  packA =
      pairs ? kDims.back().a != 1 || kDims.back().size % 2 != 0 : storageType(spec.aType) != spec.accumulate;
  aByDepth = pairs && packA && aDims.size() == 1 && aDims[0].a == 1 && kDims.back().a != 1 &&
             (kDims.size() == 1 || kDims.back().size % 2 == 0);
  cutDepth(processor, spec);
  aByTile = copiesTiles(spec);
  packA |= aByTile;
  cutRows(processor, spec);

  const int64_t sumSize = elementBytes(spec.accumulate);
  const int64_t elementSize = pairs ? elementBytes(spec.bType) : sumSize;
  int64_t bytes = roundUp(groupPanels * blockRows * panel.width() * sumSize, 64);
  aScratchOffset = bytes;
  const int64_t aDepth = pairs ? roundUp(blockDepth + 1, 2) : blockDepth;
  aScratchRow = aByDepth ? roundUp(blockRows, panel.lanes) : aDepth;
  // The copy of a k goes to as many tiles as a block has; with a power of two between them their lines would
  // fall into one set of the first-level cache.
  constexpr int64_t lineBytes = 64, fewSets = 1024;
  if (aByTile && rows * aScratchRow * elementSize % fewSets == 0)
    aScratchRow += divideUp(lineBytes, rows * elementSize);
  if (aByTile) {
    if (!spec.copied)
      bytes += roundUp((kBlocks > 1 ? 1 : blocksPerSuper) * blockRows * aScratchRow * elementSize, 64);
  } else if (packA)
    bytes += roundUp((aByDepth ? aDepth : blockRows) * aScratchRow * elementSize, 64);
  bScratchOffset = bytes;
  if (packB || widenB)
    bytes += roundUp(panel.width() * (pairs ? roundUp(blockDepth, 2) : blockDepth) * elementSize, 64);
  scratchBytes = bytes;
}

/// Rows of a register tile such that the last tile of M rows, which may be smaller, costs least. A step of
/// k costs as many cycles as it has multiplications or loads (two of either a cycle), or as the panel takes
/// from the second-level cache.
int64_t ContractionBlocking::evenRows() const {
  auto cost = [&](int64_t count) {
    return count == 0 ? 0 : std::max({count * panel.vectors, count + panel.vectors, 3 * panel.vectors}) + 2;
  };
  int64_t m = std::max<int64_t>(M, 1);
  if (m <= panel.rows)
    return m;
  int64_t best = panel.rows, least = std::numeric_limits<int64_t>::max();
  for (int64_t count = panel.rows; count > panel.rows / 2; --count)
    if (int64_t total = m / count * cost(count) + cost(m % count); total < least)
      best = count, least = total;
  return best;
}

/// Elements of A per row of it: fewer than K where rows overlap, as windows of a convolution do.
int64_t ContractionBlocking::rowElements(const ContractionSpec &spec) const {
  int64_t span = 1;
  for (ArrayRef<ContractionDim> dims : {ArrayRef(spec.m), ArrayRef(spec.k)})
    for (const ContractionDim &dim : dims)
      span += (std::max<int64_t>(dim.size, 1) - 1) * std::abs(dim.a);
  return std::clamp<int64_t>(divideUp(span, std::max<int64_t>(M, 1)), 1, std::max<int64_t>(K, 1));
}

/// Whether A is worth a copy as the register tiles read it. Where its rows lie side by side, as in
/// dw = x^T dy, a step of k is a cache line of its own, of which a tile reads some bytes; lines so far apart
/// fall into few sets of the caches and are gone before the next tile wants them. The copy is repaid by the
/// panels that use it.
bool ContractionBlocking::copiesTiles(const ContractionSpec &spec) const {
  constexpr int64_t enoughPanels = 4;
  return packB && !pairs && K > 1 && M > 2 * rows && panels >= enoughPanels && rowsAreSideBySide(spec);
}

/// A step of k is at least a cache line of its own.
bool ContractionBlocking::rowsAreSideBySide(const ContractionSpec &spec) const {
  constexpr int64_t lineBytes = 64;
  return aDims.size() == 1 && aDims[0].a == 1 &&
         std::abs(kDims.back().a) * elementBytes(spec.aType) >= lineBytes;
}

/// k's of a block.
static constexpr int64_t kBlockDepth = 1024;

void ContractionBlocking::cutDepth(const Processor &processor, const ContractionSpec &spec) {
  innerK = kDims.back().size;
  outerK = innerK == 0 ? 0 : K / innerK;
  if (K == 0)
    outerK = innerK = 0;
  bool oneRegisterTile = M <= rows && !packB && !packA; // and so not widenB
  // Blocks of k stay in the second-level cache while rows pass: those of a panel that was packed before come
  // from memory meanwhile, and those that are packed on the way meet all rows of a tile. Where rows are
  // copied too, and with pairs, a block is as deep as half of the cache, so that both are copied once.
  const int64_t columnBytes = panel.width() * elementBytes(pairs ? spec.bType : spec.accumulate);
  int64_t depth =
      packB && (pairs || packA || rowsAreSideBySide(spec))
          ? std::clamp<int64_t>(processor.cacheBytes() / 2 / columnBytes, kBlockDepth, 4 * kBlockDepth)
          : kBlockDepth;
  // Where neither one block does nor all rows can be copied before: small blocks, for groups of panels.
  if (!pairs && rowsAreSideBySide(spec) &&
      (K > depth + depth / 4 || M * K * elementBytes(spec.accumulate) > kThirdLevel * processor.cacheBytes()))
    depth = kBlockDepth;
  // Blocks begin at even k's.
  const bool isWhole = pairs && innerK % 2 != 0 && outerK > 1;
  if (oneRegisterTile || isWhole || K <= depth + depth / 4) {
    innerStep = innerK, outerStep = outerK;
  } else if (innerK > depth + depth / 4) {
    innerStep = roundUp(divideUp(innerK, divideUp(innerK, depth)), 16), outerStep = 1;
  } else {
    innerStep = innerK, outerStep = std::max<int64_t>(1, depth / innerK);
  }
  innerBlocks = innerK ? divideUp(innerK, innerStep) : 1;
  kBlocks = outerK ? innerBlocks * divideUp(outerK, outerStep) : 1;
  blockDepth = innerStep * outerStep;
}

/// Packing a panel costs about as much as multiplying it with 24 rows of A: rows that repay it. To read more
/// of A than the second-level cache holds from the third costs little, since each of its elements meets a
/// whole panel.
static constexpr int64_t kRowsOfPack = 1024;

/// A copy of rows is repaid by the panels of a group, a panel by the rows, and both by fewer than all where
/// tiles would be few for the threads.
void ContractionBlocking::cutGroups() {
  constexpr int64_t enoughTiles = 16, mostPanels = 16, mostRows = 256, fewPanels = 8, fewRows = 128;
  groupPanels = std::min(panels, mostPanels);
  blockRows = roundUp(std::min(M, mostRows), rows);
  auto isFew = [&] {
    return batchCount * divideUp(panels, groupPanels) * divideUp(M, blockRows) < enoughTiles;
  };
  while (isFew() && groupPanels >= 2 * fewPanels)
    groupPanels = divideUp(groupPanels, 2);
  while (isFew() && blockRows >= 2 * fewRows)
    blockRows = roundUp(divideUp(blockRows, 2), rows);
}

void ContractionBlocking::cutRows(const Processor &processor, const ContractionSpec &spec) {
  // Rows of a tile: enough tiles for many threads, and sums that stay in the first-level cache.
  blockRows = std::min(roundUp(M, rows), roundUp(64, rows));
  // Widening a panel is repaid by the rows that use it, as packing B is below.
  const int64_t enoughTiles = widenB ? 16 : 64;
  while (batchCount * panels * divideUp(M, blockRows) < enoughTiles && blockRows >= 4 * rows)
    blockRows = roundUp(divideUp(blockRows, 2), rows);
  blockRows = std::max(blockRows, rows);
  // Packing B is repaid by the rows that use it: with many blocks of k it is packed anew for each tile. A
  // packed panel of many blocks is fetched block by block, best while many rows use the block before.
  if (aByTile && kBlocks > 1) {
    cutGroups();
  } else if (packB && kBlocks > 1) {
    // Their sums stay in the second-level cache, too, as do rows that are copied.
    const int64_t sumBytes = panel.width() * elementBytes(spec.accumulate);
    const int64_t held = std::min<int64_t>(packA ? 256 : kRowsOfPack, processor.cacheBytes() / 4 / sumBytes);
    blockRows = std::min(roundUp(M, rows), roundUp(std::max<int64_t>(held, 1), rows));
    while (batchCount * panels * divideUp(M, blockRows) < 16 && blockRows >= 256)
      blockRows = roundUp(divideUp(blockRows, 2), rows);
    // What is copied as it lies is repaid by fewer.
    const SmallVector<ContractionDim> columns = collapse(spec.n, false, true, false);
    const bool isCopy = columns.size() == 1 && columns[0].b == 1;
    while (isCopy && batchCount * panels * divideUp(M, blockRows) < 8 && blockRows >= 128)
      blockRows = roundUp(divideUp(blockRows, 2), rows);
  } else if (spec.packed && kBlocks > 1)
    blockRows = std::min(roundUp(M, rows), roundUp(128, rows));
  // With both sides packed, a panel is packed for each block of rows: as many as the second-level cache
  // holds.
  if (packA && !aByTile && packB && kBlocks == 1) {
    const int64_t rowBytes = blockDepth * elementBytes(pairs ? spec.aType : spec.accumulate);
    const int64_t held = processor.cacheBytes() / 3 / std::max<int64_t>(1, rowBytes);
    blockRows = std::max(blockRows, std::min(roundUp(M, rows), std::min<int64_t>(held, 256) / rows * rows));
  }
  int64_t blocks = std::max<int64_t>(1, divideUp(M, blockRows));
  // Consecutive tiles walk the blocks of A that the second-level cache holds, then the next panel.
  int64_t blockBytes = blockRows * rowElements(spec) * elementBytes(pairs ? spec.aType : spec.accumulate);
  int64_t held = std::max<int64_t>(1, processor.cacheBytes() / 2 / std::max<int64_t>(1, blockBytes));
  if (packA && !aByTile && kBlocks == 1)
    held = 1; // A is packed once for all panels
  else if (packB && kBlocks == 1)
    held = std::max(held, std::min(divideUp(kRowsOfPack, blockRows), kThirdLevel * held));
  supers = divideUp(blocks, std::min(blocks, held));
  blocksPerSuper = divideUp(blocks, supers);
}

} // namespace colossal::cpu
