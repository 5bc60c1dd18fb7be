// Constant folding by the tensor (ConstantFolding.cpp, ElementwiseEvaluation.cpp) against the ops' element
// code: on random ops, shapes and values, what the fast paths answer is what a kernel would.
#include "lib/Import/HostTensor.h"

#include "colossal/Codegen/ElementFolder.h"
#include "dialects/Colossal/Colossal.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace colossal;

namespace {

using Shape = SmallVector<int64_t>;

class Folding : public testing::Test {
protected:
  Folding() : builder(&context), source(20 + testing::UnitTest::GetInstance()->random_seed()) {
    context.loadDialect<ColossalDialect, func::FuncDialect>();
    context.getDiagEngine().registerHandler(
        [](Diagnostic &) { return success(); }); // ops that are not possible
    module = ModuleOp::create(builder.getUnknownLoc());
  }

  void SetUp() override { builder.setInsertionPointToStart(module->getBody()); }

  int64_t draw(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(source);
  }

  template <typename T>
  T pick(ArrayRef<T> choices) {
    return choices[draw(0, choices.size() - 1)];
  }

  Shape drawShape(int64_t least = 0, int64_t most = 3) {
    Shape shape(draw(least, most));
    for (int64_t &size : shape)
      size = draw(0, 9) ? draw(1, 4) : 0;
    return shape;
  }

  Type drawType() {
    SmallVector<Type> types = {builder.getF16Type(), builder.getBF16Type(), builder.getF32Type(),
                               builder.getF64Type(), builder.getI1Type()};
    for (unsigned width : {8, 16, 32, 64}) {
      types.push_back(builder.getIntegerType(width));
      types.push_back(IntegerType::get(&context, width, IntegerType::Unsigned));
    }
    return pick(ArrayRef<Type>(types));
  }

  /// Values that an operation likes to get wrong, among others.
  Attribute drawElement(Type type) {
    if (auto floats = dyn_cast<FloatType>(type)) {
      constexpr double inf = std::numeric_limits<double>::infinity();
      double special[] = {0.0, -0.0, 1, -1, 0.5, -2.5, 3, inf, -inf, std::nan(""), 1e30, -7};
      double value = draw(0, 1) ? pick(ArrayRef<double>(special)) : double(draw(-64, 64)) / 8;
      return FloatAttr::get(floats, value);
    }
    unsigned width = type.getIntOrFloatBitWidth();
    APInt special[] = {APInt(width, 0),
                       APInt(width, 1),
                       APInt::getAllOnes(width),
                       APInt::getSignedMinValue(width),
                       APInt::getSignedMaxValue(width),
                       APInt(width, 2, false, true)};
    return IntegerAttr::get(type, draw(0, 1) ? pick(ArrayRef<APInt>(special))
                                             : APInt(width, draw(-9, 9), true, /*implicitTrunc=*/true));
  }

  /// A constant; of one value now and then.
  Value drawConstant(ArrayRef<int64_t> shape, Type element,
                     llvm::function_ref<Attribute()> drawOne = nullptr) {
    auto type = RankedTensorType::get(shape, element);
    SmallVector<Attribute> values;
    int64_t count = draw(0, 5) ? type.getNumElements() : std::min<int64_t>(1, type.getNumElements());
    for (int64_t i = 0; i < count; ++i)
      values.push_back(drawOne ? drawOne() : drawElement(element));
    return ConstantOp::create(builder, builder.getUnknownLoc(), type, DenseElementsAttr::get(type, values));
  }

  /// Places in a dimension, from its end as well.
  Value drawPlaces(ArrayRef<int64_t> shape, int64_t extent) {
    Type i64 = builder.getI64Type();
    return drawConstant(shape, i64, [&] { return IntegerAttr::get(i64, draw(-extent, extent - 1)); });
  }

