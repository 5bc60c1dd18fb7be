// Seconds of messages on a machine's network: latency and bandwidth, level by level. Pricing.h has those of
// kernels, too. No IR: the caller states bytes.
#ifndef COLOSSAL_COST_COSTMODEL_H
#define COLOSSAL_COST_COSTMODEL_H

#include "colossal/Cost/Machine.h"

#include <memory>

namespace colossal::cost {

enum class Collective {
  AllReduce,     ///< bytes: of the tensor on each device
  AllGather,     ///< bytes: of the gathered tensor
  ReduceScatter, ///< bytes: of the tensor before it is scattered
  AllToAll,      ///< bytes: that each device holds before (and after)
  Broadcast,     ///< bytes: of the tensor
  Permute        ///< bytes: that each device sends to one other
};
const char *toString(Collective kind);

/// The devices of one collective: `size` of them, `stride` apart in the numbering in which devices of one
/// unit of the innermost level come first. All `active` devices of the mesh run such collectives at the same
/// time, in active / size groups, and share what they share. Example: on a mesh of data=4, model=8
/// (row-major) the groups of `model` are {8, 1, 32}, those of `data` {4, 8, 32}.
struct Group {
  int size = 1;
  int stride = 1;
  int active = 1;
};

/// Immutable apart from a cache that locks itself, so threads may share one; copies share the cache.
class CostModel {
public:
  explicit CostModel(Machine machine);
  const Machine &machine() const { return description; }

  /// Seconds of one collective: the only entry point for the time of communication, inside a node and between
  /// nodes.
  ///
  /// Level by level, innermost first; a level works on what the levels below have scattered (B bytes here).
  /// Over the n units of a level with start time s, latency a, of whose bandwidth each device gets b:
  ///
  ///   reduce-scatter, all-gather   s + k a + (n-1)/n B f/b + B/(2 c)     an all-reduce is both, with one s
  ///   all-to-all                   s + (n-1) a + (n-1)/n B f/b           of the whole tensor on every level
  ///   broadcast                    s + k a + B f/b
  ///   permute                      s + a + B f/b                         over the outermost level that it
  ///   crosses
  ///
  /// k is n-1 where the level has links, over whose rings the parts travel (Patarasu and Yuan, 2009),
  /// otherwise ceil(log2 n) (recursive halving and doubling: Thakur, Rabenseifner and Gropp, 2005, section
  /// 4). b is the bandwidth of the rings that the links of these devices give (LinkGraph.h), or the unit's
  /// bandwidth divided by the devices of the unit that run such collectives at the same time, and no more
  /// than an equal part of a shared medium. f is the factor of small steps, c the pass over the device's own
  /// memory. s is the level's own, on the first level that the group crosses at least that of the levels
  /// inside: a collective is launched in the same way wherever it goes. Where a level's units are no whole
  /// number of groups, some groups lie across two units, and all are priced like those. Zero for a group of
  /// one.
  double seconds(Collective kind, double bytes, const Group &group) const;

  /// Bytes that each device of a group sends (and receives): (n-1)/n B for all-gather, reduce-scatter and
  /// all-to-all, twice that for all-reduce, B for broadcast and permute.
  static double bytesMoved(Collective kind, double bytes, int size);

private:
  struct GraphCache;
  /// The worst of the groups of `size` units, `stride` apart, of the first `active` units of a level with
  /// links.
  GraphBandwidth graphBandwidth(std::size_t level, int size, int stride, int active) const;

  Machine description;
  std::shared_ptr<GraphCache> graphs;
};

} // namespace colossal::cost

#endif // COLOSSAL_COST_COSTMODEL_H
