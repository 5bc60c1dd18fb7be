// The two places where a rank may run.
#include "colossal/Cost/Pricing.h"

#include "colossal/Cost/HostCost.h"

namespace colossal::cost {

namespace {

/// Elements are computed while they pass through registers, so memory bounds what is done to them.
class DevicePricing : public Pricing {
public:
  explicit DevicePricing(const Machine &machine)
      : Pricing(machine), operations(model, machine.device.launchSeconds) {}
  double kernelSeconds(const OpWork &op, double, double) const override { return operations.seconds(op); }
  double fusedSeconds(double, double bytes) const override { return operations.seconds(streaming(bytes, 0)); }
  double launchSeconds() const override { return machine().device.launchSeconds; }

private:
  OperationCost operations;
};

/// Values lie in registers or caches, so computing bounds what is done to them.
class HostPricing : public Pricing {
public:
  HostPricing(const Machine &machine, int ranks, int working)
      : Pricing(machine), host(machine, ranks, working) {}
  double kernelSeconds(const OpWork &op, double operations, double tiles) const override {
    return host.kernelSeconds(op, operations, tiles);
  }
  double fusedSeconds(double operations, double) const override { return host.fusedSeconds(operations); }

private:
  HostCost host;
};

} // namespace

ListTime Pricing::seconds(const OpList &list) const {
  ListTime time;
  for (const OpWork &op : list.ops) {
    time.compute += kernelSeconds(op);
    time.launch += op.launches * launchSeconds();
  }
  for (const CollectiveWork &work : list.collectives)
    time.collective += seconds(work);
  return time;
}

std::shared_ptr<const Pricing> makePricing(const Machine &machine, std::int64_t ranks, std::int64_t working) {
  if (machine.host)
    return std::make_shared<HostPricing>(machine, static_cast<int>(ranks), static_cast<int>(working));
  return std::make_shared<DevicePricing>(machine);
}

} // namespace colossal::cost
