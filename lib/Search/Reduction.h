// Shrinks a problem without losing its optimum, and takes an answer for what remains back to the whole.
//
// The rules, each exact, run until none applies:
//   R1  A candidate that is forbidden, or that some neighbour forbids altogether, is dropped.
//   R2  Edges between the same nodes are added up; an edge over one node is added to the node; an edge over
//   three or
//       more nodes becomes a node whose candidates are the edge's allowed combinations.
//   R3  A table that is a sum of a row part and a column part goes into the nodes.
//   R4  Follower: where each candidate of a allows one candidate of b only, b is merged into a, its costs,
//   edges and
//       memory with it.
//   R5  Dominated: a candidate is dropped where another of the same node costs no more whatever the
//   neighbours choose
//       and holds no more memory at any step.
//   R6  A node without memory and with at most two neighbours is minimised out.
//   R7  A step of time that cannot be over the limit is dropped, and one that is no fuller than its
//   neighbour; bytes
//       that every candidate of a node holds are taken off the limit.
//   R8  A candidate that is over the limit even when all other nodes hold their least is dropped; two
//   candidates
//       that are so together are a forbidden pair.
// R4 and R6 are the reductions of partitioned Boolean quadratic programs (Scholz and Eckstein, 2002), R5 is
// dead-end elimination (Goldstein, 1994). Equal tables stay shared, so repeated blocks are reduced once.
#ifndef COLOSSAL_SEARCH_REDUCTION_H
#define COLOSSAL_SEARCH_REDUCTION_H

#include "Core.h"
#include "colossal/Search/Problem.h"

#include <functional>
#include <optional>
#include <string>

namespace colossal::search {

class Reduction {
public:
  struct Options {
    /// Treat forbidden choices as very dear instead: for problems that allow nothing.
    bool relax = false;
    /// Do not let the memory limit rule anything out: for problems in which nothing fits.
    bool overLimit = false;
    /// Do not reduce, for tests.
    bool none = false;
    /// Asked now and then: true ends the reducing, what is left is then larger.
    std::function<bool()> stop = [] { return false; };
  };
  /// The problem must outlive the reduction.
  Reduction(const Problem &problem, const Options &options);
  /// Reduces a core further once candidates are known to be of no use: those whose `keep`, one per candidate
  /// of the core, is zero. expand() then gives answers of that core.
  Reduction(const Core &core, const std::vector<char> &keep, const Options &options);
  ~Reduction();

  /// Set where no assignment is allowed, with the reason.
  const std::optional<std::string> &infeasible() const { return proof; }
  const Core &core() const { return flat; }
  /// Costs in the core are floor(cost / 2^shift). A bound of the core times 2^shift is a bound of the
  /// problem, and with shift 0 the costs are equal.
  int shift() const { return costShift; }
  /// Whether forbidden choices were taken as costs, so that bounds of the core mean nothing.
  bool relaxed() const { return isRelaxed; }
  /// The whole assignment of which `x` is the core's part. Its cost is core().totalCost(x).
  Assignment expand(const std::vector<int> &x) const;

  /// Where the core's parts stand in what was reduced: per node its node, per candidate its number at that
  /// node, per step its step. (A node that stands for an edge of many nodes has a number behind them.)
  const std::vector<int> &nodeOrigin() const { return nodeFrom; }
  const std::vector<int> &candidateOrigin() const { return candidateFrom; }
  const std::vector<int> &stepOrigin() const;
  /// The part of an answer that the core still chooses; where its candidate is gone, the first that is left.
  std::vector<int> narrow(const std::vector<int> &outer) const;
  /// Frees the core; expand() still works.
  void forgetCore() { flat = Core(); }

private:
  struct Graph;
  void tighten();
  void addEdges(const Problem &problem);
  void addTie(const Problem &problem, std::size_t e);
  void reduce(const Options &options);
  void flatten();
  void flattenEdges(const std::vector<int> &number);
  double scaled(Cost cost) const {
    return cost == kForbidden ? forbiddenCost : static_cast<double>(cost >> costShift);
  }

  std::unique_ptr<Graph> graph;
  Core flat;
  std::vector<int> nodeFrom, candidateFrom;
  double forbiddenCost = kBig;
  int costShift = 0;
  bool isRelaxed = false;
  bool limitRules = true; ///< whether the memory limit may rule candidates out
  std::optional<std::string> proof;
};

} // namespace colossal::search

#endif // COLOSSAL_SEARCH_REDUCTION_H
