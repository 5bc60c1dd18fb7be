//===- Layout.h - which mesh axes split what --------------------------------===//
//
// The search phase: turns the module into a search::Problem (no IR in it), solves it, and writes the answer
// back as `dist.assignment` attributes.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LAYOUT_LAYOUT_H
#define COLOSSAL_LAYOUT_LAYOUT_H

#include "colossal/Cost/Machine.h"
#include "colossal/Layout/StorageLives.h"
#include "colossal/Partition/Refinement.h"
#include "colossal/Partition/Resharding.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace colossal::layout {

struct LayoutOptions {
  uint64_t memoryBytes = 0; ///< limit per device; 0: the machine's
  cost::Machine machine = cost::genericMachine();
  std::string machineText;       ///< what chooseMachine finds it by, for pipelines that are printed
  std::vector<std::string> pins; ///< "REGEX=LAYOUT", see docs/Layouts.md
  std::string recipe;            ///< "1d", "2d", ..., see docs/Layouts.md; empty: whatever is fastest
  /// By what kernels the memory of values is counted where it is limited; none: as if each op were one.
  ForeseeStorage foreseeStorage;
  bool explains = true; ///< whether LayoutReport tells of each op: `explanation`, `chosen`
};

/// Why LayoutOptions::recipe cannot be followed on `mesh`, whatever the model; "" where it can, or is empty.
std::string checkRecipe(const std::string &recipe, dist::MeshAttr mesh);

/// What was chosen for an op, a parameter, an input or an output.
struct ChosenLayout {
  std::string kind;        ///< the op's name without its dialect, "parameter", "input", "output"
  std::string name;        ///< the model's; with the program's where there are several
  std::string layout;      ///< as a pin writes it
  double seconds = 0;      ///< predicted
  std::string collectives; ///< what its operands need, as the explanation tells it; empty: nothing
};

/// Collectives of one kind, of all programs.
struct CollectiveUse {
  unsigned count = 0;
  double bytes = 0; ///< sent by a rank
};

struct LayoutReport {
  std::string pins;    ///< the chosen layouts as pins, one a line, that give the same plan when fed back
  std::string summary; ///< a few lines: per repeated block, layout, memory by kind, bytes by collective, time
  std::string explanation; ///< the same, op by op
  double predictedSeconds = 0;
  /// Where nothing fits: the memory of a device that was given, and that in which the search finds a layout
  /// (kernels may need more). Else 0.
  uint64_t givenBytes = 0, neededBytes = 0;
  std::map<std::string, double> predictedByFunction;           ///< the same, function by function
  std::vector<std::map<std::string, double>> predictedByStage; ///< the same by stage, where there are any
  std::vector<ChosenLayout> chosen;                            ///< what `explanation` tells, line by line
  std::map<std::string, CollectiveUse> collectives;            ///< by kind, as the search counts them
  std::optional<double> gap; ///< at most this far above the best layout, relative to its cost
};

/// Axes, beside one named `data`, of a mesh that a layout of the papers can be on. Of `1d`, `sequence` and
/// `ulysses` 1: they take several as one.
unsigned getRecipeAxes(llvm::StringRef recipe);

/// Empty where times for `machine` are times of programs for the CPU; otherwise a sentence that says whose
/// they are.
std::string describeForeignTimes(const cost::Machine &machine);

/// Searches layouts for all functions of `module` (whose `dist.mesh` attribute is set): parameters that
/// several functions share get one stored layout. Fails with a diagnostic where a pin matches nothing or
/// cannot be met, or where nothing fits the memory: by how much, and where it goes. `refinementOf` has the
/// analyses of the functions.
mlir::LogicalResult searchLayouts(mlir::ModuleOp module, const LayoutOptions &options,
                                  dist::RefinementOf refinementOf, LayoutReport &report);

/// Seconds of collectives on `module`'s mesh as the search prices them, so that the partitioner chooses the
/// sequences that the search has counted. Fails with a diagnostic where the machine has too few devices.
mlir::FailureOr<dist::CollectiveCost> getCollectiveCost(mlir::ModuleOp module, const LayoutOptions &options);

/// The search as a pass. What it reports goes into `report`, which must outlive the pass, unless that is
/// null.
std::unique_ptr<mlir::Pass> createSearchLayoutsPass(const LayoutOptions &options, LayoutReport *report);
/// Cuts contractions whose columns are read in parts of different sizes, for recipes (Passes.td).
std::unique_ptr<mlir::Pass> createSplitFusedContractionsPass(bool readsParts);
/// Registers both.
void registerPasses();

} // namespace colossal::layout

#endif // COLOSSAL_LAYOUT_LAYOUT_H
