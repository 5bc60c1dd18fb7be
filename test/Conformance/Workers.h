// Runs node tests in forked workers, so that a crash ends one test and not the driver.
#ifndef COLOSSAL_TEST_CONFORMANCE_WORKERS_H
#define COLOSSAL_TEST_CONFORMANCE_WORKERS_H

#include "NodeTest.h"

#include <map>
#include <string>
#include <vector>

namespace colossal::conformance {

/// Runs each test of `folders` in one of `workers` child processes; a test that takes longer than `seconds`
/// ends with its worker, and the worker's other tests go on in a new one. Results are by folder name. Call it
/// before any thread is made: children are forks.
std::map<std::string, Result> runAll(const std::vector<std::string> &folders, const RunOptions &options,
                                     unsigned workers, unsigned seconds);

} // namespace colossal::conformance

#endif // COLOSSAL_TEST_CONFORMANCE_WORKERS_H
