//===- Layouts.h - programs, values and assignments for the harnesses -------===//
//
// What both harnesses share: LayoutHarness.cpp, which interprets partitioned ops, and ExecutionHarness.cpp,
// which runs the code that is generated for them.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_TEST_PARTITION_LAYOUTS_H
#define COLOSSAL_TEST_PARTITION_LAYOUTS_H

#include "Cases.h"
#include "Interpreter.h"

#include "colossal/Partition/Partition.h"
#include "gtest/gtest.h"

#include <random>
#include <set>

namespace colossal::test {

/// All meshes of one and two axes that the harnesses try, of up to eight ranks; even, odd and prime.
extern const std::vector<std::vector<int64_t>> meshes;

dist::MeshAttr makeMesh(mlir::MLIRContext &context, llvm::ArrayRef<int64_t> sizes);

/// All legal assignments: each axis on any factor that is not whole, or on none; axes that share one in
/// either order.
std::vector<dist::Assignment> getAllAssignments(const dist::FactorRule &rule, dist::MeshAttr mesh);

/// Random elements: reals in [-2, 2), integers in [1, 5], or in [0, below) where `below` is given.
Tensor makeArgument(mlir::RankedTensorType type, int64_t below, std::mt19937 &random);
/// Values for all arguments of a function, bounded by their attributes `test.below`.
std::vector<Tensor> makeArguments(mlir::func::FuncOp function, std::mt19937 &random);
/// Values for all parameters of a function.
std::map<std::string, Tensor> makeParameters(mlir::func::FuncOp function, std::mt19937 &random);

/// Where `have` is not `want`, up to 1e-5 of the largest element: "element 3 is 2.5, expected 1"; "" where it
/// is.
std::string compare(const Tensor &want, const Tensor &have);

/// The one function of a module.
mlir::func::FuncOp getFunction(mlir::ModuleOp module);

/// What became of trying many layouts of one op.
struct Outcome {
  unsigned tried = 0;
  std::set<std::string> reached; ///< names of factors that were split
  std::string failures;          ///< a line for each layout that failed
};
/// The names in `splits` (separated by blanks) that were not reached.
std::string getMissing(const char *splits, const Outcome &outcome);

/// Prints what was tried of `each` ("conv: 12 layouts, splitting batch height"; `what`: "layouts"), and
/// expects that nothing failed and that all it must split was split.
void expectWhole(const Case &each, const Outcome &outcome, const char *what);

struct Harness : testing::Test {
  mlir::MLIRContext context;
  Harness();
  mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &text);
  /// The results of a module's function, interpreted on one rank.
  static std::vector<Tensor> runWhole(mlir::ModuleOp module, const std::map<std::string, Tensor> &parameters,
                                      const std::vector<Tensor> &arguments);
};

/// A transformer block with a fused contraction for queries, keys and values; sizes that most axes do not
/// divide. The parameters lie one after the other in the file "weights".
extern const char *const blockText;

} // namespace colossal::test

#endif // COLOSSAL_TEST_PARTITION_LAYOUTS_H
