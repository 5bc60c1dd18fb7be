// colossal-run's subcommands. Each reads its options into a struct of its own and is run by main.
#ifndef COLOSSAL_TOOLS_COLOSSAL_RUN_COMMANDS_H
#define COLOSSAL_TOOLS_COLOSSAL_RUN_COMMANDS_H

#include "TrainOptions.h"

namespace colossal::runtime {

/// Trains. Returns the exit code; does not return after an error.
int train(TrainOptions &options);

struct ExportOptions {
  std::string checkpoint, onnx, safetensors, model;
};
void addExportOptions(CLI::App &app, ExportOptions &options);
/// Writes what a checkpoint's parameters have become.
Status exportCheckpoint(const ExportOptions &options);

} // namespace colossal::runtime

#endif // COLOSSAL_TOOLS_COLOSSAL_RUN_COMMANDS_H
