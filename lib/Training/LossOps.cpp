//===- LossOps.cpp - losses as ops --------------------------------------------===//
//
// Made of ops that split along any dimension: the logarithm of a softmax is staged, and the class of a place
// is picked by comparing it with all of them, so that a vocabulary may be split over ranks and no part of the
// logits need be brought together.
//
//===----------------------------------------------------------------------===//
#include "LossOps.h"

#include "colossal/Import/ONNX.h"
#include "colossal/Training/OwnLoss.h"
#include "dialects/Colossal/OpComposer.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::training;

static std::string listNames(func::FuncOp function, bool ofResults) {
  std::vector<std::string> names;
  const unsigned count = ofResults ? function.getNumResults() : function.getNumArguments();
  for (unsigned i = 0; i < count; ++i)
    if (auto name = ofResults ? function.getResultAttrOfType<StringAttr>(i, kOnnxNameAttr)
                              : function.getArgAttrOfType<StringAttr>(i, kOnnxNameAttr))
      names.push_back("'" + name.str() + "'");
  return llvm::join(names, ", ");
}

FailureOr<unsigned> training::findLossOutput(func::FuncOp function, const Loss &loss) {
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (auto name = function.getResultAttrOfType<StringAttr>(i, kOnnxNameAttr);
        loss.output.empty() || (name && name.getValue() == loss.output))
      return i;
  emitError(function.getLoc()) << "--loss: the model has no output '" << loss.output << "'; it has "
                               << listNames(function, true);
  return failure();
}

namespace {
class LossBuilder {
public:
  LossBuilder(func::FuncOp function, const Loss &loss, OpBuilder &builder)
      : function(function), loss(loss), ops(builder, NameLoc::get(builder.getStringAttr("loss"))) {}
  FailureOr<LossSum> run();

private:
  FailureOr<LossSum> buildCrossEntropy(Value logits);
  /// `labels`: integers, one for each place of `logits` but for `axis`, where the classes are.
  LossSum buildCrossEntropy(Value logits, int64_t axis, Value labels, int64_t ignored);
  LossSum buildOwn(Value output, unsigned number);
  FailureOr<LossSum> buildDifference(Value output);
  LossSum takeApart(Value output);
  /// The class of each place, of `shape`.
  FailureOr<Value> findClasses(ArrayRef<int64_t> shape, int64_t classes);
  /// Has the runtime let through classes of `given` only, and `ignored`.
  void limit(BlockArgument given, int64_t classes, std::optional<int64_t> ignored);
  /// The argument of the model called so; null where it has none.
  BlockArgument findArgument(StringRef name);
  FailureOr<BlockArgument> findTokens();
  BlockArgument addArgument(StringRef name, RankedTensorType type);
  Value widen(Value value);
  /// The sum of all elements, a scalar.
  Value sumAll(Value value);

  func::FuncOp function;
  const Loss &loss;
  OpComposer ops;
};
} // namespace

/// A value of 16 bits in f32, as it was before the model's border narrowed it.
Value LossBuilder::widen(Value value) {
  auto narrowed = value.getDefiningOp<ElementwiseOp>();
  if (narrowed && narrowed.getKind() == ElementwiseKind::Cast &&
      elementTypeOf(narrowed.getInputs().front()).isF32())
    return narrowed.getInputs().front();
  return ops.cast(value, ops.builder.getF32Type());
}

Value LossBuilder::sumAll(Value value) {
  auto axes = llvm::to_vector(llvm::seq<int64_t>(cast<RankedTensorType>(value.getType()).getRank()));
  if (axes.empty())
    return value;
  return ops.reshape(ops.reduce(ReduceKind::Sum, value, axes), {});
}

BlockArgument LossBuilder::findArgument(StringRef name) {
  for (BlockArgument argument : function.getArguments())
    if (auto known = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kOnnxNameAttr);
        known && known.getValue() == name)
      return argument;
  return {};
}

BlockArgument LossBuilder::addArgument(StringRef name, RankedTensorType type) {
  const unsigned number = function.getNumArguments();
  Builder b(function.getContext());
  DictionaryAttr attributes = b.getDictionaryAttr(b.getNamedAttr(kOnnxNameAttr, b.getStringAttr(name)));
  (void)function.insertArgument(number, type, attributes, NameLoc::get(b.getStringAttr(name)));
  return function.getArgument(number);
}

