// An instruction resolved for one rank; the interpreter's array element.
#ifndef COLOSSAL_RUNTIME_EXECUTE_RESOLVEDINSTRUCTION_H
#define COLOSSAL_RUNTIME_EXECUTE_RESOLVEDINSTRUCTION_H

#include "runtime/execute/Rank.h"

namespace colossal::runtime {

struct Rank::Body {
  std::vector<ResolvedInstruction> instructions;
};

struct Rank::ResolvedInstruction {
  /// Leaves first; those from Call on hold other instructions.
  enum Kind : uint8_t { Launch, Library, Collective, Copy, Send, Receive, Call, Repeat, Predicate };

  Kind kind = Launch;
  uint8_t queue = 0;
  /// Whether addresses or parameters depend on an argument or a counter and are computed at each run.
  bool dynamic = false;
  const plan::Instruction *origin = nullptr;
  std::vector<Event *> waits;
  Event *signals = nullptr;

  KernelLaunch launch; // its arrays are the two below
  std::vector<void *> buffers;
  std::vector<int64_t> params;
  Routine *routine = nullptr;
  /// One that is always the same, or as many as were on their way at once. A communicator holds what it works
  /// on; what nobody holds but those that did at load is filled anew.
  struct CallSlot {
    std::shared_ptr<CollectiveCall> call;
    long heldAtLoad = 1;
  };
  std::vector<CallSlot> calls;
  std::shared_ptr<Group> group;
  std::vector<plan::MeshPosition> memberPositions; // where an expression is evaluated for every member
  uint64_t collectiveBytes = 0;                    // what this rank sends in it
  std::unique_ptr<Body> body;
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_EXECUTE_RESOLVEDINSTRUCTION_H
