//===- ConvolutionRoutine.cpp - convolutions to library calls ---------------===//
//
// Convolutions run in the device's library, channels last, with weights packed at load and bias, residual and
// activation fused. What the library lacks is generated like any other op.
//
//===----------------------------------------------------------------------===//
#include "Lowerings.h"
#include "QueryConvolution.h"

#include "colossal/Plan/Plan.pb.h"
#include "colossal/Schedule/Schedule.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::cpu;
using namespace colossal::schedule;

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

bool cpu::fitsLibrary(Operation *convolution, ArrayRef<Operation *> ops) {
  return ops.size() <= 2 && matchPostOps(convolution, ops).has_value();
}

namespace {
/// A convolution on its way to a library call. Members are set in the order in which they stand.
class ConvolutionCall {
public:
  ConvolutionCall(LoweringContext &context, FusionGroup &group)
      : context(context), group(group), op(group.routine), result(group.outputs.front()),
        transposed(isa<ConvTransposeOp>(op)), input(op->getOperand(0)), weight(op->getOperand(1)),
        bias(op->getNumOperands() > 2 ? op->getOperand(2) : Value()), inputType(tensorOf(input)),
        weightType(tensorOf(weight)), resultType(tensorOf(op->getResult(0))) {}

  /// True if a call was made of it; false where the library cannot do it.
  FailureOr<bool> run();

private:
  bool isSupported();
  bool readWindows();
  FailureOr<bool> placeTensors();
  void describe();
  bool querySizes();
  FailureOr<Access> packWeight();
  LogicalResult call(Access packed);

  LoweringContext &context;
  FusionGroup &group;
  Operation *op;
  Value result;
  bool transposed;
  Value input, weight, bias;
  RankedTensorType inputType, weightType, resultType;
  PostOps post;
  ArrayRef<int64_t> strides, dilations;
  SmallVector<int64_t> low, high; ///< pads
  int64_t groups = 1;
  View from, to;
  plan::Convolution descriptor;
  ConvolutionSizes sizes;
};
} // namespace

bool ConvolutionCall::isSupported() {
  if (!resultType.getElementType().isF32() || !context.isLoadable(weight) ||
      (bias && !context.isLoadable(bias)) || context.isLoad() || resultType.getNumElements() == 0 ||
      inputType.getNumElements() == 0)
    return false;
  SmallVector<Operation *> rest;
  llvm::copy_if(group.ops, std::back_inserter(rest), [&](Operation *member) { return member != op; });
  auto matched = matchPostOps(op, rest);
  if (matched)
    post = *matched;
  return matched.has_value();
}

