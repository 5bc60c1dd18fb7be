//===- Resampling.cpp - ONNX Resize and Upsample ----------------------------===//
//
// The operator's scales or sizes become one scale and one size per dimension; the sampling itself is the
// op's.
//
//===----------------------------------------------------------------------===//
#include "../Operator.h"

#include "llvm/ADT/Sequence.h"
#include <cmath>

using namespace mlir;

namespace colossal::onnx_import {

namespace {

struct Resampling {
  SmallVector<int64_t> axes;
  SmallVector<double> scales; ///< one per dimension
  SmallVector<int64_t> shape;
  SmallVector<double> roi; ///< starts, then ends, one per dimension; empty where it is not used
};

/// Sizes for `axes`, under the policy that keeps the aspect ratio or not.
LogicalResult applySizes(Node &n, ArrayRef<int64_t> sizes, Resampling &r) {
  if (sizes.size() != r.axes.size() || llvm::any_of(sizes, [](int64_t s) { return s <= 0 || s > (1 << 30); }))
    return n.error() << "one positive size per axis is expected";
  StringRef policy = n.stringAttr("keep_aspect_ratio_policy", "stretch");
  double common = 0;
  for (auto [axis, size] : llvm::zip(r.axes, sizes)) {
    double scale = double(size) / double(n.shape(0)[axis]);
    r.scales[axis] = scale;
    r.shape[axis] = size;
    if (common == 0 || (policy == "not_larger" ? scale < common : scale > common))
      common = scale;
  }
  if (policy == "stretch")
    return success();
  if (policy != "not_larger" && policy != "not_smaller")
    return n.error() << "keep_aspect_ratio_policy '" << policy << "' is unknown";
  for (int64_t axis : r.axes) {
    r.scales[axis] = common;
    r.shape[axis] = int64_t(std::floor(common * double(n.shape(0)[axis]) + 0.5));
  }
  return success();
}

LogicalResult applyScales(Node &n, ArrayRef<double> scales, Resampling &r) {
  if (scales.size() != r.axes.size())
    return n.error() << "one scale per axis is expected";
  int64_t rank = n.rank(0);
  for (auto [axis, scale] : llvm::zip(r.axes, scales)) {
    double extent = r.roi.empty() ? 1.0 : r.roi[axis + rank] - r.roi[axis];
    double size = std::floor(double(n.shape(0)[axis]) * extent * scale);
    if (!(scale > 0) || !(size >= 0 && size <= double(1 << 30)))
      return n.error() << "scale " << scale << " is not possible";
    r.scales[axis] = scale;
    r.shape[axis] = int64_t(size);
  }
  return success();
}

LogicalResult setResize(Node &n, const Resampling &r, StringRef mode, StringRef coordinates,
                        StringRef nearest) {
  if (r.shape == SmallVector<int64_t>(n.shape(0)) && r.roi.empty() &&
      llvm::all_of(r.scales, [](double scale) { return scale == 1; }))
    return n.set(n.in(0));
  OpBuilder &ops = n.b.ops();
  auto roi = r.roi.empty() ? DenseF64ArrayAttr() : ops.getDenseF64ArrayAttr(r.roi);
  return n.set(ResizeOp::create(
      ops, n.b.loc(), RankedTensorType::get(r.shape, n.element(0)), n.in(0), ops.getStringAttr(mode),
      ops.getStringAttr(coordinates), ops.getStringAttr(nearest), ops.getDenseF64ArrayAttr(r.scales), roi,
      ops.getF64FloatAttr(n.floatAttr("cubic_coeff_a", -0.75)),
      ops.getBoolAttr(n.intAttr("exclude_outside", 0)), ops.getBoolAttr(n.intAttr("antialias", 0)),
      ops.getF64FloatAttr(n.floatAttr("extrapolation_value", 0))));
}

bool isEmpty(Value value) {
  return !value || GraphBuilder::typeOf(value).getNumElements() == 0;
}

LogicalResult importResize(Node &n) {
  if (failed(n.require(1)))
    return failure();
  int64_t rank = n.rank(0);
  if (llvm::is_contained(n.shape(0), 0))
    return n.error() << "the tensor is empty";
  Resampling r;
  r.scales.assign(rank, 1.0);
  r.shape.assign(n.shape(0).begin(), n.shape(0).end());
  r.axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (n.hasAttr("axes")) {
    r.axes.clear();
    for (int64_t given : n.intsAttr("axes")) {
      auto axis = n.axis(given, rank);
      if (failed(axis))
        return failure();
      r.axes.push_back(*axis);
    }
  }
  bool old = n.version < 11;
  StringRef mode = n.stringAttr("mode", "nearest");
  StringRef coordinates = n.stringAttr("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel");
  StringRef nearest = n.stringAttr("nearest_mode", old ? "floor" : "round_prefer_floor");
  static constexpr StringLiteral known[] = {"half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
                                            "align_corners", "asymmetric",           "tf_crop_and_resize"};
  if ((mode != "nearest" && mode != "linear" && mode != "cubic") || !llvm::is_contained(known, coordinates))
    return n.error() << "mode '" << mode << "' with '" << coordinates << "' is not supported";
  if (coordinates == "tf_crop_and_resize") {
    auto given = n.floatsInput(1);
    if (failed(given))
      return failure();
    if (given->size() != 2 * r.axes.size())
      return n.error() << "roi needs a start and an end per axis";
    r.roi.assign(rank, 0.0);
    r.roi.append(rank, 1.0);
    for (auto [i, axis] : llvm::enumerate(r.axes)) {
      r.roi[axis] = (*given)[i];
      r.roi[axis + rank] = (*given)[i + r.axes.size()];
    }
  }
  if (!old && !isEmpty(n.in(3))) {
    auto sizes = n.intsInput(3);
    if (failed(sizes) || failed(applySizes(n, *sizes, r)))
      return failure();
  } else {
    auto scales = n.floatsInput(old ? 1 : 2);
    if (failed(scales) || failed(applyScales(n, *scales, r)))
      return failure();
  }
  return setResize(n, r, mode, coordinates, nearest);
}

LogicalResult importUpsample(Node &n) {
  if (failed(n.require(1)))
    return failure();
  Resampling r;
  r.scales.assign(n.rank(0), 1.0);
  r.shape.assign(n.shape(0).begin(), n.shape(0).end());
  r.axes = llvm::to_vector(llvm::seq<int64_t>(0, n.rank(0)));
  FailureOr<SmallVector<double>> scales = n.hasAttr("scales") ? n.floatsAttr("scales") : n.floatsInput(1);
  if (failed(scales) || failed(applyScales(n, *scales, r)))
    return failure();
  StringRef mode = n.stringAttr("mode", "nearest");
  return setResize(n, r, mode == "bilinear" ? "linear" : mode, "asymmetric", "floor");
}

} // namespace

void addResamplingOperators(OperatorTable &table) {
  table.push_back({"", "Resize", 10, 0, importResize});
  table.push_back({"", "Upsample", 7, 9, importUpsample});
}

} // namespace colossal::onnx_import
