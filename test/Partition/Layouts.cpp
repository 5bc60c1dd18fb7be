//===- Layouts.cpp - programs, values and assignments for the harnesses -----===//
#include "Layouts.h"

#include "dialects/Colossal/Colossal.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <sstream>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::test;

const std::vector<std::vector<int64_t>> colossal::test::meshes = {{2}, {3}, {4}, {8}, {2, 2}, {2, 4}, {3, 2}};

MeshAttr test::makeMesh(MLIRContext &context, ArrayRef<int64_t> sizes) {
  SmallVector<MeshAxisAttr> axes;
  for (auto [i, size] : llvm::enumerate(sizes)) {
    std::string name = i < 3 ? std::string(1, static_cast<char>('x' + i)) : "a" + std::to_string(i + 1);
    axes.push_back(MeshAxisAttr::get(&context, StringAttr::get(&context, name), size));
  }
  return MeshAttr::get(&context, axes);
}

static int64_t getRanks(ArrayRef<unsigned> axes, MeshAttr mesh) {
  int64_t ranks = 1;
  for (unsigned axis : axes)
    ranks *= mesh.getAxisSize(axis);
  return ranks;
}

std::vector<Assignment> test::getAllAssignments(const FactorRule &rule, MeshAttr mesh) {
  std::vector<Assignment> all{Assignment(rule.factors.size())};
  for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis) {
    size_t before = all.size();
    for (size_t i = 0; i < before; ++i)
      for (auto [f, factor] : llvm::enumerate(rule.factors)) {
        if (factor.kind == FactorKind::Whole)
          continue;
        for (size_t place = 0; place <= all[i][f].size(); ++place) {
          Assignment next = all[i];
          next[f].insert(next[f].begin() + place, axis);
          if (factor.even && factor.size % getRanks(next[f], mesh) != 0)
            continue;
          all.push_back(next);
        }
      }
  }
  return all;
}

Tensor test::makeArgument(RankedTensorType type, int64_t below, std::mt19937 &random) {
  Tensor tensor{type, {}};
  bool isFloat = isa<FloatType>(type.getElementType());
  std::uniform_real_distribution<double> reals(-2, 2);
  std::uniform_int_distribution<int64_t> integers(below ? 0 : 1, below ? below - 1 : 5);
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    if (isFloat)
      tensor.data.push_back(static_cast<float>(reals(random)));
    else
      tensor.data.push_back(type.getElementType().isInteger(1) ? integers(random) % 2 : integers(random));
  }
  return tensor;
}

std::vector<Tensor> test::makeArguments(func::FuncOp function, std::mt19937 &random) {
  std::vector<Tensor> arguments;
  for (BlockArgument argument : function.getArguments()) {
    auto below = function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), "test.below");
    arguments.push_back(
        makeArgument(cast<RankedTensorType>(argument.getType()), below ? below.getInt() : 0, random));
  }
  return arguments;
}

std::map<std::string, Tensor> test::makeParameters(func::FuncOp function, std::mt19937 &random) {
  std::map<std::string, Tensor> parameters;
  for (auto parameter : function.getOps<ParameterOp>())
    parameters[parameter.getName().str()] =
        makeArgument(cast<RankedTensorType>(parameter.getType()), 0, random);
  return parameters;
}

std::string test::compare(const Tensor &want, const Tensor &have) {
  if (want.data.size() != have.data.size())
    return std::to_string(have.data.size()) + " elements, expected " + std::to_string(want.data.size());
  double largest = 1e-6;
  for (double value : want.data)
    if (std::isfinite(value))
      largest = std::max(largest, std::fabs(value));
  for (size_t e = 0; e < want.data.size(); ++e)
    if (!(want.data[e] == have.data[e] || std::fabs(want.data[e] - have.data[e]) <= 1e-5 * largest))
      return "element " + std::to_string(e) + " is " + std::to_string(have.data[e]) + ", expected " +
             std::to_string(want.data[e]);
  return "";
}

func::FuncOp test::getFunction(ModuleOp module) {
  return *module.getOps<func::FuncOp>().begin();
}

std::string test::getMissing(const char *splits, const Outcome &outcome) {
  std::string missing;
  std::istringstream wanted(splits);
  for (std::string name; wanted >> name;)
    if (!outcome.reached.count(name))
      missing += (missing.empty() ? "" : " ") + name;
  return missing;
}

void test::expectWhole(const Case &each, const Outcome &outcome, const char *what) {
  llvm::outs() << each.name << ": " << outcome.tried << " " << what << ", splitting "
               << llvm::join(outcome.reached, " ") << "\n";
  llvm::outs().flush();
  EXPECT_TRUE(outcome.failures.empty()) << each.name << "\n" << outcome.failures.substr(0, 1500);
  EXPECT_EQ(getMissing(each.splits, outcome), "") << each.name << " cannot be split over these";
}

Harness::Harness() {
  DialectRegistry registry;
  registry
      .insert<ColossalDialect, DistDialect, arith::ArithDialect, func::FuncDialect, shard::ShardDialect>();
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
}

OwningOpRef<ModuleOp> Harness::parse(const std::string &text) {
  return parseSourceString<ModuleOp>(text, &context);
}

