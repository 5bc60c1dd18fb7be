// Closed formulas of communication, evaluated on the plan's messages.
#include "colossal/Plan/Traffic.h"

#include "colossal/Plan/DataType.h"
#include "colossal/Plan/Expr.h"
#include "colossal/Plan/Volume.h"

#include <algorithm>

namespace colossal::plan {

namespace {

using Body = InstructionList;

uint64_t groupSize(const Mesh &mesh, const Collective &collective) {
  uint64_t members = 1;
  for (uint32_t axis : collective.axes())
    members *= mesh.axes(static_cast<int>(axis)).size();
  return members;
}

uint64_t blockElements(const Collective &collective) {
  uint64_t elements = 1;
  for (uint64_t size : collective.sizes())
    elements *= size;
  return elements;
}

/// Values of an expression on every member.
Status onMembers(const StageView &stage, const std::vector<uint32_t> &members, const Expr &expr,
                 const int64_t *values, std::vector<int64_t> &results) {
  results.resize(members.size());
  for (size_t m = 0; m < members.size(); ++m)
    COLOSSAL_RETURN_IF_ERROR(evaluateExpr(expr, stage.positionOf(members[m]), values, results[m]));
  return {};
}

/// Places of [begin, end) that lie in none of the ranges.
int64_t placesOutside(int64_t begin, int64_t end, std::vector<std::pair<int64_t, int64_t>> ranges) {
  std::sort(ranges.begin(), ranges.end());
  int64_t places = 0;
  for (const auto &[from, until] : ranges) {
    if (until <= begin || until <= from)
      continue;
    places += std::max<int64_t>(0, std::min(from, end) - begin);
    begin = std::max(begin, until);
  }
  return places + std::max<int64_t>(0, end - begin);
}

/// Marks the values seen by a body on which it depends what it sends: of `values`, those of a place where
/// values.size() are seen.
void markTraffic(const Plan &plan, const Body &body, std::vector<bool> &values) {
  for (const Instruction &instruction : body) {
    const Collective &collective = instruction.collective();
    for (const Expr *expr :
         {&collective.source(), &collective.window().src_start(), &collective.window().src_valid(),
          &collective.window().dst_start(), &instruction.send().peer(), &instruction.predicate().condition()})
      markValues(*expr, values);
    markTraffic(plan, instruction.predicate().body(), values);
    if (instruction.has_repeat()) {
      values.push_back(false);
      markTraffic(plan, instruction.repeat().body(), values);
      values.pop_back();
    }
    if (!instruction.has_call())
      continue;
    const Call &call = instruction.call();
    const Function &function = plan.functions(static_cast<int>(call.function()));
    if (function.arguments() == 0) {
      markTraffic(plan, function.body(), values);
      continue;
    }
    std::vector<bool> arguments(function.arguments());
    markTraffic(plan, function.body(), arguments);
    for (int a = 0; a < call.arguments_size(); ++a)
      if (arguments[static_cast<size_t>(a)])
        markValues(call.arguments(a), values);
  }
}

/// Whether what a repeat's body sends is the same in every iteration of it, where `seen` values are seen
/// around it.
bool sameInEachIteration(const Plan &plan, const Repeat &repeat, size_t seen) {
  std::vector<bool> values(seen + 1);
  markTraffic(plan, repeat.body(), values);
  return !values.back();
}

class Counting {
public:
  Counting(const Plan &plan, const std::vector<StageView> &stages, uint64_t rank, Traffic &traffic,
           uint64_t shortAllReduce)
      : plan(plan), stages(stages), stage(stageOf(stages, rank)), rank(rank), shortAllReduce(shortAllReduce),
        position(stage.positionOf(rank)), traffic(traffic) {}

