//===- GradientCases.cpp - programs whose gradients are tested --------------===//
#include "GradientCases.h"

#include "colossal/Autodiff/Differentiate.h"
#include "dialects/Colossal/OpComposer.h"
#include "lib/Training/BatchNormalization.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::test;

/// Where a kind is smooth, so that differences of its values say what its gradient is.
static std::pair<double, double> getDomain(ElementwiseKind kind) {
  using K = ElementwiseKind;
  switch (kind) {
  case K::Reciprocal:
  case K::Sqrt:
  case K::Log:
  case K::Div:
  case K::Pow: return {0.4, 2};
  case K::Mod:
  case K::Fmod: return {0.7, 1.3};
  case K::Tan:
  case K::Asin:
  case K::Acos:
  case K::Atanh: return {-0.9, 0.9};
  case K::Acosh: return {1.2, 3};
  case K::HardSigmoid:
  case K::HardSwish: return {-4, 4};
  default: return {-2, 2};
  }
}

/// A function of one op; `types` of its operands, "tensor<3xf32>, ...".
static std::string makeText(const std::string &op, const std::string &arguments, const std::string &result) {
  return getText(Case{"", "", arguments.c_str(), op.c_str(), result.c_str()});
}

static void addElementwise(std::vector<GradientCase> &all) {
  for (uint32_t number = 0; number < 128; ++number) {
    std::optional<ElementwiseKind> kind = symbolizeElementwiseKind(number);
    if (!kind)
      continue;
    std::string name = stringifyElementwiseKind(*kind).str();
    auto [low, high] = getDomain(*kind);
    auto add = [&](const std::string &suffix, const std::string &operands, const std::string &arguments,
                   const std::string &types, const std::string &attributes = "") {
      all.push_back({"elementwise." + name + suffix,
                     makeText("colossal.elementwise " + name + "(" + operands + ")" + attributes + " : (" +
                                  types + ") -> tensor<3x4xf32>",
                              arguments, "tensor<3x4xf32>"),
                     low, high});
    };
    const std::string real = "tensor<3x4xf32>", row = "tensor<4xf32>";
    switch (*kind) {
    case ElementwiseKind::Select:
      add("", "%c, %a, %b", "%c: tensor<3x4xi1>, %a: " + real + ", %b: " + row,
          "tensor<3x4xi1>, " + real + ", " + row);
      break;
    case ElementwiseKind::Clip:
      add("", "%a, %b, %c", "%a: " + real + ", %b: " + row + ", %c: tensor<f32>",
          real + ", " + row + ", tensor<f32>");
      break;
    case ElementwiseKind::Not:
    case ElementwiseKind::IsNaN:
    case ElementwiseKind::IsInf:
    case ElementwiseKind::BitNot:
    case ElementwiseKind::And:
    case ElementwiseKind::Or:
    case ElementwiseKind::Xor:
    case ElementwiseKind::Equal:
    case ElementwiseKind::Less:
    case ElementwiseKind::LessOrEqual:
    case ElementwiseKind::Greater:
    case ElementwiseKind::GreaterOrEqual:
    case ElementwiseKind::BitAnd:
    case ElementwiseKind::BitOr:
    case ElementwiseKind::BitXor:
    case ElementwiseKind::ShiftLeft:
    case ElementwiseKind::ShiftRight:
    case ElementwiseKind::Bitcast: break; // nothing real in, or out
    case ElementwiseKind::Pow:
      add("", "%a, %b", "%a: " + real + ", %b: " + row, real + ", " + row);
      for (const char *power : {"0.0", "1.0", "2.0", "3.0", "-0.5", "1.7"})
        all.push_back({std::string("elementwise.pow ") + power,
                       "func.func @main(%a: " + real + ") -> " + real +
                           " {\n  %e = colossal.constant dense<" + power +
                           "> : tensor<f32> : tensor<f32>\n  %y = colossal.elementwise pow(%a, %e) : (" +
                           real + ", tensor<f32>) -> " + real + "\n  return %y : " + real + "\n}\n",
                       low, high});
      break;
    default:
      if (number >= static_cast<uint32_t>(ElementwiseKind::Add)) {
        add("", "%a, %b", "%a: " + real + ", %b: " + row, real + ", " + row);
        if (*kind != ElementwiseKind::PRelu && *kind != ElementwiseKind::Mod &&
            *kind != ElementwiseKind::Fmod)
          add(" of three", "%a, %b, %c", "%a: " + real + ", %b: " + row + ", %c: " + real,
              real + ", " + row + ", " + real);
      } else {
        add("", "%a", "%a: " + real, real);
      }
    }
  }
  for (const auto &[name, params] :
       std::vector<std::pair<std::string, std::string>>{{"leaky_relu", "0.2"},
                                                        {"elu", "0.7"},
                                                        {"celu", "0.7"},
                                                        {"selu", "1.5, 1.2"},
                                                        {"swish", "1.7"},
                                                        {"hard_sigmoid", "0.3, 0.4"},
                                                        {"thresholded_relu", "0.5"},
                                                        {"shrink", "0.6, 0.1"}})
    all.push_back({"elementwise." + name + " " + params,
                   makeText("colossal.elementwise " + name + "(%a) {params = array<f64: " + params +
                                ">} : (tensor<3x4xf32>) -> tensor<3x4xf32>",
                            "%a: tensor<3x4xf32>", "tensor<3x4xf32>")});
}

