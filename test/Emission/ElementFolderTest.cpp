// Element code of every op, folded, against tables made by NumPy and ONNX's reference evaluator
// (generate_cases.py).
#include "colossal/Codegen/ElementFolder.h"
#include "dialects/Colossal/Colossal.h"
#include "dialects/Colossal/NarrowTypes.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace mlir;
using namespace colossal;

namespace {

std::string toText(Attribute attribute) {
  std::string text;
  llvm::raw_string_ostream(text) << attribute;
  return text;
}

bool isClose(Attribute found, Attribute expected, double tolerance) {
  auto real = dyn_cast<FloatAttr>(expected);
  if (!real)
    return found == expected;
  if (isNarrow(real.getType()))
    return found == expected || (real.getValue().isNaN() && cast<FloatAttr>(found).getValue().isNaN());
  double x = cast<FloatAttr>(found).getValueAsDouble(), y = real.getValueAsDouble();
  if (std::isnan(y) || std::isinf(y))
    return std::isnan(y) ? std::isnan(x) : x == y;
  return std::fabs(x - y) <= tolerance * (1 + std::fabs(y));
}

class ElementFolder : public testing::Test {
protected:
  ElementFolder() { context.loadDialect<ColossalDialect, func::FuncDialect>(); }

  OwningOpRef<ModuleOp> parse(StringRef text) { return parseSourceString<ModuleOp>(text, &context); }

  static Operation *subjectOf(func::FuncOp function) { return &function.getBody().front().front(); }

  /// Folds the op of `function` with the values in its attributes and compares all results.
  void check(func::FuncOp function) {
    SCOPED_TRACE(function.getName().str());
    auto operands = function->getAttrOfType<ArrayAttr>("operands");
    auto expected = function->getAttrOfType<ArrayAttr>("expected");
    double tolerance = function->getAttrOfType<FloatAttr>("tolerance").getValueAsDouble();
    Operation *op = subjectOf(function);
    for (unsigned result = 0; result < op->getNumResults(); ++result) {
      FailureOr<DenseElementsAttr> found = foldElements(op, operands.getValue(), result);
      ASSERT_TRUE(succeeded(found)) << "does not fold";
      auto wanted = cast<DenseElementsAttr>(expected[result]);
      ASSERT_EQ(found->getType(), wanted.getType());
      auto a = found->getValues<Attribute>(), b = wanted.getValues<Attribute>();
      for (int64_t i = 0, n = wanted.getNumElements(); i < n; ++i)
        EXPECT_TRUE(isClose(a[i], b[i], tolerance)) << "result " << result << ", element " << i << ": "
                                                    << toText(a[i]) << ", expected " << toText(b[i]);
    }
  }

  MLIRContext context;
};

class Cases : public ElementFolder, public testing::WithParamInterface<const char *> {};

TEST_P(Cases, AgreeWithTables) {
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(std::string(EMISSION_CASES) + "/" + GetParam() + ".mlir", &context);
  ASSERT_TRUE(module);
  int cases = 0;
  module->walk([&](func::FuncOp function) {
    ++cases;
    check(function);
  });
  EXPECT_GE(cases, 10);
}

INSTANTIATE_TEST_SUITE_P(ElementFolder, Cases,
                         testing::Values("attention", "contraction", "elementwise", "indexing", "movement",
                                         "narrow", "normalization", "pooling", "reduction", "resize"),
                         [](const auto &info) { return std::string(info.param); });

/// The kinds of elementwise and reduce ops that the tables miss.
TEST_F(ElementFolder, TablesHoldEveryKind) {
  llvm::DenseSet<uint32_t> elementwise, reductions;
  for (StringRef file : {"elementwise", "narrow", "reduction"}) {
    OwningOpRef<ModuleOp> module =
        parseSourceFile<ModuleOp>((EMISSION_CASES "/" + file + ".mlir").str(), &context);
    ASSERT_TRUE(module);
    module->walk([&](ElementwiseOp op) { elementwise.insert(static_cast<uint32_t>(op.getKind())); });
    module->walk([&](ReduceOp op) { reductions.insert(static_cast<uint32_t>(op.getKind())); });
  }
  for (uint32_t kind = 0; kind < 256; ++kind) {
    if (auto known = symbolizeElementwiseKind(kind)) {
      EXPECT_TRUE(elementwise.contains(kind)) << stringifyElementwiseKind(*known).str();
    }
    if (auto known = symbolizeReduceKind(kind)) {
      EXPECT_TRUE(reductions.contains(kind)) << stringifyReduceKind(*known).str();
    }
  }
}

//===----------------------------------------------------------------------===//
// Scalar operands, random values, limits
//===----------------------------------------------------------------------===//

class OneOp : public ElementFolder {
protected:
  /// Folds the op of a function with `arguments`; `operands` are attributes as text, "" where unknown.
  FailureOr<DenseElementsAttr> fold(const std::string &arguments, const std::string &op,
                                    std::vector<std::string> operands, FoldLimits limits = {}) {
    module = parse("func.func @f(" + arguments + ") {\n" + op + "\nreturn\n}");
    if (!module)
      return failure();
    SmallVector<Attribute> values;
    for (const std::string &text : operands)
      values.push_back(text.empty() ? Attribute() : parseAttribute(text, &context));
    func::FuncOp function = *module->getOps<func::FuncOp>().begin();
    return foldElements(subjectOf(function), values, 0, limits);
  }
  void expectFold(const std::string &arguments, const std::string &op, std::vector<std::string> operands,
                  const std::string &expected) {
    FailureOr<DenseElementsAttr> found = fold(arguments, op, std::move(operands));
    ASSERT_TRUE(succeeded(found)) << op;
    EXPECT_EQ(toText(*found), toText(parseAttribute(expected, &context))) << op;
  }
  std::vector<double> numbers(const std::string &op, const std::string &arguments = "",
                              std::vector<std::string> operands = {}) {
    FailureOr<DenseElementsAttr> found = fold(arguments, op, std::move(operands));
    EXPECT_TRUE(succeeded(found)) << op;
    std::vector<double> values;
    if (succeeded(found))
      for (APFloat value : found->getValues<APFloat>())
        values.push_back(value.convertToDouble());
    return values;
  }