  /// Adds what `times` runs of the body send.
  Status count(const Body &body, uint64_t times) {
    for (const Instruction &instruction : body)
      COLOSSAL_RETURN_IF_ERROR(count(instruction, times));
    return {};
  }

private:
  Status count(const Instruction &instruction, uint64_t times) {
    if (instruction.has_collective()) {
      const Collective &collective = instruction.collective();
      uint64_t bytes = 0;
      COLOSSAL_RETURN_IF_ERROR(sentBytes(stage, collective, rank, values.data(), bytes, shortAllReduce));
      traffic[{axisNames(*stage.mesh, {collective.axes().begin(), collective.axes().end()}),
               trafficName(collective)}] += bytes * times;
    } else if (instruction.has_send()) {
      int64_t peer = -1;
      COLOSSAL_RETURN_IF_ERROR(evaluateExpr(instruction.send().peer(), position, values.data(), peer));
      if (peer >= 0 && static_cast<uint64_t>(peer) != rank)
        traffic[{axesBetween(stages, rank, static_cast<uint64_t>(peer)), "send"}] +=
            instruction.send().src().bytes() * times;
    } else if (instruction.has_call()) {
      const Call &call = instruction.call();
      const Body &body = plan.functions(static_cast<int>(call.function())).body();
      if (call.arguments_size() == 0)
        return count(body, times);
      std::vector<int64_t> arguments(static_cast<size_t>(call.arguments_size()));
      for (size_t a = 0; a < arguments.size(); ++a)
        COLOSSAL_RETURN_IF_ERROR(
            evaluateExpr(call.arguments(static_cast<int>(a)), position, values.data(), arguments[a]));
      values.swap(arguments);
      COLOSSAL_RETURN_IF_ERROR(count(body, times));
      values.swap(arguments);
    } else if (instruction.has_predicate()) {
      int64_t condition = 0;
      COLOSSAL_RETURN_IF_ERROR(
          evaluateExpr(instruction.predicate().condition(), position, values.data(), condition));
      return condition ? count(instruction.predicate().body(), times) : Status();
    } else if (instruction.has_repeat()) {
      const Repeat &repeat = instruction.repeat();
      const bool same = sameInEachIteration(plan, repeat, values.size());
      const uint64_t iterations = same ? std::min<uint64_t>(1, repeat.count()) : repeat.count();
      values.push_back(0);
      for (uint64_t i = 0; i < iterations; ++i) {
        values.back() = static_cast<int64_t>(i);
        COLOSSAL_RETURN_IF_ERROR(count(repeat.body(), same ? times * repeat.count() : times));
      }
      values.pop_back();
    }
    return {};
  }

