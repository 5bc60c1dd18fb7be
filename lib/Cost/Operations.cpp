// Device time of operations, and of lists of them.
#include "colossal/Cost/Operations.h"

#include <algorithm>
#include <cmath>

namespace colossal::cost {

namespace {

double elementBytes(DataType type) {
  switch (type) {
  case DataType::F64: return 8;
  case DataType::F32:
  case DataType::TF32:
  case DataType::I32: return 4;
  case DataType::BF16:
  case DataType::F16: return 2;
  case DataType::F8:
  case DataType::I8: return 1;
  }
  return 4;
}

struct Tile {
  double m, n;
};
constexpr Tile kTiles[] = {{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64}};

/// Loading a tile's edges costs as much as this many rows and columns of it.
constexpr double kTileLoad = 4;
/// The part of the shorter of computing and memory traffic that the longer does not hide, where nothing is
/// known of a device's tiles.
constexpr double kOverlapLoss = 0.25;

/// Rate of attention on the diagonal of a causal mask over that on whole blocks: for heads 128 wide and 16k
/// keys FlashAttention-2 reaches 335 TFLOP/s with a mask and 370 without (Shah et al., 2024, forward speed on
/// H100).
constexpr double kDiagonalRate = 0.9;

/// Rate of attention's first kernels over those of the second generation, which are 1.3 to 2.5 times as fast
/// as the first in Triton (Dao, 2023, section 4): the geometric mean.
constexpr double kFirstGenerationRate = 1 / 1.8;

} // namespace

double OpWork::flops() const {
  if (kind == OpKind::Streaming)
    return 0;
  return (kind == OpKind::FusedAttention ? 4 : 2) * batch * m * n * k * fraction * passes;
}

OpWork contraction(double batch, double m, double n, double k, DataType type) {
  OpWork op;
  op.kind = OpKind::Contraction;
  op.type = type;
  op.batch = batch;
  op.m = m;
  op.n = n;
  op.k = k;
  return op;
}

OpWork streaming(double bytes, double launches) {
  OpWork op;
  op.bytes = bytes;
  op.launches = launches;
  return op;
}

OperationCost::OperationCost(const CostModel &model, double hostLaunchSeconds) : cost(model) {
  const FittedConstants &fitted = model.machine().fitted;
  hostLaunch = hostLaunchSeconds < 0 ? fitted["host_launch_seconds"] : hostLaunchSeconds;
  // What was fitted takes the place of the description's own.
  auto efficiency = [&](const char *name, double described) {
    return fitted.stated().count(name) ? fitted[name] : described;
  };
  gemmEfficiency = efficiency("gemm_efficiency", model.machine().device.computeEfficiency);
  gemmFill = fitted["gemm_fill"];
  unalignedEfficiency = fitted["unaligned_efficiency"];
  // Of a device about whose tiles nothing is known, attention is work like other.
  attentionEfficiency = model.machine().device.computeUnits > 0
                            ? fitted["attention_efficiency"]
                            : efficiency("attention_efficiency", model.machine().device.computeEfficiency);
  nativeAttention = fitted["native_attention_efficiency"];
  if (nativeAttention <= 0)
    nativeAttention = attentionEfficiency;
  streamingEfficiency = efficiency("streaming_efficiency", model.machine().device.memoryEfficiency);
  kernelSeconds = model.machine().device.launchSeconds;
}

double OperationCost::contractionSeconds(const OpWork &op) const {
  const Device &device = cost.machine().device;
  double rate = device.flops(op.type) * gemmEfficiency;
  double units = device.computeUnits;
  if (units <= 0) // work divides evenly
    return op.flops() / rate;
  double fill =
      gemmFill * device.flops(op.type) / std::max(device.flops(DataType::F16), device.flops(DataType::BF16));
  double best = 0;
  for (const Tile &tile : kTiles) {
    double tiles = op.batch * std::ceil(op.m / tile.m) * std::ceil(op.n / tile.n) * op.fraction;
    tiles = std::ceil(tiles / units) * units;
    double work = tiles * 2 * tile.m * tile.n * (op.k + fill);
    double seconds = work / rate * (1 + kTileLoad / tile.m + kTileLoad / tile.n);
    if (best == 0 || seconds < best)
      best = seconds;
  }
  // Tiles are copied beside the tensor units by at least 4 bytes at a time: where rows do not begin at
  // multiples of them, kernels that wait for their copies take over.
  double grain = std::max(1.0, 4 / elementBytes(op.type));
  bool aligned = std::fmod(op.m, grain) == 0 && std::fmod(op.n, grain) == 0 && std::fmod(op.k, grain) == 0;
  return best * op.passes / (aligned ? 1 : unalignedEfficiency);
}

double OperationCost::attentionRate(const OpWork &op) const {
  double peak = cost.machine().device.flops(op.type);
  switch (op.attention) {
  case AttentionKernel::Native: return peak * nativeAttention;
  case AttentionKernel::First: return peak * attentionEfficiency * kFirstGenerationRate;
  case AttentionKernel::Portable: break;
  }
  return peak * attentionEfficiency;
}

double OperationCost::seconds(const OpWork &op) const {
  const Device &device = cost.machine().device;
  double bytes = op.bytes;
  if (op.kind != OpKind::Streaming && bytes == 0) {
    double elements = op.kind != OpKind::FusedAttention ? op.m * op.k + op.k * op.n + op.m * op.n
                                                        : 2 * (op.m + op.n) * op.k;
    bytes = op.batch * elements * elementBytes(op.type) * op.passes;
  }
  double memory = bytes / (device.memoryBandwidth * streamingEfficiency);
  double compute = 0;
  if (op.kind == OpKind::Contraction || op.kind == OpKind::Convolution)
    compute = contractionSeconds(op);
  else if (op.kind == OpKind::FusedAttention)
    // Half of the blocks on a mask's diagonal is computed, as much as the mask leaves out; they are slower.
    compute =
        op.flops() * (1 + (1 - op.fraction) / op.fraction * (1 / kDiagonalRate - 1)) / attentionRate(op);
  // Where tiles are not known, neither is how well they hide what they read.
  double exposed = device.computeUnits > 0 ? 0 : kOverlapLoss * std::min(memory, compute);
  return std::max(memory, compute) + exposed + op.launches * kernelSeconds;
}

double OperationCost::seconds(const CollectiveWork &work) const {
  return work.count * cost.seconds(work.kind, work.bytes, work.group);
}

void LaunchQueue::run(const std::vector<OpWork> &ops) {
  for (const OpWork &op : ops) {
    // Kernels of one operation are alike.
    double each = launchSeconds, busy = cost.seconds(op), count = std::max(1.0, op.launches);
    if (op.launches < 1)
      each *= op.launches;
    if (each * count >= busy) { // the device waits for the host
      host += each * count;
      device = std::max(device + busy, host + busy / count);
    } else {
      host += each * count;
      device = std::max(device, host - each * (count - 1)) + busy;
    }
  }
}

ListTime OperationCost::seconds(const OpList &list) const {
  ListTime time;
  for (const OpWork &op : list.ops) {
    time.compute += seconds(op);
    time.launch += op.launches * hostLaunch;
  }
  for (const CollectiveWork &work : list.collectives)
    time.collective += seconds(work);
  return time;
}

} // namespace colossal::cost
