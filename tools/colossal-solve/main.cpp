// colossal-solve: a layout problem in, one candidate per node out. The last line on standard output is one
// JSON object; progress goes to standard error.
#include "colossal/Output/OutputFile.h"
#include "colossal/Search/ProblemText.h"
#include "colossal/Search/Solver.h"
#include "colossal/Search/Verifier.h"
#include "tools/manual/CommandLine.h"

#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdio>
#include <string>
#include <sys/resource.h>

using namespace colossal::search;

namespace {

std::string printAssignment(const Assignment &assignment) {
  std::string text;
  for (auto candidate : assignment)
    text += (text.empty() ? "[" : ",") + std::to_string(candidate);
  return (text.empty() ? "[" : text) + "]\n";
}

/// The most memory that this process has held so far, in bytes.
long long peakResidentBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024LL * usage.ru_maxrss; // Linux counts in KiB
}

void printResult(const Verdict &verdict, const Solution &solution, double seconds) {
  // A forbidden choice counts as the contest counts it.
  Total score = verdict.cost + static_cast<Total>(verdict.forbidden) * kMaxCost;
  std::string bound = "null", gap = "null";
  if (solution.lowerBound) {
    bound = toString(*solution.lowerBound);
    double difference = static_cast<double>(score - *solution.lowerBound);
    char text[32];
    std::snprintf(text, sizeof text, "%.6g",
                  score == 0 ? difference : difference / std::abs(static_cast<double>(score)));
    gap = text;
  }
  std::printf("{\"score\":%s,\"bound\":%s,\"gap\":%s,\"seconds\":%.3f,\"peak_bytes\":%lld,\"stop\":\"%s\"}\n",
              toString(score).c_str(), bound.c_str(), gap.c_str(), seconds, peakResidentBytes(),
              toString(solution.stop));
}

struct Options {
  std::string file, output;
  Budget budget;
  double limit = 0; ///< seconds, of the whole program; 0: none
  bool quiet = false;
};

/// -1, or the exit code.
int parseOptions(int argc, char **argv, Options &options) {
  CLI::App app{
      "Chooses one candidate per node of a layout problem at the least cost within its memory limit"};
  app.add_option("FILE", options.file, "problem, .json or .json.gz")->required();
  auto *time = app.add_option("--time-limit", options.limit, "seconds, reading the file included")
                   ->check(CLI::Range(1e-3, 1e9));
  app.add_option("--work", options.budget.work, "search effort in place of time: repeatable on any machine")
      ->excludes(time);
  app.add_option("--threads", options.budget.threads, "threads (default 2)")
      ->check(CLI::Range(1, 256))
      ->default_val(2);
  app.add_option("--seed", options.budget.seed, "seed of the random choices")->default_val(1);
  app.add_option("--gap", options.budget.gap, "stop at this relative gap to the bound")
      ->check(CLI::NonNegativeNumber);
  app.add_option("-o,--output", options.output,
                 "where to write the answer, a JSON list; - is standard output, before the last line");
  app.add_flag("--quiet", options.quiet, "no progress");
  app.footer(
      "The last line on standard output is one JSON object: score, bound (null where there is none), gap\n"
      "relative to the score, seconds and peak_bytes that this program took, and why it stopped.\n"
      "Progress, and what the answer holds of the problem's memory, go to standard error.\n\n"
      "Exit codes:\n"
      "  0  a feasible answer            2  wrong options, or a problem that makes no sense\n"
      "  1  none was found               3  a file cannot be read or written, standard output included\n"
      "  130, 143  interrupted, terminated");
  app.set_version_flag("--version", "colossal-solve " COLOSSAL_VERSION);
  int manualCode = 0;
  if (colossal::tool::writesManual(argc, argv, app, "colossal-solve", COLOSSAL_VERSION, manualCode))
    return manualCode;
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &success) {
    return colossal::finishOutput("colossal-solve", app.exit(success));
  } catch (const CLI::ParseError &error) {
    std::fprintf(stderr, "colossal-solve: %s\nRun colossal-solve --help for the options.\n", error.what());
    return 2;
  }
  return -1;
}

} // namespace

int main(int argc, char **argv) {
  auto start = std::chrono::steady_clock::now();
  auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  Options options;
  if (int code = parseOptions(argc, argv, options); code >= 0)
    return code;

  colossal::noteInput(options.file);
  auto refuse = [](const colossal::OutputError &error) {
    std::fprintf(stderr, "colossal-solve: %s\n", error.message.c_str());
    return error.exitCode();
  };
  if (!options.output.empty())
    if (auto error = colossal::checkOutput(options.output))
      return refuse(error);
  ReadResult read = readProblem(options.file);
  if (!read.error.empty()) {
    std::fprintf(stderr, "colossal-solve: %s\n", read.error.c_str());
    return colossal::failureExitCode(2);
  }
  if (!options.quiet)
    std::fprintf(stderr, "read %zu nodes, %zu edges in %.2f s\n", read.problem.nodes.size(),
                 read.problem.edges.size(), elapsed());
  if (options.limit > 0) {
    // Judging and writing the answer and leaving take time too, in proportion to reading: the same size, the
    // same machine with the same load.
    double reserve = 0.05 + 0.15 * elapsed() + std::min(2.0, 0.015 * options.limit);
    options.budget.seconds = std::max(0.01, options.limit - elapsed() - reserve);
  }
  Solution solution = solve(read.problem, options.budget, [&](const Progress &p) {
    if (!options.quiet && !p.note.empty())
      std::fprintf(stderr, "%8.2f s  %s\n", p.seconds, p.note.c_str());
    else if (!options.quiet)
      std::fprintf(stderr, "%8.2f s  %s%s  bound %s\n", p.seconds, toString(p.cost).c_str(),
                   p.feasible ? "" : " (infeasible)", p.lowerBound ? toString(*p.lowerBound).c_str() : "-");
  });
  if (!options.output.empty())
    if (auto error = colossal::writeOutput(options.output, printAssignment(solution.assignment)))
      return refuse(error);
  if (!solution.message.empty())
    std::fprintf(stderr, "colossal-solve: %s\n", solution.message.c_str());
  Verdict verdict = verify(read.problem, solution.assignment);
  if (!options.quiet && read.problem.memoryLimit)
    std::fprintf(stderr, "the answer holds %lld bytes where it holds most; the limit is %lld\n",
                 static_cast<long long>(verdict.peakBytes),
                 static_cast<long long>(*read.problem.memoryLimit));
  printResult(verdict, solution, elapsed());
  // Freeing a large problem piece by piece would take longer than the system does at once.
  std::_Exit(colossal::finishOutput("colossal-solve", verdict.feasible() ? 0 : 1));
}
