//===- States.cpp - states and training, as a plan has them -----------------===//
#include "States.h"

#include "dialects/Dist/Stages.h"
#include "dialects/Dist/State.h"
#include "dialects/Plan/PlanDialect.h"
#include "llvm/ADT/StringSet.h"

#include <algorithm>

using namespace mlir;
using namespace colossal;

/// The first version of the schema that has states.
static constexpr uint32_t kVersion = 3;

static void addState(plan::StateOp op, plan::State &state) {
  state.set_name(op.getName().str());
  state.set_kind(static_cast<plan::State::Kind>(op.getKind()));
  state.set_parameter(op.getParameter().str());
  state.set_slot(op.getSlot().value_or("").str());
  if (auto tied = op.getTiedAttr())
    for (auto name : tied.getAsRange<StringAttr>())
      state.add_tied(name.str());
  if (auto transposed = op.getTransposedAttr())
    for (auto name : transposed.getAsRange<StringAttr>())
      state.add_transposed(name.str());
}

static void addTraining(DictionaryAttr given, StringRef model, plan::Training &training) {
  auto text = [&](StringRef name) {
    auto value = given.getAs<StringAttr>(name);
    return value ? value.str() : "";
  };
  training.set_optimizer(text("optimizer"));
  training.set_loss(text("loss"));
  training.set_model(model.str());
  if (auto batch = given.getAs<IntegerAttr>("global_batch"))
    training.set_global_batch(static_cast<uint64_t>(batch.getInt()));
  if (auto skips = given.getAs<BoolAttr>("skips_overflow"))
    training.set_skips_overflow(skips.getValue());
  if (auto values = given.getAs<ArrayAttr>("step_values"))
    for (auto name : values.getAsRange<StringAttr>())
      training.add_step_values(name.str());
  if (auto samples = given.getAs<ArrayAttr>("samples"))
    for (auto sample : samples.getAsRange<DictionaryAttr>()) {
      plan::Training::Sample &added = *training.add_samples();
      added.set_input(sample.getAs<StringAttr>("input").str());
      added.set_batched(sample.getAs<BoolAttr>("batched").getValue());
      if (auto first = sample.getAs<StringAttr>("data_of"))
        added.set_data_of(first.str());
    }
}

void plan::addStates(ModuleOp module, ArrayRef<ModuleOp> stages, StringRef model, Plan &plan) {
  llvm::StringSet<> known;
  SmallVector<StateOp> states;
  for (ModuleOp stage : stages)
    for (auto state : stage.getOps<StateOp>())
      if (known.insert(state.getName()).second)
        states.push_back(state);
  // Of stages in the order in which programs bind them.
  auto placeOf = [](StateOp state) {
    auto place = state->getAttrOfType<IntegerAttr>(dist::kPlaceAttrName);
    return place ? place.getInt() : 0;
  };
  llvm::stable_sort(states, [&](StateOp a, StateOp b) { return placeOf(a) < placeOf(b); });
  for (StateOp state : states)
    addState(state, *plan.add_states());
  auto training = module->getAttrOfType<DictionaryAttr>(dist::kTrainingAttrName);
  if (training)
    addTraining(training, model, *plan.mutable_training());
  if (training || plan.states_size() > 0)
    plan.set_version(std::max(plan.version(), kVersion));
}
