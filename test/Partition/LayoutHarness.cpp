//===- LayoutHarness.cpp - every op under every legal layout ----------------===//
//
// Each op of Cases.h, under each assignment of mesh axes to factors that its rule allows, on meshes of up to
// eight ranks, is partitioned and run on all ranks by an interpreter; what comes out is compared with the op
// run whole. Shards enter with NaN (or a huge number) in their padding, so that padding which reaches a
// result shows.
//
//===----------------------------------------------------------------------===//
#include "Layouts.h"
#include "LyingOp.h"

#include "dialects/Colossal/Colossal.h"
#include "lib/Layout/Names.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::test;

namespace {

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
      shards[rank].push_back(takeShard(argument,
                                       function.getArgAttrOfType<ShardingAttr>(i, kShardingAttrName), mesh,
                                       rank, getGarbage(argument.type.getElementType())));
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
    Tensor have = joinShards(parts, function.getResultAttrOfType<ShardingAttr>(i, kShardingAttrName), mesh,
                             1e-5, error);
    if (!error.empty())
      return error;
    if (std::string problem = compare(want, have); !problem.empty())
      return "result " + std::to_string(i) + " " + problem;
  }
  return "";
}

/// Tries every layout of one op. `prepare` makes of the function with that op the one to be partitioned.
Outcome tryAllLayouts(Harness &harness, const Case &each,
                      llvm::function_ref<void(func::FuncOp)> prepare = nullptr) {
  Outcome outcome;
  OwningOpRef<ModuleOp> whole = harness.parse(getText(each));
  if (!whole) {
    outcome.failures = "does not parse\n";
    return outcome;
  }
  std::mt19937 random(1);
  func::FuncOp function = getFunction(*whole);
  std::vector<Tensor> arguments = makeArguments(function, random);
  std::vector<Tensor> expected = Harness::runWhole(*whole, {}, arguments);
  if (prepare)
    prepare(function);
  Operation *op = &function.front().front();
  outcome.failures = cast<ShardingRuleOpInterface>(op).getFactorRule().check(op);
  if (!outcome.failures.empty())
    return outcome;
  RefinementAnalysis refinement(function);
  const RefinedRule &refined = refinement.get(op);
  std::vector<std::string> names = layout::getFactorNames(refined);
  for (const auto &sizes : meshes) {
    MeshAttr mesh = makeMesh(harness.context, sizes);
    for (const Assignment &assignment : getAllAssignments(refined.rule, mesh))
      for (bool isStoredSplit : {true, false}) {
        OwningOpRef<ModuleOp> module = cast<ModuleOp>(whole->getOperation()->clone());
        (*module)->setAttr(kMeshAttrName, mesh);
        func::FuncOp twin = getFunction(*module);
        setAssignment(&twin.front().front(), assignment);
        if (isStoredSplit) {
          for (auto [i, operand] : llvm::enumerate(op->getOperands()))
            twin.setArgAttr(cast<BlockArgument>(operand).getArgNumber(), kShardingAttrName,
                            getOperandSharding(op, i, refined.rule, assignment).withoutPartial());
          for (unsigned i = 0; i < op->getNumResults(); ++i)
            twin.setResultAttr(i, kShardingAttrName,
                               getResultSharding(op, i, refined.rule, assignment).withoutPartial());
        }
        ++outcome.tried;
        std::string problem;
        if (failed(partition::partition(*module)) || failed(verify(*module)))
          problem = "cannot be partitioned";
        else
          problem = runAndCompare(*module, mesh, {}, arguments, expected);
        if (!problem.empty()) {
          llvm::raw_string_ostream out(outcome.failures);
          out << layout::printAssignment(refined, assignment, mesh) << " on " << mesh
              << (isStoredSplit ? " stored split: " : " stored whole: ") << problem << "\n";
        }
        for (auto [name, axes] : llvm::zip_equal(names, assignment))
          if (!axes.empty())
            outcome.reached.insert(name);
      }
  }
  return outcome;
}

TEST_F(Harness, EveryOpUnderEveryLayout) {
  unsigned total = 0;
  for (const Case &each : cases) {
    Outcome outcome = tryAllLayouts(*this, each);
    total += outcome.tried;
    expectWhole(each, outcome, "layouts");
  }
  llvm::outs() << total << " layouts in all\n";
}

