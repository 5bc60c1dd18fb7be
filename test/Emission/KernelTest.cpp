// The same tables as ElementFolderTest, computed by compiled kernels of one op each: vectors, masks and
// branches of the kernels' emitter, and the functions behind it. Larger shapes are compared with the folder.
#include "../Codegen/LoadedKernels.h"
#include "Elements.h"
#include "colossal/Codegen/CPU/SingleThread.h"
#include "colossal/Codegen/ElementFolder.h"
#include "colossal/Codegen/Kernel/FusedKernel.h"
#include "dialects/Colossal/Colossal.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace colossal;
using namespace colossal::test;

namespace {

struct Case {
  func::FuncOp function;
  SmallVector<DenseElementsAttr> operands, expected;
  double tolerance;
  std::string symbol;
  int64_t tiles, scratchBytes;
};

class KernelsOfCases : public testing::Test {
protected:
  KernelsOfCases() { context.loadDialect<ColossalDialect, func::FuncDialect>(); }

  /// Makes a function that returns what its first op computes, and generates its kernel.
  void generate(Case &item) {
    Operation *op = &item.function.getBody().front().front();
    Operation *end = item.function.getBody().front().getTerminator();
    end->setOperands(op->getResults());
    item.function.setType(
        FunctionType::get(&context, item.function.getArgumentTypes(), op->getResultTypes()));
    kernel::FusedSpec spec{item.function, {}, {}};
    for (Type type : item.function.getArgumentTypes())
      spec.inputs.push_back({denseStrides(cast<RankedTensorType>(type))});
    for (Type type : op->getResultTypes())
      spec.outputs.push_back({denseStrides(cast<RankedTensorType>(type))});
    llvm::Expected<kernel::GeneratedKernel> kernel = kernel::generateFused(context, team, spec);
    if (!kernel) {
      ADD_FAILURE() << item.function.getName().str() << ": " << llvm::toString(kernel.takeError());
      return;
    }
    item.tiles = kernel->tiles;
    item.scratchBytes = kernel->scratchBytes;
    item.symbol = compiler.add(*kernel->module, item.function.getName());
  }

  void run(Case &item, const cpu::test::LoadedKernels &kernels) {
    SCOPED_TRACE(item.function.getName().str());
    std::vector<std::vector<char>> storage;
    for (DenseElementsAttr operand : item.operands)
      storage.push_back(toBytes(operand));
    for (DenseElementsAttr expected : item.expected)
      storage.push_back(std::vector<char>(toBytes(expected).size(), 0x5a));
    storage.push_back(std::vector<char>(item.scratchBytes + 64));
    std::vector<void *> buffers;
    for (std::vector<char> &bytes : storage)
      buffers.push_back(bytes.data());
    buffers.back() = reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(buffers.back()) + 63) / 64 * 64);
    // In two calls, the second part first.
    auto kernel = kernels.get(item.symbol);
    kernel(buffers.data(), nullptr, item.tiles / 2, item.tiles);
    kernel(buffers.data(), nullptr, 0, item.tiles / 2);
    for (auto [result, expected] : llvm::enumerate(item.expected)) {
      auto type = cast<RankedTensorType>(expected.getType());
      DenseElementsAttr found = fromBytes(type, storage[item.operands.size() + result]);
      auto a = found.getValues<Attribute>(), b = expected.getValues<Attribute>();
      for (int64_t i = 0, n = type.getNumElements(), shown = 0; i < n && shown < 4; ++i)
        if (!isClose(a[i], b[i], item.tolerance) && ++shown)
          ADD_FAILURE() << "result " << result << ", element " << i << ": " << toText(a[i]) << ", expected "
                        << toText(b[i]);
    }
  }

  void runAll(std::vector<Case> &cases) {
    for (Case &item : cases)
      generate(item);
    llvm::Expected<std::string> image = compiler.finish();
    if (!image) {
      FAIL() << llvm::toString(image.takeError());
    }
    cpu::test::LoadedKernels kernels(*image);
    for (Case &item : cases)
      if (!item.symbol.empty())
        run(item, kernels);
  }

  MLIRContext context;
  cpu::Processor processor = cpu::test::testTarget();
  cpu::SingleThread team{processor};
  cpu::KernelCompiler compiler{processor, 2};
};