/// The window's attributes; false where the input is cropped in a way that the library does not know.
bool ConvolutionCall::readWindows() {
  auto read = [&](auto convolution) {
    strides = convolution.getStrides(), dilations = convolution.getDilations();
    low.assign(convolution.getPads().begin(), convolution.getPads().begin() + (inputType.getRank() - 2));
    groups = convolution.getGroup();
  };
  if (transposed)
    read(cast<ConvTransposeOp>(op));
  else
    read(cast<ConvOp>(op));
  for (unsigned d = 0; d < low.size(); ++d) {
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
  return true;
}

FailureOr<bool> ConvolutionCall::placeTensors() {
  SmallVector<int64_t> inStrides = channelsLastStrides(inputType.getShape()),
                       outStrides = channelsLastStrides(resultType.getShape());
  if (post.residual) {
    // The library adds to what lies in the output.
    auto residual = context.viewOf(post.residual);
    if (failed(residual))
      return failure();
    if (!context.isDeadAfter(post.residual, group.ops) || residual->strides != outStrides ||
        residual->offset != 0)
      return false;
    to = *residual;
  }
  auto source = context.viewOf(input);
  if (failed(source))
    return failure();
  from = *source;
  if (from.strides != inStrides) {
    from = View{context.newStorage(inputType.getNumElements() * 4), 0, inStrides};
    if (failed(context.copy(*source, inputType, from, op->getLoc())))
      return failure();
  }
  if (post.residual)
    context.setView(result, to);
  else
    to = context.allocate(result); // in the caller's layout where it is an output
  return true;
}

void ConvolutionCall::describe() {
  descriptor.set_type(plan::F32);
  auto fill = [](auto *field, ArrayRef<int64_t> values) {
    for (int64_t value : values)
      field->Add(value);
  };
  fill(descriptor.mutable_input(), inputType.getShape());
  fill(descriptor.mutable_weight(), weightType.getShape());
  fill(descriptor.mutable_output(), resultType.getShape());
  fill(descriptor.mutable_input_strides(), from.strides);
  fill(descriptor.mutable_output_strides(), to.strides);
  fill(descriptor.mutable_strides(), strides);
  fill(descriptor.mutable_dilations(), dilations);
  fill(descriptor.mutable_pads_begin(), low);
  fill(descriptor.mutable_pads_end(), high);
  descriptor.set_group(groups);
  descriptor.set_bias(bool(bias));
  descriptor.set_residual(bool(post.residual));
  descriptor.set_activation(post.activation);
  descriptor.set_transposed(transposed);
  descriptor.set_algorithm("direct");
}

/// The library's layouts depend on the number of threads, which is chosen when the plan is run: room for each
/// of the usual ones.
bool ConvolutionCall::querySizes() {
  for (unsigned threads : {1u, 2u, 4u, 8u, 16u, context.options().rankThreads}) {
    auto found = queryConvolution(descriptor, threads);
    if (!found)
      return false;
    sizes.packedBytes = std::max(sizes.packedBytes, found->packedBytes);
    sizes.scratchBytes = std::max(sizes.scratchBytes, found->scratchBytes);
  }
  sizes.scratchBytes = std::max<uint64_t>(sizes.scratchBytes, 64);
  return true;
}

static Operation *makeConvolution(OpBuilder &b, Location loc, ArrayRef<plan::BufferAttr> buffers,
                                  const plan::Convolution &descriptor, bool pack) {
  SmallVector<Attribute> attributes(buffers.begin(), buffers.end());
  auto list = [&](const auto &values) {
    return b.getDenseI64ArrayAttr(SmallVector<int64_t>(values.begin(), values.end()));
  };
  return plan::ConvolutionOp::create(
      b, loc, b.getArrayAttr(attributes), TypeAttr::get(b.getF32Type()), list(descriptor.input()),
      list(descriptor.weight()), list(descriptor.output()), list(descriptor.input_strides()),
      list(descriptor.output_strides()), list(descriptor.strides()), list(descriptor.dilations()),
      list(descriptor.pads_begin()), list(descriptor.pads_end()), b.getI64IntegerAttr(descriptor.group()),
      b.getBoolAttr(descriptor.bias()), b.getBoolAttr(descriptor.residual()),
      b.getStringAttr(descriptor.activation()), DenseF64ArrayAttr(), b.getBoolAttr(descriptor.transposed()),
      b.getStringAttr(descriptor.algorithm()), b.getBoolAttr(pack), StringAttr());
}

FailureOr<Access> ConvolutionCall::packWeight() {
  // The packing depends on the whole descriptor: the library chooses the layout.
  std::string name = "convolution " + context.keyOf(weight) + descriptor.SerializeAsString();
  const int64_t bytes = sizes.packedBytes;
  schedule::NamedWeight packed = context.weightNamed(name, bytes);
  if (packed.isNew) {
    LoweringContext &load = context.load();
    auto raw = load.denseViewOf(weight);
    if (failed(raw))
      return failure();
    load.append({{load.accessOf(*raw, weightType, false), Access{packed.storage, 0, bytes, true}},
                 false,
                 op->getLoc(),
                 [descriptor = descriptor,
                  loc = op->getLoc()](OpBuilder &b, ArrayRef<plan::BufferAttr> buffers, IRMapping &) {
                   return makeConvolution(b, loc, buffers, descriptor, true);
                 },
                 {}});
  }
  return Access{packed.storage, 0, bytes, false};
}

LogicalResult ConvolutionCall::call(Access packed) {
  SmallVector<Access> accesses{context.accessOf(from, inputType, false), packed};
  if (bias) {
    auto view = context.denseViewOf(bias);
    if (failed(view))
      return failure();
    accesses.push_back(context.accessOf(*view, tensorOf(bias), false));
  }
  const int64_t scratch = sizes.scratchBytes;
  accesses.push_back({context.newStorage(scratch), 0, scratch, true});
  accesses.push_back(context.accessOf(to, resultType, true));
  context.append({accesses,
                  false,
                  op->getLoc(),
                  [descriptor = descriptor,
                   loc = op->getLoc()](OpBuilder &b, ArrayRef<plan::BufferAttr> buffers, IRMapping &) {
                    return makeConvolution(b, loc, buffers, descriptor, false);
                  },
                  {}});
  return success();
}

FailureOr<bool> ConvolutionCall::run() {
  if (!isSupported() || !readWindows())
    return false;
  auto placed = placeTensors();
  if (failed(placed) || !*placed)
    return placed;
  describe();
  if (!querySizes()) {
    context.eraseView(result);
    return false;
  }
  auto packed = packWeight();
  if (failed(packed) || failed(call(*packed)))
    return failure();
  return true;
}

LogicalResult cpu::lowerConvolution(LoweringContext &context, FusionGroup &group) {
  auto called = ConvolutionCall(context, group).run();
  if (failed(called))
    return failure();
  return *called ? success() : context.lowerSeparately(group);
}
