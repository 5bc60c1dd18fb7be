// What kernels and messages take on one rank while all ranks of a mesh do the same: the interface by which
// searches over layouts, and the prices of scheduled programs, ask. A rank has a device of its own
// (Operations.h), or shares the cores and the memory of a host with others (HostCost.h); who asks does not
// know which. No IR.
#ifndef COLOSSAL_COST_PRICING_H
#define COLOSSAL_COST_PRICING_H

#include "colossal/Cost/Operations.h"

#include <cstdint>
#include <memory>

namespace colossal::cost {

class Pricing {
public:
  virtual ~Pricing() = default;

  /// Seconds of one kernel: `op`, and `operations` on single elements that follow a product in registers, or
  /// that a Streaming kernel does on what it passes over. Where threads share its work, it comes in `tiles`
  /// pieces.
  virtual double kernelSeconds(const OpWork &op, double operations = 0, double tiles = kManyTiles) const = 0;
  /// What `operations` on single elements, of which `bytes` are written, add to the kernel that they are
  /// fused into.
  virtual double fusedSeconds(double operations, double bytes) const = 0;

  /// What the host takes for each launch beside the kernels; 0 where kernelSeconds() has it.
  virtual double launchSeconds() const { return 0; }

  /// Seconds of what runs in one go, and of the collectives in it.
  ListTime seconds(const OpList &list) const;
  double seconds(const CollectiveWork &work) const {
    return work.count * model.seconds(work.kind, work.bytes, work.group);
  }

  /// Seconds of messages.
  const CostModel &network() const { return model; }
  const Machine &machine() const { return model.machine(); }

  static constexpr double kManyTiles = 1e9;

protected:
  explicit Pricing(const Machine &machine) : model(machine) {}
  const CostModel model;
};

/// Prices of `machine` where `ranks` share it: its host's cores, where it has one measured, or a device each.
/// `working`: how many of those of a host compute at the same time, while the others wait; 0: all.
std::shared_ptr<const Pricing> makePricing(const Machine &machine, std::int64_t ranks,
                                           std::int64_t working = 0);

} // namespace colossal::cost

#endif // COLOSSAL_COST_PRICING_H
