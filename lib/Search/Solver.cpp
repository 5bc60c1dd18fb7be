// The driver: reduces, searches what remains within the budget, and has every answer judged by the
// verifier.
#include "colossal/Search/Solver.h"

#include "Portfolio.h"
#include "Reduction.h"
#include "colossal/Search/Verifier.h"

#include <algorithm>
#include <chrono>

namespace colossal::search {

const char *toString(StopReason reason) {
  switch (reason) {
  case StopReason::Optimal: return "optimal";
  case StopReason::Gap: return "gap";
  case StopReason::Budget: return "budget";
  case StopReason::Infeasible: return "infeasible";
  }
  return "";
}

namespace {

class Driver {
public:
  Driver(const Problem &problem, const Budget &budget, const std::function<void(const Progress &)> &progress)
      : problem(problem), budget(budget), progress(progress) {}

  Solution run() {
    Solution &s = solution;
    if (std::string error = validate(problem); !error.empty()) {
      s.stop = StopReason::Infeasible;
      s.message = error;
      return s;
    }
    Reduction::Options options = reductionOptions(0.3);
    reduce(options);
    if (s.assignment.empty() && !outOfTime()) {
      // Nothing fits: find what is over the limit least.
      options = reductionOptions(0.5);
      options.overLimit = true;
      reduce(options);
    }
    if ((s.assignment.empty() || s.forbidden > 0) && !outOfTime()) {
      // Nothing allowed is known: find what breaks the rules least.
      options = reductionOptions(0.6);
      options.relax = true;
      reduce(options);
    }
    if (s.assignment.empty())
      keepIfBetter(cheapestCandidates());
    finish();
    return s;
  }

private:
  double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  bool outOfTime() const { return budget.work == 0 && elapsed() >= budget.seconds; }

  /// Reducing may take a part of the time; what is left is then larger.
  Reduction::Options reductionOptions(double part) const {
    Reduction::Options options;
    options.stop = [this, part] { return budget.work == 0 && elapsed() > part * budget.seconds; };
    return options;
  }

  /// Reduces the problem and searches what is left.
  void reduce(const Reduction::Options &options) {
    chain.clear();
    chain.push_back(std::make_unique<Reduction>(problem, options));
    if (const auto &reason = chain[0]->infeasible(); reason && !options.relax) {
      if (proof.empty())
        proof = *reason;
      return;
    }
    search();
  }

  const Core &core() const { return chain.back()->core(); }

  /// Out of time before anything was searched: the cheapest candidate of each node by itself.
  Assignment cheapestCandidates() const {
    Assignment all;
    for (const Node &node : problem.nodes) {
      auto cheaper = [](const Candidate &a, const Candidate &b) { return a.cost < b.cost; };
      auto low = std::min_element(node.candidates.begin(), node.candidates.end(), cheaper);
      all.push_back(static_cast<std::int32_t>(low - node.candidates.begin()));
    }
    return all;
  }

  /// Judges an answer of the innermost core on the whole problem, and keeps it if it is the best.
  void consider(std::vector<int> x) {
    for (std::size_t n = chain.size(); n-- > 1;)
      x = chain[n]->expand(x);
    keepIfBetter(chain[0]->expand(x));
  }

  void keepIfBetter(Assignment all) {
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
    tell();
  }

  void tell(const std::string &note = {}) {
    told = elapsed();
    if (progress)
      progress({told, solution.cost, solution.feasible, solution.lowerBound, note});
  }

  void noteSize() {
    tell("reduced to " + std::to_string(core().nodes) + " nodes, " + std::to_string(core().cost.size()) +
         " candidates, " + std::to_string(core().halves.size() / 2) + " edges, " +
         std::to_string(core().steps()) + " steps");
  }

