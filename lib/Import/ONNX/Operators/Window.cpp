//===- Window.cpp - kernels, strides and pads of ONNX operators -------------===//
//
// Sizes as in ONNX's Conv and MaxPool: floor (or ceil) of (in + pads - extent) / stride, plus 1; with
// auto_pad SAME the ceil of in / stride.
//
//===----------------------------------------------------------------------===//
#include "Window.h"

using namespace mlir;

namespace colossal::onnx_import {

FailureOr<Window> Window::readSteps(Node &n, ArrayRef<int64_t> kernel) {
  Window window;
  size_t spatial = n.rank(0) < 2 ? 0 : n.rank(0) - 2;
  window.kernel.assign(kernel.begin(), kernel.end());
  window.strides = n.hasAttr("strides") ? n.intsAttr("strides") : SmallVector<int64_t>(spatial, 1);
  window.dilations = n.hasAttr("dilations") ? n.intsAttr("dilations") : SmallVector<int64_t>(spatial, 1);
  constexpr int64_t kMost = 1 << 30;
  auto bad = [&](ArrayRef<int64_t> values) {
    return values.size() != spatial || llvm::any_of(values, [](int64_t v) { return v <= 0 || v > kMost; });
  };
  if (spatial == 0 || bad(kernel) || bad(window.strides) || bad(window.dilations))
    return n.error() << "kernel, strides and dilations need one positive number per spatial dimension of "
                     << n.in(0).getType();
  for (size_t d = 0; d < spatial; ++d)
    if (n.shape(0)[d + 2] > kMostElements / window.strides[d])
      return n.error() << "stride " << window.strides[d] << " is out of range for " << n.in(0).getType();
  return window;
}

FailureOr<Window> Window::read(Node &n, ArrayRef<int64_t> kernel, bool ceilMode) {
  auto window = readSteps(n, kernel);
  if (failed(window))
    return failure();
  size_t spatial = window->kernel.size();
  StringRef automatic = n.stringAttr("auto_pad", "NOTSET");
  bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  if (!same && automatic != "NOTSET" && automatic != "VALID" && !automatic.empty())
    return n.error() << "auto_pad '" << automatic << "' is unknown";
  window->pads = n.hasAttr("pads") && automatic != "VALID" && !same ? n.intsAttr("pads")
                                                                    : SmallVector<int64_t>(2 * spatial, 0);
  if (window->pads.size() != 2 * spatial ||
      llvm::any_of(window->pads, [](int64_t pad) { return pad < 0 || pad > (1 << 30); }))
    return n.error() << "two pads >= 0 per spatial dimension are expected";
  for (size_t d = 0; d < spatial; ++d) {
    int64_t in = n.shape(0)[d + 2], stride = window->strides[d], extent = window->extent(d);
    int64_t &low = window->pads[d], &high = window->pads[d + spatial];
    if (same) {
      int64_t out = (in + stride - 1) / stride;
      int64_t total = std::max<int64_t>(0, (out - 1) * stride + extent - in);
      low = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      high = total - low;
      window->result.push_back(out);
      continue;
    }
    int64_t room = in + low + high - extent;
    if (ceilMode && room < 0 && -room < stride && in + low > 0) {
      // The only window hangs over the end: what it covers is what is there.
      window->kernel[d] = (in + low + high - 1) / window->dilations[d] + 1;
      window->result.push_back(1);
      continue;
    }
    if (room < 0)
      return n.error() << "the window does not fit into spatial dimension " << d << " of "
                       << n.in(0).getType();
    int64_t out = room / stride + 1;
    // With ceil_mode a last window may hang over the end, if it starts inside the input or its low pad.
    if (ceilMode && room % stride && out * stride < in + low)
      ++out;
    window->result.push_back(out);
  }
  return window;
}

} // namespace colossal::onnx_import
