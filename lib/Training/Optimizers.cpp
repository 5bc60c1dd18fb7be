//===- Optimizers.cpp - updates as ops ----------------------------------------===//
//
// Each as PyTorch or its paper has it, with the operations in PyTorch's order; docs/Training.md has the
// formulas. All of it is elementwise but for norms and means, which are ordinary reductions: they are exact
// however a parameter is split.
//
//===----------------------------------------------------------------------===//
#include "Optimizers.h"

#include "colossal/Training/Training.h"
#include "llvm/ADT/Sequence.h"

#include <cmath>

using namespace mlir;
using namespace colossal;
using namespace colossal::training;

using Names = SmallVector<StringRef>;
using Slots = SmallVector<Slot>;

//===----------------------------------------------------------------------===//
// Step values
//===----------------------------------------------------------------------===//

Value StepValues::get(StringRef name) {
  Value &known = read[name];
  if (!known) {
    const auto *at = llvm::find(names, name);
    assert(at != names.end() && "a step value that the optimizer does not list");
    known = ops.reshape(ops.slice(input, 0, at - names.begin(), 1), {});
  }
  return known;
}

Value StepValues::get(StringRef key, Type element, llvm::function_ref<Value()> compute) {
  Value &known = made[{key.str(), element.getAsOpaquePointer()}];
  if (!known)
    known = ops.cast(compute(), element);
  return known;
}

//===----------------------------------------------------------------------===//
// Parts of updates
//===----------------------------------------------------------------------===//

static SmallVector<int64_t> getShape(RankedTensorType type) {
  return SmallVector<int64_t>(type.getShape());
}
static RankedTensorType getType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// sqrt(sum of squares), a scalar.
static Value getNorm(OpComposer &ops, Value value) {
  Value square = ops.mul(value, value);
  if (int64_t rank = getType(value).getRank())
    square = ops.reshape(ops.reduce(ReduceKind::Sum, square, llvm::to_vector(llvm::seq<int64_t>(rank))), {});
  return ops.apply(ElementwiseKind::Sqrt, {square});
}

/// a + (b - a) * weight
static Value blend(OpComposer &ops, Value a, Value b, Value weight) {
  return ops.add(a, ops.mul(ops.sub(b, a), weight));
}

/// 1 - beta
static Value getRest(OpComposer &ops, StepValues &values, StringRef beta, Type element) {
  return values.get(("1-" + beta).str(), element, [&] { return ops.shift(ops.neg(values.get(beta)), 1); });
}

/// parameter * (1 - lr * weight_decay)
static Value shrink(OpComposer &ops, StepValues &values, Value parameter) {
  return ops.mul(parameter, values.get("shrink", getType(parameter).getElementType(), [&] {
    return ops.shift(ops.neg(ops.mul(values.get("lr"), values.get("weight_decay"))), 1);
  }));
}

/// a / b, or 1 where one of them is 0.
static Value getTrustRatio(OpComposer &ops, Value a, Value b) {
  Value one = ops.constant(1, a);
  Value hasNone = ops.compare(ElementwiseKind::LessOrEqual, ops.mul(a, b), 0.0);
  return ops.select(hasNone, one, ops.div(a, ops.select(hasNone, one, b)));
}

/// The moments of Adam: exp_avg and exp_avg_sq.
static SmallVector<Value> updateMoments(OpComposer &ops, StepValues &values, ArrayRef<Value> slots,
                                        Value gradient) {
  Type element = getType(gradient).getElementType();
  return {blend(ops, slots[0], gradient, getRest(ops, values, "beta1", element)),
          ops.add(ops.mul(slots[1], values.get("beta2", element)),
                  ops.mul(ops.mul(gradient, gradient), getRest(ops, values, "beta2", element)))};
}

/// sqrt(square) / sqrt(bias_correction2) + eps
static Value getScale(OpComposer &ops, StepValues &values, Value square) {
  Type element = getType(square).getElementType();
  Value root = values.get("root of bias_correction2", element,
                          [&] { return ops.apply(ElementwiseKind::Sqrt, {values.get("bias_correction2")}); });
  return ops.add(ops.div(ops.apply(ElementwiseKind::Sqrt, {square}), root), values.get("eps", element));
}

//===----------------------------------------------------------------------===//
// Optimizers
//===----------------------------------------------------------------------===//