  static bool isClose(Attribute a, Attribute b, double tolerance) {
    auto real = dyn_cast<FloatAttr>(a);
    if (!real)
      return a == b;
    APFloat x = real.getValue(), y = cast<FloatAttr>(b).getValue();
    if (x.isNaN() || y.isNaN())
      return x.isNaN() && y.isNaN();
    if (x.bitwiseIsEqual(y))
      return true;
    double u = real.getValueAsDouble(), v = cast<FloatAttr>(b).getValueAsDouble();
    return tolerance > 0 && std::fabs(u - v) <= tolerance * (1 + std::fabs(v));
  }

  /// All elements of `found` lie where `op` says that they do, given where those of its operands lie.
  static void checkRange(Operation *op, DenseElementsAttr found) {
    auto infers = dyn_cast<InferIntRangeInterface>(op);
    if (!infers || !found.getElementType().isInteger())
      return;
    SmallVector<IntegerValueRange> ranges;
    for (Value operand : op->getOperands()) {
      ranges.emplace_back();
      operand.getDefiningOp<ConstantOp>().inferResultRangesFromOptional(
          {}, [&](Value, const IntegerValueRange &range) { ranges.back() = range; });
    }
    IntegerValueRange range;
    infers.inferResultRangesFromOptional(ranges, [&](Value result, const IntegerValueRange &its) {
      if (result == op->getResult(0))
        range = its;
    });
    ASSERT_FALSE(range.isUninitialized());
    const ConstantIntRanges &bounds = range.getValue();
    for (const APInt &value : found.getValues<APInt>())
      ASSERT_TRUE(value.uge(bounds.umin()) && value.ule(bounds.umax()) && value.sge(bounds.smin()) &&
                  value.sle(bounds.smax()))
          << op->getName().getStringRef().str() << " gives " << llvm::toString(value, 10, true);
  }

  /// Compares both foldings of `op`, whose operands are constants, unless it is not possible. The tolerance
  /// is in roundings of its type, 0: the same bits.
  void check(Operation *op, double roundings = 0) {
    if (failed(verify(op)))
      return;
    std::vector<HostTensor> hosts;
    SmallVector<Attribute> operands;
    for (Value operand : op->getOperands()) {
      operands.push_back(operand.getDefiningOp<ConstantOp>().getValue());
      hosts.push_back(*HostTensor::fromAttr(cast<ElementsAttr>(operands.back())));
    }
    auto fast = evaluateOp(op, hosts, 4096);
    FailureOr<DenseElementsAttr> slow = foldElements(op, operands);
    if (!fast || failed(slow))
      return;
    ++compared;
    DenseElementsAttr found = fast->front().toAttr();
    ASSERT_EQ(found.getType(), slow->getType());
    ASSERT_NO_FATAL_FAILURE(checkRange(op, *slow));
    double tolerance = 0;
    if (auto type = dyn_cast<FloatType>(found.getElementType()))
      tolerance = roundings * std::ldexp(1.0, 1 - int(type.getFPMantissaWidth()));
    auto a = found.getValues<Attribute>(), b = slow->getValues<Attribute>();
    for (int64_t i = 0; i < found.getNumElements(); ++i)
      if (!isClose(a[i], b[i], tolerance)) {
        std::string text;
        llvm::raw_string_ostream stream(text);
        stream << *op << "\n";
        for (Attribute operand : operands)
          stream << "  " << operand << "\n";
        stream << "  fast " << found << "\n  element code " << *slow;
        FAIL() << text;
      }
  }

