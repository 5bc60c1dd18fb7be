// Kernels on the cores of a host.
#include "colossal/Cost/HostCost.h"

#include <algorithm>
#include <cmath>

namespace colossal::cost {

namespace {
constexpr double kTileRows = 8;

double bytesOf(DataType type) {
  switch (type) {
  case DataType::F64: return 8;
  case DataType::BF16:
  case DataType::F16: return 2;
  case DataType::F8:
  case DataType::I8: return 1;
  default: return 4;
  }
}
} // namespace

HostCost::HostCost(const Machine &machine, int ofMesh, int working)
    : device(machine.device), host(*machine.host) {
  threadCount = std::max(1, host.cores / static_cast<int>(machine.ranksOnHost(ofMesh)));
  const int ranks = static_cast<int>(machine.ranksOnHost(working > 0 ? working : ofMesh));
  double busy = std::min<double>(static_cast<double>(ranks) * threadCount, host.cores);
  // One core alone is faster than each of many: clocks, shared execution units.
  double together = 1;
  if (host.cores > 1)
    together = 1 + (host.parallelEfficiency - 1) * (busy - 1) / (host.cores - 1);
  coresPerRank = busy / ranks * together;
  memoryBandwidth = std::min(device.memoryBandwidth * threadCount, host.memoryBandwidth / ranks);
}

double HostCost::rate(DataType type) const {
  return device.flops(type) * device.computeEfficiency * coresPerRank;
}

static double mix(double computing, double moving, double exposed) {
  return std::max(computing, moving) + exposed * std::min(computing, moving);
}

double HostCost::memorySeconds(double bytes) const {
  return bytes / memoryBandwidth;
}

double HostCost::unevenness(double tiles) const {
  double threads = threadCount;
  return std::ceil(std::max(1.0, tiles) / threads) * threads / std::max(1.0, tiles);
}

double HostCost::seconds(const OpWork &op, double tiles) const {
  double element = bytesOf(op.type), time = 0, uneven = unevenness(tiles);
  switch (op.kind) {
  case OpKind::Contraction:
  case OpKind::Convolution: {
    bool isConvolution = op.kind == OpKind::Convolution;
    double rows = op.m > 1 && !isConvolution ? std::ceil(op.m / kTileRows) * kTileRows : op.m;
    double deep = isConvolution ? 0 : std::max(0.0, op.k - host.deepContraction) * (host.deepFactor - 1);
    double depth = op.k + deep + (isConvolution ? host.convolutionFill : host.contractionFill);
    double efficiency = isConvolution ? host.convolutionEfficiency : 1;
    double computing = 2 * op.batch * rows * op.n * depth / (rate(op.type) * efficiency) * uneven;
    time = mix(computing * op.passes, memorySeconds(op.batch * op.n * op.k * element) * op.passes,
               isConvolution ? host.convolutionExposedMemory : host.exposedMemory);
    // A result beyond the cache is fetched before it is written.
    double result = op.batch * op.m * op.n * element;
    if (!isConvolution && result > host.cacheBytes * threadCount)
      time += memorySeconds(2 * result);
    break;
  }
  case OpKind::FusedAttention: time = op.flops() / (rate(op.type) * host.attentionEfficiency) * uneven; break;
  case OpKind::Streaming:
    time = op.bytes > host.cacheBytes * threadCount ? memorySeconds(op.bytes)
                                                    : op.bytes / (host.cacheBandwidth * coresPerRank);
    time *= uneven;
    break;
  }
  return time + op.launches * (threadCount > 1 && tiles > 1 ? host.forkSeconds : device.launchSeconds);
}

double HostCost::fusedSeconds(double elements, double tiles) const {
  return elements * host.elementSeconds / coresPerRank * unevenness(tiles);
}

double HostCost::kernelSeconds(const OpWork &op, double operations, double tiles) const {
  double product = seconds(op, tiles), elements = fusedSeconds(operations, tiles);
  return op.kind == OpKind::Streaming ? std::max(product, elements) : product + elements;
}

} // namespace colossal::cost
