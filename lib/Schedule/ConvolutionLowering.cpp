//===- ConvolutionLowering.cpp - convolutions to library calls --------------===//
//
// Convolutions run in the device's library, channels last, with weights packed at load and bias, residual and
// activation fused. What the library lacks is generated like any other op.
//
//===----------------------------------------------------------------------===//
#include "FunctionLowering.h"

#include "colossal/Plan/Plan.pb.h"
#include "colossal/Plan/Routines.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

bool FunctionLowering::isChannelsLast(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || type.getRank() < 3 || type.getRank() > 5)
    return false;
  if (auto found = channelsLast.find(value); found != channelsLast.end())
    return found->second;
  channelsLast[value] = false;
  auto decide = [&]() {
    for (OpOperand &use : value.getUses())
      if ((isa<ConvOp, ConvTransposeOp>(use.getOwner()) || isPadding(use.getOwner())) &&
          use.getOperandNumber() == 0)
        return true;
    Operation *op = value.getDefiningOp();
    if (!op)
      return false;
    if (isa<ConvOp, ConvTransposeOp>(op))
      return true;
    if (isa<PoolOp, PadOp, ResizeOp>(op))
      return isChannelsLast(op->getOperand(0));
    if (isa<ElementwiseOp, ConcatOp>(op))
      return llvm::any_of(op->getOperands(), [&](Value operand) {
        return tensorOf(operand).getRank() == type.getRank() && isChannelsLast(operand);
      });
    return false;
  };
  return channelsLast[value] = decide();
}

SmallVector<int64_t> schedule::channelsLastStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size());
  strides[1] = 1;
  int64_t stride = shape[1];
  for (int d = (int)shape.size() - 1; d >= 0; --d) {
    if (d == 1)
      continue;
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
}

namespace {
/// What follows a convolution in its group, as the library can do it.
struct PostOps {
  Value residual;
  std::string activation;
  SmallVector<double> arguments;
};
} // namespace

static std::optional<PostOps> matchPostOps(Operation *convolution, ArrayRef<Operation *> ops) {
  PostOps post;
  Value current = convolution->getResult(0);
  for (Operation *op : ops) {
    auto elementwise = dyn_cast<ElementwiseOp>(op);
    if (!elementwise || !llvm::is_contained(op->getOperands(), current) || !post.activation.empty())
      return std::nullopt;
    if (elementwise.getKind() == ElementwiseKind::Add && !post.residual && op->getNumOperands() == 2) {
      post.residual = op->getOperand(0) == current ? op->getOperand(1) : op->getOperand(0);
      if (post.residual == current || post.residual.getType() != current.getType())
        return std::nullopt;
    } else if (elementwise.getKind() == ElementwiseKind::Relu) {
      post.activation = "relu";
    } else {
      return std::nullopt;
    }
    current = op->getResult(0);
  }
  return post;
}

bool schedule::fitsConvolution(Operation *convolution, ArrayRef<Operation *> ops) {
  return ops.size() <= 2 && matchPostOps(convolution, ops).has_value();
}

bool FunctionLowering::isDead(Value value) {
  auto view = runPlace.views.find(value);
  if (view == runPlace.views.end() || view->second.storage >= kWeightBase || !value.getDefiningOp() ||
      isMovement(value.getDefiningOp()) || program.storages[view->second.storage].life != Life::Activations)
    return false;
  auto visit = [&](auto self, Value v) -> bool {
    return llvm::all_of(v.getUsers(), [&](Operation *user) {
      return isMovement(user) || isPadding(user) ? self(self, user->getResult(0)) : done.contains(user);
    });
  };
  return visit(visit, value);
}

