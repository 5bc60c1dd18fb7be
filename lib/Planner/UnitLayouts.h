// One kind of unit on one set of axes: what each operation may split, the values that pass between
// operations, and their price (UnitTimes.cpp, UnitPrice.cpp; memory: UnitMemory.cpp, UnitBackward.cpp).
// BlockPlanner.cpp builds the search problem from it and prices answers with it.
#ifndef COLOSSAL_PLANNER_UNITLAYOUTS_H
#define COLOSSAL_PLANNER_UNITLAYOUTS_H

#include "Resharding.h"

#include <map>
#include <memory>
#include <set>

namespace colossal::planner {

struct BackwardWalk;
struct WalkedOp;

/// Bytes of an element that is not narrow.
constexpr double kWide = 4;

using Choice = std::array<std::int8_t, kMaxAxes>; ///< factor per axis, or -1

/// What is not split here: windows need their neighbours' elements, staged factors statistics, and carried
/// ones sums that are left outstanding, none of which is moved.
inline bool isFixed(const Factor &factor) {
  return (factor.kind != Factor::Parallel && factor.kind != Factor::Reduction) || factor.staged ||
         factor.window;
}

/// Whether an operation of `kind` is a loss over classes, which reads the logits and whose gradient is
/// written over them; and whether it looks up rows of a table. Both sum over a vocabulary.
bool isLoss(const UnitKind &kind, const Operation &op);
bool isLookup(const UnitKind &kind, const Operation &op);

/// What all queries of one kind share.
struct KindInfo {
  struct Consumer {
    int op = 0, operand = 0;
  };
  explicit KindInfo(const UnitKind &kind);

  const UnitKind &kind;
  std::vector<std::vector<PositionKey>> places; ///< per tensor; code k > 0 is places[k - 1]
  std::vector<int> producer;                    ///< per tensor: operation, or -1
  std::vector<std::vector<Consumer>> consumers;
  std::vector<int> root;           ///< per tensor: whose memory it lies in
  std::vector<bool> isBoundary;    ///< per tensor: an input or output of the unit
  std::vector<bool> hasSharedCopy; ///< per tensor: used more than once, or on the boundary
  /// Per tensor: of its consumers, several contractions beside others (the projections of what is added to
  /// their result), which mostly take it alike.
  std::vector<std::vector<int>> products;
  /// Per operation: the factors of a loss's classes, over which it sums; none where it is no loss.
  std::vector<std::vector<int>> classFactors;
  /// Per operation: whether a gradient comes to it. The loss is of the first thing that a model gives back.
  std::vector<bool> isTrained;
  /// Per tensor: a mask of attention, or what one is made of, that nothing is trained in: no precision
  /// narrows it.
  std::vector<bool> isMask;
  /// Per tensor: of what goes from unit to unit beside the stream, the place that axes split there; kWhole:
  /// none.
  std::vector<Code> besideStream;
  double parameters = 0; ///< elements, trained or frozen
  /// Code of a factor in an operand, or in a result; 0 if it lacks the factor.
  Code operandCode(int op, int operand, int factor) const { return codes[firstUse[op] + operand][factor]; }
  Code resultCode(int op, int result, int factor) const {
    return codes[firstUse[op] + kind.operations[op].operands.size() + result][factor];
  }
  /// kWhole where the tensor has no such place.
  Code find(int tensor, const PositionKey &key) const;
  /// Whether some operation may split a place of the tensor.
  bool canSplit(int tensor, Code code) const;

private:
  void findTrained();
  void findMasks();
  std::vector<std::vector<Code>> codes; ///< by use (operands, then results, of each operation) and factor
  std::vector<std::size_t> firstUse;    ///< by operation
};

/// Places behind the batch at which an axis may split the residual stream, in all units: those that all have,
/// and dimensions that all may split, in several sizes.
std::vector<PositionKey> findBoundaryPlaces(const std::vector<std::unique_ptr<KindInfo>> &kinds);

/// Sets `besideStream`; the place.
std::optional<PositionKey> findPlaceBesideStream(const std::vector<std::unique_ptr<KindInfo>> &kinds);

/// Where a value lies at one end of an edge, or between its producer and several consumers (a copy that
/// serves all of them), and what its gradient still owes there.
struct ValueLayout {
  Placement value{}, gradient{};
  friend bool operator==(const ValueLayout &a, const ValueLayout &b) {
    return a.value == b.value && a.gradient == b.gradient;
  }
};

class UnitLayouts {
public:
  UnitLayouts(const KindInfo &info, const TrainingTypes &types, const cost::Pricing &pricing,
              const Resharder &resharder, const UnitQuery &query)
      : info(info), kind(info.kind), types(types), pricing(pricing), resharder(resharder), query(query) {}

