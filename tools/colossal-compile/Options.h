//===- Options.h - the command line of colossal-compile ---------------------===//
#ifndef COLOSSAL_TOOLS_COLOSSAL_COMPILE_OPTIONS_H
#define COLOSSAL_TOOLS_COLOSSAL_COMPILE_OPTIONS_H

#include "colossal/Compiler/Compiler.h"
#include "colossal/Compiler/PlannedSteps.h"

#include <string>

/// What the user asked for.
struct Options {
  colossal::CompileOptions compile;
  std::string machineOrigin; ///< which machine was chosen and why, for the user
  std::string output;
  bool isOutputGiven = false;
  colossal::Phase last = colossal::Phase::Plan;
  bool planOnly = false; ///< plan training, make no code
  colossal::PlanTrainingOptions training;
  /// The step is compiled as the training plan `training.pricePath` says, which is read with the model.
  bool isPlanGiven = false;
  /// The step is compiled as the joint search plans it.
  bool isPlanSearched = false;
  /// Of a mesh without --devices: where the joint search has no plan, the layout search lays the step out.
  bool isPlanOptional = false;
  bool knowsUnits = false; ///< `training` has what it takes to read a step's model as the joint search does
  bool isMeshGiven = false;
  std::string planned;   ///< what the plan promises that is compiled, for the user
  std::string unplanned; ///< of isPlanOptional: why there is no plan
  /// Of a step that was compiled as a plan says: the plan, and before it those that were not taken.
  std::vector<colossal::PlannedStep> steps;

  /// Takes over what a training plan says, its precision too.
  void take(const colossal::PlannedStep &step);
  bool explain = false, asPins = false, printInputs = false, printParameters = false, listOperators = false,
       quiet = false;
  bool json = false, verbose = false;

  /// Whether `output` will be a plan for the runtime.
  bool writesPlan() const {
    return !planOnly && (asPins ? isOutputGiven : last == colossal::Phase::Plan) && !printsOnly();
  }
  /// Whether something is listed, and nothing is compiled.
  bool printsOnly() const { return printInputs || printParameters || listOperators; }
};

/// Parses the command line. Returns -1 to go on, otherwise the exit code (help and version print and give 0).
int parseOptions(int argc, char **argv, Options &options);

#endif // COLOSSAL_TOOLS_COLOSSAL_COMPILE_OPTIONS_H