FailureOr<BlockArgument> LossBuilder::findTokens() {
  const std::string name = loss.tokens.empty() ? loss.labels : loss.tokens;
  if (BlockArgument given = findArgument(name.empty() ? "input_ids" : name))
    return given;
  if (!name.empty())
    return emitError(function.getLoc())
           << "--loss: the model has no input '" << name << "'; it has " << listNames(function, false);
  BlockArgument only;
  for (BlockArgument argument : function.getArguments()) {
    Type element = elementTypeOf(argument);
    if (!element.isInteger() || element.isInteger(1))
      continue;
    if (only)
      return emitError(function.getLoc())
             << "--loss: shift=1 takes the classes of an input of tokens, and the model has several of "
                "integers ("
             << listNames(function, false) << "): name it with tokens=NAME";
    only = argument;
  }
  if (!only)
    return emitError(function.getLoc())
           << "--loss: shift=1 takes the classes of an input of tokens, and the model has none of integers";
  return only;
}

void LossBuilder::limit(BlockArgument given, int64_t classes, std::optional<int64_t> ignored) {
  SmallVector<int64_t> range{0, classes - 1};
  if (ignored)
    range.push_back(*ignored);
  function.setArgAttr(given.getArgNumber(), kRangeAttr, ops.builder.getDenseI64ArrayAttr(range));
  function.setArgAttr(given.getArgNumber(), kRangeUserAttr, ops.builder.getStringAttr("loss"));
}

FailureOr<Value> LossBuilder::findClasses(ArrayRef<int64_t> shape, int64_t classes) {
  auto type = RankedTensorType::get(shape, ops.builder.getI64Type());
  BlockArgument given;
  if (loss.shift) {
    FailureOr<BlockArgument> tokens = findTokens();
    if (failed(tokens))
      return failure();
    given = *tokens;
  } else {
    given = findArgument(loss.labels.empty() ? "labels" : loss.labels);
  }
  const bool isOwn = !given; // this loss alone reads it
  if (isOwn)
    given = addArgument(loss.labels.empty() ? "labels" : loss.labels, type);
  auto found = cast<RankedTensorType>(given.getType());
  StringAttr name = function.getArgAttrOfType<StringAttr>(given.getArgNumber(), kOnnxNameAttr);
  if (found.getShape() != shape || !found.getElementType().isInteger() || found.getElementType().isInteger(1))
    return emitError(function.getLoc())
           << "--loss: '" << (name ? name.getValue() : "") << "' is " << found
           << ", and the classes of logits '" << loss.output << "' are integers of shape " << type;
  // What the runtime lets through: of tokens that the model looks up, what is a class and can be looked up.
  auto known = function.getArgAttrOfType<DenseI64ArrayAttr>(given.getArgNumber(), kRangeAttr);
  if (known && loss.shift && known.size() == 2) {
    function.setArgAttr(given.getArgNumber(), kRangeAttr,
                        ops.builder.getDenseI64ArrayAttr(
                            {std::max<int64_t>(known[0], 0), std::min<int64_t>(known[1], classes - 1)}));
  } else if (!known) {
    limit(given, classes, loss.shift ? std::nullopt : std::optional(loss.ignored));
  }
  Value values = ops.cast(given, ops.builder.getI64Type());
  if (!loss.shift)
    return values;
  const int64_t axis = found.getRank() - 1, places = shape.back();
  SmallVector<int64_t> last(shape);
  last.back() = 1;
  Value none =
      ops.fill(RankedTensorType::get(last, ops.builder.getI64Type()), static_cast<double>(loss.ignored));
  if (places == 1)
    return none;
  return ops.concat({ops.slice(values, axis, 1, places - 1), none}, axis);
}

