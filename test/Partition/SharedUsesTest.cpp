//===- SharedUsesTest.cpp - what the search adds up is what is priced ----------===//
//
// A value that several ops read is one node of the problem. What the solver adds up must be what the report
// prices, and so what the program moves: each copy once, and none for who takes the value as it is made.
//
//===----------------------------------------------------------------------===//
#include "Layouts.h"
#include "lib/Layout/Report.h"

#include "colossal/Search/Solver.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::test;

namespace {

/// act = relu(x), and contractions of it by name.
std::string makeProgram(ArrayRef<StringRef> users) {
  std::string text = "module attributes {dist.mesh = #dist.mesh<[\"x\" = 2]>} {\n"
                     "func.func @main(%x: tensor<256x256xf32>) -> (";
  const std::string type = "tensor<256x256xf32>";
  for (size_t i = 0; i < users.size(); ++i)
    text += (i ? ", " : "") + type;
  text += ") {\n%act = colossal.elementwise relu(%x) : (" + type + ") -> " + type + " loc(\"act\")\n";
  std::string names, types;
  for (StringRef user : users) {
    const std::string name = user.str();
    text += "%w_" + name + " = colossal.parameter \"w_" + name +
            "\" {file = \"\", offset = 0 : i64, bytes = 262144 : i64} : " + type + "\n%" + name +
            " = colossal.contract %act [0, 1], %w_" + name + " [1, 2] -> [0, 2] : (" + type + ", " + type +
            ") -> " + type + " loc(\"" + name + "\")\n";
    names += (names.empty() ? "%" : ", %") + name;
    types += (types.empty() ? "" : ", ") + type;
  }
  return text + "return " + names + " : " + types + "\n}\n}\n";
}

struct SharedUses : Harness {
  /// What the solver adds up, and what the report says, of the best layout with `pins`.
  std::pair<double, double> search(ArrayRef<StringRef> users, ArrayRef<std::string> texts,
                                   std::optional<int64_t> memory = {}) {
    OwningOpRef<ModuleOp> module = parse(makeProgram(users));
    MeshAttr mesh = getMesh(*module);
    layout::Pins pins;
    for (const std::string &text : texts) {
      std::string error;
      pins.add(*layout::parsePin(text, mesh, error));
    }
    layout::Costs costs(cost::genericMachine(), mesh, mesh.getNumRanks());
    layout::Model model(*module, mesh, costs, memory);
    std::deque<RefinementAnalysis> refinements;
    auto refinementOf = [&](func::FuncOp function) -> const RefinementAnalysis & {
      return refinements.emplace_back(function);
    };
    EXPECT_TRUE(succeeded(model.build(refinementOf, pins)));
    search::Solution solution = search::solve(model.problem, {});
    EXPECT_TRUE(solution.feasible && solution.lowerBound && solution.cost == *solution.lowerBound);
    layout::LayoutReport report;
    layout::describe(model, solution, report);
    return {search::secondsFromCost(solution.cost), report.predictedSeconds};
  }
};

TEST_F(SharedUses, CopiesAreAddedUpAsTheyAreMade) {
  for (const std::vector<std::string> &pins : std::vector<std::vector<std::string>>{
           {},
           {"act=d0:x", "[qk]=n:x"},                // one gather for both
           {"act=d0:x", "[qk]=n:x", "c=m:x"},       // and none for who takes rows
           {"act=d0:x", "[qk]=k:x", "c=m:x"},       // an all-to-all for both
           {"act=d1:x", "[qk]=m:x", "c=n:x"},       // two layouts, neither as it is made
           {"act=replicated", "[qk]=m:x", "c=n:x"}, // a slice for both
       }) {
    auto [added, priced] = search({"q", "k", "c"}, pins);
    EXPECT_NEAR(added, priced, 1e-9 * priced + 1e-11) << testing::PrintToString(pins);
  }
}

TEST_F(SharedUses, CountedCopiesAreAddedUpAsTheyAreMade) {
  for (const std::vector<std::string> &pins : std::vector<std::vector<std::string>>{
           {"act=d0:x", "[qk]=n:x", "c=m:x"}, {"act=d0:x", "[qk]=k:x", "c=m:x"}}) {
    auto [added, priced] = search({"q", "k", "c"}, pins, 8 << 20);
    EXPECT_NEAR(added, priced, 1e-9 * priced + 1e-11) << testing::PrintToString(pins);
  }
}

} // namespace
