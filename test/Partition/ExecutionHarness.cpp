//===- ExecutionHarness.cpp - generated code under every layout -------------===//
//
// The ops of Cases.h and whole blocks, in the layouts of LayoutHarness.cpp, through the rest of the road:
// kernels are generated, a plan is written, and the runtime runs it with ranks as threads. All layouts of one
// op on one mesh stand in one plan, each with a result of its own.
//
//===----------------------------------------------------------------------===//
#include "Executor.h"
#include "HostTarget.h"
#include "Layouts.h"

#include "lib/Layout/Names.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::test;

namespace {

/// Runs copies of the one op of `whole`, each with one of `assignments`, and says which go wrong. Arguments
/// and every second copy's results are stored as one of the copies has them.
std::vector<std::string> runCopies(Executor &executor, ModuleOp whole, const RefinedRule &refined,
                                   MeshAttr mesh, ArrayRef<Assignment> assignments,
                                   const std::vector<Tensor> &arguments,
                                   const std::vector<Tensor> &expected) {
  OwningOpRef<ModuleOp> module = cast<ModuleOp>(whole->clone());
  (*module)->setAttr(kMeshAttrName, mesh);
  func::FuncOp function = getFunction(*module);
  Operation *op = &function.front().front(), *end = function.front().getTerminator();
  const Assignment &stored = assignments[assignments.size() / 2];
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    function.setArgAttr(cast<BlockArgument>(operand).getArgNumber(), kShardingAttrName,
                        getOperandSharding(op, i, refined.rule, stored).withoutPartial());
  OpBuilder builder(end);
  SmallVector<Value> results;
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  for (auto [c, assignment] : llvm::enumerate(assignments)) {
    Operation *copy = builder.clone(*op);
    setAssignment(copy, assignment);
    for (OpResult result : copy->getResults()) {
      results.push_back(result);
      types.push_back(result.getType());
      NamedAttrList list;
      if (c % 2 == 0)
        list.set(kShardingAttrName,
                 getResultSharding(op, result.getResultNumber(), refined.rule, assignment).withoutPartial());
      attributes.push_back(list.getDictionary(mesh.getContext()));
    }
  }
  end->setOperands(results);
  op->erase();
  function.setFunctionType(FunctionType::get(mesh.getContext(), function.getArgumentTypes(), types));
  function.setAllResultAttrs(attributes);

  std::vector<Tensor> found;
  std::string problem = executor.run(*module, arguments, found);
  std::vector<std::string> problems(assignments.size(), problem);
  if (problem.empty())
    for (size_t i = 0; i < found.size(); ++i)
      if (std::string difference = compare(expected[i % expected.size()], found[i]); !difference.empty())
        problems[i / expected.size()] = difference;
  return problems;
}

/// Tries every layout of one op on some meshes.
Outcome executeAllLayouts(Harness &harness, const Case &each, ArrayRef<std::vector<int64_t>> someMeshes,
                          std::shared_ptr<const codegen::Target> target) {
  Outcome outcome;
  Executor executor(std::move(target));
  OwningOpRef<ModuleOp> whole = harness.parse(getText(each));
  if (!whole) {
    outcome.failures = "does not parse\n";
    return outcome;
  }
  std::mt19937 random(1);
  func::FuncOp function = getFunction(*whole);
  std::vector<Tensor> arguments = makeArguments(function, random);
  std::vector<Tensor> expected = Harness::runWhole(*whole, {}, arguments);
  RefinementAnalysis refinement(function);
  const RefinedRule &refined = refinement.get(&function.front().front());
  std::vector<std::string> names = layout::getFactorNames(refined);
  for (const auto &sizes : someMeshes) {
    MeshAttr mesh = makeMesh(harness.context, sizes);
    std::vector<Assignment> all = getAllAssignments(refined.rule, mesh);
    std::vector<std::string> problems = runCopies(executor, *whole, refined, mesh, all, arguments, expected);
    // What cannot be compiled together is tried one by one, to know which it is.
    if (!problems[0].empty() && llvm::all_equal(problems) && all.size() > 1)
      for (size_t i = 0; i < all.size(); ++i)
        problems[i] =
            runCopies(executor, *whole, refined, mesh, ArrayRef(all).slice(i, 1), arguments, expected)[0];
    outcome.tried += all.size();
    llvm::raw_string_ostream out(outcome.failures);
    for (size_t i = 0; i < all.size(); ++i) {
      if (!problems[i].empty())
        out << layout::printAssignment(refined, all[i], mesh) << " on " << mesh << ": " << problems[i]
            << "\n";
      for (auto [name, axes] : llvm::zip_equal(names, all[i]))
        if (!axes.empty())
          outcome.reached.insert(name);
    }
  }
  return outcome;
}

struct Execution : Harness {
  void tryAll(ArrayRef<std::vector<int64_t>> someMeshes,
              const std::shared_ptr<const codegen::Target> &target = nullptr) {
    unsigned total = 0;
    for (const Case &each : cases) {
      Outcome outcome = executeAllLayouts(*this, each, someMeshes, target);
      total += outcome.tried;
      expectWhole(each, outcome, "layouts executed");
    }
    llvm::outs() << total << " layouts executed in all\n";
  }
};

TEST_F(Execution, EveryOpOnAnEvenAndAnOddMesh) {
  tryAll({{2}, {3}});
}

TEST_F(Execution, EveryOpOnAPlane) {
  tryAll({{2, 2}});
}

TEST_F(Execution, EveryOpWithCollectivesOfRuns) {
  tryAll({{3}}, std::make_shared<const ContiguousTarget>());
}

// The executor looks at the images of every plan; of these the device must choose one.
TEST_F(Execution, PlansWithImagesOfSeveralArchitectures) {
  Outcome outcome = executeAllLayouts(*this, cases.front(), {{2}}, std::make_shared<ManyImagesTarget>());
  EXPECT_GT(outcome.tried, 1u);
  EXPECT_EQ(outcome.failures, "");
}

// The rest, up to eight ranks; tools/check-all runs it.
TEST_F(Execution, DISABLED_EveryOpOnAllMeshes) {
  tryAll(meshes);
}

// Every op of a block in a layout of its own, drawn at random, with weights that each rank reads from a file.
void runBlock(Harness &harness, ArrayRef<std::vector<int64_t>> someMeshes, unsigned trials,
              std::shared_ptr<const codegen::Target> target = nullptr) {
  OwningOpRef<ModuleOp> whole = harness.parse(blockText);
  ASSERT_TRUE(whole);
  std::mt19937 random(7);
  func::FuncOp function = getFunction(*whole);
  std::vector<Tensor> arguments = makeArguments(function, random);
  std::map<std::string, Tensor> parameters = makeParameters(function, random);
  std::vector<Tensor> expected = Harness::runWhole(*whole, parameters, arguments), found;
  Executor executor(std::move(target));
  executor.writeWeights(function, parameters);
  RefinementAnalysis refinement(function);
  for (const auto &sizes : someMeshes) {
    MeshAttr mesh = makeMesh(harness.context, sizes);
    for (unsigned trial = 0; trial < trials; ++trial) {
      OwningOpRef<ModuleOp> module = cast<ModuleOp>(whole->getOperation()->clone());
      (*module)->setAttr(kMeshAttrName, mesh);
      for (auto [op, twin] : llvm::zip_equal(function.front(), getFunction(*module).front()))
        if (auto rule = dyn_cast<ShardingRuleOpInterface>(op)) {
          std::vector<Assignment> choices = getAllAssignments(refinement.get(&op).rule, mesh);
          setAssignment(&twin, choices[random() % choices.size()]);
        }
      std::string text;
      llvm::raw_string_ostream(text) << *module;
      std::string problem = executor.run(*module, arguments, found);
      ASSERT_EQ(problem, "") << text;
      EXPECT_EQ(compare(expected[0], found[0]), "") << text;
    }
  }
}

TEST_F(Execution, BlockInRandomLayouts) {
  runBlock(*this, {{2}, {3}, {2, 2}, {2, 2, 2}}, 3);
}

TEST_F(Execution, BlockInRandomLayoutsWithCollectivesOfRuns) {
  runBlock(*this, {{3}, {2, 2}}, 3, std::make_shared<const ContiguousTarget>());
}

TEST_F(Execution, DISABLED_BlockInManyRandomLayouts) {
  runBlock(*this, {{2}, {3}, {4}, {8}, {2, 2}, {2, 4}, {3, 2}, {2, 2, 2}}, 25);
}

// A kernel may write its result over an operand that nothing needs any more, but not where it reads the
// operand at other places as well: transposed only, or transposed and as it is.
TEST_F(Execution, KernelsOverwriteOnlyWhatTheyReadInPlace) {
  for (const char *sum : {"%t, %t", "%h, %t", "%t, %h"}) {
    std::string text =
        std::string(R"(func.func @main(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>) -> tensor<64x64xf32> {
      %h = colossal.contract %a [0, 1], %b [1, 2] -> [0, 2] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
      %t = colossal.transpose %h [1, 0] : tensor<64x64xf32> -> tensor<64x64xf32>
      %s = colossal.elementwise add()") +
        sum + R"() : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
      %y = colossal.contract %s [0, 1], %b [1, 2] -> [0, 2] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
      return %y : tensor<64x64xf32>
    })";
    OwningOpRef<ModuleOp> module = parse(text);
    ASSERT_TRUE(module);
    std::mt19937 random(3);
    func::FuncOp function = getFunction(*module);
    std::vector<Tensor> arguments = makeArguments(function, random);
    std::vector<Tensor> expected = Harness::runWhole(*module, {}, arguments), found;
    (*module)->setAttr(kMeshAttrName, makeMesh(context, {2}));
    RefinementAnalysis refinement(function);
    for (Operation &op : function.front().without_terminator())
      setAssignment(&op, Assignment(refinement.get(&op).rule.factors.size()));
    Executor executor;
    ASSERT_EQ(executor.run(*module, arguments, found), "") << text;
    EXPECT_EQ(compare(expected[0], found[0]), "") << text;
  }
}

} // namespace
