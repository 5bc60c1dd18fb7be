//===- LayoutHarness.cpp - every op under every legal layout ----------------===//
//
// Each op of Cases.h, under each assignment of mesh axes to factors that its rule allows, on meshes of up to eight ranks,
// is partitioned and run on all ranks; what comes out is compared with the op run whole. Shards enter with NaN (or a huge
// number) in their padding, so that padding which reaches a result shows.
//
//===----------------------------------------------------------------------===//
#include "Cases.h"
#include "Interpreter.h"

#include "colossal/Partition/Partition.h"
#include "dialects/Colossal/Colossal.h"
#include "lib/Layout/Names.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

#include <cmath>
#include <random>
#include <set>
#include <sstream>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::test;

namespace {

MeshAttr makeMesh(MLIRContext &context, ArrayRef<int64_t> sizes) {
  static const char *const names[] = {"x", "y", "z"};
  SmallVector<MeshAxisAttr> axes;
  for (auto [i, size] : llvm::enumerate(sizes))
    axes.push_back(MeshAxisAttr::get(&context, StringAttr::get(&context, names[i]), size));
  return MeshAttr::get(&context, axes);
}

/// All legal assignments: each axis on any factor that is not whole, or on none; axes that share one in either order.
std::vector<Assignment> getAllAssignments(const FactorRule &rule, MeshAttr mesh) {
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
          all.push_back(next);
        }
      }
  }
  return all;
}

Tensor makeArgument(RankedTensorType type, int64_t below, std::mt19937 &random) {
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

double getGarbage(Type element) {
  if (isa<FloatType>(element))
    return std::nan("");
  return element.isInteger(1) ? 1 : 0; // zero is what an integer division must not meet
}

/// Runs a partitioned module on all ranks and compares with `expected`. Empty, or what is wrong.
std::string runAndCompare(ModuleOp module, MeshAttr mesh, const std::map<std::string, Tensor> &parameters,
                          const std::vector<Tensor> &arguments, const std::vector<Tensor> &expected) {
  auto function = *module.getOps<func::FuncOp>().begin();
  std::vector<std::vector<Tensor>> shards(mesh.getNumRanks());
  for (int64_t rank = 0; rank < mesh.getNumRanks(); ++rank)
    for (auto [i, argument] : llvm::enumerate(arguments))
      shards[rank].push_back(takeShard(argument, function.getArgAttrOfType<ShardingAttr>(i, kShardingAttrName), mesh, rank,
                                       getGarbage(argument.type.getElementType())));
  Interpreter interpreter(mesh);
  interpreter.parameters = parameters;
  std::vector<std::vector<Tensor>> results;
  try {
    results = interpreter.run(function, shards);
  } catch (const std::exception &error) {
    return error.what();
  }
  for (auto [i, want] : llvm::enumerate(expected)) {
    std::vector<Tensor> parts;
    for (auto &ofRank : results)
      parts.push_back(ofRank[i]);
    std::string error;
    Tensor have = joinShards(parts, function.getResultAttrOfType<ShardingAttr>(i, kShardingAttrName), mesh, 1e-5, error);
    if (!error.empty())
      return error;
    double largest = 1e-6;
    for (double value : want.data)
      if (std::isfinite(value))
        largest = std::max(largest, std::fabs(value));
    for (size_t e = 0; e < want.data.size(); ++e)
      if (!(want.data[e] == have.data[e] || std::fabs(want.data[e] - have.data[e]) <= 1e-5 * largest))
        return "result " + std::to_string(i) + " element " + std::to_string(e) + " is " + std::to_string(have.data[e]) +
               ", expected " + std::to_string(want.data[e]);
  }
  return "";
}

struct Harness : testing::Test {
  MLIRContext context;
  Harness() {
    DialectRegistry registry;
    registry.insert<ColossalDialect, DistDialect, arith::ArithDialect, func::FuncDialect, shard::ShardDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }
  OwningOpRef<ModuleOp> parse(const std::string &text) { return parseSourceString<ModuleOp>(text, &context); }

  static std::vector<Tensor> runWhole(ModuleOp module, const std::map<std::string, Tensor> &parameters,
                                      const std::vector<Tensor> &arguments) {
    MeshAttr one = makeMesh(*module.getContext(), {1});
    Interpreter interpreter(one);
    interpreter.parameters = parameters;
    return interpreter.run(*module.getOps<func::FuncOp>().begin(), {arguments}).front();
  }

  static std::vector<Tensor> makeArguments(func::FuncOp function, std::mt19937 &random) {
    std::vector<Tensor> arguments;
    for (BlockArgument argument : function.getArguments()) {
      auto below = function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), "test.below");
      arguments.push_back(
          makeArgument(cast<RankedTensorType>(argument.getType()), below ? below.getInt() : 0, random));
    }
    return arguments;
  }
};

