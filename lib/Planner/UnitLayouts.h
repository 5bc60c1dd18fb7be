// One kind of unit on one set of axes: what each operation may split, the values that pass between
// operations, and their price. BlockPlanner.cpp builds the search problem from it and prices answers with it.
// Neighbour: Movement.h.
#pragma once

#include "Movement.h"

namespace colossal::planner {

using Choice = std::array<std::int8_t, kMaxAxes>; ///< factor per axis, or -1

/// What all queries of one kind share.
struct KindInfo {
  struct Consumer {
    int op = 0, operand = 0;
  };
  explicit KindInfo(const UnitKind &kind);

  const UnitKind &kind;
  std::vector<std::vector<PlaceKey>> places; ///< per tensor; code k > 0 is places[k - 1]
  std::vector<int> producer;                 ///< per tensor: operation, or -1
  std::vector<std::vector<Consumer>> consumers;
  std::vector<int> root;    ///< per tensor: whose memory it lies in
  std::vector<bool> hasHub; ///< per tensor: used more than once, or on the boundary
  /// Code of a factor in a use; 0 if the use lacks it.
  Code code(const Use &use, int factor) const;
  Code find(int tensor, const PlaceKey &key) const;

private:
  std::map<std::pair<const Use *, int>, Code> codes;
};

/// A value between its producer and several consumers: where it lies, and what its gradient still owes.
struct Hub {
  Placement value{}, gradient{};
};

class UnitLayouts {
public:
  UnitLayouts(const KindInfo &info, const TrainingTypes &types, const cost::OperationCost &operations,
              const Mover &mover, const UnitQuery &query)
      : info(info), kind(info.kind), types(types), operations(operations), mover(mover), query(query) {}

  /// Every way to put the axes onto an operation's factors, unsplit first.
  std::vector<Choice> choices(int op) const;
  /// Empty, or why the choice is not allowed.
  std::string check(int op, const Choice &choice) const;
  std::vector<Hub> hubs(int tensor) const;

  Placement have(int op, int result, const Choice &choice) const;
  Placement want(int op, int operand, const Choice &choice) const;
  Placement gradientHave(int op, int operand, const Choice &choice) const;
  Placement gradientWant(int op, int result, const Choice &choice) const;

  /// Seconds of an operation: passes, and what its parameters cost a step, spread over the microbatches.
  double opSeconds(int op, const Choice &choice) const;
  /// Seconds between a producer (or the unit's input, op -1) and a hub, a hub and a consumer, a producer and
  /// a consumer; below 0: not possible.
  double toHub(int tensor, const Choice &producer, const Hub &hub) const;
  double fromHub(int tensor, const Hub &hub, const KindInfo::Consumer &consumer, const Choice &choice) const;
  double direct(int tensor, const Choice &producer, const KindInfo::Consumer &consumer,
                const Choice &choice) const;

  /// The whole price. Hubs are chosen anew: they depend on the operations' choices alone.
  UnitCost price(const UnitLayout &layout, std::string &error) const;

private:
  struct Passes {
    cost::OpList forward, backward, weights;
  };
  Passes passes(int op, const Choice &choice) const;
  double share(const std::vector<Factor> &factors, const Choice &choice) const;
  double local(int op, int factor, const Choice &choice) const;
  double bytes(int tensor) const;
  double useBytes(int op, const Use &use, const Choice &choice) const;
  double gradientReduction(int op, const Choice &choice, cost::OpList *list) const;
  struct Ledger;
  double moved(int tensor, const Placement &from, const Placement &to, bool regather,
               const Placement &gradientFrom, const Placement &gradientTo, Ledger *ledger) const;
  void keep(const UnitLayout &layout, const std::vector<Placement> &lies, UnitCost &cost,
            cost::OpList &recompute) const;

  const KindInfo &info;
  const UnitKind &kind;
  const TrainingTypes &types;
  const cost::OperationCost &operations;
  const Mover &mover;
  const UnitQuery &query;
};

} // namespace colossal::planner
