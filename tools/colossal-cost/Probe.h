// Small graphs compiled by the compiler and run by the runtime, with the time of each instruction: what a
// machine file is calibrated from is what plans run.
#ifndef COLOSSAL_TOOLS_COLOSSAL_COST_PROBE_H
#define COLOSSAL_TOOLS_COLOSSAL_COST_PROBE_H

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace colossal::tool {

/// Seconds of each instruction by the name of the op it came from, and of whole runs.
struct ProbeTimes {
  std::map<std::string, double> seconds;
  double run = 0;
};

/// A function of the `colossal` dialect put together line by line.
class ProbeGraph {
public:
  explicit ProbeGraph(std::string element = "f32") : element(std::move(element)) {}

  /// "tensor<4x8xf32>" of a shape.
  std::string type(const std::vector<long> &shape) const;
  /// An input of the function; its contents are small numbers.
  std::string input(const std::vector<long> &shape);
  /// A parameter, random.
  std::string parameter(const std::vector<long> &shape);
  /// result = TEXT with `name` as its location, e.g. "colossal.elementwise relu(%0) : (t) -> t".
  std::string op(const std::string &name, const std::string &text);
  /// [m, k] by [k, n].
  std::string contract(const std::string &name, const std::string &lhs, const std::string &rhs, long m,
                       long n, long k);
  /// Returns `value` from the function.
  void output(const std::string &value, const std::vector<long> &shape);

  std::string text() const;
  long weightBytes() const { return offset; }

private:
  std::string element, inputs, body, results, resultTypes;
  int count = 0, inputCount = 0, outputCount = 0, parameterCount = 0;
  long offset = 0;
};

/// One graph, compiled once, and a session for each number of threads: runs with one and the other alternate,
/// so that what else the machine does meets both.
class Probe {
public:
  /// Compiles into a new folder under the temporary folder, which lives as long as the object.
  Probe();
  ~Probe();
  Probe(const Probe &) = delete;

  /// Empty on success.
  std::string prepare(const ProbeGraph &graph, std::vector<unsigned> threads);
  /// Runs with each number of threads in turn, for at least `least` and at most `most` seconds, until the
  /// times found change by less than a percent. Empty on success.
  std::string measure(double least, double most);
  /// What `measure` has found with the thread count at `which`: of each op the mean over its copies
  /// ("name#0", "name#1"...), and of that a low quantile over the runs.
  ProbeTimes times(std::size_t which) const;

private:
  struct Series;
  double sum() const;

  std::string folder;
  std::vector<std::unique_ptr<Series>> series;
};

} // namespace colossal::tool

#endif // COLOSSAL_TOOLS_COLOSSAL_COST_PROBE_H