const std::vector<std::vector<int64_t>> meshes = {{2}, {3}, {4}, {8}, {2, 2}, {2, 4}, {3, 2}};

/// Tries every layout of the one op of `each`; returns how many, and adds the names of split factors to `reached`.
unsigned tryAllLayouts(Harness &harness, const Case &each, std::set<std::string> &reached, std::string &failures) {
  OwningOpRef<ModuleOp> whole = harness.parse(getText(each));
  if (!whole) {
    failures += "does not parse\n";
    return 0;
  }
  std::mt19937 random(1);
  auto function = *whole->getOps<func::FuncOp>().begin();
  std::vector<Tensor> arguments = Harness::makeArguments(function, random);
  std::vector<Tensor> expected = Harness::runWhole(*whole, {}, arguments);
  Operation *op = &function.front().front();
  if (std::string problem = cast<ShardingRuleOpInterface>(op).getFactorRule().check(op); !problem.empty()) {
    failures += problem;
    return 0;
  }
  RefinementAnalysis refinement(function);
  const RefinedRule &refined = refinement.get(op);
  std::vector<std::string> names = layout::getFactorNames(refined);
  unsigned tried = 0;
  for (const auto &sizes : meshes) {
    MeshAttr mesh = makeMesh(harness.context, sizes);
    for (const Assignment &assignment : getAllAssignments(refined.rule, mesh))
      for (bool isStoredSplit : {true, false}) {
        OwningOpRef<ModuleOp> module = cast<ModuleOp>(whole->getOperation()->clone());
        (*module)->setAttr(kMeshAttrName, mesh);
        auto twin = *module->getOps<func::FuncOp>().begin();
        setAssignment(&twin.front().front(), assignment);
        if (isStoredSplit) {
          for (auto [i, operand] : llvm::enumerate(op->getOperands()))
            twin.setArgAttr(cast<BlockArgument>(operand).getArgNumber(), kShardingAttrName,
                            getOperandSharding(op, i, refined.rule, assignment));
          ShardingAttr result = getResultSharding(op, 0, refined.rule, assignment);
          twin.setResultAttr(0, kShardingAttrName,
                             ShardingAttr::get(&harness.context, result.getDims(), {}, ReductionKind::Sum));
        }
        ++tried;
        std::string problem;
        if (failed(partition::partition(*module)) || failed(verify(*module)))
          problem = "cannot be partitioned";
        else
          problem = runAndCompare(*module, mesh, {}, arguments, expected);
        if (!problem.empty()) {
          llvm::raw_string_ostream out(failures);
          out << layout::printAssignment(refined, assignment, mesh) << " on " << mesh
              << (isStoredSplit ? " stored split: " : " stored whole: ") << problem << "\n";
        }
        for (auto [name, axes] : llvm::zip_equal(names, assignment))
          if (!axes.empty())
            reached.insert(name);
      }
  }
  return tried;
}

TEST_F(Harness, EveryOpUnderEveryLayout) {
  unsigned total = 0;
  for (const Case &each : cases) {
    std::set<std::string> reached;
    std::string failures;
    unsigned tried = tryAllLayouts(*this, each, reached, failures);
    total += tried;
    llvm::outs() << each.name << ": " << tried << " layouts\n";
    EXPECT_TRUE(failures.empty()) << each.name << "\n" << failures.substr(0, 1500);
    std::istringstream wanted(each.splits);
    for (std::string name; wanted >> name;)
      EXPECT_TRUE(reached.count(name)) << each.name << " cannot be split over '" << name << "'";
  }
  llvm::outs() << total << " layouts in all\n";
}

//===----------------------------------------------------------------------===//
// Whole blocks
//===----------------------------------------------------------------------===//