  /// Every way to put the axes onto an operation's factors, unsplit first.
  std::vector<Choice> choices(int op) const;
  /// Empty, or why the choice is not allowed.
  std::string check(int op, const Choice &choice) const;
  std::vector<ValueLayout> valueLayouts(int tensor) const;
  Code besideStream(int tensor) const;

  Placement have(int op, int result, const Choice &choice) const;
  Placement want(int op, int operand, const Choice &choice) const;
  Placement gradientHave(int op, int operand, const Choice &choice) const;
  Placement gradientWant(int op, int result, const Choice &choice) const;

  double bytes(int tensor) const; ///< of the whole tensor, of a microbatch
  /// Part of it that a rank holds, with padding where what is split does not divide.
  double share(int tensor, const Placement &placement) const;

  /// What an operation takes under a choice, whatever is made again, and whatever the boundary and the price
  /// of a parameter: its forward pass, all of its passes, and what reduces its parameters' gradients once a
  /// step.
  struct OpTime {
    double forward = 0, passes = 0, reduction = 0;
  };
  OpTime opTime(int op, const Choice &choice) const;
  /// Seconds of an operation: passes, and what its parameters cost a step, spread over the microbatches.
  double opSeconds(int op, const Choice &choice, const OpTime &time) const;
  /// How the tensor leaves its producer, and how a consumer takes it.
  ValueLayout made(int tensor, const Choice &producer) const;
  ValueLayout taken(const KindInfo::Consumer &consumer, const Choice &choice) const;
  /// Seconds to bring the value from one to the other and its gradient back; below 0: not possible. A value
  /// that is kept for the backward pass as it was made (`regather`) is brought there again.
  double moved(int tensor, const ValueLayout &from, const ValueLayout &to, bool regather) const {
    return moved(tensor, from, to, regather, nullptr);
  }
  /// moved() of every pair, row by row of `from`.
  std::vector<double> movedPairs(int tensor, const std::vector<ValueLayout> &from,
                                 const std::vector<ValueLayout> &to, bool regather) const;
  /// Whether the consumer's gradient reads the value.
  bool isSaved(const KindInfo::Consumer &consumer) const {
    return kind.operations[consumer.op].operands[consumer.operand].saved;
  }

