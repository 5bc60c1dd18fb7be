// The names in a folder of checkpoints, and moving whole checkpoints there without a moment in which there is
// none.
#ifndef COLOSSAL_RUNTIME_TRAINING_CHECKPOINTFOLDER_H
#define COLOSSAL_RUNTIME_TRAINING_CHECKPOINTFOLDER_H

#include "colossal/Plan/Status.h"

#include <cstdint>
#include <map>
#include <string>

namespace colossal::runtime {

using plan::Code;
using plan::Status;

/// The manifest's name in a checkpoint.
constexpr const char *manifestName = "manifest.json";

/// "step-00000100"
std::string checkpointName(uint64_t step);
/// Under this name it grows.
std::string growingName(uint64_t step);

/// The whole checkpoints in a folder, by step: their folders' paths.
Status listCheckpoints(const std::string &folder, std::map<uint64_t, std::string> &found);

/// The folder of a run's checkpoints that `path` is, or, where that is one checkpoint, is in.
std::string runFolder(const std::string &path);

/// Gives the folder that grew its name. One that has the name is replaced in one move where the file system
/// can, and else is whole under another name until the new one has it.
Status publishCheckpoint(const std::string &folder, uint64_t step);
/// Takes a folder away: first its name, so that it is no checkpoint in part, then its files.
void removeCheckpoint(const std::string &path);
/// Removes what grew, or was being removed, when a process was killed.
Status clearLeftovers(const std::string &folder);

/// Makes a folder, and those above it.
Status makeFolder(const std::string &path);
/// The names in a folder survive a loss of power.
Status syncFolder(const std::string &path);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_TRAINING_CHECKPOINTFOLDER_H
