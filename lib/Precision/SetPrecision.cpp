//===- SetPrecision.cpp - the floats of a model in one precision ------------===//
//
// Goes through a function in order. Each float value that was is known from then on in one or more types: as
// its op makes it now, and as casts of that, which are made where a reader first asks for them.
//
// Which type an op makes follows from its role (dialects/Colossal/Precision.h) and from three sets:
//
//   loaded     what is computed from parameters and constants alone, once: in f32, and narrowed last, for
//   each
//              reader on its own, so that it can be told which node reads which parameter;
//   sensitive  what angles, masks and tables are computed from: in f32;
//   data       all that depends on a float argument or a product of the model: what is worth narrowing.
//
// A value of f32 that several ops read is stored, so it is narrowed where that is safe; and all of them where
// the reverse pass will read them again.
//
//===----------------------------------------------------------------------===//
#include "colossal/Precision/Precision.h"

#include "dialects/Colossal/Colossal.h"
#include "dialects/Colossal/Precision.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::precision;

std::optional<Precision> precision::parsePrecision(StringRef name) {
  return llvm::StringSwitch<std::optional<Precision>>(name)
      .Case("f32", Precision::F32)
      .Case("tf32", Precision::TF32)
      .Case("bf16", Precision::BF16)
      .Case("f16", Precision::F16)
      .Default(std::nullopt);
}

StringRef precision::getPrecisionName(Precision precision) {
  switch (precision) {
  case Precision::F32: return "f32";
  case Precision::TF32: return "tf32";
  case Precision::BF16: return "bf16";
  case Precision::F16: return "f16";
  }
  llvm_unreachable("unknown precision");
}

/// Tensors of the types whose place another may take.
static bool isFloat(Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  return tensor && (tensor.getElementType().isF32() || tensor.getElementType().isF16() ||
                    tensor.getElementType().isBF16());
}

static bool isCast(Operation *op) {
  auto elementwise = dyn_cast<ElementwiseOp>(op);
  return elementwise && elementwise.getKind() == ElementwiseKind::Cast;
}

static Value makeCast(OpBuilder &b, Location loc, Value value, Type element) {
  if (elementTypeOf(value) == element)
    return value;
  Type type = cast<RankedTensorType>(value.getType()).clone(element);
  return ElementwiseOp::create(b, loc, type, ElementwiseKind::Cast, ValueRange{value}, DenseF64ArrayAttr());
}

/// Whether a number of the constant would be another one in the narrow type.
static bool isExact(Value value, Type narrow) {
  auto op = value.getDefiningOp<ConstantOp>();
  if (!op)
    return true;
  auto elements = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!elements || !isa<FloatType>(elements.getElementType()))
    return false;
  auto fits = [&](APFloat number) {
    bool loses = false;
    number.convert(cast<FloatType>(narrow).getFloatSemantics(), APFloat::rmNearestTiesToEven, &loses);
    return !loses;
  };
  if (elements.isSplat())
    return fits(elements.getSplatValue<APFloat>());
  return llvm::all_of(elements.getValues<APFloat>(), fits);
}

/// The same numbers in another type, where that loses none of them.
static Value makeConstant(OpBuilder &b, ConstantOp op, Type element) {
  auto convert = [&](const APFloat &number) {
    APFloat other = number;
    bool loses = false;
    other.convert(cast<FloatType>(element).getFloatSemantics(), APFloat::rmNearestTiesToEven, &loses);
    return other;
  };
  auto elements = cast<DenseElementsAttr>(op.getValue());
  auto type = cast<RankedTensorType>(op.getType()).clone(element);
  SmallVector<APFloat> numbers;
  if (elements.isSplat())
    numbers.push_back(convert(elements.getSplatValue<APFloat>()));
  else
    for (const APFloat &number : elements.getValues<APFloat>())
      numbers.push_back(convert(number));
  return ConstantOp::create(b, op.getLoc(), type, DenseElementsAttr::get(type, numbers));
}

