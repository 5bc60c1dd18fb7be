// Runs the node tests of ONNX through our compiler and runtime, and compares the outcome of each with a list.
//
// The list names every test that does not pass, with its outcome and reason; a line that is missing,
// superfluous or different fails the run, so that the list always tells the truth.
#include "Workers.h"

#include <CLI/CLI.hpp>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <thread>

using namespace colossal::conformance;
namespace fs = std::filesystem;

namespace {

struct Arguments {
  std::string tests, expected, report, mesh = "1", target = "cpu";
  std::vector<std::string> names;
  unsigned workers = std::max(1u, std::thread::hardware_concurrency()), seconds = 120;
  std::pair<unsigned, unsigned> part{1, 1};
  bool update = false, verbose = false;
};

std::vector<std::string> listTests(const Arguments &arguments) {
  std::vector<std::string> folders;
  for (const fs::directory_entry &entry : fs::directory_iterator(arguments.tests)) {
    std::string name = entry.path().filename().string();
    bool chosen = arguments.names.empty();
    for (const std::string &part : arguments.names)
      chosen |= name.find(part) != std::string::npos;
    if (chosen && fs::exists(entry.path() / "model.onnx"))
      folders.push_back(entry.path().string());
  }
  std::sort(folders.begin(), folders.end());
  // Neighbours in the alphabet take as long: each part takes every so many.
  auto [part, parts] = arguments.part;
  std::vector<std::string> mine;
  for (size_t i = part - 1; i < folders.size(); i += parts)
    mine.push_back(folders[i]);
  return mine;
}

std::string lineOf(const std::string &name, const Result &result) {
  return name + ": " + outcomeName(result.outcome) + (result.reason.empty() ? "" : ": " + result.reason);
}

/// Reports the lines in which the outcome and the list differ; returns how many tests are concerned.
size_t compareWithList(const Arguments &arguments, const std::set<std::string> &found,
                       const std::map<std::string, Result> &results) {
  std::set<std::string> expected, concerned;
  std::ifstream file(arguments.expected);
  for (std::string line; std::getline(file, line);)
    if (!line.empty() && line[0] != '#' && results.count(line.substr(0, line.find(':'))))
      expected.insert(line);
  auto report = [&](const char *what, const std::string &line) {
    std::cout << what << line << "\n";
    concerned.insert(line.substr(0, line.find(':')));
  };
  for (const std::string &line : found)
    if (!expected.count(line))
      report("not in the list: ", line);
  for (const std::string &line : expected)
    if (!found.count(line))
      report("in the list, but not so: ", line);
  return concerned.size();
}

/// A table of what occurs in how many tests, the most frequent first.
void writeCounts(std::ostream &out, const char *what, const std::map<std::string, size_t> &counts) {
  std::vector<std::pair<size_t, std::string>> sorted;
  for (const auto &[name, count] : counts)
    sorted.emplace_back(count, name);
  std::sort(sorted.rbegin(), sorted.rend());
  out << "\n| tests | " << what << " |\n|---|---|\n";
  for (const auto &[count, name] : sorted)
    out << "| " << count << " | " << name << " |\n";
}

void writeReport(const std::string &path, const std::map<std::string, Result> &results,
                 const std::map<Outcome, size_t> &counts) {
  std::ofstream out(path);
  out << "| outcome | tests |\n|---|---|\n";
  for (const auto &[outcome, count] : counts)
    out << "| " << outcomeName(outcome) << " | " << count << " |\n";
  std::map<std::string, size_t> reasons, bound;
  for (const auto &[name, result] : results) {
    if (result.outcome != Outcome::Passed)
      ++reasons[result.reason];
    else
      for (const std::string &input : result.bound)
        ++bound[input];
  }
  writeCounts(out, "input given at compile time", bound);
  writeCounts(out, "reason", reasons);
}

int run(const Arguments &arguments) {
  std::vector<std::string> folders = listTests(arguments);
  if (folders.empty()) {
    std::cerr << "no test in " << arguments.tests << " matches\n";
    return 2;
  }
  RunOptions options;
  options.mesh = arguments.mesh;
  options.target = arguments.target;
  options.scratch = (fs::temp_directory_path() / ("conformance-" + std::to_string(::getpid()))).string();
  std::map<std::string, Result> results = runAll(folders, options, arguments.workers, arguments.seconds);
  fs::remove_all(options.scratch);

  std::map<Outcome, size_t> counts;
  std::set<std::string> lines;
  std::map<Binding, size_t> bindings;
  size_t open = 0;
  for (const auto &[name, result] : results) {
    ++counts[result.outcome];
    if (result.outcome == Outcome::Passed) {
      ++bindings[result.binding];
      open += result.valuesOpen;
    }
    if (result.outcome != Outcome::Passed)
      lines.insert(lineOf(name, result));
    if (arguments.verbose)
      std::cout << lineOf(name, result) << "\n";
  }
  std::cout << results.size() << " node tests:";
  for (const auto &[outcome, count] : counts)
    std::cout << " " << count << " " << outcomeName(outcome);
  std::cout << "\nof the passed: " << bindings[Binding::Nothing] << " with every input given at run time, "
            << bindings[Binding::Shapes]
            << " with inputs that only shape the computation given at compile time, "
            << bindings[Binding::Data]
            << " with all given at compile time, since their data decides the result's shape; " << open
            << " with random values, of which type, shape and range are compared\n";
  if (!arguments.report.empty())
    writeReport(arguments.report, results, counts);
  if (arguments.expected.empty())
    return 0;
  if (arguments.update) {
    std::ofstream out(arguments.expected);
    out << "# ONNX node tests that do not pass, with outcome and reason; written by `conformance "
           "--update`.\n";
    for (const std::string &line : lines)
      out << line << "\n";
    return 0;
  }
  size_t different = compareWithList(arguments, lines, results);
  std::cout << different << " tests differ from " << arguments.expected << "\n";
  return different ? 1 : 0;
}

} // namespace

int main(int argc, char **argv) {
  Arguments arguments;
  CLI::App app("Runs ONNX node tests through the compiler and the runtime.", "conformance");
  app.add_option("--tests", arguments.tests, "folder of node tests: onnx/backend/test/data/node")->required();
  app.add_option("--expected", arguments.expected, "list of the tests that do not pass");
  app.add_flag("--update", arguments.update, "write the list instead of comparing with it");
  app.add_option("--report", arguments.report, "write counts and reasons as Markdown");
  app.add_option("--mesh", arguments.mesh, "mesh to compile for")->capture_default_str();
  app.add_option("--target", arguments.target,
                 "what to compile for; under tools/on-emulated-gpus cuda:sm_90, say")
      ->capture_default_str();
  app.add_option("--workers", arguments.workers)->capture_default_str();
  app.add_option("--seconds", arguments.seconds, "limit for one test")->capture_default_str();
  app.add_option("--part", arguments.part, "only part I of N equal parts of the tests, I from 1")
      ->type_name("I N");
  app.add_flag("--verbose", arguments.verbose, "print every test");
  app.add_option("NAME", arguments.names, "only tests whose name contains one of these");
  CLI11_PARSE(app, argc, argv);
  if (arguments.part.first < 1 || arguments.part.first > arguments.part.second) {
    std::cerr << "conformance: --part " << arguments.part.first << " " << arguments.part.second
              << ": parts are numbered from 1 to their number\n";
    return 2;
  }
  return run(arguments);
}