  const Plan &plan;
  const std::vector<StageView> &stages;
  const StageView &stage;
  const uint64_t rank, shortAllReduce;
  const MeshPosition position;
  Traffic &traffic;
  std::vector<int64_t> values; // arguments and counters
};

void addStaging(const Mesh &mesh, const Body &body, std::vector<uint64_t> &queues) {
  for (const Instruction &instruction : body) {
    if (instruction.has_collective()) {
      const Collective &collective = instruction.collective();
      if (queues.size() <= instruction.queue())
        queues.resize(instruction.queue() + 1);
      uint64_t &most = queues[instruction.queue()];
      most = std::max(most, stagingOf(collective.kind(), blockElements(collective),
                                      elementBytes(collective.type()), groupSize(mesh, collective))
                                .bytes);
    }
    addStaging(mesh, instruction.repeat().body(), queues);
    addStaging(mesh, instruction.predicate().body(), queues);
  }
}

void addLongest(const Body &body, uint64_t *longest) {
  for (const Instruction &instruction : body) {
    if (instruction.has_send())
      longest[instruction.queue()] = std::max(longest[instruction.queue()], instruction.send().src().bytes());
    addLongest(instruction.repeat().body(), longest);
    addLongest(instruction.predicate().body(), longest);
  }
}

} // namespace

uint64_t sentBytes(const Transfer &transfer) {
  const uint64_t n = transfer.members, block = transfer.elements * transfer.elementBytes;
  switch (transfer.kind) {
  case Collective::ALL_REDUCE: {
    if (n > 2 && block <= transfer.shortAllReduce)
      return sentInBlocks(block, n);
    const auto [begin, end] = memberSlice(transfer.elements, transfer.self, n);
    return sentInSlices(block, (end - begin) * transfer.elementBytes, n);
  }
  case Collective::ALL_GATHER:
  case Collective::REDUCE_SCATTER:
  case Collective::ALL_TO_ALL: return sentInBlocks(block, n);
  case Collective::BROADCAST: return transfer.self == transfer.root ? sentInBlocks(block, n) : 0;
  case Collective::PERMUTE: {
    uint64_t receivers = 0;
    for (uint64_t member = 0; member < n; ++member)
      receivers += member != transfer.self && transfer.sources[member] == static_cast<int64_t>(transfer.self);
    return block * receivers;
  }
  case Collective::EXCHANGE: {
    // The places of this member that others want. Where several members hold a place, the first gives it.
    const int64_t from = transfer.start[transfer.self], until = from + transfer.valid[transfer.self];
    std::vector<std::pair<int64_t, int64_t>> earlier;
    for (uint64_t member = 0; member < transfer.self; ++member)
      earlier.push_back({transfer.start[member], transfer.start[member] + transfer.valid[member]});
    uint64_t places = 0;
    for (uint64_t receiver = 0; receiver < n; ++receiver) {
      const int64_t begin = std::max(from, transfer.wanted[receiver]);
      const int64_t end = std::min(until, transfer.wanted[receiver] + transfer.extent);
      if (receiver != transfer.self && begin < end)
        places += static_cast<uint64_t>(placesOutside(begin, end, earlier));
    }
    return places * transfer.rows * transfer.elementBytes;
  }
  default: return 0;
  }
}

Status sentBytes(const StageView &stage, const Collective &collective, uint64_t rank, const int64_t *values,
                 uint64_t &bytes, uint64_t shortAllReduce) {
  const std::vector<uint32_t> members =
      stage.members({collective.axes().begin(), collective.axes().end()}, rank);
  Transfer transfer;
  transfer.kind = collective.kind();
  transfer.members = members.size();
  transfer.self = static_cast<uint64_t>(std::find(members.begin(), members.end(), rank) - members.begin());
  transfer.elementBytes = elementBytes(collective.type());
  transfer.elements = blockElements(collective);
  transfer.root = collective.root();
  transfer.shortAllReduce = shortAllReduce;
  if (collective.kind() == Collective::PERMUTE) {
    COLOSSAL_RETURN_IF_ERROR(onMembers(stage, members, collective.source(), values, transfer.sources));
  } else if (collective.kind() == Collective::EXCHANGE) {
    const Collective::Window &window = collective.window();
    COLOSSAL_RETURN_IF_ERROR(onMembers(stage, members, window.src_start(), values, transfer.start));
    COLOSSAL_RETURN_IF_ERROR(onMembers(stage, members, window.src_valid(), values, transfer.valid));
    COLOSSAL_RETURN_IF_ERROR(onMembers(stage, members, window.dst_start(), values, transfer.wanted));
    transfer.rows = window.outer() * window.inner();
    transfer.extent = static_cast<int64_t>(window.dst_extent());
  }
  bytes = sentBytes(transfer);
  return {};
}

const char *trafficName(const Collective &collective) {
  return collective.statistics() ? statisticsName : collectiveName(collective.kind());
}

const char *collectiveName(Collective::Kind kind) {
  switch (kind) {
  case Collective::ALL_REDUCE: return "all_reduce";
  case Collective::ALL_GATHER: return "all_gather";
  case Collective::REDUCE_SCATTER: return "reduce_scatter";
  case Collective::ALL_TO_ALL: return "all_to_all";
  case Collective::BROADCAST: return "broadcast";
  case Collective::EXCHANGE: return "exchange";
  case Collective::PERMUTE: return "permute";
  default: return "?";
  }
}

std::string axisNames(const Mesh &mesh, const std::vector<uint32_t> &axes) {
  std::string names;
  for (uint32_t axis : axes)
    names += (names.empty() ? "" : ",") + mesh.axes(static_cast<int>(axis)).name();
  return names;
}

std::string axesBetween(const std::vector<StageView> &stages, uint64_t a, uint64_t b) {
  const StageView &stage = stageOf(stages, a);
  if (&stage != &stageOf(stages, b))
    return "stage";
  const std::vector<int64_t> first = stage.positionOf(a).coordinates,
                             second = stage.positionOf(b).coordinates;
  std::vector<uint32_t> axes;
  for (uint32_t axis = 0; axis < first.size(); ++axis)
    if (first[axis] != second[axis])
      axes.push_back(axis);
  return axisNames(*stage.mesh, axes);
}

Status programTraffic(const Plan &plan, const Program &program, uint64_t rank, Traffic &traffic,
                      uint64_t shortAllReduce) {
  const std::vector<StageView> stages = stagesOf(plan);
  const InstructionList *body = &program.body();
  for (int p = 0; p < plan.programs_size(); ++p)
    if (&plan.programs(p) == &program)
      body = &stageOf(stages, rank).body(p);
  return Counting(plan, stages, rank, traffic, shortAllReduce).count(*body, 1);
}

uint64_t collectiveBytes(const Traffic &traffic) {
  uint64_t bytes = 0;
  for (const auto &[key, sent] : traffic)
    if (key.second != "send")
      bytes += sent;
  return bytes;
}

uint64_t slotBytes(const Plan &plan, uint64_t longest) {
  return plan.message_slot_bytes() > 0 ? std::min<uint64_t>(longest, plan.message_slot_bytes()) : longest;
}

uint64_t waitingBytes(const StageView &stage) {
  uint64_t longest[queueCount] = {};
  for (int program = 0; program < stage.plan->programs_size(); ++program)
    addLongest(stage.body(program), longest);
  const std::vector<bool> called = stage.functions();
  for (size_t function = 0; function < called.size(); ++function)
    if (called[function])
      addLongest(stage.plan->functions(static_cast<int>(function)).body(), longest);
  uint64_t bytes = 0;
  for (uint64_t message : longest)
    bytes += slotBytes(*stage.plan, message) * stage.plan->message_slots();
  return bytes;
}

std::vector<uint64_t> stagingByQueue(const Plan &plan) {
  std::vector<uint64_t> queues;
  for (const StageView &stage : stagesOf(plan)) {
    for (int program = 0; program < plan.programs_size(); ++program)
      addStaging(*stage.mesh, stage.body(program), queues);
    const std::vector<bool> called = stage.functions();
    for (size_t function = 0; function < called.size(); ++function)
      if (called[function])
        addStaging(*stage.mesh, plan.functions(static_cast<int>(function)).body(), queues);
  }
  return queues;
}

} // namespace colossal::plan