std::vector<Tensor> Harness::runWhole(ModuleOp module, const std::map<std::string, Tensor> &parameters,
                                      const std::vector<Tensor> &arguments) {
  Interpreter interpreter(makeMesh(*module.getContext(), {1}));
  interpreter.parameters = parameters;
  return interpreter.run(getFunction(module), {arguments}).front();
}

const char *const colossal::test::blockText = R"mlir(
func.func @main(%ids: tensor<2x5xi64> {test.below = 11 : i64}) -> tensor<2x5x11xf32> {
  %emb = colossal.parameter "emb" {file = "weights", offset = 0 : i64, bytes = 528 : i64} : tensor<11x12xf32>
  %wqkv = colossal.parameter "wqkv" {file = "weights", offset = 528 : i64, bytes = 1728 : i64} : tensor<12x36xf32>
  %bqkv = colossal.parameter "bqkv" {file = "weights", offset = 2256 : i64, bytes = 144 : i64} : tensor<36xf32>
  %wo = colossal.parameter "wo" {file = "weights", offset = 2400 : i64, bytes = 576 : i64} : tensor<12x12xf32>
  %g = colossal.parameter "g" {file = "weights", offset = 2976 : i64, bytes = 48 : i64} : tensor<12xf32>
  %w1 = colossal.parameter "w1" {file = "weights", offset = 3024 : i64, bytes = 960 : i64} : tensor<12x20xf32>
  %w2 = colossal.parameter "w2" {file = "weights", offset = 3984 : i64, bytes = 960 : i64} : tensor<20x12xf32>
  %x = colossal.gather %emb[%ids] {axis = 0 : i64} : tensor<11x12xf32>, tensor<2x5xi64> -> tensor<2x5x12xf32>
  %n = colossal.normalize rms(%x, scale %g) {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x5x12xf32>, tensor<12xf32>) -> tensor<2x5x12xf32>
  %qkv = colossal.contract %n [0, 1, 2], %wqkv [2, 3] -> [0, 1, 3] : (tensor<2x5x12xf32>, tensor<12x36xf32>) -> tensor<2x5x36xf32>
  %qkvb = colossal.elementwise add(%qkv, %bqkv) : (tensor<2x5x36xf32>, tensor<36xf32>) -> tensor<2x5x36xf32>
  %q0 = colossal.slice %qkvb [0, 0, 0] by [1, 1, 1] : tensor<2x5x36xf32> -> tensor<2x5x12xf32>
  %k0 = colossal.slice %qkvb [0, 0, 12] by [1, 1, 1] : tensor<2x5x36xf32> -> tensor<2x5x12xf32>
  %v0 = colossal.slice %qkvb [0, 0, 24] by [1, 1, 1] : tensor<2x5x36xf32> -> tensor<2x5x12xf32>
  %q1 = colossal.reshape %q0 : tensor<2x5x12xf32> -> tensor<2x5x3x4xf32>
  %k1 = colossal.reshape %k0 : tensor<2x5x12xf32> -> tensor<2x5x3x4xf32>
  %v1 = colossal.reshape %v0 : tensor<2x5x12xf32> -> tensor<2x5x3x4xf32>
  %q = colossal.transpose %q1 [0, 2, 1, 3] : tensor<2x5x3x4xf32> -> tensor<2x3x5x4xf32>
  %k = colossal.transpose %k1 [0, 2, 1, 3] : tensor<2x5x3x4xf32> -> tensor<2x3x5x4xf32>
  %v = colossal.transpose %v1 [0, 2, 1, 3] : tensor<2x5x3x4xf32> -> tensor<2x3x5x4xf32>
  %a0 = colossal.attention(%q, %k, %v) {scale = 0.5 : f64, causal = true} : (tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x5x4xf32>
  %a1 = colossal.transpose %a0 [0, 2, 1, 3] : tensor<2x3x5x4xf32> -> tensor<2x5x3x4xf32>
  %a = colossal.reshape %a1 : tensor<2x5x3x4xf32> -> tensor<2x5x12xf32>
  %o = colossal.contract %a [0, 1, 2], %wo [2, 3] -> [0, 1, 3] : (tensor<2x5x12xf32>, tensor<12x12xf32>) -> tensor<2x5x12xf32>
  %r = colossal.elementwise add(%x, %o) : (tensor<2x5x12xf32>, tensor<2x5x12xf32>) -> tensor<2x5x12xf32>
  %h0 = colossal.contract %r [0, 1, 2], %w1 [2, 3] -> [0, 1, 3] : (tensor<2x5x12xf32>, tensor<12x20xf32>) -> tensor<2x5x20xf32>
  %h = colossal.elementwise relu(%h0) : (tensor<2x5x20xf32>) -> tensor<2x5x20xf32>
  %f = colossal.contract %h [0, 1, 2], %w2 [2, 3] -> [0, 1, 3] : (tensor<2x5x20xf32>, tensor<20x12xf32>) -> tensor<2x5x12xf32>
  %s = colossal.elementwise add(%r, %f) : (tensor<2x5x12xf32>, tensor<2x5x12xf32>) -> tensor<2x5x12xf32>
  %y = colossal.contract %s [0, 1, 2], %emb [3, 2] -> [0, 1, 3] : (tensor<2x5x12xf32>, tensor<11x12xf32>) -> tensor<2x5x11xf32>
  return %y : tensor<2x5x11xf32>
}
)mlir";