class Tables : public KernelsOfCases, public testing::WithParamInterface<const char *> {};

TEST_P(Tables, AgreeWithKernels) {
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(std::string(EMISSION_CASES) + "/" + GetParam() + ".mlir", &context);
  ASSERT_TRUE(module);
  std::vector<Case> cases;
  for (func::FuncOp function : module->getOps<func::FuncOp>()) {
    Case item{function, {}, {}, function->getAttrOfType<FloatAttr>("tolerance").getValueAsDouble(), "", 0, 0};
    for (Attribute value : function->getAttrOfType<ArrayAttr>("operands"))
      item.operands.push_back(cast<DenseElementsAttr>(value));
    for (Attribute value : function->getAttrOfType<ArrayAttr>("expected"))
      item.expected.push_back(cast<DenseElementsAttr>(value));
    cases.push_back(std::move(item));
  }
  runAll(cases);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Tables,
                         testing::Values("attention", "contraction", "elementwise", "indexing", "movement",
                                         "narrow", "normalization", "pooling", "reduction", "resize"),
                         [](const auto &info) { return std::string(info.param); });

/// Shapes of more than a vector, and not of whole vectors, against the folder. Operands are small random
/// numbers.
TEST_F(KernelsOfCases, WideShapesAgreeWithTheFolder) {
  const char *ops[] = {
      "(%0: tensor<3x70xf32>, %1: tensor<70xf32>) | colossal.elementwise add(%0, %1) : (tensor<3x70xf32>, "
      "tensor<70xf32>) -> tensor<3x70xf32>",
      "(%0: tensor<3x70xf16>, %1: tensor<3x1xf16>) | colossal.elementwise mul(%0, %1) : (tensor<3x70xf16>, "
      "tensor<3x1xf16>) -> tensor<3x70xf16>",
      "(%0: tensor<5x70xbf16>) | colossal.elementwise gelu(%0) : (tensor<5x70xbf16>) -> tensor<5x70xbf16>",
      "(%0: tensor<70xi8>, %1: tensor<70xi8>) | colossal.elementwise div(%0, %1) : (tensor<70xi8>, "
      "tensor<70xi8>) -> tensor<70xi8>",
      "(%0: tensor<70xi64>, %1: tensor<70xi64>) | colossal.elementwise pow(%0, %1) : (tensor<70xi64>, "
      "tensor<70xi64>) -> tensor<70xi64>",
      "(%0: tensor<70xui8>) | colossal.elementwise cast(%0) : (tensor<70xui8>) -> tensor<70xf32>",
      "(%0: tensor<70xf32>) | colossal.elementwise cast(%0) : (tensor<70xf32>) -> tensor<70xi1>",
      "(%0: tensor<70xi1>, %1: tensor<70xi64>, %2: tensor<i64>) | colossal.elementwise select(%0, %1, %2) : "
      "(tensor<70xi1>, tensor<70xi64>, tensor<i64>) -> tensor<70xi64>",
      "(%0: tensor<6x40xf32>) | colossal.reshape %0 : tensor<6x40xf32> -> tensor<4x60xf32>",
      "(%0: tensor<5x64xf32>) | colossal.reshape %0 : tensor<5x64xf32> -> tensor<5x2x32xf32>",
      "(%0: tensor<33x35xf32>) | colossal.transpose %0 [1, 0] : tensor<33x35xf32> -> tensor<35x33xf32>",
      "(%0: tensor<4x80xf32>) | colossal.slice %0 [3, 77] by [-1, -2] : tensor<4x80xf32> -> tensor<3x35xf32>",
      "(%0: tensor<3x20xf32>, %1: tensor<3x37xf32>) | colossal.concat %0, %1 {axis = 1 : i64} : "
      "(tensor<3x20xf32>, tensor<3x37xf32>) -> tensor<3x57xf32>",
      "(%0: tensor<2x37xf32>, %1: tensor<3x37xf32>) | colossal.concat %0, %1 {axis = 0 : i64} : "
      "(tensor<2x37xf32>, tensor<3x37xf32>) -> tensor<5x37xf32>",
      "(%0: tensor<3x40xf32>) | colossal.pad %0 low [1, 3] : tensor<3x40xf32> -> tensor<6x50xf32>",
      "(%0: tensor<3x40xf32>) | colossal.pad %0 low [1, 3] {mode = #colossal<pad_mode reflect>} : "
      "tensor<3x40xf32> -> tensor<5x50xf32>",
      "(%0: tensor<9x40xf32>, %1: tensor<5xi64>) | colossal.gather %0[%1] {axis = 0 : i64} : "
      "tensor<9x40xf32>, tensor<5xi64> -> tensor<5x40xf32>",
      "(%0: tensor<4x9xf32>, %1: tensor<40xi32>) | colossal.gather %0[%1] {axis = 1 : i64} : "
      "tensor<4x9xf32>, tensor<40xi32> -> tensor<4x40xf32>",
      "(%0: tensor<5x40xf32>, %1: tensor<3x40xi64>, %2: tensor<3x40xf32>) | colossal.scatter_elements add "
      "%0[%1], %2 {axis = 0 : i64} : tensor<5x40xf32>, tensor<3x40xi64>, tensor<3x40xf32> -> "
      "tensor<5x40xf32>",
      "(%0: tensor<5x40xf32>, %1: tensor<3x1xi64>, %2: tensor<3x40xf32>) | colossal.scatter_nd none %0[%1], "
      "%2 : tensor<5x40xf32>, tensor<3x1xi64>, tensor<3x40xf32> -> tensor<5x40xf32>",
      "(%0: tensor<5x70xf32>) | colossal.reduce sum %0 over [1] : tensor<5x70xf32> -> tensor<5xf32>",
      "(%0: tensor<5x70xf32>) | colossal.reduce max %0 over [0] : tensor<5x70xf32> -> tensor<70xf32>",
      "(%0: tensor<5x70xf32>) | colossal.reduce log_sum_exp %0 over [1] : tensor<5x70xf32> -> tensor<5xf32>",
      "(%0: tensor<5x70xi32>) | colossal.reduce prod %0 over [0] : tensor<5x70xi32> -> tensor<70xi32>",
      "(%0: tensor<5x70xf32>) | colossal.softmax %0 {axis = 1 : i64} : tensor<5x70xf32>",
      "(%0: tensor<5x70xf32>) | colossal.softmax %0 {axis = 0 : i64, log = true} : tensor<5x70xf32>",
      "(%0: tensor<5x70xf32>, %1: tensor<70xf32>) | colossal.normalize layer(%0, scale %1) {axis = 1 : i64, "
      "epsilon = 1.0e-5 : f64} : (tensor<5x70xf32>, tensor<70xf32>) -> tensor<5x70xf32>",
      "(%0: tensor<5x40xf32>) | colossal.arg_reduce %0 {axis = 0 : i64, minimum = false, keepdims = false, "
      "select_last = false} : tensor<5x40xf32> -> tensor<40xi64>",
      "(%0: tensor<5x40xf32>) | colossal.cumulate %0 {axis = 1 : i64, exclusive = true, reverse = true} : "
      "tensor<5x40xf32>",
      "(%0: tensor<5x40xf32>) | colossal.topk %0 {axis = 0 : i64, largest = true} : tensor<5x40xf32> -> "
      "tensor<3x40xf32>, tensor<3x40xi64>",
      "(%0: tensor<2x40xf32>) | colossal.topk %0 {axis = 1 : i64, largest = false} : tensor<2x40xf32> -> "
      "tensor<2x35xf32>, tensor<2x35xi64>",
      "(%0: tensor<3x64xf32>, %1: tensor<3x32xf32>, %2: tensor<3x32xf32>) | colossal.rotary(%0, %1, %2) : "
      "(tensor<3x64xf32>, tensor<3x32xf32>, tensor<3x32xf32>) -> tensor<3x64xf32>",
      "(%0: tensor<3x70xf32>, %1: tensor<3x30xf32>, %2: tensor<3x30xf32>) | colossal.rotary(%0, %1, %2) "
      "{interleaved = true} : (tensor<3x70xf32>, tensor<3x30xf32>, tensor<3x30xf32>) -> tensor<3x70xf32>",
      "(%0: tensor<1x2x7x40xf32>) | colossal.pool max %0 {kernel = array<i64: 3, 3>, strides = array<i64: 2, "
      "2>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>} : tensor<1x2x7x40xf32> -> "
      "tensor<1x2x4x20xf32>, tensor<1x2x4x20xi64>",
      "(%0: tensor<1x2x7x40xf32>) | colossal.resize %0 {mode = \"linear\", coordinates = \"half_pixel\", "
      "nearest = \"floor\", scales = array<f64: 1.0, 1.0, 2.0, 2.0>, cubic_coeff = -0.75 : f64, "
      "exclude_outside = false, antialias = false, extrapolation = 0.0 : f64} : tensor<1x2x7x40xf32> -> "
      "tensor<1x2x14x80xf32>",
      "(%0: tensor<1x4x9x40xf32>, %1: tensor<4x2x3x3xf32>) | colossal.conv(%0, %1) {strides = array<i64: 1, "
      "1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, group = 2 : i64} : "
      "(tensor<1x4x9x40xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x9x40xf32>",
      "(%0: tensor<5x9xi32>, %1: tensor<9x40xi32>) | colossal.contract %0 [0, 1], %1 [1, 2] -> [0, 2] : "
      "(tensor<5x9xi32>, tensor<9x40xi32>) -> tensor<5x40xi32>",
      "(%0: tensor<1x2x3x8xf32>, %1: tensor<1x1x5x8xf32>, %2: tensor<1x1x5x40xf32>) | colossal.attention(%0, "
      "%1, %2) {scale = 0.3 : f64, causal = true} : (tensor<1x2x3x8xf32>, tensor<1x1x5x8xf32>, "
      "tensor<1x1x5x40xf32>) -> tensor<1x2x3x40xf32>",
      "() | colossal.iota {axis = 0 : i64, start = 1.0 : f64, step = 0.5 : f64} : tensor<70xf32>",
      "() | colossal.random uniform {a = -1.0 : f64, b = 1.0 : f64, seed = 5 : i64, extents = array<i64: 3, "
      "40>} : tensor<3x40xf32>",
      "() | colossal.random normal {a = 0.0 : f64, b = 1.0 : f64, seed = 5 : i64, extents = array<i64: 3, "
      "40>} : tensor<3x40xf32>",
      "(%0: tensor<3x40xf32>, %1: tensor<2xi64>) | colossal.dropout %0 stream %1 : tensor<2xi64> {ratio = "
      "0.4 : "
      "f64, seed = 5 : i64, extents = array<i64: 3, 40>} : tensor<3x40xf32>"};
  std::string text;
  for (auto [i, op] : llvm::enumerate(ops)) {
    auto [arguments, body] = StringRef(op).split(" | ");
    // topk and pool have two results.
    std::string name = body.contains("topk") || body.contains("pool") ? "%r:2 = " : "%r = ";
    text += "func.func @wide" + std::to_string(i) + arguments.str() + " {\n  " + name + body.str() +
            "\n  return\n}\n";
  }
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(module);
  std::mt19937 random(1);
  std::vector<Case> cases;
  for (func::FuncOp function : module->getOps<func::FuncOp>()) {
    Case item{function, {}, {}, 4e-6, "", 0, 0};
    SmallVector<Attribute> values;
    for (Type argument : function.getArgumentTypes()) {
      auto type = cast<RankedTensorType>(argument);
      SmallVector<Attribute> numbers;
      for (int64_t i = 0; i < type.getNumElements(); ++i) {
        if (auto floats = dyn_cast<FloatType>(type.getElementType()))
          numbers.push_back(FloatAttr::get(floats, std::normal_distribution<>()(random)));
        else
          numbers.push_back(IntegerAttr::get(
              type.getElementType(), int64_t(random() % (type.getElementType().isInteger(1) ? 2 : 5))));
      }
      item.operands.push_back(DenseElementsAttr::get(type, numbers));
      values.push_back(item.operands.back());
    }
    Operation *op = &function.getBody().front().front();
    bool narrow = op->getNumOperands() &&
                  (elementTypeOf(op->getOperand(0)).isF16() || elementTypeOf(op->getOperand(0)).isBF16());
    if (narrow)
      item.tolerance = 8e-3;
    for (unsigned result = 0; result < op->getNumResults(); ++result) {
      FailureOr<DenseElementsAttr> expected = foldElements(op, values, result);
      ASSERT_TRUE(succeeded(expected)) << toText(function.getNameAttr());
      item.expected.push_back(*expected);
    }
    cases.push_back(std::move(item));
  }
  runAll(cases);
}

} // namespace
