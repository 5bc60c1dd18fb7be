//===- Costs.cpp - seconds of ops and collectives on a mesh -----------------===//
#include "Costs.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::layout;

namespace {
class DefaultCosts : public Costs {
public:
  explicit DefaultCosts(MeshAttr mesh) : mesh(mesh) {}
  double getComputeSeconds(double flops, double bytes, Type element) const override {
    return flops / 100e9 + bytes / 10e9 + 1e-6;
  }
  double getMoveSeconds(MoveKind kind, double bytes, ArrayRef<unsigned> axes) const override {
    int64_t ranks = 1;
    for (unsigned axis : axes)
      ranks *= mesh.getAxisSize(axis);
    if (kind == MoveKind::Slice)
      return 1e-7 + bytes / 10e9;
    return (ranks - 1) * 5e-6 + getSentBytes(kind, bytes, ranks) / 8e9;
  }
  uint64_t getMemoryBytes() const override { return 0; }

private:
  MeshAttr mesh;
};
} // namespace

std::unique_ptr<Costs> Costs::create(const std::string &machine, MeshAttr mesh, std::string &error) {
  if (!machine.empty()) {
    error = "machine '" + machine + "': machine files are not read yet";
    return nullptr;
  }
  return std::make_unique<DefaultCosts>(mesh);
}