static void addReductions(std::vector<GradientCase> &all) {
  for (uint32_t number = 0; number < 32; ++number)
    if (std::optional<ReduceKind> kind = symbolizeReduceKind(number)) {
      std::string name = stringifyReduceKind(*kind).str();
      const bool isPositive = *kind == ReduceKind::LogSum;
      for (const auto &[axes, result] : std::vector<std::pair<std::string, std::string>>{
               {"[1]", "tensor<3x2xf32>"}, {"[0, 2]", "tensor<4xf32>"}, {"[]", "tensor<3x4x2xf32>"}})
        all.push_back(
            {"reduce." + name + " over " + axes,
             makeText("colossal.reduce " + name + " %a over " + axes + " : tensor<3x4x2xf32> -> " + result,
                      "%a: tensor<3x4x2xf32>", result),
             isPositive ? 0.4 : -2, 2});
      all.push_back({"reduce." + name + " kept",
                     makeText("colossal.reduce " + name +
                                  " %a over [1] {keepdims = true} : tensor<3x4xf32> -> tensor<3x1xf32>",
                              "%a: tensor<3x4xf32>", "tensor<3x1xf32>"),
                     isPositive ? 0.4 : -2, 2});
    }
  for (const char *product : {"false", "true"})
    for (const char *exclusive : {"false", "true"})
      for (const char *reverse : {"false", "true"})
        all.push_back(
            {std::string("cumulate product ") + product + " exclusive " + exclusive + " reverse " + reverse,
             makeText(std::string("colossal.cumulate %a {axis = 1 : i64, exclusive = ") + exclusive +
                          ", reverse = " + reverse + ", product = " + product + "} : tensor<3x5x2xf32>",
                      "%a: tensor<3x5x2xf32>", "tensor<3x5x2xf32>")});
  all.push_back(
      {"topk.least", makeText("colossal.topk %a {axis = 0 : i64, largest = false} : tensor<5x3xf32> -> "
                              "tensor<2x3xf32>, tensor<2x3xi64>",
                              "%a: tensor<5x3xf32>", "tensor<2x3xf32>, tensor<2x3xi64>")});
}

