// The programs load, step, evaluate, save and restore of a linear model.
#include "TrainingPlan.h"

#include "colossal/Plan/Training.h"

#include <fstream>
#include <numeric>

namespace colossal::runtime {

namespace {

constexpr uint64_t rows = 4, cols = 6;
constexpr uint32_t states = 3; // arena

void bind(plan::Binding &binding, const PlanBuilder &builder, const char *name, plan::DataType type,
          const std::vector<uint64_t> &shape, const plan::Box &box, uint32_t arena, uint64_t offset) {
  binding.set_name(name);
  binding.set_type(type);
  binding.mutable_shape()->Assign(shape.begin(), shape.end());
  *binding.mutable_box() = box;
  uint64_t bytes = plan::elementBytes(type);
  for (const plan::BoxDim &dim : box.dims())
    bytes *= dim.local();
  *binding.mutable_buffer() = builder.buffer(arena, offset, bytes);
}

void reduce(plan::Program &program, uint32_t axis, plan::BufferRef buffer) {
  plan::Instruction &instruction = *program.add_body();
  instruction.set_source("/sum");
  plan::Collective &c = *instruction.mutable_collective();
  c.set_kind(plan::Collective::ALL_REDUCE);
  c.set_reduction(plan::Collective::SUM);
  c.set_type(plan::F32);
  c.add_axes(axis);
  c.add_sizes(buffer.bytes() / 4);
  c.add_src_strides(1);
  c.add_dst_strides(1);
  *c.mutable_src() = buffer;
  *c.mutable_dst() = buffer;
}

void launch(plan::Program &program, uint32_t kernel, std::vector<plan::BufferRef> buffers, uint32_t writes,
            std::vector<uint64_t> params) {
  plan::Instruction &instruction = *program.add_body();
  instruction.set_source("/train");
  plan::Launch &launch = *instruction.mutable_launch();
  launch.set_kernel(kernel);
  for (plan::BufferRef &ref : buffers)
    *launch.add_buffers() = std::move(ref);
  for (uint64_t param : params)
    *launch.add_params() = constant(static_cast<int64_t>(param));
  launch.set_writes(writes);
  launch.set_tiles(1);
}

} // namespace

PlanBuilder trainingPlan(uint32_t a, uint32_t b, const std::string &weights) {
  PlanBuilder builder({a, b});
  plan::Arena &arena = *builder.plan.add_arenas();
  arena = builder.plan.arenas(0);
  arena.set_name("states");
  arena.set_life(plan::Arena::STATE);
  builder.plan.add_files()->set_path(weights);
  builder.plan.mutable_files(0)->set_bytes(4 * cols);
  plan::Parameter &parameter = *builder.plan.add_parameters();
  parameter.set_name("w");
  parameter.set_type(plan::F32);
  parameter.add_shape(cols);
  parameter.set_bytes(4 * cols);
  const plan::Box held = builder.box({cols}, 0, 1), samples = builder.box({rows}, 0, 0),
                  whole = builder.box({1});
  plan::Box data = samples;
  *data.add_dims() = held.dims(0);
  const uint64_t own = held.dims(0).local(), ownRows = samples.dims(0).local();

  // Places, each of 256 bytes.
  enum Place : uint64_t { X, Target, Ids, Values, Y, Gradient, Squares, Norm, Loss };
  auto io = [&](Place place, uint64_t bytes) { return builder.buffer(PlanBuilder::io, 256 * place, bytes); };
  const plan::BufferRef x = io(X, 4 * ownRows * own), target = io(Target, 4 * ownRows),
                        values = io(Values, 16), y = io(Y, 4 * ownRows),
                        gradient = io(Gradient, 4 * (own + 1)), squares = io(Squares, 4), norm = io(Norm, 4),
                        loss = io(Loss, 4), w = builder.buffer(states, 0, 4 * own),
                        momentum = builder.buffer(states, 256, 4 * own);
  plan::BufferRef lossBehind = gradient;
  lossBehind.set_offset(gradient.offset() + 4 * own);
  lossBehind.set_bytes(4);

  plan::Copy &load = *builder.load().add_body()->mutable_copy();
  *load.mutable_parameter()->mutable_box() = held;
  *load.mutable_dst() = w;

  const uint32_t predict = builder.kernel("predict", 3, 2), descend = builder.kernel("descend", 4, 3),
                 sumSquares = builder.kernel("squares", 2, 1), update = builder.kernel("update", 6, 1);
  builder.plan.add_programs();
  for (int p : {1, 2}) {
    plan::Program &program = *builder.plan.mutable_programs(p);
    const bool training = p == 1;
    program.set_name(training ? plan::stepProgram : plan::evaluateProgram);
    program.set_role(training ? plan::Program::STEP : plan::Program::INFER);
    bind(*program.add_inputs(), builder, "x", plan::F32, {rows, cols}, data, PlanBuilder::io, 256 * X);
    bind(*program.add_inputs(), builder, "target", plan::F32, {rows}, samples, PlanBuilder::io, 256 * Target);
    bind(*program.add_inputs(), builder, "ids", plan::I64, {rows}, samples, PlanBuilder::io, 256 * Ids);
    plan::Binding::Range &range = *program.mutable_inputs(2)->mutable_range();
    range.set_greatest(9);
    range.set_user("/lookup");
    range.add_also(-100);
    launch(program, predict, {x, w, y}, 1, {ownRows, own});
    reduce(program, 1, y);
    launch(program, descend, {x, y, target, gradient}, 1, {ownRows, own, rows});
    reduce(program, 0, gradient);
    bind(*program.add_outputs(), builder, plan::lossOutput, plan::F32, {1}, whole, PlanBuilder::io,
         lossBehind.offset());
    if (!training) {
      bind(*program.add_outputs(), builder, "y", plan::F32, {rows}, samples, PlanBuilder::io, 256 * Y);
      continue;
    }
    bind(*program.add_inputs(), builder, plan::stepValuesInput, plan::F32, {4}, builder.box({4}),
         PlanBuilder::io, 256 * Values);
    bind(*program.add_outputs(), builder, plan::gradientNormOutput, plan::F32, {1}, whole, PlanBuilder::io,
         256 * Norm);
    launch(program, sumSquares, {builder.buffer(PlanBuilder::io, gradient.offset(), 4 * own), squares}, 1,
           {own});
    reduce(program, 1, squares);
    launch(program, update,
           {builder.buffer(PlanBuilder::io, gradient.offset(), 4 * own), squares, values, w, momentum, norm},
           3, {own});
  }
  for (bool saving : {true, false}) {
    plan::Program &program = *builder.plan.add_programs();
    program.set_name(saving ? plan::saveProgram : plan::restoreProgram);
    program.set_role(saving ? plan::Program::SAVE : plan::Program::RESTORE);
    auto add = [&] { return saving ? program.add_outputs() : program.add_inputs(); };
    bind(*add(), builder, "w", plan::F32, {cols}, held, states, 0);
    bind(*add(), builder, "w#momentum_buffer", plan::F32, {cols}, held, states, 256);
  }
  plan::State &weight = *builder.plan.add_states(), &slot = *builder.plan.add_states();
  weight.set_name("w");
  weight.set_kind(plan::State::PARAMETER);
  weight.set_parameter("w");
  slot.set_name("w#momentum_buffer");
  slot.set_kind(plan::State::SLOT);
  slot.set_parameter("w");
  slot.set_slot("momentum_buffer");
  plan::Training &training = *builder.plan.mutable_training();
  training.set_optimizer("sgd");
  training.set_loss("mse,output=y");
  training.set_global_batch(rows);
  for (const char *name : {"lr", "momentum", "weight_decay", "clip"})
    training.add_step_values(name);
  for (const char *name : {"x", "target", "ids"}) {
    plan::Training::Sample &sample = *training.add_samples();
    sample.set_input(name);
    sample.set_batched(true);
  }
  return builder;
}

void writeTrainingWeights(const std::string &file) {
  std::vector<float> w(cols);
  std::iota(w.begin(), w.end(), 1.0f);
  std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char *>(w.data()), 4 * cols);
}

} // namespace colossal::runtime
