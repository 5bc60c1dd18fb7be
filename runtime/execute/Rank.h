// One rank: its arenas, its queues, and the programs resolved to addresses. The interpreter of instructions.
//
// Invariant: everything that can be known at load is resolved at load (addresses, parameters, groups,
// routines), so a run only walks an array. What depends on arguments and counters is filled in as the walk
// gets there, in memory that was set aside at load.
#ifndef COLOSSAL_RUNTIME_EXECUTE_RANK_H
#define COLOSSAL_RUNTIME_EXECUTE_RANK_H

#include "runtime/comm/Communicator.h"
#include "runtime/device/HostAccess.h"
#include "runtime/execute/Abort.h"
#include "runtime/execute/Deadline.h"
#include "runtime/execute/Memory.h"
#include "runtime/execute/Modules.h"
#include "runtime/execute/Trace.h"
#include "runtime/execute/Weights.h"

#include "colossal/Plan/Container.h"
#include "colossal/Plan/Traffic.h"

#include <atomic>
#include <cstring>
#include <deque>
#include <map>

namespace colossal::runtime {

class Rank {
public:
  /// What all ranks of a process share; outlives them.
  struct Shared {
    const plan::Plan *plan = nullptr;
    std::vector<plan::StageView> stages;
    plan::ByteView code, data;
    Weights weights;
    Abort abort;
    Deadline deadline;
    /// What a rank may wait for others where it runs no program, before a run and behind it.
    std::atomic<Deadline::Span> betweenPrograms{Deadline::longest};
    /// Whether the queue of collectives proceeds beside that of kernels; else in the order of the program's
    /// text, where the device can.
    bool collectivesBeside = true;
    bool trace = false; ///< whether runs are recorded
    bool eager = false; ///< every run enqueues each instruction, even where the device could replay them
    uint32_t runs = 0;  ///< since the plan was opened
  };

  Rank(Shared &shared, std::unique_ptr<Device> device, Communicator communicator);
  ~Rank();

  /// Loads code, allocates arenas and resolves all programs. Ranks call it at the same time: it creates the
  /// groups.
  Status prepare();
  /// Runs a program's instructions to their end. `number`: of the run, since the plan was opened.
  Status run(int program, uint32_t number);

  uint32_t rank() const { return communicator.control->rank(); }
  const plan::StageView &ownStage() const { return stage; }
  const plan::MeshPosition &ownMeshPosition() const { return meshPosition; }
  /// Writes the first `bytes` bytes of an input's buffer, and reads those of an output's; see HostAccess.
  /// Between runs only; the bytes are in place when they return.
  Status write(const plan::BufferRef &ref, uint64_t bytes, const HostAccess::Writer &writer);
  Status read(const plan::BufferRef &ref, uint64_t bytes, const HostAccess::Reader &reader);
  Control &control() { return *communicator.control; }
  const Transfers &transfers() const { return *communicator.transfers; }
  const Arenas &memory() const { return arenas; }
  const Device &deviceInfo() const { return *device; }
  uint64_t libraryBytes() const;
  /// Host memory through which bytes enter and leave the device.
  uint64_t stagingBytes() const { return transfers().stagingBytes() + hostAccess.stagingBytes(); }
  /// Bytes that this rank sent in collectives since load, by the closed formulas of docs/PlanFormat.md.
  uint64_t collectiveBytes() const { return collectiveSent; }
  /// Bytes that this rank has sent in the last run, as its communicator counted them.
  plan::Traffic lastTraffic() const;
  /// As its communicator states it.
  uint64_t shortAllReduce() const { return communicator.transfers->shortAllReduce(); }

  /// The instruction being run, for watchdogs and crash reports; null between runs. Where the first queue
  /// works beside the rank's thread it is the queue's, which may be far behind.
  const plan::Instruction *current() const {
    const plan::Instruction *reached = reachedBy(0);
    return reached ? reached : position.load(std::memory_order_relaxed);
  }
  /// Changes whenever an instruction is enqueued or begun.
  uint64_t progress() const {
    uint64_t all = begun.load(std::memory_order_relaxed);
    for (const std::atomic<uint64_t> &mark : marks)
      all += mark.load(std::memory_order_relaxed);
    return all;
  }
  /// How long it may stay where it is without any progress, by what the plan predicts: for a launch, a
  /// routine or a copy; otherwise, as where it waits for others, for the whole program. `seconds`: what is
  /// predicted, 0 if nothing.
  Deadline::Span allowed(double &seconds) const;
  /// What was recorded of the runs, as Timeline takes it.
  std::string traceBytes() const;
  void forgetTrace() {
    for (Trace &trace : traces)
      trace.clear();
  }
  /// Called when all ranks have left a barrier.
  void leftBarrier() {
    if (barrierLeft == 0)
      barrierLeft = traceClock();
  }

private:
  struct ResolvedInstruction;
  struct Body;
  /// The arguments and counters that an instruction sees, at the end of `values`.
  struct Frame {
    int64_t *values;
    uint32_t size;
    const plan::Call *call = nullptr; ///< that runs the function; null in a program
  };

