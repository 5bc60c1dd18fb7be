// Plans with and without stages, seen alike.
#include "colossal/Plan/Stages.h"

namespace colossal::plan {

namespace {

std::vector<BoundShard> shardsOf(const google::protobuf::RepeatedPtrField<Binding> &bindings,
                                 const google::protobuf::RepeatedPtrField<Shard> *shards) {
  std::vector<BoundShard> bound;
  if (!shards)
    for (const Binding &binding : bindings)
      bound.push_back({&binding, &binding.box(), &binding.buffer()});
  else
    for (const Shard &shard : *shards)
      bound.push_back({&bindings.Get(static_cast<int>(shard.binding())), &shard.box(), &shard.buffer()});
  return bound;
}

void markCalled(const Plan &plan, const InstructionList &body, std::vector<bool> &called) {
  for (const Instruction &instruction : body) {
    markCalled(plan, instruction.repeat().body(), called);
    markCalled(plan, instruction.predicate().body(), called);
    const uint32_t function = instruction.call().function();
    if (!instruction.has_call() || function >= called.size() || called[function])
      continue;
    called[function] = true;
    markCalled(plan, plan.functions(static_cast<int>(function)).body(), called);
  }
}

bool standsBesideStages(const Plan &plan) {
  bool stands = plan.mesh().axes_size() > 0 || plan.arenas_size() > 0;
  for (const Program &program : plan.programs()) {
    stands |= program.body_size() > 0;
    for (const auto *bindings : {&program.inputs(), &program.outputs(), &program.checks()})
      for (const Binding &binding : *bindings)
        stands |= binding.has_box() || binding.has_buffer();
  }
  return stands;
}

} // namespace

const InstructionList &StageView::body(int program) const {
  return text ? text->programs(program).body() : plan->programs(program).body();
}

std::vector<BoundShard> StageView::inputs(int program) const {
  return shardsOf(plan->programs(program).inputs(), text ? &text->programs(program).inputs() : nullptr);
}

std::vector<BoundShard> StageView::outputs(int program) const {
  return shardsOf(plan->programs(program).outputs(), text ? &text->programs(program).outputs() : nullptr);
}

std::vector<BoundShard> StageView::checks(int program) const {
  return shardsOf(plan->programs(program).checks(), text ? &text->programs(program).checks() : nullptr);
}

MeshPosition StageView::positionOf(uint64_t rank) const {
  return {meshCoordinates(*mesh, rank - firstRank), static_cast<int64_t>(rank), index};
}

std::vector<uint32_t> StageView::members(const std::vector<uint32_t> &axes, uint64_t rank) const {
  std::vector<uint32_t> all = groupMembers(*mesh, axes, rank - firstRank);
  for (uint32_t &member : all)
    member += static_cast<uint32_t>(firstRank);
  return all;
}

std::vector<bool> StageView::functions() const {
  std::vector<bool> called(static_cast<size_t>(plan->functions_size()));
  for (int program = 0; program < plan->programs_size(); ++program)
    markCalled(*plan, body(program), called);
  return called;
}

std::string StageView::suffix() const {
  if (!text)
    return {};
  const std::string &name = plan->stages(static_cast<int>(index)).name();
  return " of stage " + std::to_string(index) + (name.empty() ? "" : " '" + name + "'");
}

Status readStages(const Plan &plan, std::vector<StageView> &stages) {
  stages.clear();
  const auto invalid = [](std::string message) { return Status(Code::InvalidPlan, std::move(message)); };
  if (plan.stages_size() == 0) {
    const uint64_t ranks = meshRanks(plan.mesh());
    if (ranks == 0)
      return invalid("the mesh has an empty axis or too many ranks");
    if (plan.stage_texts_size() > 0)
      return invalid("the plan has texts for stages, and no stages");
    stages.push_back({&plan, nullptr, 0, 0, ranks, &plan.mesh(), &plan.arenas()});
    return {};
  }
  if (standsBesideStages(plan))
    return invalid("a plan with stages has its mesh, arenas, bodies, boxes and buffers there only");
  uint64_t first = 0;
  for (const Stage &stage : plan.stages()) {
    const auto index = static_cast<uint32_t>(stages.size());
    const std::string name = "stage " + std::to_string(index) + ": ";
    if (stage.text() >= static_cast<uint32_t>(plan.stage_texts_size()))
      return invalid(name + "there is no text " + std::to_string(stage.text()));
    const StageText &text = plan.stage_texts(static_cast<int>(stage.text()));
    if (text.programs_size() != plan.programs_size())
      return invalid(name + "its text has " + std::to_string(text.programs_size()) + " programs, the plan " +
                     std::to_string(plan.programs_size()));
    for (int p = 0; p < plan.programs_size(); ++p) {
      const auto within = [](const auto &shards, int bindings) {
        for (const Shard &shard : shards)
          if (shard.binding() >= static_cast<uint32_t>(bindings))
            return false;
        return true;
      };
      const Program &program = plan.programs(p);
      const StageProgram &own = text.programs(p);
      if (!within(own.inputs(), program.inputs_size()) || !within(own.outputs(), program.outputs_size()) ||
          !within(own.checks(), program.checks_size()))
        return invalid(name + "it holds a part of what program '" + program.name() + "' does not have");
    }
    const uint64_t ranks = meshRanks(stage.mesh());
    if (ranks == 0 || first + ranks > UINT32_MAX)
      return invalid(name + "its mesh has an empty axis or too many ranks");
    stages.push_back({&plan, &text, index, first, ranks, &stage.mesh(), &text.arenas()});
    first += ranks;
  }
  return {};
}

std::vector<StageView> stagesOf(const Plan &plan) {
  std::vector<StageView> stages;
  (void)readStages(plan, stages);
  return stages;
}

const StageView &stageOf(const std::vector<StageView> &stages, uint64_t rank) {
  size_t s = 0;
  while (s + 1 < stages.size() && rank >= stages[s + 1].firstRank)
    ++s;
  return stages[s];
}

} // namespace colossal::plan