/// A transformer block with a fused contraction for queries, keys and values; sizes that most axes do not divide.
const char *const blockText = R"mlir(
func.func @main(%ids: tensor<2x5xi64> {test.below = 11 : i64}) -> tensor<2x5x11xf32> {
  %emb = colossal.parameter "emb" {file = "", offset = 0 : i64, bytes = 528 : i64} : tensor<11x12xf32>
  %wqkv = colossal.parameter "wqkv" {file = "", offset = 0 : i64, bytes = 1728 : i64} : tensor<12x36xf32>
  %bqkv = colossal.parameter "bqkv" {file = "", offset = 0 : i64, bytes = 144 : i64} : tensor<36xf32>
  %wo = colossal.parameter "wo" {file = "", offset = 0 : i64, bytes = 576 : i64} : tensor<12x12xf32>
  %g = colossal.parameter "g" {file = "", offset = 0 : i64, bytes = 48 : i64} : tensor<12xf32>
  %w1 = colossal.parameter "w1" {file = "", offset = 0 : i64, bytes = 960 : i64} : tensor<12x20xf32>
  %w2 = colossal.parameter "w2" {file = "", offset = 0 : i64, bytes = 960 : i64} : tensor<20x12xf32>
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

/// Values for all parameters of a function.
std::map<std::string, Tensor> makeParameters(func::FuncOp function, std::mt19937 &random) {
  std::map<std::string, Tensor> parameters;
  for (auto parameter : function.getOps<ParameterOp>())
    parameters[parameter.getName().str()] = makeArgument(cast<RankedTensorType>(parameter.getType()), 0, random);
  return parameters;
}

// Every op of a block in a layout of its own, drawn at random: what one gives and the next one needs hardly ever agree.
TEST_F(Harness, BlockInRandomLayouts) {
  OwningOpRef<ModuleOp> whole = parse(blockText);
  ASSERT_TRUE(whole);
  std::mt19937 random(3);
  auto function = *whole->getOps<func::FuncOp>().begin();
  std::vector<Tensor> arguments = makeArguments(function, random);
  std::map<std::string, Tensor> parameters = makeParameters(function, random);
  std::vector<Tensor> expected = runWhole(*whole, parameters, arguments);
  RefinementAnalysis refinement(function);
  for (const auto &sizes : std::vector<std::vector<int64_t>>{{2}, {3}, {4}, {8}, {2, 2}, {2, 4}, {3, 2}, {2, 2, 2}}) {
    MeshAttr mesh = makeMesh(context, sizes);
    std::vector<std::vector<Assignment>> choices;
    for (Operation &op : function.front().without_terminator())
      choices.push_back(getAllAssignments(refinement.get(&op).rule, mesh));
    for (unsigned trial = 0; trial < 12; ++trial) {
      OwningOpRef<ModuleOp> module = cast<ModuleOp>(whole->getOperation()->clone());
      (*module)->setAttr(kMeshAttrName, mesh);
      auto twin = *module->getOps<func::FuncOp>().begin();
      for (auto [op, choice] : llvm::zip_equal(twin.front().without_terminator(), choices))
        setAssignment(&op, choice[random() % choice.size()]);
      std::string text;
      llvm::raw_string_ostream(text) << *module;
      ASSERT_TRUE(succeeded(partition::partition(*module)) && succeeded(verify(*module))) << text;
      EXPECT_EQ(runAndCompare(*module, mesh, parameters, arguments, expected), "") << text;
    }
  }
}

//===----------------------------------------------------------------------===//
// A wrong rule
//===----------------------------------------------------------------------===//

// The harness must see a rule that lies. This is the program that a rule would make which takes the elements under a
// softmax for independent of each other.
TEST_F(Harness, SeesAWrongRule) {
  const char *const wrong = R"mlir(
    module attributes {dist.mesh = #dist.mesh<["x" = 2]>} {
      shard.grid @mesh(shape = 2)
      func.func @main(%a: tensor<4x3xf32> {dist.sharding = #dist.sharding<[4], [6:(0)]>}) -> (tensor<4x3xf32> {dist.sharding = #dist.sharding<[4], [6:(0)]>}) {
        %y = colossal.softmax %a {axis = 1 : i64} : tensor<4x3xf32>
        return %y : tensor<4x3xf32>
      }
    })mlir";
  OwningOpRef<ModuleOp> whole =
      parse("func.func @main(%a: tensor<4x6xf32>) -> tensor<4x6xf32> {\n %y = colossal.softmax %a {axis = 1 : i64} : "
            "tensor<4x6xf32>\n return %y : tensor<4x6xf32>\n}");
  OwningOpRef<ModuleOp> module = parse(wrong);
  ASSERT_TRUE(whole && module);
  std::mt19937 random(5);
  std::vector<Tensor> arguments = makeArguments(*whole->getOps<func::FuncOp>().begin(), random);
  std::vector<Tensor> expected = runWhole(*whole, {}, arguments);
  EXPECT_NE(runAndCompare(*module, makeMesh(context, {2}), {}, arguments, expected), "");
}

} // namespace