FailureOr<LossSum> LossBuilder::buildCrossEntropy(Value logits) {
  auto type = cast<RankedTensorType>(logits.getType());
  const int64_t rank = type.getRank();
  if (rank < 2 || !isa<FloatType>(type.getElementType()))
    return emitError(function.getLoc()) << "--loss: logits '" << loss.output << "' are " << type
                                        << ", and cross-entropy takes floats with a dimension of classes";
  // Images have their classes in the second dimension, as their channels; all else in the last.
  const int64_t axis = rank >= 4 ? 1 : rank - 1;
  SmallVector<int64_t> places(type.getShape());
  places.erase(places.begin() + axis);
  FailureOr<Value> labels = findClasses(places, type.getDimSize(axis));
  if (failed(labels))
    return failure();
  return buildCrossEntropy(logits, axis, *labels, loss.ignored);
}

LossSum LossBuilder::buildCrossEntropy(Value logits, int64_t axis, Value labels, int64_t ignored) {
  if (cast<RankedTensorType>(logits.getType()).getElementTypeBitWidth() < 32)
    logits = widen(logits);
  auto type = cast<RankedTensorType>(logits.getType());
  const int64_t rank = type.getRank(), classes = type.getDimSize(axis);
  Value logarithms = SoftmaxOp::create(ops.builder, ops.loc, logits.getType(), logits,
                                       static_cast<uint64_t>(axis), /*log=*/true, /*guard=*/false);
  SmallVector<int64_t> kept(type.getShape()), along(rank, 1);
  kept[axis] = 1;
  along[axis] = classes;
  Value own = ops.reshape(labels, kept);
  Type narrow = ops.builder.getI32Type();
  Value isOwn = ops.compare(ElementwiseKind::Equal, ops.cast(own, narrow), ops.iota(along, narrow, axis));
  Value cost = ops.neg(ops.reduce(ReduceKind::Sum, ops.keepWhere(isOwn, logarithms), axis));
  if (loss.smoothing > 0) {
    Value even = ops.scale(ops.reduce(ReduceKind::Sum, logarithms, axis),
                           -loss.smoothing / static_cast<double>(classes));
    cost = ops.add(ops.scale(cost, 1 - loss.smoothing), even);
  }
  Value isIgnored = ops.compare(ElementwiseKind::Equal, own, static_cast<double>(ignored));
  Type element = elementTypeOf(logits);
  Value ones = ops.fill(RankedTensorType::get(kept, element), 1);
  return LossSum{sumAll(ops.dropWhere(isIgnored, cost)), sumAll(ops.dropWhere(isIgnored, ones)),
                 std::max<int64_t>(1, type.getNumElements() / classes)};
}

FailureOr<LossSum> LossBuilder::buildDifference(Value output) {
  auto type = cast<RankedTensorType>(output.getType());
  if (!isa<FloatType>(type.getElementType()))
    return emitError(function.getLoc())
           << "--loss: output '" << loss.output << "' is " << type << ", which is not of floats";
  if (type.getElementTypeBitWidth() < 32) {
    output = widen(output);
    type = cast<RankedTensorType>(output.getType());
  }
  BlockArgument target = findArgument("target");
  if (!target)
    target = addArgument("target", type);
  if (cast<RankedTensorType>(target.getType()).getShape() != type.getShape())
    return emitError(function.getLoc()) << "--loss: input 'target' is " << target.getType() << " and output '"
                                        << loss.output << "' " << type;
  Value wanted = ops.cast(target, type.getElementType()), cost;
  switch (loss.kind) {
  case Loss::MeanSquare: {
    Value difference = ops.sub(output, wanted);
    cost = ops.mul(difference, difference);
    break;
  }
  case Loss::MeanAbsolute: cost = ops.apply(ElementwiseKind::Abs, ops.sub(output, wanted)); break;
  // -t log s(x) - (1 - t) log(1 - s(x)), with log s(x) = x - softplus(x) and log(1 - s(x)) = -softplus(x)
  default: cost = ops.sub(ops.apply(ElementwiseKind::Softplus, output), ops.mul(output, wanted)); break;
  }
  const int64_t elements = std::max<int64_t>(1, type.getNumElements());
  Value count = ops.fill(RankedTensorType::get({}, type.getElementType()), static_cast<double>(elements));
  return LossSum{sumAll(cost), count, elements};
}

