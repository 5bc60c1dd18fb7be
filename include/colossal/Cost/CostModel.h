// Seconds for work on a machine: a roofline for computation, latency and bandwidth for collectives. No IR:
// the caller states operations and bytes. Neighbour: Machine.h.
#pragma once

#include "colossal/Cost/Machine.h"

#include <utility>

namespace colossal::cost {

/// One kernel's work on one device.
struct Work {
  double flops = 0;
  /// Bytes read and written in main memory.
  double bytes = 0;
  DataType type = DataType::F32;
  /// Kernels launched; 0 for what is fused into another kernel.
  int launches = 1;
};

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

class CostModel {
public:
  explicit CostModel(Machine machine) : description(std::move(machine)) {}
  const Machine &machine() const { return description; }

  /// Roofline (Williams, Waterman and Patterson, 2009): the larger of computing and moving bytes, at the
  /// device's efficiencies, plus the launches.
  double seconds(const Work &work) const;

  /// Level by level, innermost first. Over the n units of a level with latency a, of whose bandwidth each
  /// device gets b, a reduce-scatter or an all-gather of B bytes takes ceil(log2 n) a + (n-1)/n B/b
  /// (recursive halving and doubling: Thakur, Rabenseifner and Gropp, 2005, section 4); an all-reduce is one
  /// of each. A level works on what the levels below have scattered. An all-to-all takes (n-1) a + (n-1)/n
  /// B/b, a broadcast ceil(log2 n) a + B/b, a permute a + B/b over the outermost level that it crosses. Zero
  /// for a group of one.
  double seconds(Collective kind, double bytes, const Group &group) const;

  /// Bytes that each device of a group sends (and receives): (n-1)/n B for all-gather, reduce-scatter and
  /// all-to-all, twice that for all-reduce, B for broadcast and permute.
  static double bytesMoved(Collective kind, double bytes, int size);

private:
  Machine description;
};

} // namespace colossal::cost
