//===- OutputFile.cpp - what tools write, and never over what they read -----===//
#include "colossal/Output/OutputFile.h"

#include "colossal/Plan/OutputFile.h"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <set>
#include <vector>

namespace colossal {

namespace {

/// Of a file that cannot be read or written, in all tools.
constexpr int kFileExitCode = 3;

struct Inputs {
  std::mutex mutex;
  std::set<std::string> paths;
};

Inputs &getInputs() {
  static Inputs inputs;
  return inputs;
}

std::vector<std::string> getPaths() {
  Inputs &inputs = getInputs();
  std::lock_guard<std::mutex> lock(inputs.mutex);
  return {inputs.paths.begin(), inputs.paths.end()};
}

OutputError getError(const plan::Status &status) {
  if (status.ok())
    return {};
  return {status.code() == plan::Code::InvalidArgument ? OutputError::BadName : OutputError::System,
          status.message()};
}

} // namespace

void noteInput(const std::string &path) {
  Inputs &inputs = getInputs();
  std::lock_guard<std::mutex> lock(inputs.mutex);
  inputs.paths.insert(path);
}

static std::atomic<bool> isInputUnusable{false};

void noteUnusableInput() {
  isInputUnusable = true;
}

int failureExitCode(int exitCode) {
  return isInputUnusable ? kFileExitCode : exitCode;
}

bool isStandardOutput(const std::string &path) {
  return path == "-" || plan::isStandardOutput(path);
}

OutputError checkOutput(const std::string &path) {
  return isStandardOutput(path) ? OutputError() : getError(plan::checkOutput(path, getPaths()));
}

OutputError writeOutput(const std::string &path, const std::string &text) {
  if (isStandardOutput(path)) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return getError(plan::finishStandardOutput());
  }
  if (OutputError error = checkOutput(path))
    return error;
  return getError(plan::writeFile(path, text));
}

int finishOutput(const char *tool, int exitCode) {
  plan::Status status = plan::finishStandardOutput();
  if (status.ok())
    return exitCode;
  std::fprintf(stderr, "%s: %s\n", tool, status.message().c_str());
  return kFileExitCode;
}

} // namespace colossal
