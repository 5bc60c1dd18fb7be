// The searches that share one core, run in rounds. A round has a fixed number of tasks, each with its own
// state and its own amount of work; between rounds, on one thread, they exchange prices, answers and bounds.
// So the answer depends on the work done and never on how many threads did it.
#ifndef COLOSSAL_SEARCH_PORTFOLIO_H
#define COLOSSAL_SEARCH_PORTFOLIO_H

#include "Branching.h"
#include "Dual.h"
#include "Neighborhood.h"
#include "colossal/Search/Solver.h"

namespace colossal::search {

class Portfolio {
public:
  Portfolio(const Core &core, const Budget &budget, std::function<bool()> stop);

  /// One round of at most about `work` units. Answers of the core above `upper` are of no interest to exact
  /// search; none: exact search does not begin.
  void round(std::uint64_t work, std::optional<__int128> upper);

  std::uint64_t work() const;
  const std::vector<int> &best() const { return bestX; }
  bool answerImproved() const { return improved; }
  bool boundRose() const { return rose; }
  /// In exact arithmetic; kClosed where all answers worth `upper` or less have been looked at.
  std::optional<__int128> exactBound() const;
  static constexpr __int128 kClosed = __int128{1} << 80;
  /// Whether exact search has begun: the core should then stay.
  bool branches() const { return branching != nullptr; }
  /// Clears the entries of `keep` (one per candidate) that answers of at most `upper` cannot have.
  int fix(__int128 upper, std::vector<char> &keep) const { return dual.exact().fix(upper, keep); }
  /// Goes on from where `old` stands on the core of which this one is a reduction.
  void inherit(const Portfolio &old, const Reduction &reduction);

private:
  void decodeFirst(std::uint64_t work);
  /// Makes the searches that are not there yet.
  void startSearches();
  std::unique_ptr<NeighborhoodSearch> makeSearch(std::uint64_t number) const;
  void exchange();
  bool trialPromises();
  void branchRound(std::uint64_t part, __int128 upper);

  const Core &core;
  const Budget &budget;
  std::function<bool()> stop;
  DualAscent dual;
  /// The first holds the best answer. Made once they are needed: where what the dual decodes is the best
  /// answer, nearly all of them never are.
  std::vector<std::unique_ptr<NeighborhoodSearch>> searches;
  std::vector<int> bestX;
  Merit bestMerit;
  std::unique_ptr<Branching> branching;
  double lastBound;
  bool improved = false, rose = false;
  bool isClosed = false; ///< nothing was left to search after the first passes, and nothing exchanged yet
  int rounds = 0, failedStarts = 0;
  int dualQuiet = 0, dualSlow = 0; ///< rounds since the bound rose, and since it closed a part of the gap
  std::uint64_t slice;
  // The last search is a trial from what the dual decoded; it goes on while it does as well as others did
  // after the same work.
  std::uint64_t trialStart = 0; ///< work of its search when it began
  std::size_t trialStage = 0;
  std::vector<Merit> stages; ///< after trial work 2^k: what a trial must reach
};

} // namespace colossal::search

#endif // COLOSSAL_SEARCH_PORTFOLIO_H
