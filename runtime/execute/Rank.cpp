// The interpreter: walks resolved instructions, enqueues each on its queue, orders by events.
#include "runtime/execute/Rank.h"

#include "runtime/comm/StagedTransfers.h"
#include "runtime/execute/ResolvedInstruction.h"
#include "runtime/validate/Validate.h"

#include "colossal/Plan/Traffic.h"

#include <set>

namespace colossal::runtime {

namespace {

/// Calls `visit` with every instruction of a body, nested ones too.
template <class Visit>
void forInstructions(const google::protobuf::RepeatedPtrField<plan::Instruction> &body, Visit visit) {
  for (const plan::Instruction &instruction : body) {
    visit(instruction);
    if (instruction.has_repeat())
      forInstructions(instruction.repeat().body(), visit);
    if (instruction.has_predicate())
      forInstructions(instruction.predicate().body(), visit);
  }
}

/// All that the ranks of a stage run.
template <class Visit>
void forInstructions(const plan::StageView &stage, Visit visit) {
  for (int program = 0; program < stage.plan->programs_size(); ++program)
    forInstructions(stage.body(program), visit);
  const std::vector<bool> called = stage.functions();
  for (size_t function = 0; function < called.size(); ++function)
    if (called[function])
      forInstructions(stage.plan->functions(static_cast<int>(function)).body(), visit);
}

std::string findIn(const google::protobuf::RepeatedPtrField<plan::Instruction> &body,
                   const std::string &owner, const std::string &prefix, const plan::Instruction *wanted,
                   const plan::Call *call = nullptr) {
  for (int i = 0; i < body.size(); ++i) {
    const plan::Instruction &instruction = body.Get(i);
    std::string path = prefix + std::to_string(i);
    if (&instruction == wanted)
      return describeInstruction(owner, path, instruction, call);
    std::string found;
    if (instruction.has_repeat())
      found = findIn(instruction.repeat().body(), owner, path + ".", wanted, call);
    else if (instruction.has_predicate())
      found = findIn(instruction.predicate().body(), owner, path + ".", wanted, call);
    if (!found.empty())
      return found;
  }
  return {};
}

/// " of stages 1, 2": those that have a text.
std::string stagesWith(const plan::Plan &plan, int text) {
  std::string names;
  int count = 0;
  for (int stage = 0; stage < plan.stages_size(); ++stage)
    if (plan.stages(stage).text() == static_cast<uint32_t>(text))
      names += (count++ ? ", " : " ") + std::to_string(stage);
  return (count > 1 ? " of stages" : " of stage") + names;
}

} // namespace

std::string locateInstruction(const plan::Plan &plan, const plan::Instruction *instruction,
                              const plan::Call *call) {
  if (!instruction)
    return {};
  for (const plan::Program &program : plan.programs())
    if (std::string found = findIn(program.body(), "program '" + program.name() + "'", "", instruction);
        !found.empty())
      return found;
  for (int text = 0; text < plan.stage_texts_size(); ++text)
    for (int program = 0; program < plan.stage_texts(text).programs_size(); ++program)
      if (std::string found = findIn(
              plan.stage_texts(text).programs(program).body(),
              "program '" + plan.programs(program).name() + "'" + stagesWith(plan, text), "", instruction);
          !found.empty())
        return found;
  for (const plan::Function &function : plan.functions())
    if (std::string found =
            findIn(function.body(), "function '" + function.name() + "'", "", instruction, call);
        !found.empty())
      return found;
  return {};
}

CrashContext &crashContext() {
  thread_local CrashContext context;
  return context;
}

Rank::Rank(Shared &shared, std::unique_ptr<Device> theDevice, Communicator theCommunicator)
    : shared(shared), plan(*shared.plan), device(std::move(theDevice)),
      communicator(std::move(theCommunicator)),
      stage(plan::stageOf(shared.stages, communicator.control->rank())),
      meshPosition(stage.positionOf(rank())), hostAccess(*device), ranges(device->namedRanges()) {
  communicator.transfers = reachDevice(std::move(communicator.transfers), *device);
}

Rank::~Rank() = default;

Status Rank::prepare() {
  COLOSSAL_RETURN_IF_ERROR(modules.load(*device, plan, shared.code));
  COLOSSAL_RETURN_IF_ERROR(arenas.allocate(*device, *stage.arenas));
  uint64_t tileScratch = 0;
  uint32_t eventCount = 0;
  bool used[plan::queueCount] = {true};
  uint64_t longest[plan::queueCount] = {}; // message
  for (const plan::Program &program : plan.programs())
    eventCount = std::max(eventCount, program.events());
  forInstructions(stage, [&](const plan::Instruction &instruction) {
    used[instruction.queue()] = true;
    longest[instruction.queue()] = std::max(longest[instruction.queue()], instruction.send().src().bytes());
    tileScratch = std::max(tileScratch, instruction.launch().tile_scratch());
  });
  COLOSSAL_RETURN_IF_ERROR(device->reserveTileScratch(tileScratch));
  for (uint32_t queue = 0; queue < plan::queueCount; ++queue)
    if (const bool beside = queue == 1 ? shared.collectivesBeside : queue != 0;
        used[queue] && !(queues[queue] = device->createQueue(beside)))
      return shared.abort.status();
  COLOSSAL_RETURN_IF_ERROR(clearStates());
  COLOSSAL_RETURN_IF_ERROR(attach());
  for (uint32_t queue = 0; queue < plan::queueCount; ++queue) {
    if (!queues[queue])
      continue;
    if (plan.message_slots() > 0 && longest[queue] > 0)
      COLOSSAL_RETURN_IF_ERROR(communicator.transfers->reserveSlots(
          plan.message_slots(), plan::slotBytes(plan, longest[queue]), *queues[queue]));
  }
  // Event numbers may be sparse; only those that are signalled exist.
  events.resize(static_cast<size_t>(std::min<uint32_t>(eventCount, 1u << 24)) + 1);
  Status status;
  forInstructions(stage, [&](const plan::Instruction &instruction) {
    if (instruction.signals() >= events.size())
      status = {Code::Unsupported, "the plan uses more than 2^24 events"};
    else if (instruction.signals() && !events[instruction.signals()])
      events[instruction.signals()] = device->createEvent();
  });
  COLOSSAL_RETURN_IF_ERROR(status);
  COLOSSAL_RETURN_IF_ERROR(createGroups());
  values.resize((plan::maxCallDepth + 1) * plan::maxValues);
  const std::vector<bool> called = stage.functions();
  for (int function = 0; function < plan.functions_size(); ++function) {
    functions.emplace_back();
    if (!called[static_cast<size_t>(function)])
      continue;
    functions.back() = std::make_unique<Body>();
    COLOSSAL_RETURN_IF_ERROR(resolve(plan.functions(function).body(), *functions.back()));
  }
  for (int program = 0; program < plan.programs_size(); ++program) {
    programs.push_back(std::make_unique<Body>());
    COLOSSAL_RETURN_IF_ERROR(resolve(stage.body(program), *programs.back()));
    replays.emplace_back();
    replays.back().recordable = device->records() && isRecordable(program);
  }
  return {};
}

Status Rank::clearStates() {
  // The host's memory comes as zeros from the system, page by page as it is touched.
  if (device->hostReachesMemory())
    return {};
  for (int arena = 0; arena < stage.arenas->size(); ++arena)
    if (const plan::Arena &state = stage.arenas->Get(arena);
        state.life() == plan::Arena::STATE && state.bytes() > 0)
      COLOSSAL_RETURN_IF_ERROR(
          queues[0]->fill(arenas.base(static_cast<uint32_t>(arena)), std::byte{0}, state.bytes()));
  return queues[0]->synchronize();
}

Status Rank::attach() {
  bool talks[plan::queueCount] = {};
  for (const plan::StageView &any : shared.stages)
    forInstructions(any, [&](const plan::Instruction &instruction) {
      talks[instruction.queue()] |= instruction.has_send() || instruction.has_recv();
    });
  std::vector<Queue *> messageQueues;
  for (uint32_t queue = 0; queue < plan::queueCount; ++queue)
    if (talks[queue])
      messageQueues.push_back(queues[queue].get());
  return communicator.transfers->attach(*device, messageQueues);
}

Status Rank::createGroups() {
  // All ranks of a stage walk the same text, so that the members of a group make it, and others, in one
  // order.
  std::set<std::pair<std::vector<uint32_t>, uint32_t>> wanted;
  forInstructions(stage, [&](const plan::Instruction &instruction) {
    if (instruction.has_collective())
      wanted.insert({{instruction.collective().axes().begin(), instruction.collective().axes().end()},
                     instruction.queue()});
  });
  for (const auto &[axes, queue] : wanted)
    COLOSSAL_RETURN_IF_ERROR(
        communicator.transfers->createGroup(stage.members(axes, rank()), queue, groups[{axes, queue}]));
  return {};
}

uint64_t Rank::libraryBytes() const {
  uint64_t bytes = 0;
  for (const std::unique_ptr<Routine> &routine : routines)
    bytes += routine->privateBytes();
  return bytes;
}

void Rank::markTraffic() {
  sentBefore.resize(groups.size());
  auto before = sentBefore.begin();
  for (const auto &[key, group] : groups) {
    for (CollectiveKind kind : collectiveKinds)
      (*before)[static_cast<size_t>(kind)] = group->sentBytes(kind);
    (*before)[0] = group->sentStatisticsBytes();
    ++before;
  }
  messagesBefore = communicator.transfers->messageBytes();
}

plan::Traffic Rank::lastTraffic() const {
  plan::Traffic traffic;
  auto before = sentBefore.begin();
  for (const auto &[key, group] : groups) {
    for (CollectiveKind kind : collectiveKinds)
      if (const uint64_t bytes = group->sentBytes(kind) - (*before)[static_cast<size_t>(kind)])
        traffic[{plan::axisNames(*stage.mesh, key.first),
                 plan::collectiveName(static_cast<plan::Collective::Kind>(kind))}] += bytes;
    if (const uint64_t bytes = group->sentStatisticsBytes() - before->front())
      traffic[{plan::axisNames(*stage.mesh, key.first), plan::statisticsName}] += bytes;
    ++before;
  }
  for (auto [peer, bytes] : communicator.transfers->messageBytes()) {
    if (auto earlier = messagesBefore.find(peer); earlier != messagesBefore.end())
      bytes -= earlier->second;
    if (bytes)
      traffic[{plan::axesBetween(shared.stages, rank(), peer), "send"}] += bytes;
  }
  return traffic;
}

std::string Rank::traceBytes() const {
  const Trace *all[plan::queueCount];
  for (uint32_t queue = 0; queue < plan::queueCount; ++queue)
    all[queue] = &traces[queue];
  return Timeline::pack(plan, all, plan::queueCount, barrierLeft);
}

std::byte *Rank::at(const plan::BufferRef &ref, const int64_t *values) const {
  std::byte *address = arenas.base(ref.arena()) + ref.offset();
  for (int v = 0; v < ref.strides_size(); ++v)
    address += ref.strides(v) * values[v];
  return address;
}

Status Rank::write(const plan::BufferRef &ref, uint64_t bytes, const HostAccess::Writer &writer) {
  COLOSSAL_RETURN_IF_ERROR(
      hostAccess.write(*queues[0], arenas.base(ref.arena()) + ref.offset(), bytes, writer));
  return queues[0]->synchronize();
}

Status Rank::read(const plan::BufferRef &ref, uint64_t bytes, const HostAccess::Reader &reader) {
  return hostAccess.read(*queues[0], arenas.base(ref.arena()) + ref.offset(), bytes, reader);
}

namespace {

/// A range of a profiler, where there is one. `name` gives what it shows and is only asked then.
class RangeScope {
public:
  template <class Name>
  RangeScope(NamedRanges *ranges, Name name) : ranges(ranges) {
    if (__builtin_expect(ranges != nullptr, 0))
      ranges->begin(name());
  }
  ~RangeScope() {
    if (__builtin_expect(ranges != nullptr, 0))
      ranges->end();
  }
  RangeScope(const RangeScope &) = delete;
  RangeScope &operator=(const RangeScope &) = delete;

private:
  NamedRanges *ranges;
};

} // namespace

Deadline::Span Rank::allowed(double &seconds) const {
  seconds = 0;
  const plan::Program *program = running.load(std::memory_order_acquire);
  if (!program)
    return shared.betweenPrograms.load(std::memory_order_relaxed);
  const plan::Instruction *instruction = current();
  const bool alone = instruction && !replaying.load(std::memory_order_relaxed) &&
                     (instruction->has_launch() || instruction->has_library() || instruction->has_copy());
  if (alone)
    seconds = instruction->predicted_seconds();
  if (seconds == 0)
    seconds = program->predicted_seconds();
  return shared.deadline.forPredicted(seconds, firstRun.load(std::memory_order_relaxed));
}

Status Rank::run(int program, uint32_t number) {
  crashContext() = {static_cast<int>(rank()), &position};
  if (shared.trace)
    for (Trace &trace : traces)
      trace.beginRun(number);
  markTraffic();
  const RangeScope range(ranges, [&] { return plan.programs(program).name(); });
  Replay &replay = replays[static_cast<size_t>(program)];
  firstRun.store(!replay.ended, std::memory_order_relaxed);
  running.store(&plan.programs(program), std::memory_order_release);
  Status status = enqueue(program);
  for (size_t i = 0; i < std::size(queues); ++i)
    if (queues[i])
      // What stopped the walk may be that a queue failed; the queue knows where.
      if (Status late = queues[i]->synchronize();
          !late.ok() && (status.ok() || status.message() == late.message())) {
        const plan::Instruction *reached = reachedBy(i);
        status = std::move(late).withInstruction(locateInstruction(plan, reached ? reached : current()));
      }
  if (!status.ok())
    status = std::move(status)
                 .withRank(static_cast<int>(rank()))
                 .withInstruction(locateInstruction(plan, current()));
  for (const LateSpan &span : lateSpans)
    if (status.ok())
      span.trace->add(span.instruction, span.call, span.begin, span.end, span.peer);
  lateSpans.clear();
  replay.ended = true;
  running.store(nullptr, std::memory_order_release);
  replaying.store(false, std::memory_order_relaxed);
  position.store(nullptr, std::memory_order_relaxed);
  for (std::atomic<uint64_t> &mark : marks)
    mark.store(0, std::memory_order_relaxed);
  crashContext() = {};
  return status;
}

bool Rank::isRecordable(int program) const {
  if (plan.programs(program).role() == plan::Program::LOAD)
    return false; // runs once
  bool recordable = true;
  auto visit = [&](auto self, const google::protobuf::RepeatedPtrField<plan::Instruction> &body) -> void {
    forInstructions(body, [&](const plan::Instruction &instruction) {
      // What the host takes part in.
      recordable = recordable && !instruction.has_collective() && !instruction.has_send() &&
                   !instruction.has_recv() && (!instruction.has_copy() || instruction.copy().has_buffer());
      if (instruction.has_call() && recordable)
        self(self, plan.functions(static_cast<int>(instruction.call().function())).body());
    });
  };
  visit(visit, stage.body(program));
  return recordable;
}

Status Rank::recordProgram(int program) {
  std::vector<Queue *> used;
  for (const std::unique_ptr<Queue> &queue : queues)
    if (queue)
      used.push_back(queue.get());
  return device->record(
      used, [&] { return execute(*programs[static_cast<size_t>(program)], {values.data(), 0}); },
      replays[static_cast<size_t>(program)].recording);
}

Status Rank::enqueue(int program) {
  Replay &replay = replays[static_cast<size_t>(program)];
  Body &body = *programs[static_cast<size_t>(program)];
  if (!replay.recordable || shared.eager || shared.trace || !replay.walked || body.instructions.empty()) {
    replay.walked = true;
    return execute(body, {values.data(), 0});
  }
  if (!replay.recording)
    if (Status status = recordProgram(program); !status.ok()) {
      // Queues that were left in the middle of it may fail for that, and say less.
      shared.abort.raise({status.code(), "the program cannot be recorded: " + status.message() +
                                             "; --eager runs it without a recording"});
      return shared.abort.status();
    }
  // To a watchdog all of it is the program's first instruction.
  Queue &queue = *queues[0];
  replaying.store(true, std::memory_order_relaxed);
  begun.store(begun.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  COLOSSAL_RETURN_IF_ERROR(queue.mark(marks[0], (begun.load(std::memory_order_relaxed) << 48) |
                                                    reinterpret_cast<uint64_t>(body.instructions[0].origin)));
  return device->replay(*replay.recording, queue);
}

Status Rank::execute(Body &body, Frame frame) {
  for (ResolvedInstruction &resolved : body.instructions)
    if (Status status = executeInstruction(resolved, frame); __builtin_expect(!status.ok(), 0))
      return status;
  return {};
}

Status Rank::executeInstruction(ResolvedInstruction &resolved, Frame frame) {
  const plan::Instruction &origin = *resolved.origin;
  position.store(&origin, std::memory_order_relaxed);
  begun.store(begun.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (__builtin_expect(shared.abort.raised(), 0))
    return shared.abort.status();
  const RangeScope range(ranges, [&] { return nameOf(plan, {&origin, frame.call}); });
  Queue &queue = *queues[resolved.queue];
  if (!queue.immediate())
    COLOSSAL_RETURN_IF_ERROR(queue.mark(marks[resolved.queue], (begun.load(std::memory_order_relaxed) << 48) |
                                                                   reinterpret_cast<uint64_t>(&origin)));
  for (Event *event : resolved.waits)
    COLOSSAL_RETURN_IF_ERROR(queue.wait(*event));
  // A span of a nested body would cover those of its instructions; only leaves are recorded.
  const bool traced = shared.trace && resolved.kind < ResolvedInstruction::Call;
  int64_t begin = 0;
  Trace &trace = traces[resolved.queue];
  LateSpan *late = nullptr;
  if (traced) {
    peer = -1;
    begin = traceClock();
    if (!queue.immediate()) {
      late = &lateSpans.emplace_back(LateSpan{&trace, &origin, frame.call, 0, 0, -1});
      COLOSSAL_RETURN_IF_ERROR(queue.stamp(late->begin));
    }
  }
  if (Status status = executeKind(resolved, frame, queue); __builtin_expect(!status.ok(), 0))
    return std::move(status).withInstruction(locateInstruction(plan, &origin, frame.call));
  if (late) {
    late->peer = peer;
    COLOSSAL_RETURN_IF_ERROR(queue.stamp(late->end));
  } else if (traced) {
    trace.add(&origin, frame.call, begin, traceClock(), peer);
  }
  return resolved.signals ? queue.record(*resolved.signals) : Status();
}

Status Rank::executeKind(ResolvedInstruction &resolved, Frame frame, Queue &queue) {
  const plan::Instruction &origin = *resolved.origin;
  switch (resolved.kind) {
  case ResolvedInstruction::Launch:
    if (resolved.dynamic)
      COLOSSAL_RETURN_IF_ERROR(fillLaunch(resolved, frame.values));
    return queue.launch(resolved.launch);
  case ResolvedInstruction::Library: {
    if (resolved.dynamic)
      for (size_t i = 0; i < resolved.buffers.size(); ++i)
        resolved.buffers[i] = at(origin.library().buffers(static_cast<int>(i)), frame.values);
    return queue.call(*resolved.routine, resolved.buffers.data(),
                      static_cast<uint32_t>(resolved.buffers.size()));
  }
  case ResolvedInstruction::Collective: {
    std::shared_ptr<CollectiveCall> call = resolved.calls.front().call;
    if (resolved.dynamic)
      COLOSSAL_RETURN_IF_ERROR(nextCall(resolved, frame.values, call));
    collectiveSent += resolved.collectiveBytes;
    return communicator.transfers->collective(std::move(call), queue);
  }
  case ResolvedInstruction::Copy: return executeCopy(origin.copy(), frame.values, queue);
  case ResolvedInstruction::Send:
  case ResolvedInstruction::Receive: {
    int64_t other;
    const bool sends = resolved.kind == ResolvedInstruction::Send;
    COLOSSAL_RETURN_IF_ERROR(plan::evaluateExpr(sends ? origin.send().peer() : origin.recv().peer(),
                                                meshPosition, frame.values, other));
    if (other < 0)
      return {};
    peer = static_cast<int32_t>(other);
    if (sends)
      return communicator.transfers->send(at(origin.send().src(), frame.values), origin.send().src().bytes(),
                                          static_cast<uint32_t>(other), origin.send().tag(), queue);
    return communicator.transfers->receive(at(origin.recv().dst(), frame.values), origin.recv().dst().bytes(),
                                           static_cast<uint32_t>(other), origin.recv().tag(), queue);
  }
  case ResolvedInstruction::Call: {
    const plan::Call &call = origin.call();
    Body &function = *functions[call.function()];
    if (call.arguments_size() == 0)
      return execute(function, {frame.values, frame.size, &call});
    const Frame inner = {frame.values + frame.size, static_cast<uint32_t>(call.arguments_size()), &call};
    for (int a = 0; a < call.arguments_size(); ++a)
      COLOSSAL_RETURN_IF_ERROR(
          plan::evaluateExpr(call.arguments(a), meshPosition, frame.values, inner.values[a]));
    return execute(function, inner);
  }
  case ResolvedInstruction::Repeat: {
    int64_t &counter = frame.values[frame.size];
    for (uint64_t i = 0; i < origin.repeat().count(); ++i) {
      counter = static_cast<int64_t>(i);
      COLOSSAL_RETURN_IF_ERROR(execute(*resolved.body, {frame.values, frame.size + 1, frame.call}));
    }
    return {};
  }
  case ResolvedInstruction::Predicate: {
    int64_t condition;
    COLOSSAL_RETURN_IF_ERROR(
        plan::evaluateExpr(origin.predicate().condition(), meshPosition, frame.values, condition));
    return condition != 0 ? execute(*resolved.body, frame) : Status();
  }
  }
  return {Code::Internal, "an instruction of no kind"};
}

Status Rank::executeCopy(const plan::Copy &copy, const int64_t *values, Queue &queue) {
  std::byte *destination = at(copy.dst(), values);
  if (copy.has_buffer())
    return queue.copy(destination, at(copy.buffer(), values), copy.dst().bytes());
  if (copy.has_data())
    return hostAccess.write(queue, destination, copy.data().bytes(), shared.data.data + copy.data().offset());
  ResolvedBox box;
  COLOSSAL_RETURN_IF_ERROR(ResolvedBox::resolve(copy.parameter().box(), meshPosition, values, box));
  int64_t index = copy.parameter().parameter();
  for (int v = 0; v < copy.parameter().strides_size(); ++v)
    index += copy.parameter().strides(v) * values[v];
  const auto parameter = static_cast<uint32_t>(index);
  const uint64_t size = shared.weights.elementBytes(parameter);
  return hostAccess.write(queue, destination, box.localBytes(size),
                          [this, parameter, box, size](std::byte *host, uint64_t begin, uint64_t end) {
                            return shared.weights.read(parameter, box, {begin / size, end / size}, host);
                          });
}

} // namespace colossal::runtime
