//===- PlanPrice.cpp - seconds of a scheduled program -----------------------===//
#include "PlanPrice.h"

#include "colossal/Cost/MeshGroups.h"
#include "colossal/Cost/Pricing.h"
#include "colossal/Layout/CostTypes.h"
#include "colossal/Plan/Emit.h"
#include "colossal/Schedule/Schedule.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>

using namespace mlir;

namespace colossal {

namespace {

double product(ArrayRef<int64_t> sizes) {
  double all = 1;
  for (int64_t size : sizes)
    all *= static_cast<double>(size);
  return all;
}

class InstructionPricing {
public:
  InstructionPricing(dist::MeshAttr mesh, int64_t ranks, int64_t working, const cost::Machine &machine)
      : mesh(mesh), ranks(ranks), rank(cost::makePricing(machine, ranks, working)) {}

  double price(plan::LaunchOp op) const;
  double price(plan::ConvolutionOp op) const;
  double price(plan::CollectiveOp op) const;
  double price(plan::CopyOp op) const {
    return rank->kernelSeconds(cost::streaming(2.0 * static_cast<double>(op.getDst().getBytes())), 0, 1);
  }

  /// From a stage to the next: so far apart lie the ranks, and as many stages may send at once.
  double price(plan::SendOp op) const {
    auto all = static_cast<int>(ranks), stride = static_cast<int>(mesh.getNumRanks());
    return rank->network().seconds(cost::Collective::Permute, static_cast<double>(op.getSrc().getBytes()),
                                   {std::max(2, all / stride), stride, all});
  }

private:
  std::vector<cost::Group> groupsOf(ArrayRef<int64_t> axes) const;

