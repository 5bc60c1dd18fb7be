//===- Costs.cpp - seconds of ops and collectives on a mesh -----------------===//
#include "Costs.h"

#include <algorithm>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::layout;

static cost::DataType getDataType(Type element) {
  if (element.isF64())
    return cost::DataType::F64;
  if (element.isF16())
    return cost::DataType::F16;
  if (element.isBF16())
    return cost::DataType::BF16;
  if (element.isInteger())
    return element.getIntOrFloatBitWidth() < 32 ? cost::DataType::I8 : cost::DataType::I32;
  return cost::DataType::F32;
}

double Costs::getComputeSeconds(double flops, double bytes, Type element, int launches) const {
  cost::DataType type = getDataType(element);
  double computing = model.seconds({flops, 0, type, 0}), moving = model.seconds({0, bytes, type, 0});
  return std::max(computing, moving) + kOverlapLoss * std::min(computing, moving) +
         model.seconds({0, 0, type, launches});
}

cost::Group Costs::getGroup(ArrayRef<unsigned> axes) const {
  cost::Group group;
  group.active = mesh.getNumRanks();
  unsigned innermost = 0;
  for (unsigned axis : axes) {
    group.size *= mesh.getAxisSize(axis);
    innermost = std::max(innermost, axis);
  }
  for (unsigned axis = innermost + 1; axis < mesh.getNumAxes(); ++axis)
    group.stride *= mesh.getAxisSize(axis);
  return group;
}

double Costs::getMoveSeconds(MoveKind kind, double bytes, ArrayRef<unsigned> axes) const {
  switch (kind) {
  case MoveKind::AllGather:
    return model.seconds(cost::Collective::AllGather, bytes, getGroup(axes));
  case MoveKind::AllReduce:
    return model.seconds(cost::Collective::AllReduce, bytes, getGroup(axes));
  case MoveKind::ReduceScatter:
    return model.seconds(cost::Collective::ReduceScatter, bytes, getGroup(axes));
  case MoveKind::AllToAll:
    return model.seconds(cost::Collective::AllToAll, bytes, getGroup(axes));
  case MoveKind::Slice: // read and written once, mostly by the kernel that uses it
    return model.seconds({0, bytes, cost::DataType::F32, 0});
  }
  return 0;
}

double Costs::getExchangeSeconds(double bytes, ArrayRef<unsigned> axes) const {
  return 2 * model.seconds(cost::Collective::Permute, bytes / 2, getGroup(axes));
}
