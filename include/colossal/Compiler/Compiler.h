//===- Compiler.h - the road from an ONNX file to a plan --------------------===//
//
// The phases in order, each an entry point for a test (runPhases). colossal-compile is a thin shell over this
// library, colossal-opt runs the same phases on modules.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_COMPILER_COMPILER_H
#define COLOSSAL_COMPILER_COMPILER_H

#include "colossal/Import/ONNX.h"
#include "colossal/Import/OnnxNames.h"
#include "colossal/Layout/Layout.h"
#include "colossal/Output/OutputFile.h"
#include "colossal/Plan/Plan.pb.h"
#include "colossal/Precision/Precision.h"
#include "colossal/Schedule/Schedule.h"
#include "colossal/Step/CutStages.h"
#include "colossal/Training/Training.h"
#include "dialects/Dist/Dist.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassManager.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace colossal {

/// How far to go. Each phase includes those before it.
enum class Phase { Import, Precision, Differentiate, Outline, Step, Search, Partition, Schedule, Plan };

/// "import", "precision", "differentiate", "outline", "step", "search", "partition", "schedule", "plan"; none
/// for other names.
std::optional<Phase> parsePhase(llvm::StringRef name);
llvm::StringRef getPhaseName(Phase phase);

/// Dimensions that are bound together (exporters may name the same batch differently in each input) and their
/// values, at least one; each value makes a program.
struct DimValues {
  std::vector<std::string> names;
  std::vector<int64_t> values;
};

/// What a choice that --mesh leaves open is made for: the time from the inputs of a run to its outputs, or
/// how many runs that follow one another are done in a second. Where runs do not overlap, the two are one.
enum class Objective { Latency, Throughput };

struct CompileOptions {
  ImportOptions import;            ///< dims holds the dimensions with one value
  std::vector<DimValues> manyDims; ///< a program for each combination of their values
  /// "AxB" or "data=2,model=2"; where `devices` is given, the axes that are fixed, by name, or empty.
  std::string mesh = "1";
  /// Above 0: the mesh, its stages and microbatches are searched among those of so many ranks.
  int64_t devices = 0;
  Objective objective = Objective::Latency;
  /// Equal parts of the batch that run one after the other (the last one padded, where it must be). 0: as
  /// many as the search finds best with `devices`, else 1.
  int64_t microbatches = 0;
  /// Parts of the model that each pipeline stage has and that do not follow one another. 0: as many as the
  /// search finds best with `devices`, else 1.
  int64_t chunks = 0;
  /// In which order the stages of a training step do their passes; none: interleaved where there are chunks,
  /// else 1F1B.
  std::optional<cost::Schedule> pipelineSchedule;
  /// Passes as a plan orders them; empty: by the times that the model was cut by.
  std::vector<cost::PipelineEvent> pipelinePasses;
  /// The name of the dimension that is the batch; empty: that named batch, or else the first of the inputs.
  std::string batchDimension;
  /// Given: what the model's floats are stored and computed in; else as the file has them.
  std::optional<precision::Precision> precision;
  /// Given: a training step is made of the model, and compiled beside its evaluation.
  std::optional<training::TrainingOptions> training;
  /// Of a training step that does not fit and does not say what it makes again: choices of ops whose results
  /// are kept by value, from few to many, each as TrainingOptions::kept. Null: none are tried.
  std::function<std::vector<std::vector<std::string>>()> findKept;
  layout::LayoutOptions layout;
  schedule::ScheduleOptions schedule; ///< its target must be given where a phase after partition runs
  /// Where the plan will lie: weight paths are relative to its folder, and that it may be written there is
  /// checked once the model's files are known. Empty: nowhere.
  std::string planPath;
  std::string commandLine; ///< recorded in the plan
  /// Called at the beginning of each phase, for progress.
  std::function<void(llvm::StringRef)> progress;
  /// Called with the manager of the phases' passes before it runs them, for timing, printing of IR and the
  /// like.
  std::function<mlir::LogicalResult(mlir::PassManager &)> configurePasses;
};

/// What one run of a program is predicted to take on one rank.
struct ProgramPrediction {
  std::string name;
  double computing = 0, moving = 0, communicating = 0; ///< seconds in kernels, copies, collectives
  int64_t instructions = 0;
  double seconds = 0;  ///< of one run, from the first input to the last output
  double interval = 0; ///< from one run to the next, where runs overlap in the stages of a pipeline
};

/// What a mesh was found to take, where the mesh was searched.
struct TriedMesh {
  std::string mesh;         ///< as --mesh takes it
  bool isPossible = false;  ///< something can be compiled for it, whatever it takes
  double seconds = 0;       ///< predicted, of one run of each program
  double runsPerSecond = 0; ///< predicted, of runs of all programs that follow one another
  uint64_t neededBytes = 0; ///< of a device, where it does not fit; 0: it does
  int64_t microbatches = 1; ///< that the batch was cut into
  int64_t chunks = 1;       ///< of each stage
};

/// What a stage is predicted to do with one microbatch, from the beginning of a run on.
struct StagePass {
  int64_t microbatch = 0, chunk = 0;
  double begin = 0, end = 0; ///< s
};

