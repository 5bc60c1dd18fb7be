// Mini-bucket elimination (Dechter and Rish, "Mini-buckets: a general scheme for bounded inference", 2003)
// on what a whole-number dual leaves over: nodes are eliminated one by one, each by minimising over it the
// sum of all functions that know it; where that sum would have too many entries its functions are divided
// into groups, the mini-buckets, which are first brought to the same marginal of the node and then minimised
// apart. The least cost that results is added to the dual's bound, so it never falls; without divided buckets
// it is exact for the costs at the dual's prices. A pass back gives the least cost with each single
// candidate.
//
// Values are whole numbers of 2^shift, rounded down and cut at what exceeds `upper`, in 32 bits.
#ifndef COLOSSAL_SEARCH_MINIBUCKETS_H
#define COLOSSAL_SEARCH_MINIBUCKETS_H

#include "Core.h"
#include "DualExact.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace colossal::search {

class MiniBuckets {
public:
  /// `keep` as in ExactDual::fix, which must have been exact; each node has a candidate left. Tables are kept
  /// so small that all together have about `entries` entries.
  MiniBuckets(const Core &core, const ExactDual &dual, const std::vector<char> &keep, __int128 upper,
              std::uint64_t entries, const std::function<bool()> &stop);

  /// No answer that keeps to `keep` costs less; none: all cost more than `upper`. Ended by `stop`, it is the
  /// dual's.
  std::optional<__int128> bound() const;
  /// Whether no bucket was divided: what is left between bound() and the least cost is rounding to 2^shift.
  bool exact() const { return divided == 0 && !stopped; }

  /// Clears the entries of `keep` that all answers of at most `upper` avoid; returns how many.
  int fix(std::vector<char> &keep);
  /// An answer that costs little at the dual's prices: the least, up to rounding, where exact().
  std::vector<int> decode() const;
  /// Table entries touched.
  std::uint64_t work() const { return spent; }

private:
  using Value = std::int32_t;
  /// A function of some nodes: entries row-major over `scope`.
  struct Function {
    std::vector<int> scope; ///< nodes, those eliminated last first
    std::size_t first = 0;  ///< where its entries begin
    bool message = false;
  };
  struct Bucket {
    int node = 0;
    std::vector<int> rest;   ///< the other nodes of its functions, those eliminated last first
    std::vector<int> inputs; ///< functions; all know `node`
    int output = -1;         ///< the function of `rest` that is left
    int level = -1;          ///< index into `levels` of what makes marginals equal; -1: nothing
  };
  /// Where the core's costs come from: a node's, or those of an edge, by half edge to the smaller node.
  struct Source {
    int node = 0, half = -1, function = -1; ///< function -1: of nodes with one candidate only
  };
  class Rows;

  void addFunctions();
  void divide(int node, std::vector<int> mine, double limit);
  double plan(double limit);
  void layOut();
  void load(const ExactDual &dual);
  void residual(const ExactDual &dual, const Source &source, std::vector<double> &out) const;
  void sumRow(const Bucket &bucket, const Rows &rows, Value *sum) const;
  void marginal(const Bucket &bucket, Value *out);
  void eliminate(std::size_t number);
  void back(const Bucket &bucket, std::vector<Value> &low);
  double sizeOf(const std::vector<int> &scope) const; ///< combinations; may exceed 64 bits
  int count(int node) const { return static_cast<int>(kept[node].size()); }

  const Core &core;
  const std::function<bool()> &stop;
  __int128 total, upper;
  int shift = 0;
  Value cut = 0;
  std::vector<std::vector<int>> kept; ///< per node: its candidates that are left
  std::vector<Source> sources;
  std::vector<Function> functions;
  std::size_t given = 0, originals = 0; ///< functions, and their entries, that are no messages
  std::vector<int> position;            ///< per node: when it is eliminated
  std::vector<Bucket> buckets;          ///< in order of elimination
  std::vector<Value> entries;           ///< of all functions
  std::vector<Value> returned;          ///< of messages, the way back: least cost of all else
  std::vector<std::vector<Value>> levels;
  std::vector<Value> scratch;
  std::int64_t least = 0; ///< sum of the functions of no node, in 2^shift
  int divided = 0;        ///< nodes with several buckets
  bool stopped = false;
  std::uint64_t spent = 0;
};

} // namespace colossal::search

#endif // COLOSSAL_SEARCH_MINIBUCKETS_H