  MLIRContext context;
  OpBuilder builder;
  OwningOpRef<ModuleOp> module;
  std::mt19937_64 source;
  int compared = 0;
};

using Kind = ElementwiseKind;

TEST_F(Folding, ElementwiseIsWhatElementCodeGives) {
  for (int trial = 0; trial < 5000 && !HasFailure(); ++trial) {
    auto kind = symbolizeElementwiseKind(uint32_t(draw(1, 91)));
    if (!kind)
      continue;
    unsigned count = *kind >= Kind::Select ? 3 : *kind >= Kind::Add ? 2 : 1;
    Type element = drawType(), result = element;
    if (*kind == Kind::Cast)
      result = drawType();
    if ((*kind >= Kind::Equal && *kind <= Kind::GreaterOrEqual) || *kind == Kind::IsNaN ||
        *kind == Kind::IsInf)
      result = builder.getI1Type();
    Shape shape = drawShape();
    SmallVector<Value> inputs;
    for (unsigned i = 0; i < count; ++i) {
      Shape own(shape);
      if (!own.empty() && i + 1 < count && draw(0, 2) == 0)
        own[draw(0, own.size() - 1)] = 1;
      inputs.push_back(drawConstant(own, *kind == Kind::Select && i == 0 ? builder.getI1Type() : element));
    }
    // A rounding where the two call other functions of libm, or round an f16 by way of f32.
    bool isExact = result.isInteger() || (*kind >= Kind::Max && *kind <= Kind::Min) ||
                   *kind == Kind::Select || *kind == Kind::Clip || *kind == Kind::Add || *kind == Kind::Sub ||
                   *kind == Kind::Mul || *kind == Kind::Cast || *kind == Kind::Abs || *kind == Kind::Neg ||
                   *kind == Kind::Floor || *kind == Kind::Ceil || *kind == Kind::Round ||
                   *kind == Kind::Sign || *kind == Kind::Relu;
    check(ElementwiseOp::create(builder, builder.getUnknownLoc(), RankedTensorType::get(shape, result), *kind,
                                inputs, DenseF64ArrayAttr()),
          isExact ? 0 : 2);
  }
  EXPECT_GT(compared, 800);
}

TEST_F(Folding, MovementIsWhatElementCodeGives) {
  for (int trial = 0; trial < 3000 && !HasFailure(); ++trial) {
    Type element = drawType();
    Shape shape = drawShape(1);
    Location loc = builder.getUnknownLoc();
    Value input = drawConstant(shape, element);
    int64_t rank = shape.size(), axis = draw(0, rank - 1);
    auto typeOf = [&](ArrayRef<int64_t> sizes) { return RankedTensorType::get(sizes, element); };
    switch (draw(0, 5)) {
    case 0: {
      Shape flat = {1, typeOf(shape).getNumElements()};
      check(ReshapeOp::create(builder, loc, typeOf(flat), input));
      break;
    }
    case 1: {
      Shape order(rank), turned;
      for (int64_t d = 0; d < rank; ++d)
        order[d] = d;
      std::shuffle(order.begin(), order.end(), source);
      for (int64_t d : order)
        turned.push_back(shape[d]);
      check(TransposeOp::create(builder, loc, typeOf(turned), input, order));
      break;
    }
    case 2: {
      Shape wide(shape);
      for (int64_t &size : wide)
        size = size == 1 ? draw(1, 3) : size;
      wide.insert(wide.begin(), draw(1, 2));
      check(BroadcastOp::create(builder, loc, typeOf(wide), input));
      break;
    }
    case 3: {
      Shape starts, steps, sizes;
      for (int64_t size : shape) {
        steps.push_back(draw(0, 1) ? 1 : draw(0, 1) ? 2 : -1);
        starts.push_back(size ? draw(0, size - 1) : 0);
        int64_t room =
            steps.back() > 0 ? (size - starts.back() + steps.back() - 1) / steps.back() : starts.back() + 1;
        sizes.push_back(draw(0, std::min(size, room)));
      }
      check(SliceOp::create(builder, loc, typeOf(sizes), input, starts, steps));
      break;
    }
    case 4: {
      Shape low, padded;
      for (int64_t size : shape) {
        low.push_back(draw(-1, 2));
        padded.push_back(std::max<int64_t>(0, size + low.back() + draw(-1, 2)));
      }
      Value value = draw(0, 1) ? drawConstant({}, element) : Value();
      check(PadOp::create(builder, loc, typeOf(padded), input, value, low, PadMode::Constant));
      break;
    }
    default: {
      Shape other(shape), joined(shape);
      other[axis] = draw(0, 3);
      joined[axis] += other[axis];
      check(ConcatOp::create(builder, loc, typeOf(joined), ValueRange{input, drawConstant(other, element)},
                             uint64_t(axis)));
    }
    }
  }
  EXPECT_GT(compared, 1500);
}

TEST_F(Folding, IndexingIsWhatElementCodeGives) {
  for (int trial = 0; trial < 2000 && !HasFailure(); ++trial) {
    Type element = drawType();
    Shape shape = drawShape(1);
    if (llvm::is_contained(shape, 0))
      continue;
    Location loc = builder.getUnknownLoc();
    Value data = drawConstant(shape, element);
    int64_t rank = shape.size(), axis = draw(0, rank - 1);
    auto typeOf = [&](ArrayRef<int64_t> sizes) { return RankedTensorType::get(sizes, element); };
    switch (draw(0, 4)) {
    case 0: {
      Shape places = drawShape(0, 2), result(ArrayRef<int64_t>(shape).take_front(axis));
      result.append(places);
      llvm::append_range(result, ArrayRef<int64_t>(shape).drop_front(axis + 1));
      check(GatherOp::create(builder, loc, typeOf(result), data, drawPlaces(places, shape[axis]), Value(),
                             uint64_t(axis), IntegerAttr()));
      break;
    }
    case 1: {
      Shape places(shape);
      places[axis] = draw(0, 4);
      check(GatherElementsOp::create(builder, loc, typeOf(places), data, drawPlaces(places, shape[axis]),
                                     uint64_t(axis)));
      break;
    }
    case 2: {
      int64_t depth = draw(1, rank), least = *std::min_element(shape.begin(), shape.begin() + depth);
      Shape result = {draw(0, 3)}, places = {result[0], depth};
      llvm::append_range(result, ArrayRef<int64_t>(shape).drop_front(depth));
      check(GatherNDOp::create(builder, loc, typeOf(result), data, drawPlaces(places, least), uint64_t(0)));
      break;
    }
    case 3: {
      // Each place once: which of several writes is the last is left open.
      Shape places(shape);
      places[axis] = 1;
      check(ScatterElementsOp::create(builder, loc, typeOf(shape), data, drawPlaces(places, shape[axis]),
                                      drawConstant(places, element), uint64_t(axis), ScatterReduction::None));
      break;
    }
    default: {
      int64_t depth = draw(1, rank), least = *std::min_element(shape.begin(), shape.begin() + depth);
      Shape updates = {1};
      llvm::append_range(updates, ArrayRef<int64_t>(shape).drop_front(depth));
      check(ScatterNDOp::create(builder, loc, typeOf(shape), data, drawPlaces({1, depth}, least),
                                drawConstant(updates, element), ScatterReduction::None));
    }
    }
  }
  EXPECT_GT(compared, 800);
}

TEST_F(Folding, RunningSumsAreWhatElementCodeGives) {
  for (int trial = 0; trial < 3000 && !HasFailure(); ++trial) {
    Shape shape = drawShape(1);
    Value input = drawConstant(shape, drawType());
    // Where a product overflows on the way, it matters in which order it meets a zero.
    auto values = input.getDefiningOp<ConstantOp>().getValue();
    const bool overflows = isa<FloatType>(values.getElementType()) &&
                           llvm::any_of(values.getValues<APFloat>(), [](const APFloat &value) {
                             return value.isFinite() && llvm::abs(value).convertToDouble() > 1e6;
                           });
    check(CumulateOp::create(builder, builder.getUnknownLoc(), input.getType(), input,
                             uint64_t(draw(0, shape.size() - 1)), bool(draw(0, 1)), bool(draw(0, 1)),
                             !overflows && draw(0, 1)),
          8);
  }
  EXPECT_GT(compared, 1500);
}

TEST_F(Folding, RangesAreWhatElementCodeGives) {
  for (int trial = 0; trial < 500 && !HasFailure(); ++trial) {
    Shape shape = drawShape(1);
    check(IotaOp::create(builder, builder.getUnknownLoc(), RankedTensorType::get(shape, drawType()), Value(),
                         uint64_t(draw(0, shape.size() - 1)), APFloat(double(draw(-5, 5))),
                         APFloat(double(draw(-3, 3)))));
  }
  EXPECT_GT(compared, 200);
}

} // namespace
