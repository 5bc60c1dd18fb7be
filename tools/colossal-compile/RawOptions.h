// The command line's options as they are written, and what is made of them.
#ifndef COLOSSAL_TOOLS_COLOSSAL_COMPILE_RAWOPTIONS_H
#define COLOSSAL_TOOLS_COLOSSAL_COMPILE_RAWOPTIONS_H

#include "Options.h"

#include <string>
#include <vector>

struct PassOptions {
  bool timing = false;
  std::string printAfter, reproducer;
};

struct RawOptions {
  PassOptions passes;
  std::vector<std::string> dims, shapes, values, pins, pinFiles;
  std::string memory, machine, target = "cpu", processor, cudnn, emit = "plan", training, loss, precision,
                               attention, objective, batchNorm, plan;
  bool syncBatchNorm = false;
  colossal::training::ParameterRules parameters;
  std::vector<std::string> prices;
};

/// A plan or two to price. The last value may also be the model, where that comes after the option.
/// Throws CLI::ValidationError, as the next one does.
void interpretPrices(std::vector<std::string> prices, Options &options);

/// Fills `options` from what was written, and refuses what does not go together.
void interpret(const RawOptions &raw, bool isMeshGiven, Options &options);

#endif // COLOSSAL_TOOLS_COLOSSAL_COMPILE_RAWOPTIONS_H
