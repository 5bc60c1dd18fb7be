// From the plan's instructions to a rank's steps: addresses, parameters, peers, routines.
#include "runtime/execute/Step.h"

#include "colossal/Plan/DataType.h"
#include "colossal/Plan/Traffic.h"

#include <algorithm>

namespace colossal::runtime {

namespace {

bool moves(const plan::BufferRef &ref) {
  return std::any_of(ref.strides().begin(), ref.strides().end(), [](int64_t stride) { return stride != 0; });
}

} // namespace

Status Rank::resolve(const google::protobuf::RepeatedPtrField<plan::Instruction> &instructions, Body &body) {
  body.steps.resize(static_cast<size_t>(instructions.size()));
  for (int i = 0; i < instructions.size(); ++i) {
    Status status = resolveStep(instructions.Get(i), body.steps[static_cast<size_t>(i)]);
    if (!status.ok())
      return std::move(status)
          .withRank(static_cast<int>(rank()))
          .withInstruction(locateInstruction(plan, &instructions.Get(i)));
  }
  return {};
}

Status Rank::resolveStep(const plan::Instruction &instruction, Step &step) {
  using I = plan::Instruction;
  step.origin = &instruction;
  step.queue = static_cast<uint8_t>(instruction.queue());
  for (uint32_t event : instruction.waits())
    step.waits.push_back(events[event].get());
  if (instruction.signals())
    step.signals = events[instruction.signals()].get();
  switch (instruction.kind_case()) {
  case I::kLaunch: return resolveLaunch(instruction.launch(), step);
  case I::kLibrary: return resolveLibrary(instruction.library(), step);
  case I::kCollective: {
    const plan::Collective &collective = instruction.collective();
    step.kind = Step::Collective;
    COLOSSAL_RETURN_IF_ERROR(groupFor(collective.axes(), instruction.queue(), step.group));
    step.dynamic = moves(collective.src()) || moves(collective.dst()) ||
                   plan::usesCounters(collective.source()) ||
                   plan::usesCounters(collective.window().src_start()) ||
                   plan::usesCounters(collective.window().src_valid()) ||
                   plan::usesCounters(collective.window().dst_start());
    step.collective = std::make_shared<CollectiveCall>();
    step.collective->group = step.group.get();
    // Counters at zero give a call of the right sizes; dynamic ones are filled again at each run.
    COLOSSAL_RETURN_IF_ERROR(fillCollective(collective, Counters(16, 0), *step.collective));
    COLOSSAL_RETURN_IF_ERROR(
        plan::sentBytes(plan.mesh(), collective, rank(), Counters(16, 0), step.collectiveBytes));
    return communicator.transfers->reserve(step.collective, *queues[step.queue]);
  }
  case I::kCopy: step.kind = Step::Copy; return {};
  case I::kSend:
    step.kind = Step::Send;
    return communicator.transfers->reserveMessage(instruction.send().src().bytes(), *queues[step.queue]);
  case I::kRecv:
    step.kind = Step::Receive;
    return communicator.transfers->reserveMessage(instruction.recv().dst().bytes(), *queues[step.queue]);
  case I::kCall: step.kind = Step::Call; return {};
  case I::kRepeat:
    step.kind = Step::Repeat;
    step.body = std::make_unique<Body>();
    return resolve(instruction.repeat().body(), *step.body);
  case I::kPredicate:
    step.kind = Step::Predicate;
    step.body = std::make_unique<Body>();
    return resolve(instruction.predicate().body(), *step.body);
  case I::KIND_NOT_SET: break;
  }
  return {Code::Internal, "an instruction of no kind"};
}

Status Rank::resolveLaunch(const plan::Launch &launch, Step &step) {
  step.kind = Step::Launch;
  for (const plan::BufferRef &ref : launch.buffers())
    step.dynamic |= moves(ref);
  for (const plan::Expr &param : launch.params())
    step.dynamic |= plan::usesCounters(param);
  step.buffers.resize(static_cast<size_t>(launch.buffers_size()));
  step.params.resize(static_cast<size_t>(launch.params_size()));
  step.launch.kernel = modules.kernel(launch.kernel());
  step.launch.buffers = step.buffers.data();
  step.launch.bufferCount = static_cast<uint32_t>(step.buffers.size());
  step.launch.params = step.params.data();
  step.launch.paramCount = static_cast<uint32_t>(step.params.size());
  step.launch.tiles = launch.tiles();
  step.launch.tileScratch = launch.tile_scratch();
  return fillLaunch(step, Counters(16, 0));
}

Status Rank::fillLaunch(Step &step, const Counters &counters) {
  const plan::Launch &launch = step.origin->launch();
  for (size_t i = 0; i < step.buffers.size(); ++i)
    step.buffers[i] = at(launch.buffers(static_cast<int>(i)), counters);
  for (size_t i = 0; i < step.params.size(); ++i)
    COLOSSAL_RETURN_IF_ERROR(
        plan::evaluateExpr(launch.params(static_cast<int>(i)), place, counters, step.params[i]));
  return {};
}

Status Rank::resolveLibrary(const plan::LibraryCall &call, Step &step) {
  step.kind = Step::Library;
  for (const plan::BufferRef &ref : call.buffers()) {
    step.dynamic |= moves(ref);
    step.buffers.push_back(at(ref, Counters(16, 0)));
  }
  // Equal layers share a routine; the sizes of the opaque buffers are part of what it is checked against.
  std::string descriptor = call.routine() + '\n' + call.convolution().SerializeAsString();
  for (const plan::BufferRef &ref : call.buffers())
    descriptor += '\n' + std::to_string(ref.bytes());
  Routine *&routine = routineByDescriptor[descriptor];
  if (!routine) {
    std::unique_ptr<Routine> made;
    COLOSSAL_RETURN_IF_ERROR(device->createRoutine(call, made));
    routine = made.get();
    routines.push_back(std::move(made));
  }
  step.routine = routine;
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

Status Rank::fillCollective(const plan::Collective &collective, const Counters &counters,
                            CollectiveCall &call) {
  call.kind = static_cast<CollectiveKind>(collective.kind());
  call.reduction = static_cast<Reduction>(collective.reduction());
  call.type = static_cast<ElementType>(collective.type());
  call.src = at(collective.src(), counters);
  call.dst = at(collective.dst(), counters);
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
    std::vector<int64_t> there = plan::meshCoordinates(plan.mesh(), call.group->members[member]);
    if (call.kind == CollectiveKind::Permute) {
      COLOSSAL_RETURN_IF_ERROR(
          plan::evaluateExpr(collective.source(), there, counters, call.sources[member]));
    } else {
      COLOSSAL_RETURN_IF_ERROR(
          plan::evaluateExpr(window.src_start(), there, counters, call.window.srcStart[member]));
      COLOSSAL_RETURN_IF_ERROR(
          plan::evaluateExpr(window.src_valid(), there, counters, call.window.srcValid[member]));
      COLOSSAL_RETURN_IF_ERROR(
          plan::evaluateExpr(window.dst_start(), there, counters, call.window.dstStart[member]));
    }
  }
  return {};
}

} // namespace colossal::runtime