namespace {
class PrecisionSetter {
public:
  PrecisionSetter(func::FuncOp function, Type narrow, bool training)
      : function(function), narrow(narrow), wide(Float32Type::get(function.getContext())),
        training(training) {}
  void run();

private:
  /// The forms of a float value that the function had. One of them is there from the beginning.
  struct Forms {
    Value given; ///< as its op gives it
    Value wide, narrow;
  };

  void findLoaded();
  void findSensitive();
  void findData();
  bool isData(Value value) const { return data.contains(value); }

  void visit(Operation *op);
  void visitMoves(Operation *op);
  /// The operands of `op`, floats in 16 bits but for those that it reads as they are.
  SmallVector<Value> narrowOperands(Operation *op);
  void visitFollows(Operation *op);
  void visitProduct(Operation *op);
  void computeWide(Operation *op);
  bool canFollow(Operation *op);
  /// Clones `op` with those operands, and float results of those element types.
  Operation *clone(Operation *op, ArrayRef<Value> operands, Type first, Type others);
  void give(Value before, Value now);

  Value getAs(Value value, Type element, Operation *reader);
  Value getWide(Value value, Operation *reader) { return getAs(value, wide, reader); }
  Value getNarrow(Value value, Operation *reader) { return getAs(value, narrow, reader); }
  bool isNarrow(Value value) { return narrow && elementTypeOf(forms.lookup(value).given) == narrow; }

  func::FuncOp function;
  Type narrow; ///< null: everything in f32
  Type wide;
  bool training;
  llvm::DenseMap<Value, Forms> forms;
  llvm::DenseSet<Value> loaded, sensitive, data;
  SmallVector<Operation *> replaced;
};
} // namespace

void PrecisionSetter::findLoaded() {
  for (Operation &op : function.front())
    if (isa<ParameterOp, ConstantOp>(op) ||
        (op.getNumOperands() > 0 &&
         llvm::all_of(op.getOperands(), [&](Value operand) { return loaded.contains(operand); })))
      loaded.insert(op.result_begin(), op.result_end());
}

/// From what reads them back to integers, parameters and positions, as far as nothing of the model's data is
/// in it: an activation has no more digits than it had when it was stored.
void PrecisionSetter::findSensitive() {
  llvm::DenseSet<Value> streams; // of floats, or looked up in a parameter
  for (BlockArgument argument : function.getArguments())
    if (isFloat(argument))
      streams.insert(argument);
  for (Operation &op : function.front()) {
    const bool isLookup = isa<IndexingOpInterface>(op) && loaded.contains(op.getOperand(0)) &&
                          !loaded.contains(op.getResult(0));
    if (isLookup || llvm::any_of(op.getOperands(), [&](Value operand) { return streams.contains(operand); }))
      streams.insert(op.result_begin(), op.result_end());
  }
  SmallVector<Value> work;
  function.walk([&](Operation *op) {
    for (OpOperand &operand : op->getOpOperands())
      if (colossal::isSensitive(operand))
        work.push_back(operand.get());
  });
  while (!work.empty()) {
    Value value = work.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op || loaded.contains(value))
      continue;
    const bool isTable = isa<IndexingOpInterface>(op) && loaded.contains(op->getOperand(0));
    if (streams.contains(value) && !isTable)
      continue;
    if (sensitive.insert(value).second)
      llvm::append_range(work, op->getOperands());
  }
}

void PrecisionSetter::findData() {
  for (BlockArgument argument : function.getArguments())
    if (isFloat(argument))
      data.insert(argument);
  for (Operation &op : function.front())
    for (Value result : op.getResults()) {
      if (!isFloat(result) || loaded.contains(result) || sensitive.contains(result))
        continue;
      if (getPrecisionRole(&op) == PrecisionRole::Product ||
          (isa<IndexingOpInterface>(op) && loaded.contains(op.getOperand(0))) ||
          llvm::any_of(op.getOperands(), [&](Value operand) { return data.contains(operand); }))
        data.insert(result);
    }
}