namespace {

/// torch.optim.SGD.
class Sgd final : public Optimizer {
  Names getStepValues() const override { return {"lr", "weight_decay", "momentum", "nesterov", "dampening"}; }
  Slots getSlots(RankedTensorType parameter) const override {
    return {{"momentum_buffer", getShape(parameter)}};
  }
  Updated update(OpComposer &ops, const Update &given, StepValues &values) const override {
    Type element = getType(given.parameter).getElementType();
    Value gradient = given.gradient, momentum = values.get("momentum", element);
    if (given.decays)
      gradient = ops.add(gradient, ops.mul(given.parameter, values.get("weight_decay", element)));
    Value buffer = ops.add(ops.mul(given.slots[0], momentum),
                           ops.mul(gradient, getRest(ops, values, "dampening", element)));
    Value isNesterov = ops.compare(ElementwiseKind::Greater, values.get("nesterov", element), 0.0);
    Value direction = ops.select(isNesterov, ops.add(gradient, ops.mul(buffer, momentum)), buffer);
    return {ops.sub(given.parameter, ops.mul(direction, values.get("lr", element))), {buffer}};
  }
};

/// torch.optim.Adam and AdamW: whether decay goes into the gradient, or shrinks the parameter.
class Adam final : public Optimizer {
public:
  explicit Adam(bool isDecoupled) : isDecoupled(isDecoupled) {}

private:
  Names getStepValues() const override {
    return {"lr", "weight_decay", "beta1", "beta2", "eps", "bias_correction1", "bias_correction2"};
  }
  Slots getSlots(RankedTensorType parameter) const override {
    return {{"exp_avg", getShape(parameter)}, {"exp_avg_sq", getShape(parameter)}};
  }
  Updated update(OpComposer &ops, const Update &given, StepValues &values) const override {
    Type element = getType(given.parameter).getElementType();
    Value gradient = given.gradient, parameter = given.parameter;
    if (given.decays && isDecoupled)
      parameter = shrink(ops, values, parameter);
    else if (given.decays)
      gradient = ops.add(gradient, ops.mul(parameter, values.get("weight_decay", element)));
    SmallVector<Value> moments = updateMoments(ops, values, given.slots, gradient);
    Value size = values.get("step size", element,
                            [&] { return ops.div(values.get("lr"), values.get("bias_correction1")); });
    Value direction = ops.div(moments[0], getScale(ops, values, moments[1]));
    return {ops.sub(parameter, ops.mul(direction, size)), std::move(moments)};
  }

