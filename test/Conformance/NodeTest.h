// One ONNX node test, run through the compiler and the runtime in this process.
//
// A test is a folder: model.onnx and test_data_set_0/{input,output}_I.pb. Its neighbour Workers.h runs many.
#ifndef COLOSSAL_TEST_CONFORMANCE_NODETEST_H
#define COLOSSAL_TEST_CONFORMANCE_NODETEST_H

#include "ShapingInputs.h"

#include <string>
#include <vector>

namespace colossal::conformance {

enum class Outcome {
  Passed,      ///< every output within tolerance
  Wrong,       ///< ran, and gave something else
  Unsupported, ///< refused by the compiler, with a reason
  Failed,      ///< compiled, but the runtime refused the plan or the run failed
  Crashed,     ///< the worker died
  TimedOut     ///< the worker was ended
};
const char *outcomeName(Outcome outcome);

struct Result {
  Outcome outcome = Outcome::Failed;
  std::string reason; ///< one line; empty if passed
  Binding binding = Binding::Nothing;
  std::vector<std::string> bound; ///< what was given at compile time: "Reshape shape"
  bool valuesOpen = false;        ///< random values: only type, shape and range were compared
};

struct RunOptions {
  std::string mesh = "1";
  std::string target = "cpu"; ///< as createTarget takes it; its device has to be there
  std::string scratch;        ///< a folder for the plan file
};

/// Compiles and runs the test in `folder`. Inputs are run-time inputs, but for those that only shape the
/// computation (ShapingInputs.h), which are bound at compile time.
Result runNodeTest(const std::string &folder, const RunOptions &options);

} // namespace colossal::conformance

#endif // COLOSSAL_TEST_CONFORMANCE_NODETEST_H
