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
  double price(plan::ContractionOp op) const;
  double price(plan::FusedAttentionOp op) const;
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

double InstructionPricing::price(plan::ContractionOp op) const {
  ArrayRef<int64_t> sizes = op.getSizes();
  return rank->kernelSeconds(cost::contraction(static_cast<double>(sizes[0]), static_cast<double>(sizes[1]),
                                               static_cast<double>(sizes[2]), static_cast<double>(sizes[3]),
                                               layout::getCostType(op.getElementType())));
}

double InstructionPricing::price(plan::FusedAttentionOp op) const {
  ArrayRef<int64_t> sizes = op.getSizes();
  cost::OpWork work = cost::contraction(
      static_cast<double>(sizes[0] * sizes[1]), static_cast<double>(sizes[3]), static_cast<double>(sizes[4]),
      static_cast<double>(sizes[5] + sizes[6]) / 2, layout::getCostType(op.getElementType()));
  work.kind = cost::OpKind::FusedAttention;
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

/// Adds `times` of what chunks take.
static void addChunks(std::vector<PlanPrice::Chunk> &sums, ArrayRef<PlanPrice::Chunk> chunks, double times) {
  sums.resize(std::max(sums.size(), chunks.size()));
  for (auto [c, chunk] : llvm::enumerate(chunks)) {
    sums[c].seconds += chunk.seconds * times;
    sums[c].sending += chunk.sending * times;
  }
}

/// Prices the instructions of `body`, each of which gets its seconds as an attribute; a call takes what its
/// function does, which `functions` knows once it has been priced. `isOfTurns`: all that stands here is of
/// the program's turns; else what is behind a loop, and what names its chunk.
static PlanPrice priceBody(Block &body, bool isOfTurns, const InstructionPricing &pricing,
                           SymbolTable &symbols, llvm::DenseMap<Operation *, PlanPrice> &functions) {
  PlanPrice price;
  Builder builder(body.getParentOp()->getContext());
  for (Operation &op : body) {
    PlanPrice own;
    isOfTurns |= isa<plan::RepeatOp>(op);
    int64_t times = 1;
    double *sum = &own.computing;
    if (auto launch = dyn_cast<plan::LaunchOp>(op)) {
      *sum = pricing.price(launch);
    } else if (auto convolution = dyn_cast<plan::ConvolutionOp>(op)) {
      *sum = pricing.price(convolution);
    } else if (auto contraction = dyn_cast<plan::ContractionOp>(op)) {
      *sum = pricing.price(contraction);
    } else if (auto attention = dyn_cast<plan::FusedAttentionOp>(op)) {
      *sum = pricing.price(attention);
    } else if (auto collective = dyn_cast<plan::CollectiveOp>(op)) {
      *(sum = &own.communicating) = pricing.price(collective);
    } else if (auto send = dyn_cast<plan::SendOp>(op)) {
      *(sum = &own.communicating) = own.sending = pricing.price(send);
    } else if (auto copy = dyn_cast<plan::CopyOp>(op)) {
      *(sum = &own.moving) = pricing.price(copy);
    } else if (auto repeat = dyn_cast<plan::RepeatOp>(op)) {
      own = priceBody(repeat.getBody().front(), true, pricing, symbols, functions);
      times = static_cast<int64_t>(repeat.getCount());
      sum = nullptr;
    } else if (auto call = dyn_cast<plan::CallOp>(op)) {
      Operation *function = symbols.lookup(call.getCallee());
      auto known = functions.find(function);
      if (known == functions.end())
        known = functions
                    .try_emplace(function, priceBody(function->getRegion(0).front(), false, pricing, symbols,
                                                     functions))
                    .first;
      own = known->second;
      sum = nullptr;
    } else {
      continue;
    }
    if (sum) {
      own.instructions = 1;
      op.setAttr(plan::kSecondsAttrName, builder.getF64FloatAttr(*sum));
      if (auto chunk = op.getAttrOfType<IntegerAttr>(schedule::kChunkAttrName)) {
        own.chunks.resize(static_cast<size_t>(chunk.getInt()) + 1);
        own.chunks.back() = {*sum, own.sending};
      }
    }
    if (isOfTurns && own.chunks.size() <= 1)
      own.chunks = {{own.total(), own.sending}};
    const auto turns = static_cast<double>(times);
    price.computing += own.computing * turns;
    price.moving += own.moving * turns;
    price.communicating += own.communicating * turns;
    price.sending += own.sending * turns;
    addChunks(price.chunks, own.chunks, turns);
    price.instructions += own.instructions * times;
  }
  return price;
}

PlanPrice pricePlan(plan::ProgramOp program, dist::MeshAttr mesh, int64_t ranks, int64_t working,
                    const cost::Machine &machine) {
  SymbolTable symbols(program->getParentOfType<ModuleOp>());
  llvm::DenseMap<Operation *, PlanPrice> functions;
  const bool hasLoop = mesh.getNumTurns() > 1;
  return priceBody(program.getBody().front(), !hasLoop, InstructionPricing(mesh, ranks, working, machine),
                   symbols, functions);
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