// No op escapes the harness: each of the dialect with a rule has a case, but parameters, which stand in
// blocks.
TEST_F(Harness, EveryOpHasACase) {
  std::string all;
  for (const Case &each : cases)
    all += std::string(each.op) + "\n";
  unsigned found = 0;
  for (RegisteredOperationName name : context.getRegisteredOperations()) {
    if (!name.hasInterface<ShardingRuleOpInterface>() || name.getDialectNamespace() != "colossal" ||
        name.getStringRef() == ParameterOp::getOperationName())
      continue;
    ++found;
    std::string wanted = name.getStringRef().str();
    bool hasCase = llvm::any_of(cases, [&](const Case &each) {
      StringRef rest(each.op);
      return rest.consume_front(wanted) && !rest.empty() && !isalnum(static_cast<unsigned char>(rest[0])) &&
             rest[0] != '_';
    });
    EXPECT_TRUE(hasCase) << wanted << " has a rule and no case in Cases.cpp";
  }
  EXPECT_GE(found, 25u);
}

//===----------------------------------------------------------------------===//
// Whole blocks
//===----------------------------------------------------------------------===//

// Every op of a block in a layout of its own, drawn at random: what one gives and the next one needs hardly
// ever agree.
TEST_F(Harness, BlockInRandomLayouts) {
  OwningOpRef<ModuleOp> whole = parse(blockText);
  ASSERT_TRUE(whole);
  std::mt19937 random(3);
  auto function = *whole->getOps<func::FuncOp>().begin();
  std::vector<Tensor> arguments = makeArguments(function, random);
  std::map<std::string, Tensor> parameters = makeParameters(function, random);
  std::vector<Tensor> expected = runWhole(*whole, parameters, arguments);
  RefinementAnalysis refinement(function);
  for (const auto &sizes :
       std::vector<std::vector<int64_t>>{{2}, {3}, {4}, {8}, {2, 2}, {2, 4}, {3, 2}, {2, 2, 2}}) {
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
// Wrong rules
//===----------------------------------------------------------------------===//

/// The case of that name with its op replaced by one that lies about itself.
Outcome tryLie(Harness &harness, StringRef name, Lie lie) {
  const Case &each = *llvm::find_if(cases, [&](const Case &candidate) { return name == candidate.name; });
  return tryAllLayouts(harness, each,
                       [&](func::FuncOp function) { replaceByLyingOp(&function.front().front(), lie); });
}

// An op that tells the truth passes as its own twin: what the tests below see is the lie.
TEST_F(Harness, PassesATrueRule) {
  for (const char *name :
       {"softmax", "contract.matmul", "reduce.max", "gather.embedding", "elementwise.divide"})
    EXPECT_EQ(tryLie(*this, name, Lie::None).failures, "") << name;
}

TEST_F(Harness, SeesThatDependentElementsAreCalledParallel) {
  EXPECT_NE(tryLie(*this, "cumulate", Lie::WholeIsParallel).failures, "");
}

TEST_F(Harness, SeesThatPartsAreNotJoined) {
  EXPECT_NE(tryLie(*this, "softmax", Lie::OneStage).failures, "");
  EXPECT_NE(tryLie(*this, "normalize", Lie::OneStage).failures, "");
}

TEST_F(Harness, SeesAWrongReduction) {
  EXPECT_NE(tryLie(*this, "contract.matmul", Lie::WrongReduction).failures, "");
  EXPECT_NE(tryLie(*this, "reduce.max", Lie::WrongReduction).failures, "");
}

TEST_F(Harness, SeesPaddingThatReachesAResult) {
  EXPECT_NE(tryLie(*this, "contract.matmul", Lie::NoPadding).failures, "");
  EXPECT_NE(tryLie(*this, "reduce.max", Lie::NoPadding).failures, "");
}

TEST_F(Harness, SeesAForgottenOffset) {
  EXPECT_NE(tryLie(*this, "gather.embedding", Lie::NoOffset).failures, "");
}

TEST_F(Harness, SeesExchangedDimensions) {
  EXPECT_NE(tryLie(*this, "transpose", Lie::ExchangedFactors).failures, "");
}

// A rule that splits less than it can is right, and yet too little.
TEST_F(Harness, SeesARuleThatSplitsNothing) {
  Outcome outcome = tryLie(*this, "contract.matmul", Lie::AllWhole);
  EXPECT_EQ(outcome.failures, "");
  EXPECT_EQ(getMissing("m n k", outcome), "m n k");
}

} // namespace
