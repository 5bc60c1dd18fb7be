// States of a plan that trains, seen from outside: which rank gives which box of which state, taking them,
// and putting them back on any mesh.
#ifndef COLOSSAL_RUNTIME_TRAINING_STATES_H
#define COLOSSAL_RUNTIME_TRAINING_STATES_H

#include "runtime/execute/Session.h"

namespace colossal::runtime {

/// A strided box of a row-major tensor, by refined dimensions as in Plan.proto: of each, the global extent,
/// the first index and how many.
struct StateBox {
  struct Dim {
    uint64_t global, start, valid;
  };
  std::vector<Dim> dims;

  uint64_t elements() const;
  /// Of element `global` of the whole tensor: whether it is in the box, where among the box's elements, and
  /// how many from it on are so, one behind the other in both.
  bool find(uint64_t global, uint64_t &at, uint64_t &run) const;
};

/// A box of a state, and its elements, row-major.
struct StatePart {
  uint32_t state = 0; ///< index of the plan's states
  StateBox box;
  std::string bytes;
};
/// By rank: what it gives.
using RankParts = std::map<uint32_t, std::vector<StatePart>>;

/// What all ranks of the plan give when states are saved, without bytes: of ranks with equal boxes one, in
/// turn, so that all write alike much. `taken` has the bytes of the ranks of this process. Every process
/// calls it.
Status takeStates(Session &session, RankParts &given, RankParts &taken);

/// Gives elements of states.
class StateReader {
public:
  virtual ~StateReader() = default;
  /// Puts elements [first, first + count) of a whole state at `elements`; called from several threads.
  virtual Status read(uint32_t state, uint64_t first, uint64_t count, std::byte *elements) const = 0;
};
/// Gives every rank of this process its boxes of all states. Every process calls it.
Status putStates(Session &session, const StateReader &reader);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_TRAINING_STATES_H
