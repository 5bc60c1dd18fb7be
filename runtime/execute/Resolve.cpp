// From the plan's instructions to what its ranks run: addresses, parameters, peers, routines.
#include "runtime/execute/ResolvedInstruction.h"

#include "colossal/Plan/DataType.h"
#include "colossal/Plan/Traffic.h"

#include <algorithm>

namespace colossal::runtime {

namespace {

// Calls of one collective that may be on their way at once without any being made in a run.
constexpr size_t callsAhead = 2;

/// What arguments and counters are taken to be at load: sizes do not depend on them.
constexpr int64_t zeros[plan::maxValues] = {};

bool moves(const plan::BufferRef &ref) {
  return std::any_of(ref.strides().begin(), ref.strides().end(), [](int64_t stride) { return stride != 0; });
}

} // namespace

Status Rank::resolve(const google::protobuf::RepeatedPtrField<plan::Instruction> &instructions, Body &body) {
  body.instructions.resize(static_cast<size_t>(instructions.size()));
  for (int i = 0; i < instructions.size(); ++i) {
    Status status = resolveInstruction(instructions.Get(i), body.instructions[static_cast<size_t>(i)]);
    if (!status.ok())
      return std::move(status)
          .withRank(static_cast<int>(rank()))
          .withInstruction(locateInstruction(plan, &instructions.Get(i)));
  }
  return {};
}

Status Rank::resolveInstruction(const plan::Instruction &instruction, ResolvedInstruction &resolved) {
  using I = plan::Instruction;
  resolved.origin = &instruction;
  resolved.queue = static_cast<uint8_t>(instruction.queue());
  for (uint32_t event : instruction.waits())
    resolved.waits.push_back(events[event].get());
  if (instruction.signals())
    resolved.signals = events[instruction.signals()].get();
  switch (instruction.kind_case()) {
  case I::kLaunch: return resolveLaunch(instruction.launch(), resolved);
  case I::kLibrary: return resolveLibrary(instruction.library(), resolved);
  case I::kCollective: {
    const plan::Collective &collective = instruction.collective();
    resolved.kind = ResolvedInstruction::Collective;
    COLOSSAL_RETURN_IF_ERROR(groupFor(collective.axes(), instruction.queue(), resolved.group));
    resolved.dynamic = moves(collective.src()) || moves(collective.dst()) ||
                       plan::usesValues(collective.source()) ||
                       plan::usesValues(collective.window().src_start()) ||
                       plan::usesValues(collective.window().src_valid()) ||
                       plan::usesValues(collective.window().dst_start());
    COLOSSAL_RETURN_IF_ERROR(plan::sentBytes(stage, collective, rank(), zeros, resolved.collectiveBytes));
    if (collective.kind() == plan::Collective::PERMUTE || collective.kind() == plan::Collective::EXCHANGE)
      for (uint32_t member : resolved.group->members)
        resolved.memberPositions.push_back(stage.positionOf(member));
    for (size_t ahead = 0; ahead < (resolved.dynamic ? callsAhead : 1); ++ahead)
      COLOSSAL_RETURN_IF_ERROR(addCall(resolved));
    return {};
  }
  case I::kCopy: resolved.kind = ResolvedInstruction::Copy; return {};
  case I::kSend:
    resolved.kind = ResolvedInstruction::Send;
    return communicator.transfers->reserveMessage(instruction.send().src().bytes(), *queues[resolved.queue]);
  case I::kRecv:
    resolved.kind = ResolvedInstruction::Receive;
    return communicator.transfers->reserveMessage(instruction.recv().dst().bytes(), *queues[resolved.queue]);
  case I::kCall: resolved.kind = ResolvedInstruction::Call; return {};
  case I::kRepeat:
    resolved.kind = ResolvedInstruction::Repeat;
    resolved.body = std::make_unique<Body>();
    return resolve(instruction.repeat().body(), *resolved.body);
  case I::kPredicate:
    resolved.kind = ResolvedInstruction::Predicate;
    resolved.body = std::make_unique<Body>();
    return resolve(instruction.predicate().body(), *resolved.body);
  case I::KIND_NOT_SET: break;
  }
  return {Code::Internal, "an instruction of no kind"};
}

Status Rank::addCall(ResolvedInstruction &resolved) {
  auto call = std::make_shared<CollectiveCall>();
  call->group = resolved.group.get();
  COLOSSAL_RETURN_IF_ERROR(fillCollective(resolved, zeros, *call));
  COLOSSAL_RETURN_IF_ERROR(communicator.transfers->reserve(call, *queues[resolved.queue]));
  const long held = call.use_count();
  resolved.calls.push_back({std::move(call), held});
  return {};
}

Status Rank::nextCall(ResolvedInstruction &resolved, const int64_t *values,
                      std::shared_ptr<CollectiveCall> &next) {
  next = nullptr;
  for (const ResolvedInstruction::CallSlot &slot : resolved.calls)
    if (!next && slot.call.use_count() == slot.heldAtLoad) {
      // What the communicator did with it lies before its letting go.
      std::atomic_thread_fence(std::memory_order_acquire);
      next = slot.call;
    }
  if (!next) {
    COLOSSAL_RETURN_IF_ERROR(addCall(resolved));
    next = resolved.calls.back().call;
  }
  const plan::Collective &collective = resolved.origin->collective();
  if (collective.kind() == plan::Collective::PERMUTE || collective.kind() == plan::Collective::EXCHANGE)
    COLOSSAL_RETURN_IF_ERROR(plan::sentBytes(stage, collective, rank(), values, resolved.collectiveBytes));
  return fillCollective(resolved, values, *next);
}

Status Rank::resolveLaunch(const plan::Launch &launch, ResolvedInstruction &resolved) {
  resolved.kind = ResolvedInstruction::Launch;
  for (const plan::BufferRef &ref : launch.buffers())
    resolved.dynamic |= moves(ref);
  for (const plan::Expr &param : launch.params())
    resolved.dynamic |= plan::usesValues(param);
  resolved.buffers.resize(static_cast<size_t>(launch.buffers_size()));
  resolved.params.resize(static_cast<size_t>(launch.params_size()));
  resolved.launch.kernel = modules.kernel(launch.kernel());
  resolved.launch.buffers = resolved.buffers.data();
  resolved.launch.bufferCount = static_cast<uint32_t>(resolved.buffers.size());
  resolved.launch.params = resolved.params.data();
  resolved.launch.paramCount = static_cast<uint32_t>(resolved.params.size());
  resolved.launch.tiles = launch.tiles();
  resolved.launch.tileScratch = launch.tile_scratch();
  return fillLaunch(resolved, zeros);
}

Status Rank::fillLaunch(ResolvedInstruction &resolved, const int64_t *values) {
  const plan::Launch &launch = resolved.origin->launch();
  for (size_t i = 0; i < resolved.buffers.size(); ++i)
    resolved.buffers[i] = at(launch.buffers(static_cast<int>(i)), values);
  for (size_t i = 0; i < resolved.params.size(); ++i)
    COLOSSAL_RETURN_IF_ERROR(
        plan::evaluateExpr(launch.params(static_cast<int>(i)), meshPosition, values, resolved.params[i]));
  return {};
}

Status Rank::resolveLibrary(const plan::LibraryCall &call, ResolvedInstruction &resolved) {
  resolved.kind = ResolvedInstruction::Library;
  for (const plan::BufferRef &ref : call.buffers()) {
    resolved.dynamic |= moves(ref);
    resolved.buffers.push_back(at(ref, zeros));
  }
  // Equal layers share a routine; the sizes of the opaque buffers are part of what it is checked against.
  std::string descriptor = call.routine() + '\n' + call.convolution().SerializeAsString() +
                           call.contraction().SerializeAsString() + call.attention().SerializeAsString();
  for (const plan::BufferRef &ref : call.buffers())
    descriptor += '\n' + std::to_string(ref.bytes());
  Routine *&routine = routineByDescriptor[descriptor];
  if (!routine) {
    std::unique_ptr<Routine> made;
    COLOSSAL_RETURN_IF_ERROR(device->createRoutine(call, made));
    routine = made.get();
    routines.push_back(std::move(made));
  }
  resolved.routine = routine;
  return {};
}

Status Rank::groupFor(const google::protobuf::RepeatedField<uint32_t> &axes, uint32_t queue,
                      std::shared_ptr<Group> &group) {
  auto found = groups.find({{axes.begin(), axes.end()}, queue});
  if (found == groups.end())
    return {Code::Internal, "a collective's group was not made"};
  group = found->second;
  return {};
}

Status Rank::fillCollective(const ResolvedInstruction &resolved, const int64_t *values,
                            CollectiveCall &call) {
  const plan::Collective &collective = resolved.origin->collective();
  call.kind = static_cast<CollectiveKind>(collective.kind());
  call.isStatistics = collective.statistics();
  call.reduction = static_cast<Reduction>(collective.reduction());
  call.type = static_cast<ElementType>(collective.type());
  call.src = at(collective.src(), values);
  call.dst = at(collective.dst(), values);
  call.sizes.assign(collective.sizes().begin(), collective.sizes().end());
  call.srcStrides.assign(collective.src_strides().begin(), collective.src_strides().end());
  call.dstStrides.assign(collective.dst_strides().begin(), collective.dst_strides().end());
  call.srcPeerStride = collective.src_peer_stride();
  call.dstPeerStride = collective.dst_peer_stride();
  call.root = collective.root();
  if (call.kind != CollectiveKind::Permute && call.kind != CollectiveKind::Exchange)
    return {};
  const plan::Collective::Window &window = collective.window();
  call.window.outer = window.outer();
  call.window.inner = window.inner();
  call.window.srcExtent = window.src_extent();
  call.window.dstExtent = window.dst_extent();
  call.window.fill = window.fill();
  const size_t members = call.group->members.size();
  for (std::vector<int64_t> *values :
       {&call.sources, &call.window.srcStart, &call.window.srcValid, &call.window.dstStart})
    values->resize(members);
  for (size_t member = 0; member < members; ++member) {
    const plan::MeshPosition &there = resolved.memberPositions[member];
    if (call.kind == CollectiveKind::Permute) {
      COLOSSAL_RETURN_IF_ERROR(plan::evaluateExpr(collective.source(), there, values, call.sources[member]));
    } else {
      COLOSSAL_RETURN_IF_ERROR(
          plan::evaluateExpr(window.src_start(), there, values, call.window.srcStart[member]));
      COLOSSAL_RETURN_IF_ERROR(
          plan::evaluateExpr(window.src_valid(), there, values, call.window.srcValid[member]));
      COLOSSAL_RETURN_IF_ERROR(
          plan::evaluateExpr(window.dst_start(), there, values, call.window.dstStart[member]));
    }
  }
  return {};
}

} // namespace colossal::runtime
