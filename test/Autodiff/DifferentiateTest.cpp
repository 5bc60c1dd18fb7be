//===- DifferentiateTest.cpp - the reverse pass -----------------------------===//
#include "GradientCases.h"

#include "colossal/Autodiff/Differentiate.h"
#include "dialects/Colossal/Colossal.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::test;

namespace {

struct Differentiate : Harness {
  /// The ops of that type in the one function.
  template <typename Op>
  static SmallVector<Op> find(ModuleOp module) {
    return SmallVector<Op>(getFunction(module).getOps<Op>());
  }
  /// What is said when the gradients of the first argument are asked for; "" where they are built.
  std::string getRefusal(const std::string &text) {
    OwningOpRef<ModuleOp> module = parse(text);
    std::string said;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      llvm::raw_string_ostream out(said);
      diagnostic.getLocation()->print(out);
      out << ": " << diagnostic;
      return success();
    });
    SmallVector<Value> gradients;
    func::FuncOp function = getFunction(*module);
    LogicalResult built = differentiate(function, function.front().getTerminator()->getOperand(0),
                                        {function.getArgument(0)}, gradients);
    return succeeded(built) ? "" : said;
  }
};

// q, k and v of one contraction: their gradients lie side by side again, and nothing is added to zeros.
TEST_F(Differentiate, JoinsTheGradientsOfParts) {
  OwningOpRef<ModuleOp> module = parse(R"mlir(
func.func @main(%a: tensor<2x9xf32>) -> tensor<2x3xf32> {
  %q = colossal.slice %a [0, 0] by [1, 1] : tensor<2x9xf32> -> tensor<2x3xf32>
  %k = colossal.slice %a [0, 6] by [1, 1] : tensor<2x9xf32> -> tensor<2x3xf32>
  %v = colossal.slice %a [0, 3] by [1, 1] : tensor<2x9xf32> -> tensor<2x3xf32>
  %qk = colossal.elementwise mul(%q, %k) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %y = colossal.elementwise mul(%qk, %v) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
})mlir");
  std::vector<BlockArgument> variables = addLoss(getFunction(*module));
  ASSERT_TRUE(succeeded(returnGradients(getFunction(*module), variables)));
  SmallVector<ConcatOp> joined = find<ConcatOp>(*module);
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0].getInputs().size(), 3u);
  EXPECT_EQ(find<PadOp>(*module).size(), 0u);
}

TEST_F(Differentiate, GivesZerosWhereTheLossDoesNotDepend) {
  OwningOpRef<ModuleOp> module = parse(R"mlir(
func.func @main(%a: tensor<2xf32>, %b: tensor<3xf32>) -> tensor<f32> {
  %y = colossal.reduce sum %a over [0] : tensor<2xf32> -> tensor<f32>
  return %y : tensor<f32>
})mlir");
  func::FuncOp function = getFunction(*module);
  SmallVector<Value> gradients;
  ASSERT_TRUE(succeeded(differentiate(function, function.front().getTerminator()->getOperand(0),
                                      {function.getArgument(0), function.getArgument(1)}, gradients)));
  ASSERT_EQ(gradients.size(), 2u);
  auto zeros = gradients[1].getDefiningOp<ConstantOp>();
  ASSERT_TRUE(zeros);
  EXPECT_EQ(zeros.getType(), function.getArgument(1).getType());
  EXPECT_TRUE(zeros.getValue().isSplat() && zeros.getValue().getSplatValue<APFloat>().isZero());
}

// Values between count as variables, too, and what stands before them is not looked at.
TEST_F(Differentiate, TakesResultsOfOpsAsVariables) {
  OwningOpRef<ModuleOp> module = parse(R"mlir(
func.func @main(%a: tensor<2xf32>) -> tensor<f32> {
  %r = colossal.elementwise mul(%a, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %y = colossal.reduce sum %r over [0] : tensor<2xf32> -> tensor<f32>
  return %y : tensor<f32>
})mlir");
  func::FuncOp function = getFunction(*module);
  Value square = function.front().front().getResult(0);
  SmallVector<Value> gradients;
  ASSERT_TRUE(succeeded(
      differentiate(function, function.front().getTerminator()->getOperand(0), {square}, gradients)));
  EXPECT_EQ(gradients[0].getType(), square.getType());
  EXPECT_EQ(find<ElementwiseOp>(*module).size(), 1u);
}

// What ranks add up once: the gradients that products give, before that of what is added to them.
TEST_F(Differentiate, AddsProductsFirst) {
  constexpr const char *kText = R"mlir(
func.func @main(%a: tensor<2x2xf32>, %v: tensor<2x2xf32>, %w: tensor<2x2xf32>) -> tensor<f32> {
  %x = colossal.elementwise exp(%a) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p = colossal.contract %x [0, 1], %v [1, 2] -> [0, 2] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %q = colossal.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %s = colossal.elementwise mul(%p, %q) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %t = colossal.elementwise add(%s, %x) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %y = colossal.reduce sum %t over [0, 1] : tensor<2x2xf32> -> tensor<f32>
  return %y : tensor<f32>
})mlir";
  for (bool isFirst : {false, true}) {
    OwningOpRef<ModuleOp> module = parse(kText);
    func::FuncOp function = getFunction(*module);
    SmallVector<Value> gradients;
    ASSERT_TRUE(succeeded(differentiate(function, function.front().getTerminator()->getOperand(0),
                                        {function.getArgument(0)}, gradients, isFirst)));
    int ofProducts = 0, all = 0;
    for (ElementwiseOp op : find<ElementwiseOp>(*module)) {
      const bool isSum = op.getKind() == ElementwiseKind::Add && op != find<ElementwiseOp>(*module)[2];
      all += isSum;
      ofProducts += isSum && llvm::all_of(op->getOperands(), [](Value operand) {
                      return operand.getDefiningOp<ContractOp>() != nullptr;
                    });
    }
    EXPECT_EQ(all, 2);
    EXPECT_EQ(ofProducts, isFirst ? 1 : 0);
  }
}

