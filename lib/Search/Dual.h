// A lower bound by block-coordinate ascent on the dual: sequential tree-reweighted message passing
// (Kolmogorov, "Convergent Tree-Reweighted Message Passing for Energy Minimization", 2006) over the core's
// tables, with the memory limit of each step moved into the costs at a price (Lagrangian relaxation), the
// prices following a deflected subgradient whose length is Polyak's. Each pass also decodes an answer, a
// start for local search.
#ifndef COLOSSAL_SEARCH_DUAL_H
#define COLOSSAL_SEARCH_DUAL_H

#include "Core.h"
#include "DualExact.h"

#include <cstdint>
#include <functional>

namespace colossal::search {

class Reduction;

class DualAscent {
public:
  explicit DualAscent(const Core &core);

  /// Passes until `work` is spent or `stop`. `target` is the cost of the best answer known, or infinity.
  void run(std::uint64_t work, double target, const std::function<bool()> &stop);

  /// The best bound seen, as floating point computed it.
  double bound() const { return bestBound; }
  /// The best messages and prices in whole numbers.
  ExactDual exact() const;

  /// Starts from what was learnt on the core of which this one is a reduction.
  void inherit(const DualAscent &old, const Reduction &reduction);

  /// Cost of a byte at each step, at the best bound.
  const std::vector<double> &prices() const { return bestPrice; }
  const std::vector<double> &currentPrices() const { return price; }
  /// The answer decoded in the last forward pass. It need not fit.
  const std::vector<int> &decoded() const { return labels; }
  /// Of the answers decoded since the last call, the one that exceeds the memory limit least: where a search
  /// begins decides more than anything where it ends. It need not fit.
  const std::vector<int> &takeDecoded();
  /// How often the last hundred or so decoded answers took each candidate, recent ones counting more.
  const std::vector<double> &frequencies() const { return frequency; }
  /// Per candidate, its memory at the best prices.
  void chargeMemory(std::vector<double> &charge) const;
  /// Numbers held per message and its best copy.
  std::size_t size() const { return messages.size() + bestMessages.size(); }
  std::uint64_t work() const { return spent; }
  std::uint64_t passes() const { return count; }

private:
  void priceNodes();
  void gatherNode(int i, double *out) const;
  /// Node i's message over its half edge h, from `theta`: a min-plus product with the edge's table, shifted
  /// so that its least entry is 0. Returns the shift.
  double send(int i, int h);
  /// A pass; ends early where `stop` says so, and the messages are then as good as any.
  void forward(const std::function<bool()> &stop);
  double backward(const std::function<bool()> &stop);
  void movePrices(double bound, double target);

  const Core &core;
  std::vector<double> price, bestPrice, direction;
  std::vector<double> priced;             ///< per candidate: cost plus memory at the prices
  std::vector<std::int64_t> messageFirst; ///< per half edge: the message that arrives at its node
  std::vector<double> messages, bestMessages;
  std::vector<int> lower;    ///< per node: neighbours before it
  std::vector<double> share; ///< per node: 1 / max(neighbours before, neighbours after)
  std::vector<double> theta, part, prefix, held;
  std::vector<int> labels, closest; ///< of the last pass; of those since takeDecoded(), least over the limit
  double closestExcess = -1;        ///< none yet
  std::vector<double> frequency;
  double bestBound, stepFactor = 1;
  int sinceBest = 0;
  std::uint64_t spent = 0, count = 0;
};

} // namespace colossal::search

#endif // COLOSSAL_SEARCH_DUAL_H