Value PrecisionSetter::getAs(Value value, Type element, Operation *reader) {
  Forms &known = forms[value];
  if (elementTypeOf(known.given) == element)
    return known.given;
  if (loaded.contains(value)) {
    OpBuilder b(reader);
    if (auto constant = known.given.getDefiningOp<ConstantOp>(); constant && isExact(known.given, element))
      return makeConstant(b, constant, element);
    // Called as what is cast: what is said of the reader is not said of its weights.
    auto named = dyn_cast<NameLoc>(value.getLoc());
    const bool isUnmade = named && named.getName() == "-"; // no node makes it
    return makeCast(b, isUnmade ? named.getChildLoc() : value.getLoc(), known.given, element);
  }
  Value *form = element == wide ? &known.wide : element == narrow ? &known.narrow : nullptr;
  if (form && *form)
    return *form;
  OpBuilder b(function.getContext());
  b.setInsertionPointAfterValue(known.given);
  Value made = makeCast(b, known.given.getLoc(), known.given, element);
  if (form)
    *form = made;
  return made;
}

void PrecisionSetter::give(Value before, Value now) {
  forms[before] = {now, {}, {}};
}

Operation *PrecisionSetter::clone(Operation *op, ArrayRef<Value> operands, Type first, Type others) {
  bool isSame = llvm::equal(op->getOperands(), operands);
  for (auto [i, result] : llvm::enumerate(op->getResults()))
    isSame &= !isFloat(result) || elementTypeOf(result) == (i == 0 ? first : others);
  Operation *made = op;
  if (!isSame) {
    OpBuilder b(op);
    made = b.clone(*op);
    made->setOperands(operands);
    for (auto [i, result] : llvm::enumerate(made->getResults()))
      if (isFloat(result))
        result.setType(cast<RankedTensorType>(result.getType()).clone(i == 0 ? first : others));
    for (auto [before, now] : llvm::zip_equal(op->getResults(), made->getResults()))
      if (!isFloat(before))
        before.replaceAllUsesWith(now);
    replaced.push_back(op);
  }
  for (auto [before, now] : llvm::zip_equal(op->getResults(), made->getResults()))
    if (isFloat(before))
      give(before, now);
  return made;
}

/// In f32; a result that several ops read is narrowed where that is safe.
void PrecisionSetter::computeWide(Operation *op) {
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(isFloat(operand) ? getWide(operand, op) : operand);
  const bool isSafe = getPrecisionRole(op) == PrecisionRole::Follows;
  Operation *made = clone(op, operands, wide, wide);
  if (!narrow || !isSafe)
    return;
  for (auto [before, now] : llvm::zip_equal(op->getResults(), made->getResults())) {
    llvm::SmallPtrSet<Operation *, 4> readers(before.user_begin(), before.user_end());
    if (!isFloat(before) || !isData(before) || (readers.size() < 2 && !training))
      continue;
    OpBuilder b(function.getContext());
    b.setInsertionPointAfterValue(now);
    give(before, makeCast(b, now.getLoc(), now, narrow));
  }
}

void PrecisionSetter::visitMoves(Operation *op) {
  if (!narrow ||
      !llvm::any_of(op->getResults(), [&](Value result) { return isFloat(result) && isData(result); }))
    return computeWide(op);
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(isFloat(operand) ? getNarrow(operand, op) : operand);
  clone(op, operands, narrow, narrow);
}

/// Whether all that the op computes with is there in the narrow type, or loses nothing by it.
bool PrecisionSetter::canFollow(Operation *op) {
  bool isAny = false;
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = operand.get();
    if (!isFloat(value) || isReadAsItIs(operand))
      continue;
    if (isNarrow(value))
      isAny = true;
    else if (!loaded.contains(value) || !isExact(forms.lookup(value).given, narrow))
      return false;
  }
  return isAny;
}

SmallVector<Value> PrecisionSetter::narrowOperands(Operation *op) {
  SmallVector<Value> operands;
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = operand.get();
    operands.push_back(!isFloat(value)                             ? value
                       : isReadAsItIs(operand) && !isNarrow(value) ? getWide(value, op)
                                                                   : getNarrow(value, op));
  }
  return operands;
}