TEST_F(Differentiate, LeavesTheFunctionAsItIs) {
  // Two equal ops, and one that nobody needs: callers may hold their values.
  OwningOpRef<ModuleOp> module = parse(R"mlir(
func.func @main(%a: tensor<2xf32>) -> tensor<f32> {
  %x = colossal.elementwise exp(%a) : (tensor<2xf32>) -> tensor<2xf32>
  %z = colossal.elementwise exp(%a) : (tensor<2xf32>) -> tensor<2xf32>
  %u = colossal.elementwise sin(%a) : (tensor<2xf32>) -> tensor<2xf32>
  %s = colossal.elementwise mul(%x, %z) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %y = colossal.reduce sum %s over [0] : tensor<2xf32> -> tensor<f32>
  return %y : tensor<f32>
})mlir");
  std::vector<Operation *> before;
  for (Operation &op : getFunction(*module).front().without_terminator())
    before.push_back(&op);
  SmallVector<Value> gradients;
  func::FuncOp function = getFunction(*module);
  ASSERT_TRUE(succeeded(differentiate(function, function.front().getTerminator()->getOperand(0),
                                      {function.getArgument(0)}, gradients)));
  std::vector<Operation *> after;
  for (Operation &op : function.front().without_terminator())
    after.push_back(&op);
  ASSERT_GE(after.size(), before.size());
  EXPECT_TRUE(std::equal(before.begin(), before.end(), after.begin()));
}

TEST_F(Differentiate, NamesTheOpWithoutAGradient) {
  std::string said = getRefusal(R"mlir(
func.func @main(%a: tensor<2x3xf32>, %i: tensor<2x1xi64>, %u: tensor<2x1xf32>) -> tensor<f32> {
  %x = colossal.scatter_elements max %a[%i], %u {axis = 1 : i64} : tensor<2x3xf32>, tensor<2x1xi64>, tensor<2x1xf32> -> tensor<2x3xf32> loc("layer.3/ScatterElements")
  %y = colossal.reduce sum %x over [0, 1] : tensor<2x3xf32> -> tensor<f32>
  return %y : tensor<f32>
})mlir");
  EXPECT_NE(said.find("layer.3/ScatterElements"), std::string::npos) << said;
  EXPECT_NE(said.find("scattering with max has no gradient"), std::string::npos) << said;
}

TEST_F(Differentiate, CallsGradientsAsTheirOps) {
  OwningOpRef<ModuleOp> module = parse(R"mlir(
func.func @main(%a: tensor<2xf32>) -> tensor<f32> {
  %x = colossal.elementwise sin(%a) : (tensor<2xf32>) -> tensor<2xf32> loc("h.0/Sin")
  %y = colossal.reduce sum %x over [0] : tensor<2xf32> -> tensor<f32>
  return %y : tensor<f32>
})mlir");
  func::FuncOp function = getFunction(*module);
  SmallVector<Value> gradients;
  ASSERT_TRUE(succeeded(differentiate(function, function.front().getTerminator()->getOperand(0),
                                      {function.getArgument(0)}, gradients)));
  auto name = dyn_cast<NameLoc>(gradients[0].getLoc());
  ASSERT_TRUE(name);
  EXPECT_EQ(name.getName(), "h.0/Sin.gradient");
}

TEST_F(Differentiate, RefusesALossThatIsNoNumber) {
  EXPECT_NE(
      getRefusal(
          "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n  %x = colossal.elementwise sin(%a) : "
          "(tensor<2xf32>) -> tensor<2xf32>\n  return %x : tensor<2xf32>\n}")
          .find("the loss must be one number"),
      std::string::npos);
}

} // namespace
