//===- CutStages.h - the stages of a pipeline -------------------------------===//
//
// The phase between outline and search, for meshes with an axis `stage`; and after partition, what brings
// values from one stage to the next.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_STEP_CUTSTAGES_H
#define COLOSSAL_STEP_CUTSTAGES_H

#include "colossal/Cost/Machine.h"
#include "colossal/Cost/PipelineSchedule.h"
#include "dialects/Dist/Stages.h"
#include "mlir/Pass/Pass.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace colossal::step {

struct StepOptions {
  std::vector<std::string> pins; ///< "REGEX=stage:K"
  int64_t chunks = 1;            ///< parts of the model that each stage has, which do not follow one another
  cost::Machine machine = cost::genericMachine();
  std::string machineText;  ///< what chooseMachine finds it by, for pipelines that are printed
  uint64_t memoryBytes = 0; ///< limit per device; 0: the machine's
  /// In which order stages do forward and backward passes of a training step.
  cost::Schedule schedule = cost::Schedule::OneFOneB;
  /// Of a step: its passes as a plan has them; empty: as cost::simulate orders them by the chunks' times.
  std::vector<cost::PipelineEvent> passes;
};

/// A value that goes from one stage to another.
struct StageMessage {
  std::string name; ///< of the tensor
  int64_t from = 0, to = 0;
  uint64_t bytes = 0;               ///< of the whole tensor
  int64_t fromPart = 0, toPart = 0; ///< the same as stages where these have one chunk
};

/// One of the parts of the model that a stage has.
struct ChunkInfo {
  std::string first, last; ///< names of ops
  unsigned ops = 0;        ///< without parameters and constants
  double seconds = 0;      ///< predicted when it was cut, with what it receives
};

/// A stage as it was cut, in the program that takes longest.
struct StageInfo {
  int64_t firstRank = 0, ranks = 1;
  std::vector<ChunkInfo> chunks; ///< in the model's order; one where no others were asked for
  unsigned ops = 0;              ///< of all chunks
  uint64_t weightBytes = 0;      ///< of its parameters, whole
  double seconds = 0;            ///< of all chunks
};

struct StepReport {
  std::vector<StageInfo> stages;      ///< empty where there are none
  std::vector<StageMessage> messages; ///< of the program that takes longest
  uint64_t weightBytes = 0;           ///< of all parameters, each once
  std::string why;                    ///< for people: what decided
  std::string pins;                   ///< the stages of all ops as pins, one a line
};

/// Whether a pin puts ops into a stage, rather than fixing a layout.
bool isStagePin(llvm::StringRef pin);
/// What is wrong with those of `pins` that put ops into stages, on that mesh, and what to do; or "". The
/// `chunks` of stages are numbered together, in the model's order.
std::string checkStagePins(llvm::ArrayRef<std::string> pins, dist::MeshAttr mesh, int64_t chunks);

/// The mesh of one stage where `mesh` has an axis `stage` of two or more: the other axes, or one of one rank.
/// Null where it has none.
dist::MeshAttr getStageMesh(dist::MeshAttr mesh);

/// See Passes.td. Fails with diagnostics.
mlir::LogicalResult cutStages(mlir::ModuleOp module, const StepOptions &options, StepReport &report);
/// `sendsWait`: where the program runs, a send may wait for its receiver.
mlir::LogicalResult planTransfers(mlir::ModuleOp module, bool sendsWait);

/// What is reported goes into `report`, which must outlive the pass, unless that is null.
std::unique_ptr<mlir::Pass> createCutStagesPass(const StepOptions &options, StepReport *report);
/// Registers the passes of this folder.
void registerPasses();

} // namespace colossal::step

#endif // COLOSSAL_STEP_CUTSTAGES_H
