// Plans that train: what the validator wants of them, and steps that change states.
#include "TrainingPlan.h"

#include "colossal/Plan/Dump.h"
#include "colossal/Plan/Training.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <unistd.h>

using namespace colossal;
using namespace colossal::runtime;

namespace {

struct Rule {
  friend void PrintTo(const Rule &rule, std::ostream *out) { *out << rule.name; }
  const char *name;
  std::function<void(plan::Plan &)> breakIt;
  const char *message;
};

class TrainingRules : public ::testing::TestWithParam<Rule> {};

Tensor integers(std::vector<uint64_t> shape, const std::vector<int64_t> &values) {
  Tensor tensor;
  tensor.type = plan::I64;
  tensor.shape = std::move(shape);
  tensor.bytes.resize(values.size() * 8);
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

std::vector<float> samples() {
  std::vector<float> x(24);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>((i * 7) % 11) / 10 - 0.5f;
  return x;
}

const std::vector<float> targets = {1, -1, 0.5f, 2};

Tensors stepInputs() {
  return {{"x", floats({4, 6}, samples())},
          {"target", floats({4}, targets)},
          {"ids", integers({4}, {0, 9, -100, 3})},
          {plan::stepValuesInput, floats({4}, {0.05f, 0.9f, 0, INFINITY})}};
}

/// Losses of some steps as the formulas have them.
std::vector<double> expectedLosses(int steps) {
  std::vector<double> w(6), momentum(6), losses;
  std::iota(w.begin(), w.end(), 1.0);
  const std::vector<float> x = samples();
  for (int step = 0; step < steps; ++step) {
    std::vector<double> gradient(6);
    double loss = 0;
    for (size_t r = 0; r < 4; ++r) {
      double y = 0;
      for (size_t c = 0; c < 6; ++c)
        y += x[r * 6 + c] * w[c];
      loss += (y - targets[r]) * (y - targets[r]) / 4;
      for (size_t c = 0; c < 6; ++c)
        gradient[c] += 2 * (y - targets[r]) * x[r * 6 + c] / 4;
    }
    for (size_t c = 0; c < 6; ++c)
      w[c] -= 0.05 * (momentum[c] = 0.9 * momentum[c] + gradient[c]);
    losses.push_back(loss);
  }
  return losses;
}

std::unique_ptr<Session> openTraining(uint32_t a, uint32_t b) {
  // A name of this process's own: other tests write their weights into the same folder at the same time.
  const std::string weights = PlanBuilder({1}).path("weights.bin");
  writeTrainingWeights(weights);
  std::unique_ptr<Session> session;
  Status status = trainingPlan(a, b, weights.substr(weights.rfind('/') + 1)).open(session);
  EXPECT_TRUE(status.ok()) << status.describe();
  ::unlink(weights.c_str());
  return session;
}

} // namespace

TEST_P(TrainingRules, AreChecked) {
  PlanBuilder builder = trainingPlan(2, 2);
  ASSERT_TRUE(builder.validate().ok()) << builder.validate().describe();
  GetParam().breakIt(builder.plan);
  Status status = builder.validate();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.code(), Code::InvalidPlan);
  EXPECT_NE(status.message().find(GetParam().message), std::string::npos) << status.message();
}

INSTANTIATE_TEST_SUITE_P(
    All, TrainingRules,
    ::testing::Values(
        Rule{"version", [](plan::Plan &p) { p.set_version(2); }, "the plan has version 2"},
        Rule{"noSave", [](plan::Plan &p) { p.mutable_programs(3)->set_role(plan::Program::INFER); },
             "0 programs that save them"},
        Rule{"twoRestores",
             [](plan::Plan &p) { *p.add_programs() = p.programs(4), p.mutable_programs(5)->set_name("r"); },
             "2 that restore them"},
        Rule{"noStates", [](plan::Plan &p) { p.clear_states(); }, "the plan has none"},
        Rule{"takenName", [](plan::Plan &p) { p.mutable_states(1)->set_name("w"); }, "empty or taken"},
        Rule{"noKind", [](plan::Plan &p) { p.mutable_states(1)->clear_kind(); }, "unknown kind"},
        Rule{"ofNothing", [](plan::Plan &p) { p.mutable_states(0)->clear_parameter(); }, "of no tensor"},
        Rule{"slotOfNoSlot", [](plan::Plan &p) { p.mutable_states(1)->clear_slot(); }, "says which it is"},
        Rule{"fewer", [](plan::Plan &p) { p.mutable_programs(4)->mutable_inputs()->RemoveLast(); },
             "it has 1 tensors, and there are 2 states"},
        Rule{"restoresMoreThanIsSaved",
             [](plan::Plan &p) {
               p.mutable_programs(3)->mutable_outputs()->RemoveLast();
               p.mutable_programs()->SwapElements(3, 4);
             },
             "does not save each of them"},
        Rule{"order", [](plan::Plan &p) { p.mutable_programs(4)->mutable_inputs()->SwapElements(0, 1); },
             "tensor 0 is 'w#momentum_buffer'"},
        Rule{"arena", [](plan::Plan &p) { p.mutable_arenas(3)->set_life(plan::Arena::ACTIVATIONS); },
             "an arena that keeps it"},
        Rule{"type", [](plan::Plan &p) { p.mutable_programs(4)->mutable_inputs(0)->set_type(plan::I32); },
             "saved with another type or shape"},
        Rule{"saveTakes",
             [](plan::Plan &p) { *p.mutable_programs(3)->add_inputs() = p.programs(1).inputs(0); },
             "takes no inputs"},
        Rule{"noStep", [](plan::Plan &p) { p.mutable_programs(1)->set_name("other"); }, "no program 'step'"},
        Rule{"noBatch", [](plan::Plan &p) { p.mutable_training()->clear_global_batch(); }, "0 samples"},
        Rule{"values", [](plan::Plan &p) { p.mutable_training()->add_step_values("beta1"); }, "of 5 floats"},
        Rule{"noLoss", [](plan::Plan &p) { p.mutable_programs(1)->mutable_outputs(0)->set_name("l"); },
             "no output 'colossal.loss'"},
        Rule{"sample", [](plan::Plan &p) { p.mutable_training()->mutable_samples(0)->set_input("z"); },
             "'z' is no input"},
        Rule{"batch", [](plan::Plan &p) { p.mutable_training()->set_global_batch(8); }, "not the 8 samples"},
        Rule{"unnamedData", [](plan::Plan &p) { p.mutable_training()->mutable_samples()->RemoveLast(); },
             "what data the input 'ids' takes"},
        Rule{"otherData", [](plan::Plan &p) { p.mutable_training()->mutable_samples(0)->set_data_of("ids"); },
             "'x' takes the data of 'ids', which has none of its own or is not like it"},
        Rule{"dataOfItself",
             [](plan::Plan &p) { p.mutable_training()->mutable_samples(0)->set_data_of("x"); },
             "'x' takes the data of 'x', which has none"},
        Rule{"evaluate", [](plan::Plan &p) { p.mutable_programs(2)->mutable_inputs(0)->set_name("z"); },
             "'evaluate' takes 'z'"}),
    [](const auto &info) { return std::string(info.param.name); });

