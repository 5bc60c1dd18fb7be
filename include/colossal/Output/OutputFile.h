//===- OutputFile.h - what tools write, and never over what they read -------===//
//
// Every file and every line that a tool of the compiler writes ends here, so that no tool can forget what
// holds for all: a file is there whole or not at all (Plan/OutputFile.h), it takes the place of nothing that
// was read, and what could not be written is told, standard output included. A plan for the runtime is
// written by plan::writePlan after checkOutput.
//
// Which files were read is kept for the whole process: they are opened in many places (the model, the files
// of its weights, machines, contents of inputs), and each says so where it opens one.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_OUTPUT_OUTPUTFILE_H
#define COLOSSAL_OUTPUT_OUTPUTFILE_H

#include <string>

namespace colossal {

/// Notes that this process reads the file `path`, now or later. Any thread may call it.
void noteInput(const std::string &path);

/// Notes that a file which was to be read cannot be: it is not there, may not be read, is no file, or ends
/// before what it is to hold. To be called where that is found out, beside the message. Any thread may.
void noteUnusableInput();
/// What a tool that fails returns: 3 where such a file was the reason, otherwise `exitCode`.
int failureExitCode(int exitCode);

/// Why something cannot be written: nothing, or a message and what kind of thing is wrong.
struct OutputError {
  enum Kind {
    None,
    BadName, ///< it is, perhaps by another name, a file that is read, or a folder: the user's slip
    System   ///< the system refuses
  } kind = None;
  std::string message; ///< "cannot write FILE: ..."

  explicit operator bool() const { return kind != None; }
  /// What all tools return: 2 for a wrong command line, 3 for a file that cannot be written.
  int exitCode() const { return kind == BadName ? 2 : kind == System ? 3 : 0; }
};

/// Whether `path` means standard output: `-`, or one of the system's names for it. A file of that name is
/// written `./-`.
bool isStandardOutput(const std::string &path);

/// Whether writeOutput can be expected to succeed; leaves no trace. For work of minutes, to be asked before
/// it, once the files that will be read are noted.
OutputError checkOutput(const std::string &path);

/// Writes `text` to `path`, or to standard output where that is meant.
OutputError writeOutput(const std::string &path, const std::string &text);

/// To be the last thing that a tool does: flushes standard output (of C and C++). Where that, or an earlier
/// write to it, failed, says so on standard error in the name of `tool` and returns 3; otherwise `exitCode`.
int finishOutput(const char *tool, int exitCode);

} // namespace colossal

#endif // COLOSSAL_OUTPUT_OUTPUTFILE_H
