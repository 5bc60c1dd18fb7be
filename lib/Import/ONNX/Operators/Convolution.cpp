//===- Convolution.cpp - ONNX convolutions ----------------------------------===//
//
// Conv and ConvTranspose, ConvInteger as a Conv of differences, CausalConvWithState as one behind the last
// inputs.
//
//===----------------------------------------------------------------------===//
#include "Window.h"

using namespace mlir;

namespace colossal::onnx_import {

namespace {

LogicalResult checkBias(Node &n, int64_t channels) {
  if (n.in(2) && (n.rank(2) != 1 || n.shape(2)[0] != channels))
    return n.error() << "the bias must have " << channels << " elements";
  return success();
}

} // namespace

LogicalResult setConv(Node &n, Value input, Value weight, Value bias) {
  auto shape = GraphBuilder::shapeOf(input), weightShape = GraphBuilder::shapeOf(weight);
  int64_t group = n.intAttr("group", 1);
  if (shape.size() < 3 || shape.size() > 5 || weightShape.size() != shape.size() || group <= 0 ||
      shape[1] % group || weightShape[1] != shape[1] / group || weightShape[0] % group)
    return n.error() << input.getType() << " and " << weight.getType() << " in " << group
                     << " groups do not fit";
  auto kernel = weightShape.drop_front(2);
  if (n.hasAttr("kernel_shape") && ArrayRef<int64_t>(n.intsAttr("kernel_shape")) != kernel)
    return n.error() << "kernel_shape is not that of the weight";
  auto window = Window::read(n, kernel, false);
  if (failed(window))
    return failure();
  SmallVector<int64_t> result = {shape[0], weightShape[0]};
  llvm::append_range(result, window->result);
  auto type = RankedTensorType::get(result, GraphBuilder::elementOf(input));
  return n.set(ConvOp::create(n.b.ops(), n.b.loc(), type, input, weight, bias, window->strides,
                              window->dilations, window->pads, uint64_t(group)));
}

namespace {

LogicalResult importConv(Node &n) {
  if (failed(n.require(2)) || (n.rank(1) > 0 && failed(checkBias(n, n.shape(1)[0]))))
    return failure();
  return setConv(n, n.in(0), n.in(1), n.in(2));
}

LogicalResult importConvInteger(Node &n) {
  if (failed(n.require(2)))
    return failure();
  Type i32 = n.b.ops().getI32Type();
  Value x = n.b.cast(n.in(0), i32), w = n.b.cast(n.in(1), i32);
  if (n.in(2))
    x = n.b.sub(x, n.b.cast(n.b.reshape(n.in(2), {}), i32));
  if (Value zero = n.in(3)) {
    SmallVector<int64_t> shape(n.rank(1), 1);
    shape[0] = GraphBuilder::typeOf(zero).getNumElements();
    if (shape[0] != 1 && shape[0] != n.shape(1)[0])
      return n.error() << "the weight's zero point does not fit";
    w = n.b.sub(w, n.b.cast(n.b.reshape(zero, shape), i32));
  }
  return setConv(n, x, w, {});
}

LogicalResult importConvTranspose(Node &n) {
  if (failed(n.require(2)))
    return failure();
  int64_t group = n.intAttr("group", 1);
  if (n.rank(0) < 3 || n.rank(0) > 5 || n.rank(1) != n.rank(0) || group <= 0 ||
      n.shape(0)[1] != n.shape(1)[0] || n.shape(0)[1] % group)
    return n.error() << n.in(0).getType() << " and " << n.in(1).getType() << " in " << group
                     << " groups do not fit";
  int64_t channels = n.shape(1)[1] * group;
  auto window = Window::readSteps(n, n.shape(1).drop_front(2));
  if (failed(window) || failed(checkBias(n, channels)))
    return failure();
  size_t spatial = window->kernel.size();
  SmallVector<int64_t> extra =
      n.hasAttr("output_padding") ? n.intsAttr("output_padding") : SmallVector<int64_t>(spatial, 0);
  SmallVector<int64_t> wanted = n.intsAttr("output_shape");
  SmallVector<int64_t> pads = n.hasAttr("pads") ? n.intsAttr("pads") : SmallVector<int64_t>(2 * spatial, 0);
  StringRef automatic = n.stringAttr("auto_pad", "NOTSET");
  bool same = automatic.starts_with("SAME");
  if (extra.size() != spatial || pads.size() != 2 * spatial || (!wanted.empty() && wanted.size() != spatial))
    return n.error() << "pads, output_padding or output_shape have a wrong number of entries";
  constexpr int64_t kMost = 1 << 30;
  for (ArrayRef<int64_t> list :
       {ArrayRef<int64_t>(extra), ArrayRef<int64_t>(wanted), ArrayRef<int64_t>(pads)})
    for (int64_t size : list)
      if (size < -kMost || size > kMost)
        return n.error() << size << " is out of range for pads, output_padding and output_shape";
  SmallVector<int64_t> shape = {n.shape(0)[0], channels};
  for (size_t d = 0; d < spatial; ++d) {
    int64_t in = n.shape(0)[d + 2], full = window->strides[d] * (in - 1) + extra[d] + window->extent(d);
    if (wanted.empty() && !same) {
      if (automatic == "VALID")
        pads[d] = pads[d + spatial] = 0;
      shape.push_back(full - pads[d] - pads[d + spatial]);
    } else {
      int64_t out = wanted.empty() ? in * window->strides[d] : wanted[d];
      int64_t total = full - out;
      pads[d] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      pads[d + spatial] = total - pads[d];
      // A result larger than what the kernel reaches is filled up behind: only negative high pads can say
      // that.
      if (total < 0) {
        pads[d] = 0;
        pads[d + spatial] = total;
      }
      shape.push_back(out);
    }
    if (shape.back() <= 0)
      return n.error() << "the result would be empty";
  }
  auto type = RankedTensorType::get(shape, n.element(0));
  return n.set(ConvTransposeOp::create(n.b.ops(), n.b.loc(), type, n.in(0), n.in(1), n.in(2), window->strides,
                                       window->dilations, pads, uint64_t(group)));
}

LogicalResult importCausalConvWithState(Node &n) {
  if (failed(n.require(2)))
    return failure();
  if (n.rank(0) != 3 || n.rank(1) != 3 || n.shape(1)[0] != n.shape(0)[1] || n.shape(1)[1] != 1 ||
      n.shape(1)[2] < 1 || n.element(0) != n.element(1))
    return n.error() << n.in(0).getType() << " and " << n.in(1).getType()
                     << " are no channels and their kernels";
  int64_t channels = n.shape(0)[1], length = n.shape(0)[2], kept = n.shape(1)[2] - 1;
  auto state = RankedTensorType::get({n.shape(0)[0], channels, kept}, n.element(0));
  if (failed(checkBias(n, channels)))
    return failure();
  Value past = n.in(3) ? n.in(3) : n.b.splat(state.getShape(), n.element(0), 0);
  if (past.getType() != state)
    return n.error() << "past_state must be " << state << ", not " << past.getType();
  Value all = kept ? n.b.concat({past, n.in(0)}, 2) : n.in(0);
  auto type = RankedTensorType::get(n.shape(0), n.element(0));
  SmallVector<int64_t> one = {1}, none = {0, 0};
  Value result =
      ConvOp::create(n.b.ops(), n.b.loc(), type, all, n.in(1), n.in(2), one, one, none, uint64_t(channels));
  StringRef activation = n.stringAttr("activation", "none");
  if (activation == "silu" || activation == "swish")
    result = n.b.mul(result, n.b.unary(ElementwiseKind::Sigmoid, result));
  else if (activation != "none")
    return n.error() << "activation '" << activation << "' is not known";
  n.give(0, result);
  if (n.wants(1))
    n.give(1, kept ? n.b.sliceDim(all, 2, length, kept) : past);
  return success();
}

} // namespace

void addConvolutionOperators(OperatorTable &table) {
  table.push_back({"", "CausalConvWithState", 27, 0, importCausalConvWithState});
  table.push_back({"", "Conv", 1, 0, importConv});
  table.push_back({"", "ConvInteger", 10, 0, importConvInteger});
  table.push_back({"", "ConvTranspose", 1, 0, importConvTranspose});
}

} // namespace colossal::onnx_import