TEST(Training, TheDumpNamesStatesAndStepValues) {
  const std::string text = plan::dumpPlan(trainingPlan(1, 1).plan);
  EXPECT_NE(text.find("state 1 'w#momentum_buffer': slot momentum_buffer of 'w'"), std::string::npos) << text;
  EXPECT_NE(text.find("training by sgd, loss mse,output=y, 4 samples a step, step values "
                      "[lr,momentum,weight_decay,clip]"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("in [0, 9] or [-100] for '/lookup'"), std::string::npos) << text;
}

TEST(Training, StepsChangeStatesThatPersist) {
  const std::vector<double> expected = expectedLosses(5);
  for (auto [a, b] : {std::pair(1u, 1u), std::pair(2u, 2u), std::pair(1u, 4u), std::pair(4u, 1u)}) {
    std::unique_ptr<Session> session = openTraining(a, b);
    ASSERT_TRUE(session);
    int step = -1, evaluate = -1, none = -1;
    ASSERT_TRUE(session->find("step", step).ok());
    ASSERT_TRUE(session->find("evaluate", evaluate).ok());
    EXPECT_EQ(session->find("save", none).code(), Code::NotFound);
    Tensors inputs = stepInputs(), outputs;
    for (double loss : expected) {
      for (int program : {evaluate, step}) {
        ASSERT_TRUE(session->accept(program, inputs, {}).ok());
        Status status = session->run(program, inputs);
        ASSERT_TRUE(status.ok()) << status.describe();
        ASSERT_TRUE(session->outputs(program, outputs).ok());
        EXPECT_NEAR(floatsOf(outputs[plan::lossOutput])[0], loss, 1e-5 * loss) << a << 'x' << b;
      }
    }
  }
}

TEST(Training, RanksReadWhatTheyHoldFromASource) {
  struct Counting : InputSource {
    mutable std::atomic<uint64_t> elements{0};
    Tensor tensor;
    Status read(uint64_t first, uint64_t count, std::byte *to) const override {
      elements += count;
      const uint64_t size = plan::elementBytes(tensor.type);
      std::memcpy(to, tensor.bytes.data() + first * size, count * size);
      return {};
    }
    std::string origin(uint64_t element) const override { return "sample " + std::to_string(element); }
  };
  std::unique_ptr<Session> session = openTraining(2, 2);
  ASSERT_TRUE(session);
  int step = -1;
  ASSERT_TRUE(session->find("step", step).ok());
  Tensors inputs = stepInputs();
  SourcedInputs sourced;
  std::map<std::string, std::shared_ptr<Counting>> sources;
  for (const char *name : {"x", "ids"}) {
    sources[name] = std::make_shared<Counting>();
    sources[name]->tensor = std::move(inputs[name]);
    sourced[name] = {sources[name]->tensor.type, sources[name]->tensor.shape, sources[name]};
    inputs.erase(name);
  }
  ASSERT_TRUE(session->accept(step, inputs, sourced).ok());
  Status status = session->run(step, inputs, nullptr, 1, sourced);
  ASSERT_TRUE(status.ok()) << status.describe();
  EXPECT_EQ(sources["x"]->elements, 24u);
  EXPECT_EQ(sources["ids"]->elements, 8u); // two ranks hold each
  Tensors outputs;
  ASSERT_TRUE(session->outputs(step, outputs).ok());
  EXPECT_NEAR(floatsOf(outputs[plan::lossOutput])[0], expectedLosses(1)[0], 1e-4);

  const int64_t wrong = 10;
  std::memcpy(sources["ids"]->tensor.bytes.data() + 2 * 8, &wrong, 8);
  status = session->run(step, inputs, nullptr, 1, sourced);
  EXPECT_EQ(status.code(), Code::InvalidArgument);
  EXPECT_NE(status.message().find("'ids', sample 2: '/lookup' takes indices from 0 to 9, and one is 10"),
            std::string::npos)
      << status.describe();
}
