//===- OutputFile.h - results that are there whole or not at all ------------===//
//
// Both subcommands write one file at their end: a table (Predict.cpp) or a machine's description
// (Calibrate.cpp).
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_TOOLS_COLOSSAL_COST_OUTPUTFILE_H
#define COLOSSAL_TOOLS_COLOSSAL_COST_OUTPUTFILE_H

#include <string>

/// Writes `text` beside `path` and renames it, so that what had the name stays until the new file is
/// complete. A pipe or a device is written to as it is. False where that is impossible; nothing half-written
/// is left then.
bool writeOutput(const std::string &path, const std::string &text);

/// Whether writeOutput can be expected to succeed; leaves no trace. For work of minutes, to be asked before
/// it.
bool canWriteOutput(const std::string &path);

#endif // COLOSSAL_TOOLS_COLOSSAL_COST_OUTPUTFILE_H