static void addMovement(std::vector<GradientCase> &all) {
  auto add = [&](const std::string &name, const std::string &op, const std::string &argument,
                 const std::string &result) {
    all.push_back({name, makeText(op + " : " + argument + " -> " + result, "%a: " + argument, result)});
  };
  add("slice.backwards", "colossal.slice %a [6, 1] by [-2, 3]", "tensor<7x9xf32>", "tensor<3x3xf32>");
  add("slice.corner", "colossal.slice %a [1, 2] by [1, 1]", "tensor<4x6xf32>", "tensor<2x3xf32>");
  add("slice.one", "colossal.slice %a [2, 0] by [1, 1]", "tensor<4x6xf32>", "tensor<1x6xf32>");
  add("slice.empty", "colossal.slice %a [2, 0] by [1, 1]", "tensor<4x6xf32>", "tensor<0x6xf32>");
  add("pad.cropped", "colossal.pad %a low [-1, 2]", "tensor<4x3xf32>", "tensor<2x6xf32>");
  for (const char *mode : {"reflect", "edge", "wrap"})
    add(std::string("pad.") + mode,
        std::string("colossal.pad %a low [1, -1] {mode = #colossal<pad_mode ") + mode + ">}",
        "tensor<4x3xf32>", "tensor<7x4xf32>");
  all.push_back(
      {"pad.value", makeText("colossal.pad %a value %v low [1, 2] : tensor<4x3xf32>, tensor<f32> -> "
                             "tensor<6x5xf32>",
                             "%a: tensor<4x3xf32>, %v: tensor<f32>", "tensor<6x5xf32>")});
}

static void addWindows(std::vector<GradientCase> &all) {
  const std::string plain = "strides = array<i64: 1>, dilations = array<i64: 1>";
  all.push_back(
      {"conv.pointwise strided",
       makeText("colossal.conv(%a, %w) {strides = array<i64: 2, 1>, dilations = array<i64: 1, 1>, pads "
                "= array<i64: 0, 0, 0, 0>, group = 1 : i64} : (tensor<2x3x5x4xf32>, "
                "tensor<4x3x1x1xf32>) -> tensor<2x4x3x4xf32>",
                "%a: tensor<2x3x5x4xf32>, %w: tensor<4x3x1x1xf32>", "tensor<2x4x3x4xf32>")});
  all.push_back(
      {"conv.pointwise", makeText("colossal.conv(%a, %w) {" + plain +
                                      ", pads = array<i64: 0, 0>, group = 1 : i64} : (tensor<2x3x5xf32>, "
                                      "tensor<4x3x1xf32>) -> tensor<2x4x5xf32>",
                                  "%a: tensor<2x3x5xf32>, %w: tensor<4x3x1xf32>", "tensor<2x4x5xf32>")});
  all.push_back(
      {"conv.grouped strided",
       makeText("colossal.conv(%a, %w, %b) {strides = array<i64: 2>, dilations = array<i64: 2>, pads = "
                "array<i64: 2, 1>, group = 2 : i64} : (tensor<2x4x7xf32>, tensor<6x2x3xf32>, "
                "tensor<6xf32>) -> tensor<2x6x3xf32>",
                "%a: tensor<2x4x7xf32>, %w: tensor<6x2x3xf32>, %b: tensor<6xf32>", "tensor<2x6x3xf32>")});
  all.push_back({"conv.grouped wide",
                 makeText("colossal.conv(%a, %w) {strides = array<i64: 2>, dilations = array<i64: 1>, pads = "
                          "array<i64: 1, 1>, group = 2 : i64} : (tensor<1x16x5xf32>, tensor<16x8x3xf32>) -> "
                          "tensor<1x16x3xf32>",
                          "%a: tensor<1x16x5xf32>, %w: tensor<16x8x3xf32>", "tensor<1x16x3xf32>")});
  all.push_back(
      {"conv.depthwise strided",
       makeText("colossal.conv(%a, %w, %b) {strides = array<i64: 2, 1>, dilations = array<i64: 1, 2>, pads = "
                "array<i64: 1, 2, 0, 1>, group = 3 : i64} : (tensor<2x3x6x7xf32>, tensor<6x1x3x2xf32>, "
                "tensor<6xf32>) -> tensor<2x6x3x8xf32>",
                "%a: tensor<2x3x6x7xf32>, %w: tensor<6x1x3x2xf32>, %b: tensor<6xf32>",
                "tensor<2x6x3x8xf32>")});
  all.push_back(
      {"conv_transpose.grouped",
       makeText("colossal.conv_transpose(%a, %w) {strides = array<i64: 2>, dilations = array<i64: 2>, "
                "pads = array<i64: 1, 0>, group = 2 : i64} : (tensor<2x4x3xf32>, tensor<4x3x2xf32>) "
                "-> tensor<2x6x7xf32>",
                "%a: tensor<2x4x3xf32>, %w: tensor<4x3x2xf32>", "tensor<2x6x7xf32>")});
  for (const auto &[name, extra] :
       std::vector<std::pair<std::string, std::string>>{{"max", ""},
                                                        {"average", ""},
                                                        {"average", ", count_include_pad = true"},
                                                        {"lp", ", p = 1 : i64"},
                                                        {"lp", ", p = 2 : i64"},
                                                        {"lp", ", p = 3 : i64"}})
    all.push_back({"pool." + name + extra,
                   makeText("colossal.pool " + name +
                                " %a {kernel = array<i64: 3, 2>, strides = array<i64: 2, 1>, dilations = "
                                "array<i64: 1, 2>, pads = array<i64: 1, 0, 1, 1>" +
                                extra + "} : tensor<2x2x6x5xf32> -> tensor<2x2x3x4xf32>",
                            "%a: tensor<2x2x6x5xf32>", "tensor<2x2x3x4xf32>")});
  struct Resampled {
    const char *mode, *coordinates, *scales, *result, *extra;
  };
  for (const Resampled &each : std::vector<Resampled>{
           {"nearest", "half_pixel", "1.0, 2.0, 0.6", "tensor<2x8x3xf32>", ""},
           {"linear", "half_pixel", "1.0, 2.0, 0.6", "tensor<2x8x3xf32>", ""},
           {"linear", "align_corners", "1.0, 2.0, 1.0", "tensor<2x8x5xf32>", ""},
           {"cubic", "half_pixel", "1.0, 1.5, 0.6", "tensor<2x6x3xf32>", ""},
           {"cubic", "pytorch_half_pixel", "1.0, 0.5, 0.6", "tensor<2x2x3xf32>", "antialias"},
           {"linear", "tf_crop_and_resize", "1.0, 1.5, 1.0", "tensor<2x6x5xf32>", "roi"}}) {
    const std::string extra = each.extra;
    all.push_back(
        {std::string("resize.") + each.mode + " " + each.coordinates,
         makeText(std::string("colossal.resize %a {mode = \"") + each.mode + "\", coordinates = \"" +
                      each.coordinates +
                      "\", nearest = \"round_prefer_floor\", scales = array<f64: " + each.scales + ">, " +
                      (extra == "roi" ? "roi = array<f64: 0.0, -0.2, 0.0, 1.0, 0.7, 1.0>, " : "") +
                      "cubic_coeff = -7.5e-1 : f64, exclude_outside = false, antialias = " +
                      (extra == "antialias" ? "true" : "false") +
                      ", extrapolation = 0.5 : f64} : tensor<2x4x5xf32> -> " + each.result,
                  "%a: tensor<2x4x5xf32>", each.result)});
  }
}

