//===- GradientLayoutTest.cpp - differentiated programs under layouts -------===//
//
// Each case and its gradient as one program, every op of it in a layout of its own, drawn at random; what
// comes out on all ranks is compared with the program run whole. Padding holds garbage. In f64, so that sums
// in another order are no differences.
//
//===----------------------------------------------------------------------===//
#include "GradientCases.h"

#include "mlir/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::test;

namespace {

/// Interprets a partitioned module on all ranks. "" or how it differs from `expected`.
std::string runOnAllRanks(ModuleOp module, MeshAttr mesh, const std::vector<Tensor> &arguments,
                          const std::vector<Tensor> &expected) {
  func::FuncOp function = getFunction(module);
  std::vector<std::vector<Tensor>> shards(mesh.getNumRanks()), results;
  for (int64_t rank = 0; rank < mesh.getNumRanks(); ++rank)
    for (auto [i, argument] : llvm::enumerate(arguments))
      shards[rank].push_back(
          takeShard(argument, function.getArgAttrOfType<ShardingAttr>(i, kShardingAttrName), mesh, rank,
                    isa<FloatType>(argument.type.getElementType()) ? std::nan("") : 1));
  try {
    results = Interpreter(mesh).run(function, shards);
  } catch (const std::exception &error) {
    return error.what();
  }
  for (auto [i, want] : llvm::enumerate(expected)) {
    std::vector<Tensor> parts;
    for (auto &ofRank : results)
      parts.push_back(ofRank[i]);
    std::string error;
    Tensor have = joinShards(parts, function.getResultAttrOfType<ShardingAttr>(i, kShardingAttrName), mesh,
                             1e-5, error);
    if (error.empty())
      error = compare(want, have);
    if (!error.empty())
      return "result " + std::to_string(i) + ": " + error;
  }
  return "";
}

/// Partitions `module`. "" or what is wrong.
std::string partitionQuietly(ModuleOp module) {
  std::string said;
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
    said += diagnostic.str();
    return success();
  });
  if (succeeded(partition::partition(module)) && succeeded(verify(module)))
    return "";
  return "cannot be partitioned: " + said;
}

// What is refused is refused without a layout, too.
TEST_F(Harness, GradientsInRandomLayouts) {
  unsigned tried = 0;
  std::mt19937 random(11);
  for (const GradientCase &each : getGradientCases()) {
    if (isRefused(each.name))
      continue;
    OwningOpRef<ModuleOp> whole = parse(inDoublePrecision(each.text));
    ASSERT_TRUE(whole) << each.name;
    func::FuncOp function = getFunction(*whole);
    std::vector<BlockArgument> variables = addLoss(function);
    if (variables.empty())
      continue;
    ASSERT_TRUE(succeeded(returnGradients(function, variables))) << each.name;
    std::vector<Tensor> arguments = drawArguments(function, each, random);
    std::vector<Tensor> expected = runWhole(*whole, {}, arguments);
    RefinementAnalysis refinement(function);
    for (const auto &sizes : std::vector<std::vector<int64_t>>{{2}, {3}, {2, 2}, {3, 2}}) {
      MeshAttr mesh = makeMesh(context, sizes);
      std::vector<std::vector<Assignment>> choices;
      for (Operation &op : function.front().without_terminator())
        choices.push_back(getAllAssignments(refinement.get(&op).rule, mesh));
      for (unsigned trial = 0; trial < 3; ++trial, ++tried) {
        OwningOpRef<ModuleOp> module;
        std::string text, said;
        do {
          module = cast<ModuleOp>(whole->getOperation()->clone());
          (*module)->setAttr(kMeshAttrName, mesh);
          for (auto [op, choice] :
               llvm::zip_equal(getFunction(*module).front().without_terminator(), choices))
            setAssignment(&op, choice[random() % choice.size()]);
          text.clear();
          llvm::raw_string_ostream(text) << *module;
          said = partitionQuietly(*module);
          // A partial maximum is no partial sum: the search puts no such layouts together.
        } while (StringRef(said).contains("which cannot be made of"));
        ASSERT_EQ(said, "") << each.name << "\n" << text;
        EXPECT_EQ(runOnAllRanks(*module, mesh, arguments, expected), "") << each.name << "\n" << text;
      }
    }
  }
  EXPECT_GT(tried, 1500u);
}

} // namespace
