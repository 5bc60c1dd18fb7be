//===- Elementwise.cpp - ONNX operators of one element at a time ------------===//
//
// Rows of functions of one element, of several broadcast ones, casts, and the activations with attributes.
//
//===----------------------------------------------------------------------===//
#include "../Importer.h"
#include "../Operator.h"

#include "dialects/Colossal/NarrowTypes.h"

#include <limits>

using namespace mlir;

namespace colossal::onnx_import {

using Kind = ElementwiseKind;

namespace {

/// ONNX's rounding of powers of two, in the order of the cast's parameter.
constexpr StringRef kRoundModes[] = {"up", "down", "nearest"};

template <Kind kind>
LogicalResult importUnary(Node &n) {
  if (failed(n.require(1)))
    return failure();
  return n.set(n.b.unary(kind, n.in(0)));
}

/// Integers, which ONNX allows, go through f32.
LogicalResult importErf(Node &n) {
  if (failed(n.require(1)))
    return failure();
  Value x = isa<FloatType>(n.element(0)) ? n.in(0) : n.b.cast(n.in(0), n.b.ops().getF32Type());
  return n.set(n.b.cast(n.b.unary(Kind::Erf, x), n.element(0)));
}

template <Kind kind>
LogicalResult importBinary(Node &n) {
  if (failed(n.require(2)))
    return failure();
  return n.set(n.elementwise(kind, {n.in(0), n.in(1)}));
}

/// Max, Min, Sum: any number of operands, combined from the left.
template <Kind kind>
LogicalResult importVariadic(Node &n) {
  if (failed(n.require(std::max<size_t>(n.inputCount(), 1))))
    return failure();
  Value result = n.in(0);
  for (size_t i = 1; i < n.inputCount(); ++i) {
    auto next = n.elementwise(kind, {result, n.in(i)});
    if (failed(next))
      return failure();
    result = *next;
  }
  return n.set(result);
}

LogicalResult importMean(Node &n) {
  if (failed(importVariadic<Kind::Add>(n)))
    return failure();
  Value sum = n.outputs[0];
  return n.set(n.b.div(sum, n.b.scalar(GraphBuilder::elementOf(sum), double(n.inputCount()))));
}

template <Kind kind>
LogicalResult importAlpha(Node &n, double alpha) {
  if (failed(n.require(1)))
    return failure();
  return n.set(n.b.elementwise(kind, {n.in(0)}, {n.floatAttr("alpha", alpha)}));
}

LogicalResult importSelu(Node &n) {
  if (failed(n.require(1)))
    return failure();
  double alpha = n.floatAttr("alpha", 1.67326319217681884765625),
         gamma = n.floatAttr("gamma", 1.05070102214813232421875);
  return n.set(n.b.elementwise(Kind::Selu, {n.in(0)}, {alpha, gamma}));
}

LogicalResult importHardSigmoid(Node &n) {
  if (failed(n.require(1)))
    return failure();
  return n.set(
      n.b.elementwise(Kind::HardSigmoid, {n.in(0)}, {n.floatAttr("alpha", 0.2f), n.floatAttr("beta", 0.5)}));
}

LogicalResult importShrink(Node &n) {
  if (failed(n.require(1)))
    return failure();
  return n.set(
      n.b.elementwise(Kind::Shrink, {n.in(0)}, {n.floatAttr("lambd", 0.5), n.floatAttr("bias", 0.0)}));
}

LogicalResult importGelu(Node &n) {
  if (failed(n.require(1)))
    return failure();
  StringRef approximate = n.stringAttr("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    return n.error() << "approximate '" << approximate << "' is unknown";
  return n.set(n.b.unary(approximate == "tanh" ? Kind::GeluTanh : Kind::Gelu, n.in(0)));
}

LogicalResult importIsInf(Node &n) {
  if (failed(n.require(1)))
    return failure();
  return n.set(
      n.b.elementwise(Kind::IsInf, {n.in(0)},
                      {double(n.intAttr("detect_negative", 1)), double(n.intAttr("detect_positive", 1))}));
}

/// PRelu broadcasts the slope to the input only; Mod has two meanings; BitShift a direction.
LogicalResult importMod(Node &n) {
  return n.intAttr("fmod", 0) ? importBinary<Kind::Fmod>(n) : importBinary<Kind::Mod>(n);
}

LogicalResult importBitShift(Node &n) {
  return n.stringAttr("direction", "") == "LEFT" ? importBinary<Kind::ShiftLeft>(n)
                                                 : importBinary<Kind::ShiftRight>(n);
}

/// The conversion of Cast and CastLike: `saturate` and `round_mode` say how narrow floats are rounded.
LogicalResult setCast(Node &n, Type element) {
  if (isString(element) != isString(n.element(0)))
    return n.error() << (isString(element) ? "numbers cannot be cast to strings"
                                           : "strings cannot be cast to numbers");
  SmallVector<double> params;
  if (isNarrowFloat(element)) {
    StringRef mode = n.stringAttr("round_mode", "up");
    auto *place = llvm::find(ArrayRef<StringRef>(kRoundModes), mode);
    if (place == std::end(kRoundModes))
      return n.error() << "round_mode '" << mode << "' is unknown";
    params = {double(n.intAttr("saturate", 1)), double(place - kRoundModes)};
  }
  return n.set(n.b.cast(n.in(0), element, params));
}

LogicalResult importCast(Node &n) {
  if (failed(n.require(1)))
    return failure();
  int64_t to = n.intAttr("to", 0);
  Type element = getElementType(n.importer.context(), to);
  if (!element)
    return n.error() << "casts to " << onnx::TensorProto::DataType_Name(onnx::TensorProto::DataType(to))
                     << " are not supported";
  return setCast(n, element);
}

LogicalResult importCastLike(Node &n) {
  if (failed(n.require(2)))
    return failure();
  return setCast(n, n.element(1));
}

LogicalResult importBitCast(Node &n) {
  if (failed(n.require(1)))
    return failure();
  Type element = getElementType(n.importer.context(), n.intAttr("to", 0));
  if (!element)
    return n.error() << "bits cannot be seen as "
                     << onnx::TensorProto::DataType_Name(onnx::TensorProto::DataType(n.intAttr("to", 0)));
  if (element != n.element(0) && !canBitcast(n.element(0), element))
    return n.error() << "the bits of " << n.element(0) << " cannot be seen as " << element
                     << ", which has another width";
  return n.set(n.b.bitcast(n.in(0), element));
}

/// The bound of a Clip: an attribute before version 11, an input since.
FailureOr<Value> getBound(Node &n, size_t i, StringRef name) {
  if (n.in(i))
    return n.b.reshape(n.in(i), {});
  if (n.hasAttr(name))
    return n.b.scalar(n.element(0), n.floatAttr(name, 0));
  return Value();
}

LogicalResult importClip(Node &n) {
  if (failed(n.require(1)))
    return failure();
  for (size_t i : {1, 2})
    if (n.in(i) && GraphBuilder::typeOf(n.in(i)).getNumElements() != 1)
      return n.error() << "bounds must be scalars";
  Value low = *getBound(n, 1, "min"), high = *getBound(n, 2, "max"), x = n.in(0);
  if (low && high)
    return n.set(n.b.elementwise(Kind::Clip, {x, low, high}));
  if (low)
    return n.set(n.b.elementwise(Kind::Max, {x, low}));
  return n.set(high ? n.b.elementwise(Kind::Min, {x, high}) : x);
}

LogicalResult importWhere(Node &n) {
  if (failed(n.require(3)))
    return failure();
  if (!n.element(0).isInteger(1) || n.element(1) != n.element(2))
    return n.error() << "a boolean and two operands of one type are expected";
  return n.set(n.elementwise(Kind::Select, {n.in(0), n.in(1), n.in(2)}));
}

LogicalResult importPow(Node &n) {
  if (failed(n.require(2)))
    return failure();
  Value exponent = n.in(1);
  // An exponent of another type keeps its value; integer bases take float exponents through f64.
  if (n.element(0) == n.element(1))
    return n.set(n.elementwise(Kind::Pow, {n.in(0), exponent}));
  if (isa<FloatType>(n.element(0)) || isa<IntegerType>(n.element(1)))
    return n.set(n.elementwise(Kind::Pow, {n.in(0), n.b.cast(exponent, n.element(0))}));
  Type wide = n.b.ops().getF64Type();
  auto result = n.elementwise(Kind::Pow, {n.b.cast(n.in(0), wide), n.b.cast(exponent, wide)});
  return failed(result) ? failure() : n.set(n.b.cast(*result, n.element(0)));
}

LogicalResult importIdentity(Node &n) {
  if (failed(n.require(1)))
    return failure();
  return n.set(n.in(0));
}

/// The input itself; with training_mode what chance leaves of it.
LogicalResult importDropout(Node &n) {
  if (failed(n.require(1)))
    return failure();
  bool training = false;
  if (n.in(2)) {
    auto mode = n.intsInput(2);
    if (failed(mode))
      return failure();
    training = mode->size() == 1 && mode->front();
  }
  double ratio = n.floatAttr("ratio", 0.5);
  if (training && n.in(1)) {
    auto given = n.floatsInput(1);
    if (failed(given))
      return failure();
    ratio = given->empty() ? ratio : given->front();
  }
  if (!(ratio >= 0 && ratio <= 1))
    return n.error() << "the ratio must be from 0 to 1, but is " << ratio;
  if (!training || ratio == 0) {
    n.give(0, n.in(0));
    return n.set(1, n.wants(1) ? n.b.splat(n.shape(0), n.b.ops().getI1Type(), 1) : Value());
  }
  SmallVector<int64_t> extents(n.shape(0));
  uint64_t seed = n.hasAttr("seed") ? uint64_t(n.intAttr("seed", 0)) : n.getStream();
  if (!n.importer.getOptions().isTrained) {
    // A mask that is made of constants belongs to no block, so that layers that differ in it are alike.
    Value keeps = n.b.splat(extents, n.b.ops().getF32Type(), 1.0 - ratio);
    Value keep = RandomOp::create(n.b.ops(), n.b.loc(), RankedTensorType::get(extents, n.b.ops().getI1Type()),
                                  RandomKind::Bernoulli, keeps, Value(), ValueRange(), APFloat(0.0),
                                  APFloat(0.0), seed, extents);
    Value scaled = n.b.mul(n.in(0), n.b.scalar(n.element(0), ratio < 1 ? 1.0 / (1.0 - ratio) : 0.0));
    n.give(0, n.b.select(keep, scaled, n.b.scalar(n.element(0), 0)));
    return n.set(1, keep);
  }
  auto drop = [&](Value value) -> Value {
    return DropoutOp::create(n.b.ops(), n.b.loc(), value.getType(), value, Value(), ValueRange(),
                             APFloat(ratio), seed, extents);
  };
  n.give(0, drop(n.in(0)));
  if (!n.wants(1))
    return n.set(1, Value());
  // What is left of ones: the mask of the same choices.
  Type element = n.element(0);
  Value ones = drop(n.b.splat(extents, element, 1));
  return n.set(1, n.b.elementwise(Kind::Greater, {ones, n.b.scalar(element, 0)}));
}

} // namespace

void addElementwiseOperators(OperatorTable &table) {
  auto add = [&](StringRef name, OperatorFunction function, int64_t first = 1) {
    table.push_back({"", name, first, 0, function});
  };
  add("Abs", importUnary<Kind::Abs>);
  add("Neg", importUnary<Kind::Neg>);
  add("Reciprocal", importUnary<Kind::Reciprocal>);
  add("Sqrt", importUnary<Kind::Sqrt>);
  add("Exp", importUnary<Kind::Exp>);
  add("Log", importUnary<Kind::Log>);
  add("Erf", importErf, 9);
  add("Sin", importUnary<Kind::Sin>, 7);
  add("Cos", importUnary<Kind::Cos>, 7);
  add("Tan", importUnary<Kind::Tan>, 7);
  add("Asin", importUnary<Kind::Asin>, 7);
  add("Acos", importUnary<Kind::Acos>, 7);
  add("Atan", importUnary<Kind::Atan>, 7);
  add("Sinh", importUnary<Kind::Sinh>, 9);
  add("Cosh", importUnary<Kind::Cosh>, 9);
  add("Tanh", importUnary<Kind::Tanh>);
  add("Asinh", importUnary<Kind::Asinh>, 9);
  add("Acosh", importUnary<Kind::Acosh>, 9);
  add("Atanh", importUnary<Kind::Atanh>, 9);
  add("Ceil", importUnary<Kind::Ceil>);
  add("Floor", importUnary<Kind::Floor>);
  add("Round", importUnary<Kind::Round>, 11);
  add("Sign", importUnary<Kind::Sign>, 9);
  add("Relu", importUnary<Kind::Relu>);
  add("Sigmoid", importUnary<Kind::Sigmoid>);
  add("HardSwish", importUnary<Kind::HardSwish>, 14);
  add("Softplus", importUnary<Kind::Softplus>);
  add("Softsign", importUnary<Kind::Softsign>);
  add("Mish", importUnary<Kind::Mish>, 18);
  add("Not", importUnary<Kind::Not>);
  add("IsNaN", importUnary<Kind::IsNaN>, 9);
  add("BitwiseNot", importUnary<Kind::BitNot>, 18);
  add("LeakyRelu", [](Node &n) { return importAlpha<Kind::LeakyRelu>(n, 0.01f); });
  add("Elu", [](Node &n) { return importAlpha<Kind::Elu>(n, 1.0); });
  add("Celu", [](Node &n) { return importAlpha<Kind::Celu>(n, 1.0); }, 12);
  add("ThresholdedRelu", [](Node &n) { return importAlpha<Kind::ThresholdedRelu>(n, 1.0); }, 10);
  add("Swish", [](Node &n) { return importAlpha<Kind::Swish>(n, 1.0); }, 24);
  add("Selu", importSelu);
  add("HardSigmoid", importHardSigmoid);
  add("Shrink", importShrink, 9);
  add("Gelu", importGelu, 20);
  add("IsInf", importIsInf, 10);
  add("Cast", importCast);
  add("CastLike", importCastLike, 15);
  add("BitCast", importBitCast, 26);
  add("Add", importBinary<Kind::Add>, 7);
  add("Sub", importBinary<Kind::Sub>, 7);
  add("Mul", importBinary<Kind::Mul>, 7);
  add("Div", importBinary<Kind::Div>, 7);
  add("Pow", importPow, 7);
  add("Mod", importMod, 10);
  add("And", importBinary<Kind::And>, 7);
  add("Or", importBinary<Kind::Or>, 7);
  add("Xor", importBinary<Kind::Xor>, 7);
  add("Equal", importBinary<Kind::Equal>, 7);
  add("Less", importBinary<Kind::Less>, 7);
  add("LessOrEqual", importBinary<Kind::LessOrEqual>, 12);
  add("Greater", importBinary<Kind::Greater>, 7);
  add("GreaterOrEqual", importBinary<Kind::GreaterOrEqual>, 12);
  add("PRelu", importBinary<Kind::PRelu>, 7);
  add("BitwiseAnd", importBinary<Kind::BitAnd>, 18);
  add("BitwiseOr", importBinary<Kind::BitOr>, 18);
  add("BitwiseXor", importBinary<Kind::BitXor>, 18);
  add("BitShift", importBitShift, 11);
  add("Max", importVariadic<Kind::Max>, 6);
  add("Min", importVariadic<Kind::Min>, 6);
  add("Sum", importVariadic<Kind::Add>, 6);
  add("Mean", importMean, 6);
  add("Clip", importClip, 6);
  add("Where", importWhere, 9);
  table.push_back({"", "Identity", 1, 0, importIdentity, /*takesSequences=*/true});
  add("Dropout", importDropout, 7);
}

} // namespace colossal::onnx_import