static void addAttention(std::vector<GradientCase> &all) {
  all.push_back(
      {"attention.capped",
       makeText("colossal.attention(%q, %k, %v, mask %m) {scale = 0.7 : f64, softcap = 1.5 : f64, causal "
                "= true} : (tensor<2x4x3x2xf32>, tensor<2x2x3x2xf32>, tensor<2x2x3x5xf32>, "
                "tensor<4x1x3xf32>) -> tensor<2x4x3x5xf32>",
                "%q: tensor<2x4x3x2xf32>, %k: tensor<2x2x3x2xf32>, %v: tensor<2x2x3x5xf32>, %m: "
                "tensor<4x1x3xf32>",
                "tensor<2x4x3x5xf32>")});
  // Of a mask that is learned the scores' gradients are there at once; these come part by part.
  all.push_back(
      {"attention.causal groups",
       makeText("colossal.attention(%q, %k, %v) {scale = 0.7 : f64, causal = true, causal_offset = 1 : "
                "i64} : (tensor<2x4x5x2xf32>, tensor<2x2x6x2xf32>, tensor<2x2x6x3xf32>) -> "
                "tensor<2x4x5x3xf32>",
                "%q: tensor<2x4x5x2xf32>, %k: tensor<2x2x6x2xf32>, %v: tensor<2x2x6x3xf32>",
                "tensor<2x4x5x3xf32>")});
  all.push_back(
      {"attention.capped whole",
       makeText("colossal.attention(%q, %k, %v) {scale = 0.7 : f64, softcap = 1.5 : f64} : "
                "(tensor<2x2x3x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>) -> tensor<2x2x3x2xf32>",
                "%q: tensor<2x2x3x2xf32>, %k: tensor<2x2x4x2xf32>, %v: tensor<2x2x4x2xf32>",
                "tensor<2x2x3x2xf32>")});
  for (const char *interleaved : {"false", "true"})
    all.push_back(
        {std::string("rotary.part interleaved ") + interleaved,
         makeText(std::string("colossal.rotary(%a, %c, %s) {interleaved = ") + interleaved +
                      "} : (tensor<2x3x6xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<2x3x6xf32>",
                  "%a: tensor<2x3x6xf32>, %c: tensor<3x2xf32>, %s: tensor<3x2xf32>", "tensor<2x3x6xf32>")});
  all.push_back(
      {"softmax.guard", makeText("colossal.softmax %a {axis = 1 : i64, guard = true} : tensor<3x4xf32>",
                                 "%a: tensor<3x4xf32>", "tensor<3x4xf32>")});
}