  /// Of a price, what is the same without recompute and with the selective kind of it, and for all units of a
  /// kind.
  struct Base {
    std::string error;           ///< or empty
    UnitCost cost;               ///< as far as it is known
    std::vector<Placement> lies; ///< per tensor: where it lies
    cost::ListTime forward, inputs, gradients;
  };
  /// Copies for several consumers are chosen anew: they depend on the operations' choices alone.
  Base priceBase(const UnitLayout &layout) const;
  /// The whole price; `base` is that of the layout.
  UnitCost price(const UnitLayout &layout, const Base &base, std::string &error) const;

private:
  struct Passes {
    cost::OpList forward, backward, weights;
  };
  struct Refusal;
  Refusal refuse(int op, const Choice &choice) const;
  Passes passes(int op, const Choice &choice) const;
  Passes contract(int op, const Choice &choice) const;
  Passes attend(int op, const Choice &choice) const;
  Passes stream(int op, const Choice &choice) const;
  bool readsRows(int op, int factor) const;
  double ranksOf(int factor, const Choice &choice) const;
  double local(int op, int factor, const Choice &choice) const;
  struct Ledger {
    cost::OpList forward, backward, weights;
    cost::OpList once; ///< of the forward pass: what the backward pass does not move again
    cost::OpList step; ///< once a step
    std::map<int, cost::OpList> sharedStep; ///< the same of parameters that units share, by their numbers
    std::set<int> reduced;                  ///< tensors that the two have, once for all their uses
    double spread = 0;                      ///< bytes of gradients that ranks have alike and update in parts
    std::map<int, double> sharedSpread;     ///< the same of parameters that units share
    /// Gradients that have been brought from where they lie to where several summands' are wanted.
    std::set<std::tuple<int, Placement, Placement>> broughtBack;
  };
  int findSum(int tensor) const;
  void exchangeStatistics(int op, const Choice &choice, Passes &passes) const;
  double gradientReduction(int op, const Choice &choice, Ledger *ledger) const;
  double spreadBytes(double elements, const Placement &have, const Placement &want) const;
  int timesMoved(const Placement &from, const Placement &to, bool regather) const;
  const Move *findMove(int tensor, const Placement &from, const Placement &to, double widened = 1) const;
  const Move *moveBack(int tensor, const Placement &from, const Placement &to) const;
  double moved(int tensor, const ValueLayout &from, const ValueLayout &to, bool regather,
               Ledger *ledger) const;
  std::string addOperations(const UnitLayout &layout, Ledger &ledger, UnitCost &cost) const;
  /// How consumers take a value, whether a gradient of theirs reads it, and whether that or what is done
  /// again does.
  struct End {
    ValueLayout layout;
    bool isSaved = false, isRead = false;
  };
  std::optional<ValueLayout> meet(int tensor, const std::optional<ValueLayout> &from,
                                  const std::vector<End> &ends) const;
  std::vector<End> findEnds(int tensor, const UnitLayout &layout) const;
  std::string addValue(int tensor, const UnitLayout &layout, Ledger &ledger, Placement &lies) const;
  bool isMadeAgain(int tensor, bool isExchangedBefore) const;
  void addValueAgain(int tensor, const UnitLayout &layout, Ledger &ledger) const;
  void addCollectives(const cost::OpList &list, UnitCost &cost) const;
  void doAgain(const UnitLayout &layout, cost::OpList &again, UnitCost &cost) const;
  void sum(const Ledger &ledger, Base &base) const;
  cost::GradientReduction reduction(const cost::OpList &list) const;
  int findLossProduct() const;
  double paddedPart(const Operation &op) const;
  void findTransformed(std::size_t i, const UnitLayout &layout, WalkedOp &walked) const;
  void findCopied(std::size_t i, const UnitLayout &layout, double parts, WalkedOp &walked) const;
  bool makesProducts() const;
  bool isMoved(int tensor, Placement placement, const UnitLayout &layout,
               const std::vector<Placement> &lies) const;
  double tablePart(const factors::TableUse &use, const UnitLayout &layout) const;
  double broughtIn(std::size_t i, const UnitLayout &layout, const std::vector<Placement> &lies) const;
  std::pair<double, double> countScores(std::size_t i, const UnitLayout &layout) const;
  double partBytes(std::size_t i, const UnitLayout &layout) const;
  double maskBytes(const UnitLayout &layout) const;
  void keepComputed(const UnitLayout &layout, const BackwardWalk &walk, UnitCost &cost) const;
  double forwardBytes(const std::vector<Placement> &lies) const;
  bool scales(const Operation &op) const;
  bool storesProducts(const Operation &op) const;
  bool isShift(const Operation &op) const;
  double lossParts(std::size_t i, const UnitLayout &layout) const;
  int biasedBy(const factors::Operation &op) const;
  /// Whether the gradient of what `op` reads takes its weights apart: a convolution in steps, each remainder
  /// of a place by the stride has weights of its own.
  static bool takesWeightsApart(const Operation &op);
  int againIn(int root) const;
  bool isReadAgain(int root, const UnitLayout &layout, const std::vector<Placement> &lies) const;
  std::set<int> findAgainForNext() const;
  std::map<int, double> keptParts(const std::vector<Placement> &lies) const;
  void keepSegments(const std::vector<Placement> &lies, std::map<int, double> &needed, UnitCost &cost) const;
  BackwardWalk withoutWeights(BackwardWalk walk, const std::map<int, double> &forWeights,
                              const std::map<int, double> &gradients) const;
  /// A value that is kept as an operation takes it, beside what lies elsewhere.
  struct Exchanged {
    int tensor;
    std::size_t reader;
    double bytes;
    int segment; ///< in which it is made again; -1: it is kept
  };
  double narrowedBytes(std::size_t i, std::size_t o, const UnitLayout &layout) const;
  double exchangedBytes(std::size_t i, std::size_t o, const UnitLayout &layout,
                        const std::vector<Placement> &lies) const;
  int madeOver(int kept, const std::map<int, double> &needed) const;
  double addSources(const std::vector<Placement> &lies, const std::map<int, double> &needed,
                    const std::map<int, std::size_t> &first, const std::map<int, int> &from,
                    std::set<int> &inPlace, BackwardWalk &walk) const;
  BackwardWalk describeBackward(const UnitLayout &layout, const std::vector<Placement> &lies,
                                const std::map<int, double> &needed, const std::map<int, std::size_t> &first,
                                const std::vector<Exchanged> &exchanged, double &sourceBytes) const;
  void keep(const UnitLayout &layout, const std::vector<Placement> &lies, UnitCost &cost,
            cost::OpList &recompute) const;

  const KindInfo &info;
  const UnitKind &kind;
  const TrainingTypes &types;
  const cost::Pricing &pricing;
  const Resharder &resharder;
  const UnitQuery &query;
};

} // namespace colossal::planner

#endif // COLOSSAL_PLANNER_UNITLAYOUTS_H
