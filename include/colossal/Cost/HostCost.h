// Seconds of compiled kernels on ranks that are threads of one host: they share its cores and its memory. All
// constants are those of Machine::host, which `colossal-cost calibrate` measures through the kernels that
// plans run. No IR.
#ifndef COLOSSAL_COST_HOSTCOST_H
#define COLOSSAL_COST_HOSTCOST_H

#include "colossal/Cost/Operations.h"

namespace colossal::cost {

/// With R ranks on the C cores of a host (Machine::ranksOnHost of those of the mesh) each rank computes with
/// T = max(1, C / R) threads, as the runtime does by default; where R T exceeds C, threads take turns and all
/// computing takes R T / C times as long.
class HostCost {
public:
  /// `machine.host` must be there; `ofMesh`: all ranks, at least 1, whatever hosts they are on. `working`:
  /// how many of these compute at the same time, while the others wait; 0: all.
  HostCost(const Machine &machine, int ofMesh, int working = 0);

  int threads() const { return threadCount; }

  /// One kernel on one rank while the others do the same.
  ///
  /// - contraction: 2 b m' n (k + deep + fill) / (T rate), with m rounded up to whole tiles of 8 rows (m = 1
  /// has a kernel
  ///   of its own) and deep = (k - `deep_contraction`) (`deep_factor` - 1) where that is positive, against
  ///   its matrix of weights (b n k), which comes from main memory: the longer of the two and
  ///   `exposed_memory` of the shorter. A result beyond the cache goes to main memory and back once.
  /// - convolution: likewise, without depth and with its own rate, fill and exposed memory.
  /// - fused attention: its operations at its own rate.
  /// - streaming: bytes at the bandwidth of the cache, or of main memory beyond `cache_bytes`; `elements`
  /// (see
  ///   fusedSeconds) are not counted.
  /// Launches cost `launch_seconds` with one thread, `fork_seconds` with several.
  /// `tiles`: pieces that the kernel's work comes in, which threads share evenly or, where there are few, do
  /// not.
  double seconds(const OpWork &op, double tiles = kManyTiles) const;

  /// What an operation on `elements` values adds to the kernel that it is fused into.
  double fusedSeconds(double elements, double tiles = kManyTiles) const;

  /// A generated kernel: a product and `operations` on single elements that follow it in registers; or, where
  /// `op` is Streaming, the longer of its bytes and its operations.
  double kernelSeconds(const OpWork &op, double operations, double tiles = kManyTiles) const;

private:
  static constexpr double kManyTiles = 1e9;
  /// By how much the thread with the most tiles has more than its even part.
  double unevenness(double tiles) const;
  double rate(DataType type) const;
  double memorySeconds(double bytes) const;

  Device device;
  Host host;
  int threadCount;
  /// Cores' worth of computing that a rank gets, and its part of the bandwidths.
  double coresPerRank, memoryBandwidth;
};

} // namespace colossal::cost

#endif // COLOSSAL_COST_HOSTCOST_H