FailureOr<bool> FunctionLowering::lowerConvolution(Group &group, Place &place) {
  Operation *op = group.routine;
  bool transposed = isa<ConvTransposeOp>(op);
  Value input = op->getOperand(0), weight = op->getOperand(1);
  Value bias = op->getNumOperands() > 2 ? op->getOperand(2) : Value();
  RankedTensorType inputType = tensorOf(input), weightType = tensorOf(weight),
                   resultType = tensorOf(op->getResult(0));
  if (!resultType.getElementType().isF32() || !isLoadable(weight) || (bias && !isLoadable(bias)) ||
      place.load || resultType.getNumElements() == 0 || inputType.getNumElements() == 0)
    return false;
  SmallVector<Operation *> rest;
  llvm::copy_if(group.ops, std::back_inserter(rest), [&](Operation *member) { return member != op; });
  auto post = matchPostOps(op, rest);
  if (!post)
    return false;
  ArrayRef<int64_t> strides, dilations, pads;
  int64_t groups;
  if (auto convolution = dyn_cast<ConvOp>(op)) {
    strides = convolution.getStrides(), dilations = convolution.getDilations(), pads = convolution.getPads();
    groups = convolution.getGroup();
  } else {
    auto deconvolution = cast<ConvTransposeOp>(op);
    strides = deconvolution.getStrides(), dilations = deconvolution.getDilations(),
    pads = deconvolution.getPads();
    groups = deconvolution.getGroup();
  }
  unsigned spatial = inputType.getRank() - 2;
  SmallVector<int64_t> low(pads.take_front(spatial)), high;
  for (unsigned d = 0; d < spatial; ++d) {
    int64_t in = inputType.getDimSize(d + 2), out = resultType.getDimSize(d + 2);
    int64_t window = dilations[d] * (weightType.getDimSize(d + 2) - 1) + 1;
    int64_t covered =
        transposed ? (in - 1) * strides[d] + window - out : (out - 1) * strides[d] + window - in;
    high.push_back(covered - low[d]);
    if (low[d] < 0 || high.back() < 0) {
      if (transposed || low[d] < 0)
        return false;
      high.back() = std::max<int64_t>(high.back(), 0);
    }
  }

  Value result = group.outputs.front();
  auto residualView = post->residual ? viewOf(post->residual, place) : FailureOr<View>(View());
  if (failed(residualView))
    return failure();
  SmallVector<int64_t> outStrides = channelsLastStrides(resultType.getShape());
  if (post->residual) {
    done.insert(group.ops.begin(), group.ops.end());
    bool reuses = isDead(post->residual) && residualView->strides == outStrides && residualView->offset == 0;
    for (Operation *member : group.ops)
      done.erase(member);
    if (!reuses)
      return false;
  }

  auto source = viewOf(input, place);
  if (failed(source))
    return failure();
  SmallVector<int64_t> inStrides = channelsLastStrides(inputType.getShape());
  if (source->strides != inStrides) {
    View turned{newStorage(place, Life::Activations, inputType.getNumElements() * 4), 0, inStrides};
    if (failed(copy(*source, inputType, turned, place, op->getLoc())))
      return failure();
    source = turned;
  }
  View target;
  if (post->residual) {
    target = *residualView;
    place.views[result] = target;
  } else {
    target = allocate(result, place);
    if (target.strides != outStrides)
      outStrides = target.strides; // the caller's layout
  }

  plan::Convolution descriptor;
  descriptor.set_type(plan::F32);
  auto fill = [](auto *field, ArrayRef<int64_t> values) {
    for (int64_t value : values)
      field->Add(value);
  };
  fill(descriptor.mutable_input(), inputType.getShape());
  fill(descriptor.mutable_weight(), weightType.getShape());
  fill(descriptor.mutable_output(), resultType.getShape());
  fill(descriptor.mutable_input_strides(), inStrides);
  fill(descriptor.mutable_output_strides(), outStrides);
  fill(descriptor.mutable_strides(), strides);
  fill(descriptor.mutable_dilations(), dilations);
  fill(descriptor.mutable_pads_begin(), low);
  fill(descriptor.mutable_pads_end(), high);
  descriptor.set_group(groups);
  descriptor.set_bias(bool(bias));
  descriptor.set_residual(bool(post->residual));
  descriptor.set_activation(post->activation);
  descriptor.set_transposed(transposed);
  descriptor.set_algorithm("direct");
  uint64_t packedBytes = 0, scratchBytes = 0;
  // The library's layouts depend on the number of threads, which is chosen when the plan is run: room for
  // each of the usual ones.
  bool known = true;
  for (unsigned threads : {1u, 2u, 4u, 8u, 16u, shared.rankThreads}) {
    uint64_t packed = 0, scratch = 0;
    known = known && runtime::queryConvolution(descriptor, threads, packed, scratch).ok();
    packedBytes = std::max(packedBytes, packed);
    scratchBytes = std::max(scratchBytes, scratch);
  }
  if (!known) {
    place.views.erase(result);
    return false;
  }

  auto convert = [](const auto &values) { return SmallVector<int64_t>(values.begin(), values.end()); };
  auto make = [=](OpBuilder &b, Location loc, ArrayRef<plan::BufferAttr> buffers, bool pack) -> Operation * {
    SmallVector<Attribute> attributes(buffers.begin(), buffers.end());
    auto list = [&](const auto &values) { return b.getDenseI64ArrayAttr(convert(values)); };
    auto created = plan::ConvolutionOp::create(
        b, loc, b.getArrayAttr(attributes), TypeAttr::get(b.getF32Type()), list(descriptor.input()),
        list(descriptor.weight()), list(descriptor.output()), list(descriptor.input_strides()),
        list(descriptor.output_strides()), list(descriptor.strides()), list(descriptor.dilations()),
        list(descriptor.pads_begin()), list(descriptor.pads_end()), b.getI64IntegerAttr(descriptor.group()),
        b.getBoolAttr(descriptor.bias()), b.getBoolAttr(descriptor.residual()),
        b.getStringAttr(descriptor.activation()), DenseF64ArrayAttr(), b.getBoolAttr(descriptor.transposed()),
        b.getStringAttr(descriptor.algorithm()), b.getBoolAttr(pack));
    return created;
  };
  // The packing depends on the whole descriptor: the library chooses the layout.
  std::string key = "convolution " + keyOf(weight) + descriptor.SerializeAsString();
  auto [entry, isNew] = shared.weightOf.try_emplace(key);
  Location loc = op->getLoc();
  if (isNew) {
    entry->second = newWeight(packedBytes);
    unsigned storage = entry->second;
    auto raw = denseViewOf(weight, loadPlace);
    if (failed(raw))
      return failure();
    shared.load.steps.push_back(
        {{accessOf(*raw, weightType, false), Access{storage, 0, (int64_t)packedBytes, true}},
         false,
         loc,
         [=](OpBuilder &b, ArrayRef<plan::BufferAttr> buffers, IRMapping &) {
           return make(b, loc, buffers, true);
         },
         {}});
  }
  Access packed{shared.weightOf[key], 0, (int64_t)packedBytes, false};
  SmallVector<Access> accesses{accessOf(*source, inputType, false), packed};
  if (bias) {
    auto view = denseViewOf(bias, place);
    if (failed(view))
      return failure();
    accesses.push_back(accessOf(*view, tensorOf(bias), false));
  }
  unsigned scratch = newStorage(place, Life::Activations, std::max<int64_t>(scratchBytes, 64));
  accesses.push_back({scratch, 0, std::max<int64_t>(scratchBytes, 64), true});
  accesses.push_back(accessOf(target, resultType, true));
  place.program->steps.push_back({accesses,
                                  false,
                                  loc,
                                  [=](OpBuilder &b, ArrayRef<plan::BufferAttr> buffers, IRMapping &) {
                                    return make(b, loc, buffers, false);
                                  },
                                  {}});
  return true;
}
