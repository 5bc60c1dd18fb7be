// Instructions in the order they run: references, events, calls, and what is written against what is read.
#include "runtime/validate/Checker.h"

#include "colossal/Plan/DataType.h"
#include "colossal/Plan/Names.h"
#include "colossal/Plan/Traffic.h"

#include <algorithm>

namespace colossal::runtime {

namespace {
constexpr uint64_t maxRepeatCount = uint64_t(1) << 32;
constexpr int maxLaunchBuffers = 255;
constexpr uint64_t maxTileScratch = uint64_t(1) << 30;
} // namespace

std::string instructionKind(const plan::Instruction &instruction) {
  using I = plan::Instruction;
  switch (instruction.kind_case()) {
  case I::kLaunch: return "launch";
  case I::kLibrary: return instruction.library().routine();
  case I::kCollective: {
    std::string name = plan::Collective::Kind_Name(instruction.collective().kind());
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    return name.empty() ? "collective" : name;
  }
  case I::kSend: return "send";
  case I::kRecv: return "recv";
  case I::kCopy: return "copy";
  case I::kCall: return "call";
  case I::kRepeat: return "repeat";
  case I::kPredicate: return "predicate";
  case I::KIND_NOT_SET: break;
  }
  return "nothing";
}

std::string describeInstruction(const std::string &owner, const std::string &path,
                                const plan::Instruction &instruction, const plan::Call *call) {
  std::string text = owner + ", instruction " + path + " (" + instructionKind(instruction);
  if (!instruction.source().empty())
    text += "; from " + (call ? plan::fillNames(instruction.source(), call->names()) : instruction.source());
  return text + ")";
}

Status Checker::walk(const google::protobuf::RepeatedPtrField<plan::Instruction> &body, const Scope &scope) {
  for (int i = 0; i < body.size(); ++i) {
    std::string path = scope.prefix + std::to_string(i);
    Status status = checkInstruction(body.Get(i), scope, path);
    if (!status.ok())
      return std::move(status).withInstruction(
          describeInstruction(scope.owner, path, body.Get(i), scope.call));
  }
  return {};
}

Status Checker::checkInstruction(const plan::Instruction &instruction, const Scope &scope,
                                 const std::string &path) {
  COLOSSAL_RETURN_IF_ERROR(spend(1));
  if (instruction.queue() >= plan::queueCount)
    return invalid("there is no queue " + std::to_string(instruction.queue()));
  for (uint32_t event : instruction.waits())
    if (signalled.count(event) == 0)
      return invalid("it waits for event " + std::to_string(event) +
                     ", which no earlier instruction signals");
  COLOSSAL_RETURN_IF_ERROR(checkKind(instruction, scope, path));
  if (uint32_t event = instruction.signals()) {
    if (event > events)
      return invalid("it signals event " + std::to_string(event) + " of " + std::to_string(events));
    auto [found, fresh] = signalledBy.emplace(event, &instruction);
    if (!fresh && found->second != &instruction)
      return invalid("event " + std::to_string(event) + " is signalled by another instruction too");
    signalled.insert(event);
  }
  return {};
}

void Checker::expectSignals(const plan::InstructionList &body) {
  for (const plan::Instruction &instruction : body) {
    if (instruction.signals())
      signalled.insert(instruction.signals());
    expectSignals(instruction.repeat().body());
    expectSignals(instruction.predicate().body());
  }
}

Status Checker::checkKind(const plan::Instruction &instruction, const Scope &scope, const std::string &path) {
  using I = plan::Instruction;
  Scope inner = scope;
  inner.prefix = path + ".";
  if (instruction.has_send() || instruction.has_recv())
    COLOSSAL_RETURN_IF_ERROR(needVersion(2, "messages, whose memory is stated from then on,"));
  if (instruction.queue() > 1)
    COLOSSAL_RETURN_IF_ERROR(needVersion(2, "three queues"));
  switch (instruction.kind_case()) {
  case I::kLaunch: return checkLaunch(instruction.launch(), scope);
  case I::kLibrary:
    if (instruction.library().has_contraction())
      COLOSSAL_RETURN_IF_ERROR(needVersion(2, "contractions by a library"));
    return checkLibrary(instruction.library(), scope);
  case I::kCollective: return checkCollective(instruction.collective(), scope);
  case I::kSend: return checkPeer(instruction.send().src(), instruction.send().peer(), scope, false);
  case I::kRecv: return checkPeer(instruction.recv().dst(), instruction.recv().peer(), scope, true);
  case I::kCopy: return checkCopy(instruction.copy(), scope);
  case I::kCall: return checkCall(instruction.call(), scope);
  case I::kRepeat:
    if (instruction.repeat().count() > maxRepeatCount)
      return invalid("it repeats more than 2^32 times");
    if (scope.environment.repeats() >= plan::maxRepeatDepth)
      return invalid("repeats are nested deeper than " + std::to_string(plan::maxRepeatDepth));
    inner.environment.enterRepeat(instruction.repeat().count());
    expectSignals(instruction.repeat().body());
    return walk(instruction.repeat().body(), inner);
  case I::kPredicate:
    COLOSSAL_RETURN_IF_ERROR(forAll({&instruction.predicate().condition()}, scope,
                                    [](const std::vector<int64_t> &) { return Status(); }));
    inner.predicated = true;
    return walk(instruction.predicate().body(), inner);
  case I::KIND_NOT_SET: break;
  }
  return {Code::Unsupported, "an instruction of a kind that this runtime does not know"};
}

Status Checker::checkCall(const plan::Call &call, const Scope &scope) {
  if (call.function() >= static_cast<uint32_t>(plan.functions_size()))
    return invalid("there is no function " + std::to_string(call.function()));
  if (call.function() < scope.function)
    return invalid("a function may only call later ones");
  if (scope.depth >= plan::maxCallDepth)
    return invalid("calls are nested deeper than " + std::to_string(plan::maxCallDepth));
  const plan::Function &function = plan.functions(static_cast<int>(call.function()));
  if (function.arguments() > plan::maxArguments)
    return invalid("function '" + function.name() + "' takes more than " +
                   std::to_string(plan::maxArguments) + " arguments");
  if (function.arguments() > 0)
    COLOSSAL_RETURN_IF_ERROR(needVersion(2, "arguments"));
  Scope inner = scope;
  COLOSSAL_RETURN_IF_ERROR(inner.environment.enterCall(call, function.arguments()));
  if (!visited[scope.predicated].insert({call.function(), inner.environment.signature()}).second)
    return {};
  expectSignals(function.body());
  inner.call = &call;
  inner.owner = "function '" + function.name() + "'" + stage->suffix();
  inner.prefix.clear();
  inner.function = call.function() + 1;
  inner.depth = scope.depth + 1;
  return walk(function.body(), inner);
}

Status Checker::checkLaunch(const plan::Launch &launch, const Scope &scope) {
  if (launch.kernel() >= static_cast<uint32_t>(plan.kernels_size()))
    return invalid("there is no kernel " + std::to_string(launch.kernel()));
  const plan::Kernel &kernel = plan.kernels(static_cast<int>(launch.kernel()));
  if (static_cast<uint32_t>(launch.buffers_size()) != kernel.buffers() ||
      static_cast<uint32_t>(launch.params_size()) != kernel.params())
    return invalid("kernel '" + kernel.symbol() + "' takes " + std::to_string(kernel.buffers()) +
                   " buffers and " + std::to_string(kernel.params()) + " parameters, and is given " +
                   std::to_string(launch.buffers_size()) + " and " + std::to_string(launch.params_size()));
  if (launch.buffers_size() > maxLaunchBuffers)
    return invalid("it has more than " + std::to_string(maxLaunchBuffers) + " buffers");
  if (launch.writes() > static_cast<uint32_t>(launch.buffers_size()))
    return invalid("it writes more buffers than it has");
  if (launch.tiles() > maxExtent || launch.tile_scratch() > maxTileScratch)
    return invalid("its tiles or their scratch are out of range");
  for (const plan::Expr &param : launch.params())
    COLOSSAL_RETURN_IF_ERROR(
        plan::checkExpr(param, static_cast<unsigned>(stage->mesh->axes_size()), scope.environment.visible()));
  const int firstWritten = launch.buffers_size() - static_cast<int>(launch.writes());
  std::vector<bool> both(launch.buffers_size());
  for (uint32_t index : launch.also_written()) {
    if (index >= static_cast<uint32_t>(launch.buffers_size()))
      return invalid("it says that buffer " + std::to_string(index) +
                     " is written too, and has no such buffer");
    both[index] = true;
  }
  for (int i = 0; i < launch.buffers_size(); ++i)
    COLOSSAL_RETURN_IF_ERROR(
        checkRef(launch.buffers(i), "buffer " + std::to_string(i), scope, i >= firstWritten || both[i]));
  COLOSSAL_RETURN_IF_ERROR(
      spend(static_cast<uint64_t>(launch.buffers_size()) * (launch.writes() + launch.also_written_size())));
  // Sharing is declared by `also_written`, which names a buffer whose place a written one takes. It is
  // written itself, and no buffer that is only read may share its bytes.
  for (int written = 0; written < launch.buffers_size(); ++written) {
    if (written < firstWritten && !both[written])
      continue;
    for (int other = 0; other < launch.buffers_size(); ++other) {
      bool isDeclared = both[other] || (both[written] && other >= firstWritten);
      if (other != written && !isDeclared && overlap(launch.buffers(written), launch.buffers(other), scope))
        return invalid("buffer " + std::to_string(written) + " is written and overlaps buffer " +
                       std::to_string(other));
    }
  }
  return {};
}

Status Checker::describeRoutine(const plan::LibraryCall &call, std::vector<RoutineBuffer> &buffers,
                                uint32_t &writes) {
  writes = 2;
  if (call.routine() == "contraction") {
    const plan::Contraction &contraction = call.contraction();
    ContractionBytes bytes;
    COLOSSAL_RETURN_IF_ERROR(checkContraction(contraction, bytes));
    const uint64_t size = plan::elementBytes(contraction.type()),
                   resultSize = plan::elementBytes(contraction.result_type());
    buffers = {{bytes.a, size}, {bytes.b, size}};
    if (contraction.bias())
      buffers.push_back({bytes.bias, resultSize});
    buffers.insert(buffers.end(), {{0, 4}, {bytes.c, resultSize}});
    return {};
  }
  if (call.routine() == "convolution.unpacked") {
    COLOSSAL_RETURN_IF_ERROR(needVersion(4, "convolutions whose weights are not packed"));
    const plan::Convolution &convolution = call.convolution();
    ConvolutionBytes bytes;
    COLOSSAL_RETURN_IF_ERROR(checkUnpackedConvolution(convolution, bytes));
    const uint64_t size = plan::elementBytes(convolution.type());
    buffers = {{bytes.input, size}, {bytes.weight, size}};
    if (convolution.bias())
      buffers.push_back({bytes.bias, size});
    buffers.insert(buffers.end(), {{0, 4}, {bytes.output, size}});
    return {};
  }
  if (call.routine() == "attention") {
    COLOSSAL_RETURN_IF_ERROR(needVersion(4, "routines of attention"));
    const plan::Attention &attention = call.attention();
    AttentionBytes bytes;
    COLOSSAL_RETURN_IF_ERROR(checkAttention(attention, bytes));
    const uint64_t size = plan::elementBytes(attention.type());
    buffers = {{bytes.query, size}, {bytes.key, size}, {bytes.value, size}};
    if (attention.mask())
      buffers.push_back({bytes.mask, plan::elementBytes(attention.mask_type())});
    buffers.insert(buffers.end(), {{0, 4}, {bytes.output, size}});
    return {};
  }
  if (call.routine() != "convolution" && call.routine() != "convolution.pack")
    return {Code::Unsupported, "this runtime has no library routine '" + call.routine() + "'"};
  ConvolutionBytes bytes;
  COLOSSAL_RETURN_IF_ERROR(checkConvolution(call.convolution(), bytes));
  if (call.routine() == "convolution.pack") {
    writes = 1;
    buffers = {{bytes.weight, 4}, {0, 4}};
    return {};
  }
  buffers = {{bytes.input, 4}, {0, 4}};
  if (call.convolution().bias())
    buffers.push_back({bytes.bias, 4});
  buffers.insert(buffers.end(), {{0, 4}, {bytes.output, 4}});
  return {};
}

Status Checker::checkLibrary(const plan::LibraryCall &call, const Scope &scope) {
  std::vector<RoutineBuffer> expected;
  uint32_t writes = 0;
  COLOSSAL_RETURN_IF_ERROR(describeRoutine(call, expected, writes));
  if (static_cast<size_t>(call.buffers_size()) != expected.size() || call.writes() != writes)
    return invalid("routine '" + call.routine() + "' takes " + std::to_string(expected.size()) +
                   " buffers and writes " + std::to_string(writes) + ", and is given " +
                   std::to_string(call.buffers_size()) + " and " + std::to_string(call.writes()));
  const int firstWritten = call.buffers_size() - static_cast<int>(writes);
  for (int i = 0; i < call.buffers_size(); ++i) {
    const RoutineBuffer &needed = expected[static_cast<size_t>(i)];
    COLOSSAL_RETURN_IF_ERROR(
        checkRef(call.buffers(i), "buffer " + std::to_string(i), scope, i >= firstWritten));
    if (call.buffers(i).bytes() < needed.least)
      return invalid("buffer " + std::to_string(i) + " has " + std::to_string(call.buffers(i).bytes()) +
                     " bytes and needs " + std::to_string(needed.least));
    if (!isAligned(call.buffers(i), needed.alignment, scope))
      return invalid("buffer " + std::to_string(i) + " is not aligned");
    for (int other = 0; other < i && i >= firstWritten; ++other)
      if (overlap(call.buffers(i), call.buffers(other), scope))
        return invalid("buffer " + std::to_string(i) + " is written and overlaps buffer " +
                       std::to_string(other));
  }
  return {};
}

Status Checker::checkCopy(const plan::Copy &copy, const Scope &scope) {
  COLOSSAL_RETURN_IF_ERROR(checkRef(copy.dst(), "its destination", scope, true));
  switch (copy.source_case()) {
  case plan::Copy::kBuffer:
    COLOSSAL_RETURN_IF_ERROR(checkRef(copy.buffer(), "its source", scope, false));
    if (copy.buffer().bytes() != copy.dst().bytes())
      return invalid("its source has " + std::to_string(copy.buffer().bytes()) + " bytes, its destination " +
                     std::to_string(copy.dst().bytes()));
    if (overlap(copy.buffer(), copy.dst(), scope))
      return invalid("its source and destination overlap");
    return {};
  case plan::Copy::kParameter: {
    const plan::Copy::FromParameter &from = copy.parameter();
    COLOSSAL_RETURN_IF_ERROR(checkParameterIndex(from, scope));
    const plan::Parameter &parameter = plan.parameters(static_cast<int>(from.parameter()));
    if (!isAligned(copy.dst(), plan::elementBytes(parameter.type()), scope))
      return invalid("its destination is not aligned to the parameter's elements");
    return checkBox(from.box(), parameter.shape(), parameter.type(), copy.dst(), scope);
  }
  case plan::Copy::kData:
    if (copy.data().offset() > data.size || copy.data().bytes() > data.size - copy.data().offset())
      return invalid("its source lies outside the data section");
    if (copy.data().bytes() != copy.dst().bytes())
      return invalid("its source has " + std::to_string(copy.data().bytes()) + " bytes, its destination " +
                     std::to_string(copy.dst().bytes()));
    return {};
  case plan::Copy::SOURCE_NOT_SET: break;
  }
  return invalid("it has no source");
}

Status Checker::checkParameterIndex(const plan::Copy::FromParameter &from, const Scope &scope) {
  if (from.parameter() >= static_cast<uint32_t>(plan.parameters_size()))
    return invalid("there is no parameter " + std::to_string(from.parameter()));
  if (from.strides_size() == 0)
    return {};
  COLOSSAL_RETURN_IF_ERROR(needVersion(2, "strides of a parameter"));
  if (static_cast<unsigned>(from.strides_size()) > scope.environment.visible())
    return invalid("its parameter has " + std::to_string(from.strides_size()) + " strides where " +
                   std::to_string(scope.environment.visible()) + " arguments and counters are seen");
  const Affine index = scope.environment.address(from.parameter(), from.strides());
  const Range range = scope.environment.range(index);
  if (range.least < 0 || range.greatest >= plan.parameters_size())
    return invalid("its parameter is one of " + std::to_string(static_cast<int64_t>(range.least)) + " to " +
                   std::to_string(static_cast<int64_t>(range.greatest)) + ", and there are " +
                   std::to_string(plan.parameters_size()));
  COLOSSAL_RETURN_IF_ERROR(spend(static_cast<uint64_t>(range.greatest - range.least)));
  const plan::Parameter &first = plan.parameters(static_cast<int>(from.parameter()));
  for (auto i = static_cast<int>(range.least); i <= static_cast<int>(range.greatest); ++i) {
    const plan::Parameter &other = plan.parameters(i);
    if (other.type() == first.type() &&
        std::equal(other.shape().begin(), other.shape().end(), first.shape().begin(), first.shape().end()))
      continue;
    if (scope.environment.mayLieIn(index, i, i))
      return invalid("its parameter may be '" + first.name() + "' or '" + other.name() +
                     "', whose types or shapes differ");
  }
  return {};
}

Status Checker::checkPeer(const plan::BufferRef &buffer, const plan::Expr &peer, const Scope &scope,
                          bool written) {
  COLOSSAL_RETURN_IF_ERROR(checkRef(buffer, "its buffer", scope, written));
  uint64_t waiting;
  if (!productWithin(std::vector<uint64_t>{plan.message_slots(), plan::slotBytes(plan, buffer.bytes())},
                     waiting))
    return invalid("the memory of " + std::to_string(plan.message_slots()) +
                   " such messages is more than any rank has");
  return forAll({&peer}, scope, [&](const std::vector<int64_t> &values) {
    if (values[0] >= static_cast<int64_t>(ranks))
      return invalid("peer " + std::to_string(values[0]) + " of " + std::to_string(ranks) + " ranks");
    return Status();
  });
}

} // namespace colossal::runtime