  dist::MeshAttr mesh;
  int64_t ranks;
  std::shared_ptr<const cost::Pricing> rank;
};

double InstructionPricing::price(plan::LaunchOp op) const {
  double bytes = 0;
  for (Attribute buffer : op.getBuffers())
    bytes += static_cast<double>(cast<plan::BufferAttr>(buffer).getBytes());
  double tiles = static_cast<double>(op.getTiles());
  auto work = op->getAttrOfType<DictionaryAttr>(schedule::kWorkAttrName);
  if (!work)
    return rank->kernelSeconds(cost::streaming(bytes), 0, tiles);
  StringRef kind = work.getAs<StringAttr>("kind").getValue();
  ArrayRef<int64_t> sizes = work.getAs<DenseI64ArrayAttr>("sizes").asArrayRef();
  double elements = static_cast<double>(work.getAs<IntegerAttr>("operations").getInt());
  if (kind == "elements")
    return rank->kernelSeconds(cost::streaming(bytes), elements, tiles);
  cost::OpWork shape =
      cost::contraction(static_cast<double>(sizes[0]), static_cast<double>(sizes[1]),
                        static_cast<double>(sizes[2]), static_cast<double>(sizes[3]), cost::DataType::F32);
  if (kind == "attention")
    shape.kind = cost::OpKind::FusedAttention;
  else if (kind == "convolution")
    shape.kind = cost::OpKind::Convolution;
  return rank->kernelSeconds(shape, elements, tiles);
}

double InstructionPricing::price(plan::ConvolutionOp op) const {
  // N C spatial, O C/group spatial.
  ArrayRef<int64_t> output = op.getOutput(), weight = op.getWeight();
  double group = static_cast<double>(op.getGroup());
  cost::OpWork work = cost::contraction(group, static_cast<double>(output[0]) * product(output.drop_front(2)),
                                        static_cast<double>(output[1]) / group, product(weight.drop_front()),
                                        layout::getCostType(op.getElementType()));
  work.kind = cost::OpKind::Convolution;
  return rank->kernelSeconds(work);
}

std::vector<cost::Group> InstructionPricing::groupsOf(ArrayRef<int64_t> axes) const {
  SmallVector<int64_t> sizes = mesh.getRankSizes();
  return cost::groupsOf({sizes.begin(), sizes.end()}, {axes.begin(), axes.end()});
}

double InstructionPricing::price(plan::CollectiveOp op) const {
  double element = std::max(1.0, op.getElementType().getIntOrFloatBitWidth() / 8.0);
  double block = product(op.getSizes()) * element;
  std::vector<cost::Group> groups = groupsOf(op.getAxes());
  double size = 1;
  for (const cost::Group &group : groups)
    size *= group.size;
  auto seconds = [&](cost::Collective kind, double bytes) {
    return cost::secondsOver(rank->network(), kind, bytes, groups);
  };
  switch (op.getKind()) {
  case plan::CollectiveKind::AllReduce: return seconds(cost::Collective::AllReduce, block);
  case plan::CollectiveKind::AllGather: return seconds(cost::Collective::AllGather, block * size);
  case plan::CollectiveKind::ReduceScatter: return seconds(cost::Collective::ReduceScatter, block * size);
  case plan::CollectiveKind::AllToAll: return seconds(cost::Collective::AllToAll, block * size);
  case plan::CollectiveKind::Broadcast: return seconds(cost::Collective::Broadcast, block);
  case plan::CollectiveKind::Exchange: // every member writes all that it receives, its own part too
    if (auto window = op.getWindow())
      block = static_cast<double>((*window)[0]) * static_cast<double>((*window)[1]) *
              static_cast<double>((*window)[3]) * element;
    return seconds(cost::Collective::Permute, block);
  case plan::CollectiveKind::Permute: return seconds(cost::Collective::Permute, block);
  }
  return 0;
}

} // namespace

PlanPrice pricePlan(plan::ProgramOp program, dist::MeshAttr mesh, int64_t ranks, int64_t working,
                    const cost::Machine &machine) {
  InstructionPricing pricing(mesh, ranks, working, machine);
  PlanPrice price;
  Builder builder(program.getContext());
  bool isBehindLoop = false; // where turns are left
  program.getBody().walk([&](Operation *op) {
    double *sum = &price.computing, seconds = 0;
    isBehindLoop |= isa<plan::RepeatOp>(op); // visited after what is in it
    const bool isSend = isa<plan::SendOp>(op);
    if (auto launch = dyn_cast<plan::LaunchOp>(op)) {
      seconds = pricing.price(launch);
    } else if (auto convolution = dyn_cast<plan::ConvolutionOp>(op)) {
      seconds = pricing.price(convolution);
    } else if (auto collective = dyn_cast<plan::CollectiveOp>(op)) {
      seconds = pricing.price(collective);
      sum = &price.communicating;
    } else if (auto send = dyn_cast<plan::SendOp>(op)) {
      seconds = pricing.price(send);
      sum = &price.communicating;
    } else if (auto copy = dyn_cast<plan::CopyOp>(op)) {
      seconds = pricing.price(copy);
      sum = &price.moving;
    } else {
      return;
    }
    int64_t times = 1;
    for (auto repeat = op->getParentOfType<plan::RepeatOp>(); repeat;
         repeat = repeat->getParentOfType<plan::RepeatOp>())
      times *= static_cast<int64_t>(repeat.getCount());
    const double all = seconds * static_cast<double>(times);
    const bool isInLoop = isBehindLoop || op->getParentOfType<plan::RepeatOp>();
    *sum += all;
    price.sending += isSend ? all : 0;
    price.looping += isInLoop ? all : 0;
    price.loopSending += isInLoop && isSend ? all : 0;
    price.instructions += times;
    op->setAttr(plan::kSecondsAttrName, builder.getF64FloatAttr(seconds));
  });
  return price;
}

std::string PlanPrice::describe(double seconds) const {
  auto text = [](double value) {
    return value < 1e-3 ? llvm::formatv("{0:F1} us", value * 1e6).str()
                        : llvm::formatv("{0:F2} ms", value * 1e3).str();
  };
  return text(seconds) + " (computing " + text(computing) + ", copying " + text(moving) + ", communicating " +
         text(communicating) + ") in " + std::to_string(instructions) + " instructions";
}

} // namespace colossal
