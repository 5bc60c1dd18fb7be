// What persists and changes: the table of states, the programs that save and restore them, and what whoever
// trains is told.
#include "runtime/validate/Checker.h"

#include "colossal/Plan/DataType.h"
#include "colossal/Plan/Training.h"

namespace colossal::runtime {

namespace {

template <class Rows>
const typename Rows::value_type *findNamed(const Rows &rows, const std::string &name) {
  for (const auto &row : rows)
    if (row.name() == name)
      return &row;
  return nullptr;
}

bool areAlike(const plan::Binding &a, const plan::Binding &b) {
  return a.type() == b.type() && a.shape_size() == b.shape_size() &&
         std::equal(a.shape().begin(), a.shape().end(), b.shape().begin());
}

bool isScalar(const plan::Binding *binding) {
  uint64_t elements = 0;
  return binding && (binding->type() == plan::F32 || binding->type() == plan::F64) &&
         productWithin(binding->shape(), elements) && elements == 1;
}

} // namespace

Status Checker::checkStates() {
  int saves = 0, restores = 0;
  for (const plan::Program &program : plan.programs()) {
    saves += program.role() == plan::Program::SAVE;
    restores += program.role() == plan::Program::RESTORE;
  }
  if (plan.states_size() == 0) {
    if (saves > 0 || restores > 0)
      return invalid("a program saves or restores states, and the plan has none");
    return plan.has_training() ? invalid("the plan trains, and has no states") : Status();
  }
  COLOSSAL_RETURN_IF_ERROR(needVersion(3, "states"));
  if (saves != 1 || restores != 1)
    return invalid("the plan has states, " + std::to_string(saves) + " programs that save them and " +
                   std::to_string(restores) + " that restore them; there must be one of each");
  std::set<std::string> names;
  for (const plan::State &state : plan.states()) {
    const std::string where = "state '" + state.name() + "': ";
    if (state.name().empty() || !names.insert(state.name()).second)
      return invalid(where + "the name is empty or taken");
    if (state.kind() < plan::State::PARAMETER || state.kind() > plan::State::STATISTIC)
      return invalid(where + "unknown kind " + std::to_string(state.kind()));
    if (state.kind() != plan::State::SLOT && state.parameter().empty())
      return invalid(where + "it is of no tensor of the model");
    if ((state.kind() == plan::State::SLOT) != !state.slot().empty())
      return invalid(where + "a slot, and nothing else, says which it is");
  }
  for (int index = 0; index < plan.programs_size(); ++index) {
    const plan::Program &program = plan.programs(index);
    if (program.role() != plan::Program::SAVE && program.role() != plan::Program::RESTORE)
      continue;
    const bool saving = program.role() == plan::Program::SAVE;
    Status status = checkStateBindings(index, saving ? program.outputs() : program.inputs());
    if ((saving ? program.inputs_size() : program.outputs_size()) > 0)
      status = invalid(saving ? "what saves takes no inputs" : "what restores has no outputs");
    if (!status.ok())
      return {status.code(), "program '" + program.name() + "': " + status.message()};
  }
  return plan.has_training() ? checkTraining() : Status();
}

Status Checker::checkStateBindings(int program,
                                   const google::protobuf::RepeatedPtrField<plan::Binding> &bindings) {
  if (bindings.size() != plan.states_size())
    return invalid("it has " + std::to_string(bindings.size()) + " tensors, and there are " +
                   std::to_string(plan.states_size()) + " states");
  const plan::Program *other = nullptr;
  for (const plan::Program &each : plan.programs())
    if (each.role() == plan::Program::SAVE)
      other = &each;
  if (other == nullptr || other->outputs_size() != plan.states_size())
    return invalid("the program that saves states does not save each of them");
  for (int i = 0; i < bindings.size(); ++i) {
    const plan::Binding &binding = bindings.Get(i), &saved = other->outputs(i);
    if (binding.name() != plan.states(i).name())
      return invalid("tensor " + std::to_string(i) + " is '" + binding.name() + "', and state " +
                     std::to_string(i) + " is '" + plan.states(i).name() + "'");
    if (binding.type() != saved.type() || binding.shape_size() != saved.shape_size() ||
        !std::equal(binding.shape().begin(), binding.shape().end(), saved.shape().begin()))
      return invalid("'" + binding.name() + "' is saved with another type or shape");
    if (binding.type() == plan::STRING || plan::isNarrow(binding.type()))
      return invalid("'" + binding.name() + "' is of a type that no state has");
  }
  for (const plan::StageView &each : stages)
    for (const auto &shards : {each.inputs(program), each.outputs(program)})
      for (const plan::BoundShard &shard : shards)
        if (each.arenas->Get(static_cast<int>(shard.buffer->arena())).life() != plan::Arena::STATE)
          return invalid("'" + shard.binding->name() + "' does not lie in an arena that keeps it" +
                         each.suffix());
  return {};
}

Status Checker::checkTraining() const {
  const plan::Training &training = plan.training();
  const plan::Program *step = findNamed(plan.programs(), plan::stepProgram);
  const std::string where = "the plan trains: ";
  if (!step || step->role() != plan::Program::STEP)
    return invalid(where + "there is no program 'step' of that role");
  if (training.global_batch() == 0 || training.global_batch() > maxExtent)
    return invalid(where + "a step has " + std::to_string(training.global_batch()) + " samples");
  const plan::Binding *values = findNamed(step->inputs(), plan::stepValuesInput);
  if (!values || values->shape_size() != 1 ||
      values->shape(0) != static_cast<uint64_t>(training.step_values_size()) ||
      (values->type() != plan::F32 && values->type() != plan::F64))
    return invalid(where + "the program 'step' has no input '" + plan::stepValuesInput + "' of " +
                   std::to_string(training.step_values_size()) + " floats");
  for (const char *name : {plan::lossOutput, plan::gradientNormOutput})
    if (!isScalar(findNamed(step->outputs(), name)))
      return invalid(where + "the program 'step' has no output '" + name + "' of one float");
  std::set<std::string> samples, own; // `own`: that have data of their own
  for (const plan::Training::Sample &sample : training.samples()) {
    const plan::Binding *input = findNamed(step->inputs(), sample.input());
    if (!input || !samples.insert(sample.input()).second)
      return invalid(where + "'" + sample.input() + "' is no input of the program 'step', or listed twice");
    if (sample.batched() && (input->shape_size() == 0 || input->shape(0) != training.global_batch()))
      return invalid(where + "the first dimension of '" + sample.input() + "' is not the " +
                     std::to_string(training.global_batch()) + " samples of a step");
    if (sample.data_of().empty())
      own.insert(sample.input());
  }
  for (const plan::Training::Sample &sample : training.samples()) {
    const plan::Binding *first =
        own.count(sample.data_of()) > 0 ? findNamed(step->inputs(), sample.data_of()) : nullptr;
    if (!sample.data_of().empty() &&
        (!first || !areAlike(*first, *findNamed(step->inputs(), sample.input()))))
      return invalid(where + "'" + sample.input() + "' takes the data of '" + sample.data_of() +
                     "', which has none of its own or is not like it");
  }
  for (const plan::Binding &input : step->inputs())
    if (input.name() != plan::stepValuesInput && samples.count(input.name()) == 0)
      return invalid(where + "nothing says what data the input '" + input.name() + "' takes");
  if (const plan::Program *evaluate = findNamed(plan.programs(), plan::evaluateProgram)) {
    if (evaluate->role() != plan::Program::INFER ||
        !isScalar(findNamed(evaluate->outputs(), plan::lossOutput)))
      return invalid(where + "the program 'evaluate' is not of the role 'infer', or has no output '" +
                     plan::lossOutput + "' of one float");
    for (const plan::Binding &input : evaluate->inputs()) {
      const plan::Binding *same = findNamed(step->inputs(), input.name());
      if (!same || !areAlike(*same, input))
        return invalid(where + "the program 'evaluate' takes '" + input.name() +
                       "', and the program 'step' no such input");
    }
  }
  return {};
}

} // namespace colossal::runtime
