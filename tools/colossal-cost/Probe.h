// Small graphs compiled by the compiler and run by the runtime, with the time of each instruction: what a
// machine file is calibrated from is what plans run. Neighbour: Calibrate.cpp chooses the graphs and reads
// the times.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace colossal::tool {

/// Seconds of each instruction by the name of the op it came from, and of whole runs.
struct ProbeTimes {
  /// The least of the runs, for what else the machine does only adds.
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

class Probe {
public:
  /// Compiles into a new folder under the temporary folder, which lives as long as the object.
  Probe();
  ~Probe();
  Probe(const Probe &) = delete;

  /// Runs `graph` on one rank of `threads` threads for about `seconds`, at least five times. Empty `error` on
  /// success.
  ProbeTimes run(const ProbeGraph &graph, unsigned threads, double seconds, std::string &error);

private:
  std::string folder;
};

} // namespace colossal::tool
