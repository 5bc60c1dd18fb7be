// How files are written on both sides of the plan: whole or not at all, and never over a file that was read.
#ifndef COLOSSAL_PLAN_OUTPUTFILE_H
#define COLOSSAL_PLAN_OUTPUTFILE_H

#include "colossal/Plan/Status.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace colossal::plan {

/// Whether `path` is a name that the system gives to standard output.
bool isStandardOutput(const std::string &path);

/// Whether `a` and `b` lead to one file that is there, whatever their spelling, and through symbolic and hard
/// links: device and inode are compared.
bool isSameFile(const std::string &a, const std::string &b);

/// Whether an output at `path` can be expected to succeed. Leaves no trace. To be asked before work of
/// minutes.
///   InvalidArgument  it is, perhaps by another name, one of the files `inputs`, or a folder
///   NotFound, Io     its folder is not there, or takes no new file
Status checkOutput(const std::string &path, const std::vector<std::string> &inputs);

/// Makes the file `path` of what `write` puts into the descriptor that it is given: it grows beside `path`,
/// is synced, and takes the name at the end. So whoever reads meanwhile sees the old file or the whole new
/// one, and after an error, of `write` or of the system, nothing half-written is left and what had the name
/// stays. `path` must not be a device, a pipe or a folder.
Status replaceFile(const std::string &path, const std::function<Status(int descriptor)> &write);

/// The same of a text. A device or a pipe is written to as it is, without more guarantees than it gives.
Status writeFile(const std::string &path, std::string_view text);

/// Writes all bytes; `path` is for the message.
Status writeAll(int descriptor, const void *data, size_t size, const std::string &path);

/// Flushes standard output, which C and C++ may share. An error, now or since the program began, is an Io
/// status that says why.
Status finishStandardOutput();

} // namespace colossal::plan

#endif // COLOSSAL_PLAN_OUTPUTFILE_H
