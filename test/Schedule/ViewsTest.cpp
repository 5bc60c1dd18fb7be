//===- ViewsTest.cpp - views against the elements that they stand for -------===//
//
// What a view reads must be what the movement gives, which the folder of element code tells independently.
//
//===----------------------------------------------------------------------===//
#include "colossal/Schedule/Views.h"
#include "ParsedFunction.h"

#include "colossal/Codegen/ElementFolder.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;
using namespace colossal::test;

namespace {

int64_t countElements(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

/// The places in memory that a view reads, in row-major order of its elements.
std::vector<int64_t> getPlaces(const View &view, ArrayRef<int64_t> shape) {
  std::vector<int64_t> places;
  for (int64_t e = 0; e < countElements(shape); ++e) {
    int64_t rest = e, place = view.offset;
    for (int d = static_cast<int>(shape.size()) - 1; d >= 0; --d) {
      place += rest % shape[d] * view.strides[d];
      rest /= shape[d];
    }
    places.push_back(place);
  }
  return places;
}

/// Follows all movements of a function from its argument, whose elements are their places. Counts those that
/// are views.
unsigned followAll(const ParsedFunction &function) {
  Value argument = function.ops.front()->getOperand(0);
  auto type = cast<RankedTensorType>(argument.getType());
  std::vector<int64_t> places(type.getNumElements());
  for (size_t i = 0; i < places.size(); ++i)
    places[i] = i;
  std::map<void *, DenseElementsAttr> contents{
      {argument.getAsOpaquePointer(), DenseElementsAttr::get(type, ArrayRef<int64_t>(places))}};
  std::map<void *, View> views{{argument.getAsOpaquePointer(), View{0, 0, denseStrides(type.getShape())}}};
  unsigned count = 0;
  for (Operation *op : function.ops) {
    void *from = op->getOperand(0).getAsOpaquePointer(), *to = op->getResult(0).getAsOpaquePointer();
    FailureOr<DenseElementsAttr> folded = foldElements(op, {contents.at(from)}, 0);
    if (failed(folded)) {
      ADD_FAILURE() << op->getName().getStringRef().str() << " cannot be folded";
      return count;
    }
    contents.insert({to, *folded});
    if (!views.count(from) || !isMovement(op))
      continue;
    std::optional<View> view = viewThrough(op, views.at(from));
    if (!view)
      continue;
    ++count;
    views[to] = *view;
    ArrayRef<int64_t> shape = cast<RankedTensorType>(op->getResult(0).getType()).getShape();
    std::vector<int64_t> read = getPlaces(*view, shape);
    EXPECT_EQ(read,
              std::vector<int64_t>(folded->getValues<int64_t>().begin(), folded->getValues<int64_t>().end()))
        << op->getName().getStringRef().str();
    if (!read.empty()) {
      auto [low, high] = std::minmax_element(read.begin(), read.end());
      EXPECT_EQ(spanElements(*view, shape), *high - *low + 1);
    }
    std::vector<int64_t> dense(read.size());
    for (size_t i = 0; i < dense.size(); ++i)
      dense[i] = view->offset + static_cast<int64_t>(i);
    EXPECT_EQ(isDense(*view, shape), read == dense) << op->getName().getStringRef().str();
  }
  return count;
}

TEST(Views, FollowHeadsOfAFusedContraction) {
  ParsedFunction function(R"mlir(func.func @f(%a: tensor<2x5x36xi64>) {
    %s = colossal.slice %a [0, 0, 12] by [1, 1, 1] : tensor<2x5x36xi64> -> tensor<2x5x12xi64>
    %h = colossal.reshape %s : tensor<2x5x12xi64> -> tensor<2x5x3x4xi64>
    %t = colossal.transpose %h [0, 2, 1, 3] : tensor<2x5x3x4xi64> -> tensor<2x3x5x4xi64>
    %k = colossal.transpose %t [0, 1, 3, 2] : tensor<2x3x5x4xi64> -> tensor<2x3x4x5xi64>
    return
  })mlir");
  ASSERT_TRUE(function.isValid());
  EXPECT_EQ(followAll(function), 4u);
}

TEST(Views, ReshapeOnlyWhatStridesCanSay) {
  ParsedFunction function(R"mlir(func.func @f(%a: tensor<4x6xi64>) {
    %m = colossal.reshape %a : tensor<4x6xi64> -> tensor<2x2x1x6xi64>
    %t = colossal.transpose %a [1, 0] : tensor<4x6xi64> -> tensor<6x4xi64>
    %u = colossal.reshape %t : tensor<6x4xi64> -> tensor<2x3x2x2xi64>
    %v = colossal.reshape %t : tensor<6x4xi64> -> tensor<24xi64>
    %w = colossal.reshape %t : tensor<6x4xi64> -> tensor<3x8xi64>
    return
  })mlir");
  ASSERT_TRUE(function.isValid());
  EXPECT_EQ(followAll(function), 3u); // %v and %w cross the transposed dimensions
}

TEST(Views, OrderOfDimensionsWithoutGaps) {
  using Order = std::optional<SmallVector<unsigned>>;
  EXPECT_EQ(denseOrder({0, 0, {12, 4, 1}}, {2, 3, 4}), (Order({0, 1, 2})));
  EXPECT_EQ(denseOrder({0, 5, {12, 1, 3}}, {2, 3, 4}), (Order({0, 2, 1}))); // channels last
  EXPECT_EQ(denseOrder({0, 0, {1, 7, 2}}, {2, 1, 4}), (Order({2, 0, 1})));  // of one element, anywhere
  EXPECT_EQ(denseOrder({0, 0, {12, 0, 1}}, {2, 3, 4}), std::nullopt);       // repeated
  EXPECT_EQ(denseOrder({0, 0, {24, 8, 2}}, {2, 3, 4}), std::nullopt);       // every second
  EXPECT_EQ(denseOrder({0, 0, {16, 4, 1}}, {2, 3, 4}), std::nullopt);       // a part of four
  EXPECT_EQ(stridesInOrder({2, 3, 4}, {0, 2, 1}), (SmallVector<int64_t>{12, 1, 3}));
}

TEST(Views, StepsBroadcastsAndUnits) {
  ParsedFunction function(R"mlir(func.func @f(%a: tensor<1x7x3xi64>) {
    %s = colossal.slice %a [0, 1, 0] by [1, 2, 1] : tensor<1x7x3xi64> -> tensor<1x3x3xi64>
    %r = colossal.reshape %s : tensor<1x3x3xi64> -> tensor<3x1x3xi64>
    %b = colossal.broadcast %r : tensor<3x1x3xi64> -> tensor<2x3x4x3xi64>
    %o = colossal.slice %b [0, 1, 0, 2] by [1, 1, 3, 1] : tensor<2x3x4x3xi64> -> tensor<2x2x2x1xi64>
    %d = colossal.reshape %a : tensor<1x7x3xi64> -> tensor<21xi64>
    %e = colossal.slice %d [0] by [5] : tensor<21xi64> -> tensor<0xi64>
    return
  })mlir");
  ASSERT_TRUE(function.isValid());
  EXPECT_EQ(followAll(function), 6u);
}

} // namespace