  bool isDecoupled;
};

/// Chen et al., Symbolic Discovery of Optimization Algorithms (2023), algorithm 2.
class Lion final : public Optimizer {
  Names getStepValues() const override { return {"lr", "weight_decay", "beta1", "beta2"}; }
  Slots getSlots(RankedTensorType parameter) const override { return {{"exp_avg", getShape(parameter)}}; }
  Updated update(OpComposer &ops, const Update &given, StepValues &values) const override {
    Type element = getType(given.parameter).getElementType();
    auto mix = [&](StringRef beta) {
      return blend(ops, given.slots[0], given.gradient, getRest(ops, values, beta, element));
    };
    Value direction = ops.apply(ElementwiseKind::Sign, {mix("beta1")});
    Value parameter = given.decays ? shrink(ops, values, given.parameter) : given.parameter;
    return {ops.sub(parameter, ops.mul(direction, values.get("lr", element))), {mix("beta2")}};
  }
};

/// You et al., Large Batch Optimization for Deep Learning: Training BERT in 76 minutes (2020), algorithm 2.
class Lamb final : public Optimizer {
  Names getStepValues() const override {
    return {"lr", "weight_decay", "beta1", "beta2", "eps", "bias_correction1", "bias_correction2"};
  }
  Slots getSlots(RankedTensorType parameter) const override {
    return {{"exp_avg", getShape(parameter)}, {"exp_avg_sq", getShape(parameter)}};
  }
  Updated update(OpComposer &ops, const Update &given, StepValues &values) const override {
    Type element = getType(given.parameter).getElementType();
    SmallVector<Value> moments = updateMoments(ops, values, given.slots, given.gradient);
    Value mean = ops.div(moments[0], values.get("bias_correction1", element));
    Value direction = ops.div(mean, getScale(ops, values, moments[1]));
    if (given.decays)
      direction = ops.add(direction, ops.mul(given.parameter, values.get("weight_decay", element)));
    Value trust = getTrustRatio(ops, getNorm(ops, given.parameter), getNorm(ops, direction));
    Value size = ops.mul(trust, values.get("lr", element));
    return {ops.sub(given.parameter, ops.mul(direction, size)), std::move(moments)};
  }
};

/// You, Gitman, Ginsburg, Large Batch Training of Convolutional Networks (2017), algorithm 1.
class Lars final : public Optimizer {
  Names getStepValues() const override { return {"lr", "weight_decay", "momentum", "trust"}; }
  Slots getSlots(RankedTensorType parameter) const override {
    return {{"momentum_buffer", getShape(parameter)}};
  }
  Updated update(OpComposer &ops, const Update &given, StepValues &values) const override {
    Type element = getType(given.parameter).getElementType();
    Value gradient = given.gradient, own = getNorm(ops, given.parameter), other = getNorm(ops, gradient);
    // Where a norm is 0, as of a fresh bias, the rate is the global one.
    Value hasNone = ops.compare(ElementwiseKind::LessOrEqual, ops.mul(own, other), 0.0);
    if (given.decays) {
      Value decay = values.get("weight_decay", element);
      other = ops.add(other, ops.mul(own, decay));
      gradient = ops.add(gradient, ops.mul(given.parameter, decay));
    }
    Value ratio = ops.mul(getTrustRatio(ops, own, other), values.get("trust", element));
    Value rate = ops.mul(ops.select(hasNone, ops.constant(1, own), ratio), values.get("lr", element));
    Value buffer = ops.add(ops.mul(given.slots[0], values.get("momentum", element)), ops.mul(gradient, rate));
    return {ops.sub(given.parameter, buffer), {buffer}};
  }
};

/// torch.optim.Adafactor, after Shazeer, Stern, Adafactor (2018): of parameters of two dimensions or more,
/// the second moment is kept by its rows' and columns' means.
class Adafactor final : public Optimizer {
  Names getStepValues() const override {
    return {"lr", "weight_decay", "eps", "eps2", "one_minus_beta2", "relative_lr", "threshold"};
  }
  static bool isFactored(ArrayRef<int64_t> shape) { return shape.size() > 1; }
  Slots getSlots(RankedTensorType parameter) const override {
    SmallVector<int64_t> rows = getShape(parameter), columns = rows;
    if (!isFactored(rows))
      return {{"variance", rows}};
    rows.back() = 1;
    columns[columns.size() - 2] = 1;
    return {{"row_var", rows}, {"col_var", columns}};
  }
  Updated update(OpComposer &ops, const Update &given, StepValues &values) const override {
    RankedTensorType type = getType(given.parameter);
    Type element = type.getElementType();
    const int64_t rank = type.getRank();
    const double elements = static_cast<double>(std::max<int64_t>(1, type.getNumElements()));
    auto getRms = [&](Value tensor) { return ops.scale(getNorm(ops, tensor), 1 / std::sqrt(elements)); };
    auto max = [&](Value a, Value b) { return ops.apply(ElementwiseKind::Max, {a, b}); };
    auto mean = [&](Value tensor, int64_t axis) { return ops.reduce(ReduceKind::Mean, tensor, axis); };
    Value weight = values.get("one_minus_beta2", element), least = values.get("eps", element);
    Value size = ops.mul(max(values.get("eps2", element), getRms(given.parameter)),
                         values.get("relative_lr", element));
    Value parameter = given.decays ? shrink(ops, values, given.parameter) : given.parameter;
    Value square = ops.mul(given.gradient, given.gradient), estimate;
    SmallVector<Value> slots;
    if (isFactored(type.getShape())) {
      slots = {blend(ops, given.slots[0], mean(square, rank - 1), weight),
               blend(ops, given.slots[1], mean(square, rank - 2), weight)};
      estimate = ops.mul(ops.div(slots[0], max(mean(slots[0], rank - 2), least)), slots[1]);
    } else {
      slots = {blend(ops, given.slots[0], square, weight)};
      estimate = slots[0];
    }
    Value root = ops.apply(ElementwiseKind::Sqrt, {max(estimate, ops.mul(least, least))});
    Value direction = ops.div(given.gradient, root);
    Value excess = ops.div(getRms(direction), values.get("threshold", element));
    Value step = ops.div(size, max(excess, ops.constant(1, excess)));
    return {ops.sub(parameter, ops.mul(direction, step)), std::move(slots)};
  }
};

} // namespace

std::unique_ptr<Optimizer> Optimizer::create(StringRef name) {
  if (name == "sgd")
    return std::make_unique<Sgd>();
  if (name == "adam" || name == "adamw")
    return std::make_unique<Adam>(name == "adamw");
  if (name == "adafactor")
    return std::make_unique<Adafactor>();
  if (name == "lamb")
    return std::make_unique<Lamb>();
  if (name == "lars")
    return std::make_unique<Lars>();
  if (name == "lion")
    return std::make_unique<Lion>();
  return nullptr;
}

bool training::isOptimizer(StringRef name) {
  return Optimizer::create(name) != nullptr;
}

std::string training::listOptimizers() {
  return "sgd, adam, adamw, adafactor, lamb, lars, lion";
}
