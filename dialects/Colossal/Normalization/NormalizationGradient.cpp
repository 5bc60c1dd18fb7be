//===- NormalizationGradient.cpp --------------------------------------------===//
//
// Statistics are made again from the input, which the kernels do row by row: they cost less than they take
// memory.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/GradientBuilder.h"

using namespace mlir;
using namespace colossal;
using K = colossal::ElementwiseKind;

// With n = (x - mean) / s and h = dy scale:  dx = (h - mean(h) - n mean(h n)) / s;  rms has no means.
LogicalResult NormalizeOp::buildGradient(GradientBuilder &gradient) {
  OpComposer &ops = gradient.ops();
  Type inner = GradientBuilder::wideType(getInput());
  Value g = ops.cast(gradient.resultGradient(), inner);
  const unsigned scaleAt = 1, biasAt = getScale() ? 2 : 1;
  if (getBias())
    gradient.add(biasAt, g);
  if (!gradient.wants(0) && !(getScale() && gradient.wants(scaleAt)))
    return success();
  SmallVector<int64_t> axes;
  for (int64_t d = getAxis(); d < static_cast<int64_t>(shapeOf(getInput()).size()); ++d)
    axes.push_back(d);
  auto mean = [&](Value value) { return ops.reduce(ReduceKind::Mean, value, axes); };
  Value centered = ops.cast(getInput(), inner);
  const bool isLayer = getKind() == NormalizeKind::Layer;
  if (isLayer)
    centered = ops.sub(centered, mean(centered));
  Value raised = ops.shift(mean(ops.mul(centered, centered)), getEpsilon().convertToDouble());
  Value inverse = ops.apply(K::Pow, {raised, ops.constant(-0.5, raised)});
  Value normal = ops.mul(centered, inverse);
  if (getScale() && gradient.wants(scaleAt))
    gradient.add(scaleAt, ops.mul(g, normal));
  if (!gradient.wants(0))
    return success();
  Value h = getScale() ? ops.mul(g, ops.cast(getScale(), inner)) : g;
  Value along = ops.mul(normal, mean(ops.mul(h, normal)));
  Value rest = isLayer ? ops.sub(h, mean(h)) : h;
  gradient.add(0, ops.mul(ops.sub(rest, along), inverse));
  return success();
}

// y = softmax(x): dx = y (dy - sum(y dy));  y = log softmax(x): dx = dy - exp(y) sum(dy).
LogicalResult SoftmaxOp::buildGradient(GradientBuilder &gradient) {
  OpComposer &ops = gradient.ops();
  Value g = gradient.widen(gradient.resultGradient()), y = gradient.widen(getResult());
  auto sum = [&](Value value) {
    return ops.reduce(ReduceKind::Sum, value, {static_cast<int64_t>(getAxis())});
  };
  if (getLog()) {
    Value weight = ops.apply(K::Exp, {y});
    gradient.add(0, ops.sub(g, ops.mul(weight, sum(g))));
  } else {
    Value along = sum(ops.mul(y, g));
    gradient.add(0, ops.mul(y, ops.sub(g, along)));
  }
  return success();
}