  OwningOpRef<ModuleOp> module;
};

TEST_F(OneOp, GatherOfAShard) {
  // Elements 4, 5, 6 of a dimension of 8: indices elsewhere give 0, negative ones count from 8.
  expectFold(
      "%d: tensor<3xf32>, %i: tensor<5xi64>, %o: index",
      "%r = colossal.gather %d[%i] offset %o {axis = 0 : i64, extent = 8 : i64} : tensor<3xf32>, "
      "tensor<5xi64> -> "
      "tensor<5xf32>",
      {"dense<[1.0, 2.0, 3.0]> : tensor<3xf32>", "dense<[4, 6, 7, -4, 0]> : tensor<5xi64>", "4 : index"},
      "dense<[1.0, 3.0, 0.0, 1.0, 0.0]> : tensor<5xf32>");
}

TEST_F(OneOp, GatherOutOfRangeStaysInside) {
  EXPECT_TRUE(succeeded(
      fold("%d: tensor<3xf32>, %i: tensor<2xi64>",
           "%r = colossal.gather %d[%i] {axis = 0 : i64} : tensor<3xf32>, tensor<2xi64> -> tensor<2xf32>",
           {"dense<[1.0, 2.0, 3.0]> : tensor<3xf32>", "dense<[99, -99]> : tensor<2xi64>"})));
}

TEST_F(OneOp, IotaOfAShard) {
  expectFold(
      "%o: index",
      "%r = colossal.iota offset %o {axis = 0 : i64, start = 1.0 : f64, step = 2.0 : f64} : tensor<3xi32>",
      {"10 : index"}, "dense<[21, 23, 25]> : tensor<3xi32>");
}

TEST_F(OneOp, AttentionOfAShard) {
  // Query 0 is the third, sees keys 0 to 2, but only two are real; all scores are equal.
  const char *op =
      "%r = colossal.attention(%q, %k, %v query_offset %o key_count %n) {scale = 1.0 : f64, causal = true} "
      ": (tensor<1x1x1x1xf32>, tensor<1x1x4x1xf32>, tensor<1x1x4x1xf32>) -> tensor<1x1x1x1xf32>";
  const char *arguments =
      "%q: tensor<1x1x1x1xf32>, %k: tensor<1x1x4x1xf32>, %v: tensor<1x1x4x1xf32>, %o: index, %n: index";
  std::string values = "dense<[[[[1.0], [3.0], [8.0], [0x7FC00000]]]]> : tensor<1x1x4x1xf32>";
  std::string zero = "dense<0.0> : tensor<1x1x1x1xf32>", zeros = "dense<0.0> : tensor<1x1x4x1xf32>";
  expectFold(arguments, op, {zero, zeros, values, "2 : index", "2 : index"},
             "dense<2.0> : tensor<1x1x1x1xf32>");
  expectFold(arguments, op, {zero, zeros, values, "2 : index", "4 : index"},
             "dense<4.0> : tensor<1x1x1x1xf32>");
  expectFold(arguments, op, {zero, zeros, values, "0 : index", "4 : index"},
             "dense<1.0> : tensor<1x1x1x1xf32>");
}

TEST_F(OneOp, MaskPaddingOfAFusedDimension) {
  // 6 columns seen as 2 x 3, of which the first 2 of 3 are real; and one row of two.
  expectFold(
      "%x: tensor<2x6xf32>, %a: index, %b: index",
      "%r = dist.mask_padding %x[%a, %b] {extents = array<i64: 2, 2, 3>, masked = array<i64: 0, 2>, fill = "
      "-1.0 : f64} "
      ": tensor<2x6xf32>",
      {"dense<[[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [7.0, 8.0, 9.0, 10.0, 11.0, 12.0]]> : tensor<2x6xf32>",
       "1 : index", "2 : index"},
      "dense<[[1.0, 2.0, -1.0, 4.0, 5.0, -1.0], [-1.0, -1.0, -1.0, -1.0, -1.0, -1.0]]> : tensor<2x6xf32>");
}

TEST_F(OneOp, MaskPaddingSaturates) {
  auto check = [&](std::string type, std::string fill, std::string value) {
    expectFold("%x: tensor<2x" + type + ">, %a: index",
               "%r = dist.mask_padding %x[%a] {extents = array<i64: 2>, masked = array<i64: 0>, fill = " +
                   fill + " : f64} : tensor<2x" + type + ">",
               {"dense<1> : tensor<2x" + type + ">", "1 : index"},
               "dense<[1, " + value + "]> : tensor<2x" + type + ">");
  };
  check("i8", "0xFFF0000000000000", "-128");
  check("i64", "0xFFF0000000000000", "-9223372036854775808");
  check("i64", "0x7FF0000000000000", "9223372036854775807");
  check("ui8", "1.0e300", "255");
  check("ui8", "-1.0e300", "0");
  check("i32", "1.0", "1");
}

TEST_F(OneOp, RandomDependsOnTheGlobalIndexOnly) {
  for (std::string kind : {"uniform", "normal"}) {
    std::string attributes =
        " {a = -1.0 : f64, b = 2.0 : f64, seed = 7 : i64, extents = array<i64: 4, 6>} : ";
    std::vector<double> whole = numbers("%r = colossal.random " + kind + attributes + "tensor<4x6xf32>");
    std::vector<double> part =
        numbers("%r = colossal.random " + kind + " offsets %y, %x" + attributes + "tensor<2x3xf32>",
                "%y: index, %x: index", {"1 : index", "3 : index"});
    ASSERT_EQ(part.size(), 6u);
    for (int i = 0; i < 6; ++i)
      EXPECT_EQ(part[i], whole[(1 + i / 3) * 6 + 3 + i % 3]);
    attributes.replace(attributes.find("7"), 1, "8");
    EXPECT_NE(numbers("%r = colossal.random " + kind + attributes + "tensor<4x6xf32>"), whole);
  }
}

// The published known answers of Philox4x32-10 (Random123, kat_vectors), as the words that elements are made
// of: the first two are a uniform number, the last two the angle of a normal one, the first what dropout
// compares.
TEST_F(OneOp, RandomIsPhilox) {
  struct Answer {
    int64_t key, element, step;
    std::array<uint32_t, 4> words;
  };
  for (const Answer &each :
       std::vector<Answer>{{0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
                           {-1, -1, -1, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
                           {0x299f31d0a4093822,
                            static_cast<int64_t>(0x85a308d3243f6a88),
                            0x0370734413198a2e,
                            {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}}) {
    std::string stream =
        "dense<[" + std::to_string(each.key) + ", " + std::to_string(each.step) + "]> : tensor<2xi64>";
    std::string element = std::to_string(each.element) + " : index";
    auto draw = [&](const std::string &kind) {
      return numbers("%r = colossal.random " + kind +
                         " stream %s : tensor<2xi64> offsets %o {a = 0.0 : f64, b = 1.0 : f64, seed = 9 : "
                         "i64, extents = "
                         "array<i64: 1>} : tensor<1xf64>",
                     "%s: tensor<2xi64>, %o: index", {stream, element})
          .front();
    };
    auto unit = [](uint64_t low, uint64_t high) {
      return std::ldexp(static_cast<double>((high << 32 | low) >> 12), -52);
    };
    const double u = unit(each.words[0], each.words[1]), v = unit(each.words[2], each.words[3]);
    EXPECT_EQ(draw("uniform"), u);
    EXPECT_NEAR(draw("normal"), std::sqrt(-2 * std::log(1 - u)) * std::cos(2 * M_PI * v), 1e-14);
    // Kept where the first word is below the rest of the ratio, in 2^-32.
    for (int64_t above : {0, 1}) {
      const double ratio = 1 - std::ldexp(static_cast<double>(int64_t(each.words[0]) + above), -32);
      char text[64];
      std::snprintf(text, sizeof text, "%.17g", ratio);
      std::vector<double> left = numbers(
          "%r = colossal.dropout %x stream %s : tensor<2xi64> offsets %o {ratio = " + std::string(text) +
              " : f64, seed = 9 : i64, extents = array<i64: 1>} : tensor<1xf64>",
          "%x: tensor<1xf64>, %s: tensor<2xi64>, %o: index", {"dense<3.0> : tensor<1xf64>", stream, element});
      EXPECT_EQ(left.front(), above ? 3.0 * (1 / (1 - ratio)) : 0.0);
    }
  }
}

TEST_F(OneOp, DropoutKeepsItsShare) {
  for (double ratio : {0.0, 0.1, 0.75, 1.0}) {
    std::vector<double> left =
        numbers("%r = colossal.dropout %x {ratio = " + std::to_string(ratio) +
                    " : f64, seed = 3 : i64, extents = array<i64: 40000>} : tensor<40000xf32>",
                "%x: tensor<40000xf32>", {"dense<2.0> : tensor<40000xf32>"});
    unsigned kept = 0;
    for (double value : left) {
      if (value != 0) {
        EXPECT_FLOAT_EQ(value, 2 / (1 - ratio));
      }
      kept += value != 0;
    }
    EXPECT_NEAR(kept / 40000.0, 1 - ratio, 0.011); // five deviations
    EXPECT_TRUE((ratio != 0 && ratio != 1) || kept == (1 - ratio) * 40000);
  }
}

TEST_F(OneOp, RandomHasItsMoments) {
  auto moments = [&](const std::string &op, const std::string &arguments = "",
                     std::vector<std::string> operands = {}) {
    std::vector<double> x = numbers(op, arguments, std::move(operands));
    double mean = 0, square = 0;
    for (double v : x)
      mean += v / x.size();
    for (double v : x)
      square += (v - mean) * (v - mean) / x.size();
    return std::make_pair(mean, square);
  };
  std::string more = "seed = 3 : i64, extents = array<i64: 40000>} : tensor<40000xf32>";
  auto uniform = moments("%r = colossal.random uniform {a = -1.0 : f64, b = 3.0 : f64, " + more);
  EXPECT_NEAR(uniform.first, 1.0, 0.03); // five deviations
  EXPECT_NEAR(uniform.second, 16.0 / 12, 0.03);
  auto normal = moments("%r = colossal.random normal {a = 5.0 : f64, b = 2.0 : f64, " + more);
  EXPECT_NEAR(normal.first, 5.0, 0.05);
  EXPECT_NEAR(normal.second, 4.0, 0.15);
  auto bernoulli =
      moments("%r = colossal.random bernoulli(%p : tensor<40000xf32>) {a = 0.0 : f64, b = 0.0 : f64, " + more,
              "%p: tensor<40000xf32>", {"dense<0.25> : tensor<40000xf32>"});
  EXPECT_NEAR(bernoulli.first, 0.25, 0.011);
}

TEST_F(OneOp, UnknownOperandsAreReadOnlyWhereNeeded) {
  const char *arguments = "%a: tensor<2xi64>, %b: tensor<2xi64>";
  const char *first =
      "%r = colossal.gather %a[%b] {axis = 0 : i64} : tensor<2xi64>, tensor<2xi64> -> tensor<2xi64>";
  EXPECT_TRUE(failed(fold(arguments, first, {"", "dense<0> : tensor<2xi64>"})));
  // All of this result is padding.
  expectFold("%a: tensor<2xi64>", "%r = colossal.pad %a low [2] : tensor<2xi64> -> tensor<2xi64>", {""},
             "dense<0> : tensor<2xi64>");
}

TEST_F(OneOp, LimitsStopFolding) {
  const char *op = "%r = colossal.reduce sum %a over [0] : tensor<1000xf32> -> tensor<f32>";
  FoldLimits few;
  few.instructions = 1000;
  EXPECT_TRUE(failed(fold("%a: tensor<1000xf32>", op, {"dense<1.0> : tensor<1000xf32>"}, few)));
  EXPECT_TRUE(succeeded(fold("%a: tensor<1000xf32>", op, {"dense<1.0> : tensor<1000xf32>"})));
  FoldLimits small;
  small.elements = 10;
  EXPECT_TRUE(failed(fold("%a: tensor<11xf32>",
                          "%r = colossal.elementwise abs(%a) : (tensor<11xf32>) -> tensor<11xf32>",
                          {"dense<1.0> : tensor<11xf32>"}, small)));
}

} // namespace
