//===- PlannedSteps.h - training plans as options of a program --------------===//
//
// From what the joint search says of a training step, found or read from a file, to what a program is
// compiled with; and compilation of the best one that the program of a model fits.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_COMPILER_PLANNEDSTEPS_H
#define COLOSSAL_COMPILER_PLANNEDSTEPS_H

#include "colossal/Compiler/Compiler.h"
#include "colossal/Compiler/PlanTraining.h"

namespace colossal {

/// What a training plan says of a step that is compiled, as the options of a program say it.
struct PlannedStep {
  planner::TrainingPlan plan;
  std::string mesh;              ///< "data=2,model=4"; tensor axes are called model, model2, ...
  std::vector<std::string> pins; ///< of the forward pass; what they leave open is searched
  std::vector<std::string> kept; ///< by value: ops of the forward pass whose results are kept (nameOps)
  /// Under recompute: the ops with which segments of the forward pass begin (nameOps; "": the loss).
  std::vector<std::string> segments;
  /// Where the schedule orders passes by their times: when stages do which, as the plan has them.
  std::vector<cost::PipelineEvent> passes;
  double seconds = 0, bytes = 0;                   ///< of a step and of a rank, as the plan is priced
  std::vector<cost::StageMemory> memory;           ///< by stage, of which the largest total is `bytes`
  std::map<std::string, double> bytesByCollective; ///< as a plan's text has them
  std::string machine;                             ///< that it is priced on
  uint64_t neededBytes = 0; ///< of a device, where its program was compiled and does not fit
  std::string refusal;      ///< why its program was not compiled; empty: it was, or was not tried
};

/// Reads the plan `options.pricePath`. Fails, with diagnostics, where it is not a plan of this model, or asks
/// for what no program has yet.
mlir::FailureOr<PlannedStep> readPlannedStep(mlir::MLIRContext *context, const PlanTrainingOptions &options);

/// Puts mesh, microbatches, chunks, schedule, ZeRO stage, recomputation, batch and pins of a plan into
/// `options`, of a training step. Pins that are there go before the plan's.
void applyPlan(const PlannedStep &step, CompileOptions &options);

/// "mesh stage=2,data=4, 8 microbatches, 1f1b, ZeRO 1, recompute none, predicted 12.3 ms a step and ...".
std::string describe(const PlannedStep &step);

/// Of a training step, from few to many, choices of ops whose results are worth their memory under recompute
/// by value, as TrainingOptions::kept. Fails, with diagnostics, where the joint search cannot read the model.
mlir::FailureOr<std::vector<std::vector<std::string>>> findKept(mlir::MLIRContext *context,
                                                                const PlanTrainingOptions &options);

/// What the joint search says of a step that is to be compiled.
struct PlannedSteps {
  /// The best plan and its runners-up that programs can have, by predicted time; empty where nothing fits.
  std::vector<PlannedStep> steps;
  std::string report; ///< where there are none: by how much, and what would help
};

/// A model that is planned with one limit of memory or another.
class StepPlanner {
public:
  /// Reads the model. Fails, with diagnostics, where the joint search cannot take it.
  static mlir::FailureOr<StepPlanner> create(mlir::MLIRContext *context, const PlanTrainingOptions &options);
  StepPlanner(StepPlanner &&) noexcept;
  ~StepPlanner();

  /// Steps of at most `memoryBytes` a device; 0: what the machine has. Fails, with a diagnostic, where the
  /// options contradict one another, the model or the machine. Where nothing fits, the report says what would
  /// help, which takes searches of its own, if it `explains`.
  mlir::FailureOr<PlannedSteps> find(double memoryBytes, bool explains = true);

  /// Says that the model takes statistics of microbatches (PlanTrainingOptions::keepsStatistics).
  void setTakesStatistics();

private:
  struct Parts;
  explicit StepPlanner(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts;
};

/// Compiles, up to `last`, the fastest of the steps that `planner` finds whose program fits
/// `options.layout.memoryBytes`, and says of those before it why they are not taken (`progress`)
/// and in `tried`. Where programs take more than was foreseen, plans of less memory are searched. Fails,
/// with diagnostics, where none fits, or options contradict one another (`result.contradicts`).
mlir::LogicalResult compilePlanned(mlir::MLIRContext *context, const CompileOptions &options,
                                   StepPlanner &planner, Phase last, CompileResult &result,
                                   std::vector<PlannedStep> &tried);

} // namespace colossal

#endif // COLOSSAL_COMPILER_PLANNEDSTEPS_H