  void search() {
    total = budget.work ? budget.work * 1000 : ~std::uint64_t{0};
    // Without any budget given, an effort in proportion to the problem.
    if (budget.work == 0 && budget.seconds == std::numeric_limits<double>::infinity())
      total = 2000 * core().cost.size() + 200'000'000;
    auto stop = [this] { return outOfTime(); };
    noteSize();
    if (!solvedByReduction()) {
      auto portfolio = std::make_unique<Portfolio>(core(), budget, stop);
      int nextShrink = 4;
      for (int rounds = 1; done + portfolio->work() < total && !outOfTime() && !proven(); ++rounds) {
        portfolio->round(total - done - portfolio->work(), worthwhile());
        // The answer first: the bound leaves out what exact search has looked at, and that may be the answer.
        if (portfolio->answerImproved())
          consider(portfolio->best());
        if (portfolio->boundRose() && !(outOfTime() && solution.lowerBound))
          raiseBound(portfolio->exactBound());
        if (rounds < nextShrink || portfolio->branches() || outOfTime() || !worthwhile())
          continue;
        nextShrink = rounds + 4 + rounds / 4;
        auto smaller = shrink(*portfolio);
        if (!smaller)
          continue;
        chain.push_back(std::move(smaller));
        noteSize();
        if (solvedByReduction())
          return;
        auto next = std::make_unique<Portfolio>(core(), budget, stop);
        next->inherit(*portfolio, *chain.back());
        done += portfolio->work();
        portfolio = std::move(next);
      }
      if (solution.assignment.empty())
        consider(portfolio->best());
    }
  }

  /// What an answer of the core may cost at most to be worth having beside the one in hand.
  std::optional<__int128> worthwhile() const {
    if (!solution.feasible || chain[0]->relaxed())
      return std::nullopt;
    // In the core costs are rounded down: an answer that costs more there costs more.
    int shift = chain[0]->shift();
    return shift == 0 ? solution.cost - 1 : solution.cost >> shift;
  }

  /// Whether nothing is left to search; the answer is then optimal.
  bool solvedByReduction() {
    if (core().nodes > 0)
      return false;
    consider({});
    if (chain[0]->shift() == 0 && solution.feasible && !chain[0]->relaxed())
      solution.lowerBound = solution.cost;
    else
      raiseBound(static_cast<__int128>(core().offset));
    return true;
  }

  /// The core without the candidates that no answer better than the one in hand can have, if they are many.
  std::unique_ptr<Reduction> shrink(const Portfolio &portfolio) {
    std::vector<char> keep(core().cost.size(), 1);
    // The answer in hand stays.
    int dropped = portfolio.fix(solution.cost >> chain[0]->shift(), keep);
    if (dropped == 0 || 10 * static_cast<std::size_t>(dropped) < keep.size())
      return nullptr;
    Reduction::Options options = reductionOptions(1.0);
    auto smaller = std::make_unique<Reduction>(core(), keep, options);
    return smaller->infeasible() ? nullptr : std::move(smaller);
  }

  bool proven() const {
    if (!solution.feasible || !solution.lowerBound)
      return false;
    Total gap = solution.cost - *solution.lowerBound;
    Total size = solution.cost < 0 ? -solution.cost : solution.cost;
    return static_cast<double>(gap) <= budget.gap * static_cast<double>(size);
  }

  /// `bound` holds for every answer that the core still has; what was dropped costs more than the answer in
  /// hand.
  void raiseBound(std::optional<__int128> bound) {
    if (!bound || chain[0]->relaxed())
      return;
    Total scaled = *bound << chain[0]->shift();
    if (solution.feasible)
      scaled = std::min(scaled, solution.cost);
    if (solution.lowerBound && scaled <= *solution.lowerBound)
      return;
    solution.lowerBound = scaled;
    // Where only the bound still rises, a line every two seconds.
    if (elapsed() > told + 2)
      tell();
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
  std::uint64_t total = 0, done = 0;
  double told = 0; ///< when progress was last told
  std::string proof;
  /// The problem's reduction, and then reductions of its core.
  std::vector<std::unique_ptr<Reduction>> chain;
};

} // namespace

Solution solve(const Problem &problem, const Budget &budget,
               const std::function<void(const Progress &)> &progress) {
  return Driver(problem, budget, progress).run();
}

} // namespace colossal::search
