// The stages of a plan: ranges of ranks with a mesh each. A plan that names none is one stage, and everybody
// who reads plans sees it as such through here.
#ifndef COLOSSAL_PLAN_STAGES_H
#define COLOSSAL_PLAN_STAGES_H

#include "colossal/Plan/Expr.h"
#include "colossal/Plan/Plan.pb.h"

#include <cstdint>
#include <string>
#include <vector>

namespace colossal::plan {

/// Compute, collectives, messages.
constexpr uint32_t queueCount = 3;

using InstructionList = google::protobuf::RepeatedPtrField<Instruction>;

/// A binding, and where the ranks of a stage hold their part of it.
struct BoundShard {
  const Binding *binding;
  const Box *box;
  const BufferRef *buffer;
};

/// One stage. It refers to the plan that it was made from.
struct StageView {
  const Plan *plan = nullptr;
  const StageText *text = nullptr; ///< null where the plan names no stages
  uint32_t index = 0;
  uint64_t firstRank = 0, ranks = 0;
  const Mesh *mesh = nullptr;
  const google::protobuf::RepeatedPtrField<Arena> *arenas = nullptr;

  /// `program` is an index of Plan.programs.
  const InstructionList &body(int program) const;
  /// Only those that the stage has a part of.
  std::vector<BoundShard> inputs(int program) const;
  std::vector<BoundShard> outputs(int program) const;
  std::vector<BoundShard> checks(int program) const;
  /// `rank` is one of the plan's, and of this stage.
  MeshPosition positionOf(uint64_t rank) const;
  /// groupMembers of the stage's mesh, as ranks of the plan.
  std::vector<uint32_t> members(const std::vector<uint32_t> &axes, uint64_t rank) const;
  /// Which functions its bodies call, directly or not.
  std::vector<bool> functions() const;
  /// " of stage 1 'head'"; empty where the plan names no stages.
  std::string suffix() const;
};

/// Fails where a stage has no text, or a text another number of programs than the plan; where a plan with
/// stages has a mesh, arenas or bodies beside them; or where there are no ranks, or more than 32 bits hold.
Status readStages(const Plan &plan, std::vector<StageView> &stages);
/// Those of a validated plan.
std::vector<StageView> stagesOf(const Plan &plan);
/// The stage of a rank of the plan.
const StageView &stageOf(const std::vector<StageView> &stages, uint64_t rank);

} // namespace colossal::plan

#endif // COLOSSAL_PLAN_STAGES_H
