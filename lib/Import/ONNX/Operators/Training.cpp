//===- Training.cpp - ONNX's optimizer steps --------------------------------===//
//
// One step of Adagrad, Adam and Momentum for any number of tensors, by composition: the formulas of the
// operators' documentation, a tensor at a time.
//
//===----------------------------------------------------------------------===//
#include "../Operator.h"

using namespace mlir;

namespace colossal::onnx_import {

namespace {

/// The inputs rate, step, then `groups` lists of equally many tensors; and the outputs, `groups` - 1 lists of
/// as many.
struct OptimizerStep {
  Node &n;
  const size_t groups;
  size_t count = 0;

  OptimizerStep(Node &n, size_t groups) : n(n), groups(groups) {}

  LogicalResult check() {
    if (n.inputCount() < 2 + groups || (n.inputCount() - 2) % groups)
      return n.error() << "a rate, a step and " << groups << " tensors for each that is updated are expected";
    count = (n.inputCount() - 2) / groups;
    if (failed(n.require(n.inputCount())))
      return failure();
    for (size_t i : {0, 1})
      if (GraphBuilder::typeOf(n.in(i)).getNumElements() != 1)
        return n.error() << "rate and step must be scalars";
    for (size_t i = 2; i < n.inputCount(); ++i)
      if (n.in(i).getType() != n.in(2 + (i - 2) % count).getType() || !isa<FloatType>(n.element(i)))
        return n.error() << "input " << i << ", " << n.in(i).getType()
                         << ", is no float tensor like the one it belongs to";
    return success();
  }

  Value in(size_t group, size_t i) { return n.in(2 + group * count + i); }
  void give(size_t group, size_t i, Value value) { n.give(group * count + i, value); }
  Value rate(Type element) { return n.b.cast(n.b.reshape(n.in(0), {}), element); }
  Value step(Type element) { return n.b.cast(n.b.reshape(n.in(1), {}), element); }
  Value number(Type element, double value) { return n.b.scalar(element, value); }
  Value scaled(Value x, double factor) { return n.b.mul(x, number(GraphBuilder::elementOf(x), factor)); }
  /// The gradient with the derivative of the penalty norm_coefficient / 2 * |x|^2.
  Value gradient(size_t i) {
    double norm = n.floatAttr("norm_coefficient", 0);
    return norm == 0 ? in(1, i) : n.b.add(in(1, i), scaled(in(0, i), norm));
  }
  /// step > 0 ? after : first
  Value afterFirst(Value after, Value first) {
    Type element = GraphBuilder::elementOf(first);
    return n.b.select(n.b.elementwise(ElementwiseKind::Greater, {step(element), number(element, 0)}), after,
                      first);
  }
};

LogicalResult importAdagrad(Node &n) {
  OptimizerStep s(n, 3);
  if (failed(s.check()))
    return failure();
  for (size_t i = 0; i < s.count; ++i) {
    Type element = GraphBuilder::elementOf(s.in(0, i));
    Value decayed = n.b.add(s.scaled(s.step(element), n.floatAttr("decay_factor", 0)), s.number(element, 1));
    Value gradient = s.gradient(i), squares = n.b.add(s.in(2, i), n.b.mul(gradient, gradient));
    Value root =
        n.b.add(n.b.unary(ElementwiseKind::Sqrt, squares), s.number(element, n.floatAttr("epsilon", 1e-6)));
    Value change = n.b.div(n.b.mul(n.b.div(s.rate(element), decayed), gradient), root);
    s.give(0, i, n.b.sub(s.in(0, i), change));
    s.give(1, i, squares);
  }
  return success();
}

LogicalResult importAdam(Node &n) {
  OptimizerStep s(n, 4);
  if (failed(s.check()))
    return failure();
  double alpha = n.floatAttr("alpha", 0.9), beta = n.floatAttr("beta", 0.999);
  for (size_t i = 0; i < s.count; ++i) {
    Type element = GraphBuilder::elementOf(s.in(0, i));
    Value gradient = s.gradient(i), one = s.number(element, 1);
    auto blend = [&](Value old, Value fresh, double decay) {
      fresh = s.scaled(fresh, 1 - decay);
      return n.b.add(s.scaled(old, decay), fresh);
    };
    Value mean = blend(s.in(2, i), gradient, alpha);
    Value squares = blend(s.in(3, i), n.b.mul(gradient, gradient), beta);
    Value root =
        n.b.add(n.b.unary(ElementwiseKind::Sqrt, squares), s.number(element, n.floatAttr("epsilon", 1e-6)));
    // What the first steps lack, since both means begin at 0.
    auto missing = [&](double decay) {
      return n.b.sub(one, n.b.elementwise(ElementwiseKind::Pow, {s.number(element, decay), s.step(element)}));
    };
    Value rate = s.rate(element);
    Value ofMean = missing(alpha);
    Value corrected = n.b.div(n.b.mul(rate, n.b.unary(ElementwiseKind::Sqrt, missing(beta))), ofMean);
    Value change = n.b.div(n.b.mul(s.afterFirst(corrected, rate), mean), root);
    s.give(0, i, s.scaled(n.b.sub(s.in(0, i), change), 1 - n.floatAttr("norm_coefficient_post", 0)));
    s.give(1, i, mean);
    s.give(2, i, squares);
  }
  return success();
}

LogicalResult importMomentum(Node &n) {
  OptimizerStep s(n, 3);
  if (failed(s.check()))
    return failure();
  StringRef mode = n.stringAttr("mode", "");
  if (mode != "standard" && mode != "nesterov")
    return n.error() << "mode '" << mode << "' is unknown";
  double alpha = n.floatAttr("alpha", 0), beta = n.floatAttr("beta", 0);
  for (size_t i = 0; i < s.count; ++i) {
    Type element = GraphBuilder::elementOf(s.in(0, i));
    Value gradient = s.gradient(i);
    Value one = s.number(element, 1), share = s.afterFirst(s.number(element, beta), one);
    Value added = n.b.mul(share, gradient), velocity = n.b.add(s.scaled(s.in(2, i), alpha), added);
    Value along = mode == "standard" ? velocity : n.b.add(gradient, s.scaled(velocity, alpha));
    s.give(0, i, n.b.sub(s.in(0, i), n.b.mul(s.rate(element), along)));
    s.give(1, i, velocity);
  }
  return success();
}

} // namespace

void addTrainingOperators(OperatorTable &table) {
  constexpr StringRef domain = "ai.onnx.preview.training";
  table.push_back({domain, "Adagrad", 1, 0, importAdagrad});
  table.push_back({domain, "Adam", 1, 0, importAdam});
  table.push_back({domain, "Momentum", 1, 0, importMomentum});
}

} // namespace colossal::onnx_import