static void addIndexing(std::vector<GradientCase> &all) {
  all.push_back(
      {"scatter_elements.none",
       "func.func @main(%w: tensor<4x6xf32>, %u: tensor<4x2xf32>) -> tensor<4x6xf32> {\n  %i = "
       "colossal.constant dense<[[0, 3], [5, 1], [-1, 2], [4, 0]]> : tensor<4x2xi64> : tensor<4x2xi64>\n "
       " %y = colossal.scatter_elements none %w[%i], %u {axis = 1 : i64} : tensor<4x6xf32>, "
       "tensor<4x2xi64>, tensor<4x2xf32> -> tensor<4x6xf32>\n  return %y : tensor<4x6xf32>\n}\n"});
  all.push_back({"scatter_nd.none",
                 "func.func @main(%w: tensor<4x3xf32>, %u: tensor<2x3xf32>) -> tensor<4x3xf32> {\n  %i = "
                 "colossal.constant dense<[[2], [-4]]> : tensor<2x1xi64> : tensor<2x1xi64>\n  %y = "
                 "colossal.scatter_nd none %w[%i], %u : tensor<4x3xf32>, tensor<2x1xi64>, tensor<2x3xf32> -> "
                 "tensor<4x3xf32>\n  return %y : tensor<4x3xf32>\n}\n"});
  all.push_back(
      {"gather.from the end",
       "func.func @main(%w: tensor<3x4xf32>) -> tensor<3x3xf32> {\n  %i = colossal.constant dense<[-1, 0, "
       "-1]> : tensor<3xi64> : tensor<3xi64>\n  %y = colossal.gather %w[%i] {axis = 1 : i64} : "
       "tensor<3x4xf32>, tensor<3xi64> -> tensor<3x3xf32>\n  return %y : tensor<3x3xf32>\n}\n"});
}

/// A batch normalization whose batch has `parts` parts, as the ops that a step is made of.
static std::string makeBatchNormalization(int64_t parts) {
  MLIRContext context;
  context.loadDialect<ColossalDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>("func.func @main(%x: tensor<6x3x2x2xf32>, %s: tensor<3xf32>, %b: "
                                  "tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>) -> "
                                  "tensor<6x3x2x2xf32> {\n  %y:3 = colossal.batch_normalize %x, %s, %b, %m, "
                                  "%v {epsilon = 1.0e-3 : f64, momentum = 0.9 "
                                  ": f64} : tensor<6x3x2x2xf32>, tensor<3xf32>, tensor<3xf32>, "
                                  "tensor<3xf32>, tensor<3xf32> -> tensor<6x3x2x2xf32>, "
                                  "tensor<3xf32>, tensor<3xf32>\n  return %y#0 : tensor<6x3x2x2xf32>\n}\n",
                                  &context);
  func::FuncOp function = *module->getOps<func::FuncOp>().begin();
  BatchNormalizeOp op = *function.getOps<BatchNormalizeOp>().begin();
  op.getResult().replaceAllUsesWith(training::buildByBatch(op, parts)->result);
  op.erase();
  std::string text;
  llvm::raw_string_ostream(text) << function << "\n";
  return text;
}