  Status resolve(const google::protobuf::RepeatedPtrField<plan::Instruction> &instructions, Body &body);
  Status resolveInstruction(const plan::Instruction &instruction, ResolvedInstruction &resolved);
  Status resolveLaunch(const plan::Launch &launch, ResolvedInstruction &resolved);
  Status resolveLibrary(const plan::LibraryCall &call, ResolvedInstruction &resolved);
  /// Makes one more call of a collective, and sets aside what it needs.
  Status addCall(ResolvedInstruction &resolved);
  /// A call of one that depends on `values`, which no communicator holds, filled.
  Status nextCall(ResolvedInstruction &resolved, const int64_t *values,
                  std::shared_ptr<CollectiveCall> &next);
  Status fillLaunch(ResolvedInstruction &resolved, const int64_t *values);
  Status fillCollective(const ResolvedInstruction &resolved, const int64_t *values, CollectiveCall &call);
  Status groupFor(const google::protobuf::RepeatedField<uint32_t> &axes, uint32_t queue,
                  std::shared_ptr<Group> &group);
  /// What persists begins as zeros.
  Status clearStates();
  /// Makes the device and its queues known to the communicator.
  Status attach();
  Status createGroups();
  void markTraffic();
  std::byte *at(const plan::BufferRef &ref, const int64_t *values) const;

  /// The instruction that an asynchronous queue has begun last, null if none.
  const plan::Instruction *reachedBy(size_t queue) const {
    constexpr uint64_t addressBits = (uint64_t(1) << 48) - 1;
    const uint64_t address = marks[queue].load(std::memory_order_relaxed) & addressBits;
    const plan::Instruction *instruction = nullptr;
    std::memcpy(static_cast<void *>(&instruction), &address, sizeof address);
    return instruction;
  }
  /// All of a program's work: walked through, or replayed where the device recorded it in an earlier run.
  Status enqueue(int program);
  Status recordProgram(int program);
  /// Whether what the rank enqueues for a program can be recorded.
  bool isRecordable(int program) const;
  Status execute(Body &body, Frame frame);
  Status executeInstruction(ResolvedInstruction &resolved, Frame frame);
  Status executeKind(ResolvedInstruction &resolved, Frame frame, Queue &queue);
  Status executeCopy(const plan::Copy &copy, const int64_t *values, Queue &queue);

  Shared &shared;
  const plan::Plan &plan;
  std::unique_ptr<Device> device;
  Communicator communicator;
  const plan::StageView &stage;
  const plan::MeshPosition meshPosition;
  Modules modules;
  Arenas arenas;
  HostAccess hostAccess;
  std::map<std::pair<std::vector<uint32_t>, uint32_t>, std::shared_ptr<Group>> groups; // by axes and queue
  std::vector<std::unique_ptr<Body>> programs, functions; // functions that the stage does not call are null
  /// How a program is enqueued: the first time by a walk, by which a device prepares what it runs for the
  /// first time; the second time it is recorded.
  struct Replay {
    bool recordable = false, walked = false, ended = false;
    std::unique_ptr<Recording> recording;
  };
  std::vector<Replay> replays; // by program
  std::vector<int64_t> values; // frames of the program and of the functions being called, one after the other
  std::vector<std::unique_ptr<Event>> events; // index 0 unused
  std::vector<std::unique_ptr<Routine>> routines;
  std::map<std::string, Routine *> routineByDescriptor;
  std::unique_ptr<Queue> queues[plan::queueCount]; // those that the stage uses
  Trace traces[plan::queueCount];
  /// What asynchronous queues work on; their times are known when they were synchronized.
  struct LateSpan {
    Trace *trace;
    const plan::Instruction *instruction;
    const plan::Call *call; ///< of the function that it stands in
    int64_t begin, end;
    int32_t peer;
  };
  std::deque<LateSpan> lateSpans;
  NamedRanges *const ranges; // null where no profiler listens
  int64_t barrierLeft = 0;   // the first time, by the trace's clock
  int32_t peer = -1;         // of the message being enqueued
  uint64_t collectiveSent = 0;
  // As counted before the last run: by group, in their order, and by receiver.
  std::vector<std::array<uint64_t, std::size(collectiveKinds) + 1>> sentBefore; ///< by kind; 0: statistics
  std::map<uint32_t, uint64_t> messagesBefore;
  std::atomic<const plan::Instruction *> position{nullptr};
  std::atomic<uint64_t> begun{0};
  // For the watch: the program that runs, whether for the first time, and whether as one recording.
  std::atomic<const plan::Program *> running{nullptr};
  std::atomic<bool> firstRun{false}, replaying{false};
  /// By asynchronous queue: the address of the instruction that it has begun last and, in the upper 16 bits,
  /// a counter that tells repetitions of one instruction apart.
  std::atomic<uint64_t> marks[plan::queueCount] = {};
};

/// Where an instruction stands in the plan, in words; searched by address. `call`: of the function that it
/// stands in, whose names it then has.
std::string locateInstruction(const plan::Plan &plan, const plan::Instruction *instruction,
                              const plan::Call *call = nullptr);

/// What the calling thread's rank is doing, for a handler of fatal signals; -1 and null outside runs.
struct CrashContext {
  int rank = -1;
  const std::atomic<const plan::Instruction *> *position = nullptr;
};
CrashContext &crashContext();

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_EXECUTE_RANK_H
