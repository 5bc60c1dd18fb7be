// Seconds for lists of operations on one device of a machine: the level at which a search over layouts and
// the predictions for published models meet. The caller states what each operation does; shapes are those of
// the rank's own part. No IR.
#ifndef COLOSSAL_COST_OPERATIONS_H
#define COLOSSAL_COST_OPERATIONS_H

#include "colossal/Cost/CostModel.h"

#include <vector>

namespace colossal::cost {

enum class OpKind {
  /// `batch` products of [m, k] by [k, n]. A convolution is one with m = images * output pixels, n = output
  /// channels, k = input channels * window.
  Contraction,
  /// A contraction in the above sense by the library's convolution, which has its own rate on a host's cores.
  Convolution,
  /// Attention in one kernel with running softmax: batch = sequences * heads, m = queries, n = keys, k =
  /// width of a
  /// head. Its two products count; scores never reach main memory. `passes` 1 forward, 2.5 backward. What a
  /// mask leaves out (1 - `fraction`) is as much as is computed on its diagonal, where the rate is lower.
  FusedAttention,
  /// Bound by main memory: pointwise, normalization, softmax, copies, optimizer.
  Streaming
};

/// Whose kernel computes attention without its scores reaching main memory.
enum class AttentionKernel {
  Portable, ///< of instructions that the device shares with its forerunner (FlashAttention-2)
  Native,   ///< written for the device (FlashAttention-3, the vendor's)
  First     ///< of the first generation, over keys inside and queries outside (FlashAttention, or its Triton
            ///< version)
};

/// One operation on one device.
struct OpWork {
  OpKind kind = OpKind::Streaming;
  DataType type = DataType::F16;
  double batch = 1, m = 0, n = 0, k = 0;
  /// Bytes read and written in main memory. 0 for a contraction or fused attention: each operand and the
  /// result once.
  double bytes = 0;
  /// Part of the products that is computed: 0.5 under a causal mask.
  double fraction = 1;
  /// How often the work is done: 2.5 for the backward pass of fused attention.
  double passes = 1;
  /// Kernels launched.
  double launches = 1;
  AttentionKernel attention = AttentionKernel::Portable;

  /// Two for each multiply and add.
  double flops() const;
};

OpWork contraction(double batch, double m, double n, double k, DataType type);
OpWork streaming(double bytes, double launches = 1);

struct CollectiveWork {
  Collective kind = Collective::AllReduce;
  /// As CostModel::seconds wants them.
  double bytes = 0;
  Group group;
  /// How many of them, one after the other.
  double count = 1;
  /// Of rows that several ranks have parts of, inside an operation: plans list these bytes apart.
  bool isStatistics = false;
};

/// What runs in one go: the forward pass of a layer, or its backward pass.
struct OpList {
  std::vector<OpWork> ops;
  /// Those that the next operation waits for.
  std::vector<CollectiveWork> collectives;
};

/// Where a list's time goes, in seconds.
struct ListTime {
  double compute = 0;    ///< the device's kernels
  double launch = 0;     ///< the host's launches
  double collective = 0; ///< communication that nothing hides
  /// The host launches ahead while the device computes: the slower one decides.
  double total() const { return (compute > launch ? compute : launch) + collective; }
};

class OperationCost;

/// Kernels of one pass, launched by the host one after the other onto a device that runs them one after the
/// other: a kernel starts when it has been launched and the one before is done. The pass begins with nothing
/// launched ahead, so it takes at least as long as the larger of launching and computing, and longer where
/// the two alternate.
class LaunchQueue {
public:
  LaunchQueue(const OperationCost &cost, double launchSeconds) : cost(cost), launchSeconds(launchSeconds) {}
  void run(const std::vector<OpWork> &ops);
  double seconds() const { return device > host ? device : host; }

private:
  const OperationCost &cost;
  double launchSeconds, host = 0, device = 0;
};

class OperationCost {
public:
  /// `hostLaunchSeconds` below 0: the machine's constant, a training framework's. A compiled plan launches
  /// faster.
  explicit OperationCost(const CostModel &model, double hostLaunchSeconds = -1);

  /// Device time of one operation, launching not counted.
  ///
  /// A contraction is cut into tiles of 256x128, 128x128, 128x64 or 64x64 (the best is taken), spread over
  /// the device's compute units in whole waves. A tile of m x n over k takes 2 m n (k + fill) / (peak /
  /// units) operations' time, divided by gemm_efficiency and by 1 / (1 + load/m + load/n). `fill` is a time
  /// that does not depend on the type, counted in elements of k at the rate of 16-bit types: twice as many
  /// where the rate is twice theirs. Not below the time of its bytes. Where a machine does not state its
  /// compute units, work divides evenly instead, and a quarter of the shorter of computing and bytes comes on
  /// top of the longer.
  double seconds(const OpWork &op) const;
  ListTime seconds(const OpList &list) const;
  double seconds(const CollectiveWork &work) const;
  /// Launches take `factor` of the host's time.
  LaunchQueue queue(double factor = 1) const { return LaunchQueue(*this, hostLaunch * factor); }

  const CostModel &model() const { return cost; }

private:
  double contractionSeconds(const OpWork &op) const;
  double attentionRate(const OpWork &op) const;

  const CostModel &cost;
  double hostLaunch;
  double gemmEfficiency, gemmFill, unalignedEfficiency, attentionEfficiency, nativeAttention,
      streamingEfficiency, kernelSeconds;
};

} // namespace colossal::cost

#endif // COLOSSAL_COST_OPERATIONS_H
