#include "OrderMutations.h"

#include "colossal/Plan/Stages.h"
#include "runtime/validate/Validate.h"

namespace colossal::runtime {

const char *describe(OrderChange change) {
  constexpr std::array<const char *, orderChangeCount> names = {"wait taken away", "signal moved",
                                                                "peer changed"};
  return names[static_cast<size_t>(change)];
}

void forEachInstruction(plan::Plan &plan, const std::function<void(Body &, int)> &visit) {
  const std::function<void(Body &)> walk = [&](Body &body) {
    for (int i = 0; i < body.size(); ++i) {
      visit(body, i);
      if (body.Get(i).has_repeat())
        walk(*body.Mutable(i)->mutable_repeat()->mutable_body());
      if (body.Get(i).has_predicate())
        walk(*body.Mutable(i)->mutable_predicate()->mutable_body());
    }
  };
  for (plan::Program &program : *plan.mutable_programs())
    walk(*program.mutable_body());
  for (plan::StageText &text : *plan.mutable_stage_texts())
    for (plan::StageProgram &program : *text.mutable_programs())
      walk(*program.mutable_body());
  for (plan::Function &function : *plan.mutable_functions())
    walk(*function.mutable_body());
}

static uint64_t countRanks(const plan::Plan &plan) {
  if (plan.stages().empty())
    return plan::meshRanks(plan.mesh());
  uint64_t ranks = 0;
  for (const plan::Stage &stage : plan.stages())
    ranks += plan::meshRanks(stage.mesh());
  return ranks;
}

/// (peer + 1) mod ranks
static plan::Expr nextRank(const plan::Expr &peer, uint64_t ranks) {
  plan::Expr next;
  next.mutable_binary()->set_op(plan::Expr::MOD);
  plan::Expr::Binary &sum = *next.mutable_binary()->mutable_lhs()->mutable_binary();
  sum.set_op(plan::Expr::ADD);
  *sum.mutable_lhs() = peer;
  sum.mutable_rhs()->set_constant(1);
  next.mutable_binary()->mutable_rhs()->set_constant(static_cast<int64_t>(ranks));
  return next;
}

void forEachOrderChange(
    const plan::Plan &plan,
    const std::function<void(OrderChange, const std::string &, const plan::Plan &)> &visit) {
  plan::Plan altered = plan;
  const uint64_t ranks = countRanks(plan);
  forEachInstruction(altered, [&](Body &body, int i) {
    plan::Instruction &instruction = *body.Mutable(i);
    const plan::Instruction original = instruction;
    const std::string where = describeInstruction("", std::to_string(i), original);
    for (int w = 0; w < original.waits_size(); ++w) {
      instruction.mutable_waits()->erase(instruction.waits().begin() + w);
      visit(OrderChange::Wait, where + ", event " + std::to_string(original.waits(w)), altered);
      instruction = original;
    }
    int before = i - 1;
    while (before >= 0 && (body.Get(before).queue() != original.queue() || body.Get(before).signals() != 0))
      --before;
    if (original.signals() != 0 && before >= 0) {
      body.Mutable(before)->set_signals(original.signals());
      instruction.clear_signals();
      visit(OrderChange::Signal, where + ", event " + std::to_string(original.signals()), altered);
      body.Mutable(before)->clear_signals();
      instruction = original;
    }
    if (original.has_send())
      *instruction.mutable_send()->mutable_peer() = nextRank(original.send().peer(), ranks);
    else if (original.has_recv())
      *instruction.mutable_recv()->mutable_peer() = nextRank(original.recv().peer(), ranks);
    else
      return;
    visit(OrderChange::Peer, where, altered);
    instruction = original;
  });
}

} // namespace colossal::runtime