/// A stage of a finished plan.
struct StageResult {
  double seconds = 0; ///< predicted, of the program that takes longest; 0 where the machine is no host
  std::vector<std::pair<std::string, uint64_t>> memory; ///< bytes of a rank by kind, "total" last
  std::vector<StagePass> passes; ///< of that program, in the order in which they are done
};

/// How long the compiler was in a phase, and what it made of the module.
struct PhaseTime {
  std::string name;
  double seconds = 0;
  uint64_t operations = 0; ///< of the module after it
};

struct CompileResult {
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< after the last phase that ran
  /// Of a compilation that failed: options say things that cannot all be, of this model or any.
  bool contradicts = false;
  step::StepReport step;
  layout::LayoutReport layout;
  int64_t microbatches = 1;              ///< that the batch is cut into
  Recompute recompute = Recompute::None; ///< of a training step
  double searchedInterval =
      0; ///< from one run of all programs to the next, by the search, where there are stages
  std::unique_ptr<codegen::ImageBuilder> kernels; ///< where they are not finished yet; null in a plan
  schedule::GeneratedCode code;
  plan::Plan plan;
  std::string data;   ///< the plan's data section
  std::string images; ///< its code section
  std::vector<std::pair<std::string, uint64_t>>
      memory;                                 ///< bytes of the rank with most, by kind, "total" last
  std::vector<ProgramPrediction> predictions; ///< where the machine is a host
  std::vector<StageResult> stages;            ///< empty where there are none
  std::vector<TriedMesh>
      meshes; ///< where CompileOptions::devices is given: the chosen one first, then best first
  std::string microbatchObstacle; ///< why the search tried no microbatches; empty: it did, or need not
  std::vector<PhaseTime> phases;  ///< in order; those that were run again, for --memory, stand again
  /// What nobody needs any more, for whoever has the time to free it: a program that ends has not.
  std::vector<std::shared_ptr<void>> remains;
};

/// All dialects that any phase makes.
void registerDialects(mlir::DialectRegistry &registry);

/// Parses "4", "2x2", "data=2,model=4", of at most 16 axes; axes without names are called x, y, z, w, a5, a6,
/// ..., a16. Fails with a diagnostic.
mlir::FailureOr<dist::MeshAttr> parseMesh(mlir::MLIRContext *context, llvm::StringRef text);

/// Asks for a mesh of `devices` ranks of the options' machine to be searched; `isMeshGiven`: with the axes of
/// `options.mesh`, or on that mesh where it has all ranks, and stages whose microbatches are given too, or
/// none. Empty, or what is wrong with that and what to do.
std::string searchMesh(CompileOptions &options, int64_t devices, bool isMeshGiven);

/// The mesh that `options` name, with its loop over microbatches where there are several. Fails with a
/// diagnostic.
mlir::FailureOr<dist::MeshAttr> makeMesh(mlir::MLIRContext *context, const CompileOptions &options);

/// What of `microbatches` and `batchDimension` does not fit the inputs of the model as far as they are known
/// before it is imported, and what to do; or "".
std::string checkMicrobatches(mlir::MLIRContext *context, const CompileOptions &options);

/// The order of passes that options ask for, or leave open.
cost::Schedule getPipelineSchedule(const CompileOptions &options);

/// What of `chunks` does not go with the mesh, and what to do; or "".
std::string checkChunks(const CompileOptions &options, dist::MeshAttr mesh);

/// Where the mesh was searched: which one it is, the best of those that were tried, and what was left out;
/// several lines.
std::string describeMeshes(const CompileOptions &options, const CompileResult &result);

/// Puts what was cut how before what was laid out how, in the texts of `result.layout`.
void describeStages(CompileResult &result);

/// Parses a size: "1073741824", "512MiB", "2GB", "1.5GiB". None where it is anything else, or not positive.
std::optional<uint64_t> parseBytes(llvm::StringRef text);

/// The parameters of the model, and what `options.training` would train of them, or training without any
/// rules. Dimensions that are not bound do not matter. Fails with diagnostics.
mlir::FailureOr<std::vector<training::ParameterInfo>> listParameters(mlir::MLIRContext *context,
                                                                     const CompileOptions &options);

/// `options`, of a training step, with the batch of the model's inputs bound to the samples of a step, what
/// the order of its passes settles, and the model's file known to what reads its weights: as compile has them
/// from there on, for who runs its phases. Fails, with a diagnostic, where another option says something else
/// of the batch, or asks for what no training step is compiled with yet.
mlir::FailureOr<CompileOptions> completeTraining(mlir::MLIRContext *context, const CompileOptions &options);

/// Compiles up to and including `last`. Fails with diagnostics of the context.
mlir::LogicalResult compile(mlir::MLIRContext *context, const CompileOptions &options, Phase last,
                            CompileResult &result);

/// Runs the phases after `from` up to `last` on a module that stands after `from`; what compile does after
/// import.
mlir::LogicalResult runPhases(mlir::ModuleOp module, const CompileOptions &options, Phase from, Phase last,
                              CompileResult &result);

/// Writes the plan file of a result that reached Phase::Plan.
OutputError writePlanFile(const CompileResult &result, const std::string &path);

} // namespace colossal

#endif // COLOSSAL_COMPILER_COMPILER_H