static void addBatchNormalization(std::vector<GradientCase> &all) {
  for (int64_t parts : {1, 3})
    all.push_back(
        {"batch normalization of " + std::to_string(parts) + " parts", makeBatchNormalization(parts)});
}

std::vector<GradientCase> colossal::test::getGradientCases() {
  std::vector<GradientCase> all;
  for (const Case &each : cases)
    all.push_back({each.name, getText(each)});
  addElementwise(all);
  addReductions(all);
  addMovement(all);
  addWindows(all);
  addAttention(all);
  addBatchNormalization(all);
  addIndexing(all);
  return all;
}

std::string colossal::test::inDoublePrecision(std::string text) {
  for (size_t at = 0; (at = text.find("f32", at)) != std::string::npos;)
    text.replace(at, 3, "f64");
  return text;
}

bool colossal::test::isRefused(const std::string &name) {
  return name == "roi_max_pool" || name == "pool_gradient.max" ||
         llvm::StringRef(name).starts_with("attention_gradient") ||
         llvm::StringRef(name).starts_with("formula");
}

static bool isReal(Value value) {
  return isa<FloatType>(cast<RankedTensorType>(value.getType()).getElementType());
}

std::vector<Tensor> colossal::test::drawArguments(func::FuncOp function, const GradientCase &each,
                                                  std::mt19937 &random) {
  std::vector<Tensor> arguments = makeArguments(function, random);
  for (auto [tensor, argument] : llvm::zip_equal(arguments, function.getArguments()))
    if (isReal(argument))
      for (double &value : tensor.data)
        value = static_cast<float>(each.low + (value + 2) / 4 * (each.high - each.low));
  return arguments;
}

std::vector<BlockArgument> colossal::test::addLoss(func::FuncOp function) {
  std::vector<BlockArgument> variables;
  for (BlockArgument argument : function.getArguments())
    if (isReal(argument))
      variables.push_back(argument);
  Operation *end = function.front().getTerminator();
  OpBuilder builder(end);
  OpComposer ops(builder, end->getLoc());
  Value loss;
  for (Value result : SmallVector<Value>(end->getOperands())) {
    if (!isReal(result))
      continue;
    if (failed(function.insertArgument(function.getNumArguments(), result.getType(), {}, end->getLoc())))
      return {};
    Value weighted = ops.mul(result, function.getArguments().back());
    SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(shapeOf(result).size()));
    Value sum = ops.reshape(ops.reduce(ReduceKind::Sum, weighted, axes), {});
    loss = loss ? ops.add(loss, sum) : sum;
  }
  if (!loss)
    return {};
  end->setOperands(loss);
  function.setFunctionType(builder.getFunctionType(function.getArgumentTypes(), loss.getType()));
  function.setAllResultAttrs(SmallVector<DictionaryAttr>(1, builder.getDictionaryAttr({})));
  return variables;
}

LogicalResult colossal::test::returnGradients(func::FuncOp function, ArrayRef<BlockArgument> variables) {
  Operation *end = function.front().getTerminator();
  SmallVector<Value> gradients, results{end->getOperand(0)};
  if (failed(differentiate(function, results[0], SmallVector<Value>(variables.begin(), variables.end()),
                           gradients)))
    return failure();
  llvm::append_range(results, gradients);
  end->setOperands(results);
  Builder builder(function.getContext());
  SmallVector<Type> types(ValueRange(results).getTypes());
  function.setFunctionType(builder.getFunctionType(function.getArgumentTypes(), types));
  function.setAllResultAttrs(SmallVector<DictionaryAttr>(types.size(), builder.getDictionaryAttr({})));
  return success();
}
