//===- OutputFile.h - results that are there whole or not at all ------------===//
//
// For the text files that tools write at their end: a training plan, a layout problem's answer, a table of
// predictions, a calibrated machine. (A plan for the runtime is written by plan::writePlan, which also syncs
// it.)
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_OUTPUT_OUTPUTFILE_H
#define COLOSSAL_OUTPUT_OUTPUTFILE_H

#include <string>

namespace colossal {

/// Writes `text` beside `path` and renames it, so that what had the name stays until the new file is
/// complete. A pipe or a device is written to as it is. False where that is impossible; nothing half-written
/// is left then.
bool writeOutput(const std::string &path, const std::string &text);

/// Whether writeOutput can be expected to succeed; leaves no trace. For work of minutes, to be asked before
/// it.
bool canWriteOutput(const std::string &path);

} // namespace colossal

#endif // COLOSSAL_OUTPUT_OUTPUTFILE_H
