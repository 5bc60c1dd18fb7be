// The conductor: reduces, searches what remains within the budget, and has every answer judged by the
// verifier. Neighbours: Solver.h has the contract; Reduction.h, Neighborhood.h do the work.
#include "colossal/Search/Solver.h"

#include "Portfolio.h"
#include "Reduction.h"
#include "colossal/Search/Verifier.h"

#include <chrono>

namespace colossal::search {

const char *toString(StopReason reason) {
  switch (reason) {
  case StopReason::Optimal:
    return "optimal";
  case StopReason::Gap:
    return "gap";
  case StopReason::Budget:
    return "budget";
  case StopReason::Infeasible:
    return "infeasible";
  }
  return "";
}

namespace {

class Conductor {
public:
  Conductor(const Problem &problem, const Budget &budget,
            const std::function<void(const Progress &)> &progress)
      : problem(problem), budget(budget), progress(progress) {}

  Solution run() {
    Solution &s = solution;
    if (std::string error = validate(problem); !error.empty()) {
      s.stop = StopReason::Infeasible;
      s.message = error;
      return s;
    }
    {
      Reduction::Options options;
      options.stop = [this] { return elapsed() > 0.3 * budget.seconds && budget.work == 0; };
      Reduction reduction(problem, options);
      if (!reduction.infeasible()) {
        search(reduction);
      } else {
        proof = *reduction.infeasible();
      }
    }
    if (s.assignment.empty() || s.forbidden > 0) {
      // Nothing allowed is known: find what breaks the rules least.
      Reduction::Options relaxed;
      relaxed.relax = true;
      relaxed.stop = [this] { return elapsed() > 0.6 * budget.seconds && budget.work == 0; };
      Reduction reduction(problem, relaxed);
      search(reduction);
    }
    finish();
    return s;
  }

private:
  double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  bool outOfTime() const { return budget.work == 0 && elapsed() >= budget.seconds; }

  void consider(const Reduction &reduction, const std::vector<int> &x) {
    Assignment all = reduction.expand(x);
    Verdict verdict = verify(problem, all);
    auto worse = [&] {
      if (solution.assignment.empty())
        return false;
      if (verdict.forbidden != solution.forbidden)
        return verdict.forbidden > solution.forbidden;
      if (verdict.excessBytes != excess)
        return verdict.excessBytes > excess;
      return verdict.cost >= solution.cost;
    };
    if (worse())
      return;
    excess = verdict.excessBytes;
    solution.assignment = std::move(all);
    solution.cost = verdict.cost;
    solution.forbidden = verdict.forbidden;
    solution.peakBytes = verdict.peakBytes;
    solution.feasible = verdict.feasible();
    if (progress)
      progress({elapsed(), solution.cost, solution.feasible, solution.lowerBound, {}});
  }

  void note(const std::string &text) {
    if (progress)
      progress({elapsed(), solution.cost, solution.feasible, solution.lowerBound, text});
  }

  void search(const Reduction &reduction) {
    const Core &core = reduction.core();
    note("reduced to " + std::to_string(core.nodes) + " nodes, " + std::to_string(core.cost.size()) +
         " candidates, " + std::to_string(core.halves.size() / 2) + " edges, " +
         std::to_string(core.steps()) + " steps");
    if (core.nodes == 0) {
      consider(reduction, {});
      if (reduction.shift() == 0 && solution.feasible)
        solution.lowerBound = solution.cost;
      return;
    }
    auto stop = [this] { return outOfTime(); };
    total = budget.work ? budget.work * 1000 : ~std::uint64_t{0};
    // Without any budget given, an effort in proportion to the problem.
    if (budget.work == 0 && budget.seconds == std::numeric_limits<double>::infinity())
      total = 2000 * core.cost.size() + 200'000'000;
    Portfolio portfolio(core, budget, stop);
    // Answers are expanded and judged when they are better by enough to matter, and at the end.
    while (portfolio.work() < total && !outOfTime() && !proven()) {
      portfolio.round(total - portfolio.work());
      if (portfolio.boundRose())
        raiseBound(reduction, portfolio.exactBound());
      if (portfolio.answerImproved())
        consider(reduction, portfolio.best());
    }
    if (solution.assignment.empty())
      consider(reduction, portfolio.best());
  }

  bool proven() const {
    if (!solution.feasible || !solution.lowerBound)
      return false;
    Total gap = solution.cost - *solution.lowerBound;
    Total size = solution.cost < 0 ? -solution.cost : solution.cost;
    return static_cast<double>(gap) <= budget.gap * static_cast<double>(size);
  }

  void raiseBound(const Reduction &reduction, std::optional<__int128> bound) {
    if (!bound || reduction.relaxed())
      return;
    Total scaled = *bound << reduction.shift();
    if (!solution.lowerBound || scaled > *solution.lowerBound)
      solution.lowerBound = scaled;
  }

  void finish() {
    Solution &s = solution;
    s.seconds = elapsed();
    if (s.feasible) {
      s.stop = s.lowerBound && *s.lowerBound >= s.cost ? StopReason::Optimal
               : proven()                              ? StopReason::Gap
                                                       : StopReason::Budget;
      return;
    }
    s.lowerBound.reset();
    s.stop = proof.empty() ? StopReason::Budget : StopReason::Infeasible;
    if (s.forbidden > 0)
      s.message = "no assignment without forbidden choices " +
                  std::string(proof.empty() ? "was found" : "exists") + "; the best found has " +
                  std::to_string(s.forbidden);
    else
      s.message = "no assignment " + std::string(proof.empty() ? "was found that fits" : "fits") +
                  " the memory limit of " + std::to_string(*problem.memoryLimit) +
                  " bytes; the smallest peak found is " + std::to_string(s.peakBytes) + " bytes";
    if (!proof.empty())
      s.message += " (" + proof + ")";
  }

  const Problem &problem;
  const Budget &budget;
  const std::function<void(const Progress &)> &progress;
  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  Solution solution;
  std::int64_t excess = 0;
  std::uint64_t total = 0;
  std::string proof;
};

} // namespace

Solution solve(const Problem &problem, const Budget &budget,
               const std::function<void(const Progress &)> &progress) {
  return Conductor(problem, budget, progress).run();
}

} // namespace colossal::search