/// What `value` is but for its shape and type.
static Value skipForm(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    auto elementwise = dyn_cast<ElementwiseOp>(op);
    const bool isCast = elementwise && elementwise.getKind() == ElementwiseKind::Cast &&
                        isa<FloatType>(elementTypeOf(op->getOperand(0)));
    if (!isCast && !isa<ReshapeOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

static bool isZeroOrOne(Value value) {
  auto constant = skipForm(value).getDefiningOp<ConstantOp>();
  auto elements = constant ? dyn_cast<DenseFPElementsAttr>(constant.getValue()) : DenseFPElementsAttr();
  return elements && elements.isSplat() &&
         (elements.getSplatValue<APFloat>().isZero() || elements.getSplatValue<APFloat>().isExactlyValue(1));
}

/// How many elements `value` counts at most, if it is the sum of ones where something holds and zeros
/// elsewhere: a step function, of which nothing has a gradient.
static std::optional<int64_t> countPlaces(Value value) {
  auto sum = skipForm(value).getDefiningOp<ReduceOp>();
  if (!sum || sum.getKind() != ReduceKind::Sum)
    return std::nullopt;
  const Value summed = skipForm(sum.getInput());
  auto chosen = summed.getDefiningOp<ElementwiseOp>();
  const bool isCast = chosen && chosen.getKind() == ElementwiseKind::Cast &&
                      elementTypeOf(chosen.getInputs().front()).isInteger(1);
  const bool isSelect = chosen && chosen.getKind() == ElementwiseKind::Select &&
                        isZeroOrOne(chosen.getInputs()[1]) && isZeroOrOne(chosen.getInputs()[2]);
  if (!isCast && !isSelect)
    return std::nullopt;
  return cast<RankedTensorType>(summed.getType()).getNumElements();
}

/// The model's own loss, its result `number`.
LossSum LossBuilder::buildOwn(Value output, unsigned number) {
  std::optional<OwnCrossEntropy> known = matchCrossEntropy(output);
  if (!known)
    return takeApart(output);
  auto type = cast<RankedTensorType>(known->logits.getType());
  const int64_t axis = type.getRank() - 1;
  if (auto given = dyn_cast<BlockArgument>(known->labels);
      given && !function.getArgAttr(given.getArgNumber(), kRangeAttr))
    limit(given, type.getDimSize(axis), known->ignored);
  LossSum built = buildCrossEntropy(known->logits, axis, ops.cast(known->labels, ops.builder.getI64Type()),
                                    known->ignored);
  built.result = number;
  return built;
}

/// A mean over the elements that count, as that of ONNX's losses with `ignore_index`, is a sum and a count,
/// of which parts of a batch have theirs.
LossSum LossBuilder::takeApart(Value output) {
  auto mean = skipForm(output).getDefiningOp<ElementwiseOp>();
  if (mean && mean.getKind() == ElementwiseKind::Div && mean.getInputs().size() == 2)
    if (Value sum = mean.getInputs()[0], count = mean.getInputs()[1];
        cast<RankedTensorType>(sum.getType()).getNumElements() == 1)
      if (std::optional<int64_t> places = countPlaces(count))
        return {ops.reshape(sum, {}), ops.reshape(count, {}), std::max<int64_t>(1, *places)};
  return {ops.reshape(output, {}), Value(), 1};
}

FailureOr<LossSum> LossBuilder::run() {
  FailureOr<unsigned> number = findLossOutput(function, loss);
  if (failed(number))
    return failure();
  Value output = function.front().getTerminator()->getOperand(*number);
  switch (loss.kind) {
  case Loss::CrossEntropy: return buildCrossEntropy(output);
  case Loss::Own: {
    auto type = cast<RankedTensorType>(output.getType());
    if (type.getNumElements() != 1 || !isa<FloatType>(type.getElementType()))
      return emitError(function.getLoc())
             << "--loss: output '" << loss.output << "' is " << type
             << ", and a loss is one float; to train by an output, say how: cross-entropy,logits="
             << loss.output << ", mse,output=" << loss.output << ", ...";
    return buildOwn(output, *number);
  }
  default: return buildDifference(output);
  }
}

FailureOr<LossSum> training::buildLoss(func::FuncOp function, const Loss &loss) {
  OpBuilder builder(function.front().getTerminator());
  return LossBuilder(function, loss, builder).run();
}
