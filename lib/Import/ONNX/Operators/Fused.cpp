//===- Fused.cpp - what ONNX Runtime's optimizers write ----------------------===//
//
// A model saved after optimization has operators of the domain com.microsoft, each of which stands for a few
// of ONNX's. They are written out again; our own fusion finds them. Defaults and meanings are those of ONNX
// Runtime's contrib operators, version 1.
//
//===----------------------------------------------------------------------===//
#include "../Importer.h"
#include "../Operator.h"
#include "Window.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;

namespace colossal::onnx_import {

using Kind = ElementwiseKind;

namespace {

//===----------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------===//

/// Input 0 with input 1, where it is there, added.
FailureOr<Value> addBias(Node &n) {
  if (failed(n.require(1)))
    return failure();
  return n.in(1) ? n.elementwise(Kind::Add, {n.in(0), n.in(1)}) : FailureOr<Value>(n.in(0));
}

template <Kind kind>
LogicalResult importBiased(Node &n) {
  auto x = addBias(n);
  return failed(x) ? failure() : n.set(n.b.unary(kind, *x));
}

LogicalResult importQuickGelu(Node &n) {
  if (failed(n.require(1)))
    return failure();
  Value x = n.in(0);
  Value inner = n.b.mul(x, n.b.scalar(n.element(0), n.floatAttr("alpha", 1.702f)));
  return n.set(n.b.mul(x, n.b.unary(Kind::Sigmoid, inner)));
}

/// The activations that a fused convolution or contraction may end in, and what their parameters are where
/// the node does not give them.
struct Activation {
  StringRef name;
  Kind kind;
  SmallVector<double, 2> defaults;
};

/// The activation behind a fused convolution or contraction; `params` are its ONNX attributes in order.
FailureOr<Value> activate(Node &n, Value x, ArrayRef<double> params) {
  static const Activation activations[] = {{"Relu", Kind::Relu, {}},
                                           {"Tanh", Kind::Tanh, {}},
                                           {"Sigmoid", Kind::Sigmoid, {}},
                                           {"Softplus", Kind::Softplus, {}},
                                           {"Gelu", Kind::Gelu, {}},
                                           {"HardSwish", Kind::HardSwish, {}},
                                           {"LeakyRelu", Kind::LeakyRelu, {0.01f}},
                                           {"Elu", Kind::Elu, {1}},
                                           {"HardSigmoid", Kind::HardSigmoid, {0.2f, 0.5}}};
  StringRef name = n.stringAttr("activation", "");
  if (name.empty())
    return x;
  if (const auto *found = llvm::find_if(activations, [&](const Activation &a) { return a.name == name; });
      found != std::end(activations)) {
    SmallVector<double, 2> values = found->defaults;
    for (auto [value, given] : llvm::zip(values, params))
      value = given;
    return n.b.elementwise(found->kind, {x}, values);
  }
  Type element = GraphBuilder::elementOf(x);
  if (name == "Clip" && params.size() == 2)
    return n.b.elementwise(Kind::Clip, {x, n.b.scalar(element, params[0]), n.b.scalar(element, params[1])});
  return n.error() << "activation '" << name << "' with " << params.size() << " parameters is not supported";
}

//===----------------------------------------------------------------------===//
// Convolutions and contractions
//===----------------------------------------------------------------------===//

/// activation(conv(X, W) + B + Z).
LogicalResult importFusedConv(Node &n) {
  if (failed(n.require(2)))
    return failure();
  if (n.in(2) && (n.rank(1) == 0 || n.rank(2) != 1 || n.shape(2)[0] != n.shape(1)[0]))
    return n.error() << "the bias must have one element a channel";
  if (failed(setConv(n, n.in(0), n.in(1), n.in(2))))
    return failure();
  Value result = n.outputs[0];
  if (n.in(3)) {
    if (n.in(3).getType() != result.getType())
      return n.error() << "input 3 must be " << result.getType() << ", not " << n.in(3).getType();
    result = n.b.add(result, n.in(3));
  }
  return n.set(activate(n, result, n.floatsAttr("activation_params")));
}

/// alpha A B, either transposed in its last two dimensions.
LogicalResult importFusedMatMul(Node &n) {
  if (failed(n.require(2)))
    return failure();
  if (n.intAttr("transBatchA", 0) || n.intAttr("transBatchB", 0))
    return n.error() << "transBatchA and transBatchB are not supported";
  auto operand = [&](size_t i, StringRef transposed) {
    int64_t rank = n.rank(i);
    if (!n.intAttr(transposed, 0) || rank < 2)
      return n.in(i);
    SmallVector<int64_t> permutation = llvm::to_vector(llvm::seq<int64_t>(rank));
    std::swap(permutation[rank - 2], permutation[rank - 1]);
    return n.b.transpose(n.in(i), permutation);
  };
  Value lhs = operand(0, "transA"), rhs = operand(1, "transB");
  auto a = GraphBuilder::shapeOf(lhs), b = GraphBuilder::shapeOf(rhs);
  bool fits = !a.empty() && !b.empty() && a.back() == b[b.size() == 1 ? 0 : b.size() - 2] &&
              n.element(0) == n.element(1);
  if (fits && a.size() > 2 && b.size() > 2)
    fits = broadcastShapes(a.drop_back(2), b.drop_back(2)).has_value();
  if (!fits)
    return n.error() << n.in(0).getType() << " and " << n.in(1).getType() << " do not fit";
  Value product = n.b.matmul(lhs, rhs);
  double alpha = n.floatAttr("alpha", 1);
  return n.set(alpha == 1 ? product : n.b.mul(product, n.b.scalar(n.element(0), alpha)));
}

LogicalResult importFusedGemm(Node &n) {
  const OperatorRow *gemm = findOperator("", "Gemm", 13);
  if (!gemm || failed(gemm->function(n)))
    return failure();
  SmallVector<double> params;
  for (StringRef name : {"activation_alpha", "activation_beta", "activation_gamma"})
    if (n.hasAttr(name))
      params.push_back(n.floatAttr(name, 0));
  return n.set(activate(n, n.outputs[0], params));
}

//===----------------------------------------------------------------------===//
// Normalizations
//===----------------------------------------------------------------------===//

/// Normalizes the last dimension of `x`; `statistics` says from which output on the mean (of layer
/// normalization) and the inverse of the deviation are asked for.
LogicalResult normalizeLast(Node &n, NormalizeKind kind, Value x, Value scale, Value bias, double epsilon,
                            size_t statistics) {
  int64_t last = GraphBuilder::rankOf(x) - 1;
  if (last < 0)
    return n.error() << "a scalar has nothing to normalize";
  for (Value factor : {scale, bias})
    if (factor && (GraphBuilder::rankOf(factor) != 1 ||
                   GraphBuilder::shapeOf(factor)[0] != GraphBuilder::shapeOf(x)[last]))
      return n.error() << "scale and bias must have " << GraphBuilder::shapeOf(x)[last] << " elements";
  if (!scale)
    return n.error() << "the scale is missing";
  Type element = GraphBuilder::elementOf(x);
  n.give(0, n.b.normalize(kind, x, n.b.cast(scale, element), bias ? n.b.cast(bias, element) : Value(), last,
                          epsilon));
  bool isLayer = kind == NormalizeKind::Layer;
  if (!n.wants(statistics) && !(isLayer && n.wants(statistics + 1)))
    return success();
  Value wide = n.b.cast(x, n.b.ops().getF32Type());
  if (isLayer) {
    Value mean = n.b.reduce(ReduceKind::Mean, wide, {last}, true);
    n.give(statistics++, mean);
    wide = n.b.sub(wide, mean);
  }
  Value square = n.b.reduce(ReduceKind::Mean, n.b.mul(wide, wide), {last}, true);
  Value shifted = n.b.add(square, n.b.scalar(n.b.ops().getF32Type(), epsilon));
  return n.set(statistics, n.b.unary(Kind::Reciprocal, n.b.unary(Kind::Sqrt, shifted)));
}

/// RMS normalization under the name that it had before ONNX had one.
LogicalResult importSimplifiedLayerNormalization(Node &n) {
  if (failed(n.require(2)))
    return failure();
  auto axis = n.axis(n.intAttr("axis", -1), n.rank(0));
  if (failed(axis))
    return failure();
  if (*axis != n.rank(0) - 1)
    return n.error() << "only the last dimension can be normalized";
  return normalizeLast(n, NormalizeKind::RMS, n.in(0), n.in(1), {}, n.floatAttr("epsilon", 1e-5f), 1);
}

/// normalize(input + skip + bias); the sum is output 3.
LogicalResult normalizeSum(Node &n, NormalizeKind kind, Value shift, Value bias) {
  auto sum = n.elementwise(Kind::Add, {n.in(0), n.in(1)});
  if (succeeded(sum) && bias) {
    if (failed(n.checkBroadcast({*sum, bias})))
      return failure();
    sum = n.b.add(*sum, bias);
  }
  if (failed(sum) || (*sum).getType() != n.in(0).getType())
    return succeeded(sum) ? n.error() << "skip and bias do not broadcast to the input" : failure();
  n.give(3, *sum);
  // Without a mean, the other statistic keeps its place.
  return normalizeLast(n, kind, *sum, n.in(2), shift, n.floatAttr("epsilon", 1e-12f),
                       kind == NormalizeKind::Layer ? 1 : 2);
}

LogicalResult importSkipLayerNormalization(Node &n) {
  return failed(n.require(3)) ? failure() : normalizeSum(n, NormalizeKind::Layer, n.in(3), n.in(4));
}

LogicalResult importSkipSimplifiedLayerNormalization(Node &n) {
  return failed(n.require(3)) ? failure() : normalizeSum(n, NormalizeKind::RMS, {}, n.in(3));
}

} // namespace

void addFusedOperators(OperatorTable &table) {
  auto add = [&](StringRef name, OperatorFunction function) {
    table.push_back({"com.microsoft", name, 1, 0, function});
  };
  add("Gelu", importBiased<Kind::Gelu>);
  add("BiasGelu", importBiased<Kind::Gelu>);
  add("FastGelu", importBiased<Kind::GeluTanh>);
  add("QuickGelu", importQuickGelu);
  add("FusedConv", importFusedConv);
  add("FusedGemm", importFusedGemm);
  add("FusedMatMul", importFusedMatMul);
  add("SkipLayerNormalization", importSkipLayerNormalization);
  add("SkipSimplifiedLayerNormalization", importSkipSimplifiedLayerNormalization);
  table.push_back({"", "SimplifiedLayerNormalization", 1, 0, importSimplifiedLayerNormalization});
}

} // namespace colossal::onnx_import