void PrecisionSetter::visitFollows(Operation *op) {
  if (!narrow || training || !isFloat(op->getResult(0)) || !isData(op->getResult(0)) || !canFollow(op))
    return computeWide(op);
  clone(op, narrowOperands(op), narrow, narrow);
}

void PrecisionSetter::visitProduct(Operation *op) {
  if (!narrow || !isData(op->getResult(0)))
    return computeWide(op);
  clone(op, narrowOperands(op), narrow, wide);
}

void PrecisionSetter::visit(Operation *op) {
  const bool reads = llvm::any_of(op->getOperands(), isFloat),
             gives = llvm::any_of(op->getResults(), isFloat);
  if (!reads && !gives)
    return;
  if (!reads) { // sources, and what is made of integers
    for (Value result : op->getResults())
      if (isFloat(result))
        give(result, result);
    return;
  }
  auto elementwise = dyn_cast<ElementwiseOp>(op);
  if (isCast(op) && gives) { // from one float type to another: the precision says which
    const Forms known = forms.lookup(op->getOperand(0));
    forms[op->getResult(0)] = known;
    replaced.push_back(op);
    return;
  }
  if (elementwise && elementwise.getKind() == ElementwiseKind::Bitcast) { // the bits are the model's own
    SmallVector<Value> operands{getAs(op->getOperand(0), elementTypeOf(op->getOperand(0)), op)};
    Type type = elementTypeOf(op->getResult(0));
    clone(op, operands, type, type);
    return;
  }
  switch (getPrecisionRole(op)) {
  case PrecisionRole::Product: return visitProduct(op);
  case PrecisionRole::Moves: return visitMoves(op);
  case PrecisionRole::Follows: return visitFollows(op);
  case PrecisionRole::Wide: return computeWide(op);
  }
}

void PrecisionSetter::run() {
  findLoaded();
  if (narrow) {
    findSensitive();
    findData();
  }
  for (BlockArgument argument : function.getArguments())
    if (isFloat(argument))
      give(argument, argument);
  for (Operation &op : llvm::make_early_inc_range(function.front().without_terminator()))
    visit(&op);
  Operation *terminator = function.front().getTerminator();
  SmallVector<Value> results;
  for (Value result : terminator->getOperands())
    results.push_back(isFloat(result) ? getAs(result, elementTypeOf(result), terminator) : result);
  terminator->setOperands(results);
  for (Operation *op : llvm::reverse(replaced))
    op->erase();
  // Parameters whose only readers were casts that the precision has made away with.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.front().without_terminator())))
    if (op.use_empty() && isCast(&op))
      op.erase();
}

void precision::setPrecision(ModuleOp module, Precision precision, bool training) {
  Builder b(module.getContext());
  Type narrow = precision == Precision::BF16  ? Type(b.getBF16Type())
                : precision == Precision::F16 ? Type(b.getF16Type())
                                              : Type();
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal())
      PrecisionSetter(function, narrow, training).run();
  if (precision == Precision::TF32)
    module->setAttr(kTf32AttrName, b.getUnitAttr());
}

namespace colossal::precision {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_SETPRECISION
#define GEN_PASS_REGISTRATION
#include "colossal/Precision/Passes.h.inc"

namespace {
struct SetPrecisionPass : impl::SetPrecisionBase<SetPrecisionPass> {
  using SetPrecisionBase::SetPrecisionBase;

  void runOnOperation() override {
    std::optional<Precision> parsed = parsePrecision(precision);
    if (!parsed) {
      getOperation().emitError() << "colossal-set-precision: '" << precision.getValue()
                                 << "' is not f32, tf32, bf16 or f16";
      return signalPassFailure();
    }
    setPrecision(getOperation(), *parsed, training);
  }
};
} // namespace

std::unique_ptr<Pass> createSetPrecisionPass(Precision precision, bool training) {
  SetPrecisionOptions options;
  options.precision = getPrecisionName(precision).str();
  options.training = training;
  return std::make_unique<SetPrecisionPass>(options);
}

void registerPasses() {
  registerPrecisionPasses();
}
} // namespace colossal::precision
