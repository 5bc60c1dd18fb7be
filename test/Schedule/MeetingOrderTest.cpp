// Pipelines whose sends wait for their receivers, for any stages, chunks, turns and values between them:
// every rank does its text in order, a send and its receive happen together, and all come to their ends, each
// pass with what was sent for it.
#include "DoubleBuffers.h"
#include "PassUnrolling.h"
#include "colossal/Cost/PipelineSchedule.h"
#include "colossal/Step/MessageOrder.h"

#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

#include <deque>
#include <map>
#include <random>

using namespace colossal;
using namespace colossal::schedule;

namespace {

/// A value that one part sends and a later one receives. `isUnpacked`: into memory that is filled before.
struct Value {
  int64_t from, to;
  bool isInLoop = true, isUnpacked = false;
};

/// What a message or storage holds: of which value, in which turn. -1: nothing that was sent.
using Content = std::pair<int64_t, int64_t>;

class Pipeline {
public:
  Pipeline(int64_t stages, int64_t chunks, int64_t turns, std::vector<Value> values)
      : shape{stages, chunks}, turns(turns), values(std::move(values)) {
    step::orderMessages(listFlights(), stages, chunks);
    makePrograms();
  }

  /// A training step, whose stages together can do `passes`. `asksLate`: a stage receives when it needs
  /// something, and not when all the others send in the same order.
  Pipeline(const dist::Pipeline &shape, int64_t turns, const std::vector<step::StagePass> &passes,
           std::vector<Value> values, bool asksLate = false)
      : shape(shape), turns(turns), values(std::move(values)) {
    orders = step::placeMessages(listFlights(), shape, passes);
    if (asksLate)
      for (size_t stage = 0; stage < orders.size(); ++stage)
        putOffReceives(static_cast<int64_t>(stage));
    makePrograms();
  }

  /// Runs all stages; returns what went wrong, or nothing.
  std::string run() {
    std::vector<std::vector<Step>> steps;
    for (Stage &stage : all)
      steps.push_back(unroll(stage.program));
    std::vector<size_t> next(all.size(), 0);
    std::vector<std::map<unsigned, Content>> memory(all.size());
    std::vector<std::deque<Content>> toItself(all.size()); // what waits in memory
    for (bool goesOn = true; goesOn;) {
      goesOn = false;
      for (size_t s = 0; s < all.size(); ++s)
        while (next[s] < steps[s].size()) {
          const Step &step = steps[s][next[s]];
          const Role &role = all[s].roleOf(*step.instruction);
          const auto stage = static_cast<int64_t>(s);
          if (role.kind == Role::Send) {
            const Content sent = memory[s][step.instruction->accesses.front().storage];
            if (sent != Content(role.value, step.turn))
              return "value " + std::to_string(role.value) + " is sent with what turn " +
                     std::to_string(sent.second) + " made";
            const int64_t to = shape.getStage(values[role.value].to);
            if (to == stage) {
              if (!toItself[s].empty())
                return "two messages of a stage to itself wait";
              toItself[s].push_back(sent);
            } else {
              if (next[to] >= steps[to].size())
                break;
              const Step &other = steps[to][next[to]];
              const Role &receive = all[to].roleOf(*other.instruction);
              if (receive.kind != Role::Receive || shape.getStage(values[receive.value].from) != stage)
                break;
              if (receive.value != role.value || other.turn != step.turn)
                return describe(receive.value, other.turn) + " receives " + describe(role.value, step.turn);
              memory[to][other.instruction->accesses.front().storage] = sent;
              ++next[to];
            }
            ++next[s];
          } else if (role.kind == Role::Receive) {
            if (shape.getStage(values[role.value].from) != stage || toItself[s].empty())
              break; // until its sender comes
            if (toItself[s].front() != Content(role.value, step.turn))
              return describe(role.value, step.turn) + " receives another of its stage";
            memory[s][step.instruction->accesses.front().storage] = toItself[s].front();
            toItself[s].pop_front();
            ++next[s];
          } else {
            if (std::string wrong = work(role, step, memory[s]); !wrong.empty())
              return wrong;
            ++next[s];
          }
          goesOn = true;
        }
    }
    for (size_t s = 0; s < all.size(); ++s)
      if (next[s] < steps[s].size())
        return "stage " + std::to_string(s) + " stands at " + std::to_string(next[s]) + " of " +
               std::to_string(steps[s].size());
    return {};
  }

  /// How often a stage asks for what it needs before the pass before has begun.
  int64_t countAhead(int64_t stage) {
    std::map<int64_t, int64_t> asked; // by turn
    int64_t ahead = 0, worked = 0;
    for (const Step &step : unroll(all[stage].program)) {
      const Role &role = all[stage].roleOf(*step.instruction);
      if (role.kind == Role::Receive)
        ahead += step.turn > worked;
      worked += role.kind == Role::Work && step.instruction->moment >= 0;
    }
    return ahead;
  }

private:
  struct Role {
    enum Kind { Receive, Fill, Unpack, Work, Send } kind;
    int64_t value; ///< of Work the part
  };
  struct Stage {
    Program program;
    std::map<int64_t, Role> roles; ///< by moment; those before the loop have negative ones
    const Role &roleOf(const Instruction &instruction) const { return roles.at(instruction.moment); }
  };
  struct Step {
    const Instruction *instruction;
    int64_t turn;
  };

  static std::string describe(int64_t value, int64_t turn) {
    return "value " + std::to_string(value) + " of turn " + std::to_string(turn);
  }

  llvm::MutableArrayRef<step::Flight> listFlights() {
    for (const Value &value : values) {
      dist::Message message;
      message.pieces.push_back({0, {4, 4}, {value.isUnpacked ? 8 : 4, 1}});
      message.peers = {value.isUnpacked ? int64_t(-1) : int64_t(0)};
      sends.push_back({message});
      receives.push_back({message});
    }
    for (size_t v = 0; v < values.size(); ++v)
      flights.push_back({values[v].from, values[v].to, values[v].isInLoop, sends[v], receives[v]});
    return flights;
  }

  /// Moves each receive of a turn to where its pass begins.
  void putOffReceives(int64_t stage) {
    const llvm::SmallVector<int64_t> order = orders[stage];
    auto isReceived = [&](int64_t message, int64_t chunk) {
      for (size_t v = 0; v < values.size(); ++v)
        if (receives[v][0].order == message && shape.getStage(values[v].to) == stage)
          return chunk < 0 || shape.getChunk(values[v].to) == chunk;
      return false;
    };
    orders[stage].clear();
    for (size_t i = 0; i < order.size(); i += 2) {
      if (order[i] < 0 && order[i + 1] >= 0 && isReceived(-1 - order[i], -1))
        continue;
      for (size_t r = 0; r < order.size() && order[i] >= 0 && order[i + 1] >= 0; r += 2)
        if (order[r] < 0 && order[r + 1] == order[i + 1] && isReceived(-1 - order[r], order[i]))
          orders[stage].append({order[r], order[r + 1]});
      orders[stage].append({order[i], order[i + 1]});
    }
  }

  void makePrograms() {
    for (int64_t stage = 0; stage < shape.stages; ++stage)
      makeProgram(stage);
  }

  void makeProgram(int64_t number) {
    Stage &stage = all.emplace_back();
    Program &program = stage.program;
    program.turns = turns;
    program.stages = shape.stages;
    program.chunkWaits.assign(shape.countChunks(), false);
    for (const bool isInLoop : {false, true}) {
      auto storage = [&] {
        program.storages.push_back({Life::Activations, 64});
        return static_cast<unsigned>(program.storages.size() - 1);
      };
      auto add = [&](int64_t chunk, Role role, llvm::SmallVector<Access> accesses,
                     const dist::Message *message = nullptr) {
        Instruction instruction{std::move(accesses), false, mlir::UnknownLoc::get(&context), {}, {}};
        instruction.chunk = chunk;
        std::vector<Instruction> &list = isInLoop                              ? program.body
                                         : shape.isClosing(chunk) && turns > 1 ? program.after
                                                                               : program.instructions;
        instruction.moment =
            isInLoop ? static_cast<int64_t>(list.size()) : -1 - static_cast<int64_t>(stage.roles.size());
        stage.roles[instruction.moment] = role;
        if (message) {
          instruction.queue = 2;
          instruction.passes = message->passes;
          instruction.order = message->order;
        }
        list.push_back(std::move(instruction));
      };
      for (int64_t chunk = 0; chunk < (isInLoop ? shape.countTurnChunks() : shape.countChunks()); ++chunk) {
        const int64_t part = shape.getPart(number, chunk);
        std::vector<size_t> in, out;
        for (size_t v = 0; v < values.size(); ++v) {
          if (values[v].isInLoop != isInLoop)
            continue;
          if (values[v].to == part)
            in.push_back(v);
          if (values[v].from == part)
            out.push_back(v);
        }
        llvm::sort(in, [&](size_t a, size_t b) { return receives[a][0].order < receives[b][0].order; });
        llvm::SmallVector<Access> work;
        for (size_t v : in) {
          const auto value = static_cast<int64_t>(v);
          const unsigned received = storage(), packed = values[v].isUnpacked ? storage() : received;
          if (values[v].isUnpacked)
            add(chunk, {Role::Fill, value}, {{packed, 0, 64, true}});
          add(chunk, {Role::Receive, value}, {{packed, 0, 64, true}}, &receives[v][0]);
          if (values[v].isUnpacked)
            add(chunk, {Role::Unpack, value}, {{packed, 0, 64, false}, {received, 0, 64, true}});
          work.push_back({received, 0, 64, false});
        }
        std::vector<unsigned> made;
        for ([[maybe_unused]] size_t v : out) {
          made.push_back(storage());
          work.push_back({made.back(), 0, 64, true});
        }
        add(chunk, {Role::Work, part}, std::move(work));
        for (auto [v, from] : llvm::zip_equal(out, made))
          add(chunk, {Role::Send, static_cast<int64_t>(v)}, {{from, 0, 64, false}}, &sends[v][0]);
      }
    }
    if (orders.empty())
      doubleBuffer(program);
    else
      unrollPasses(program, orders[number]);
  }

  std::vector<Step> unroll(const Program &program) const {
    std::vector<Step> steps;
    for (const Instruction &instruction : program.instructions)
      steps.push_back({&instruction, instruction.turn});
    for (int64_t round = 0; round < program.getRounds(); ++round)
      for (const Instruction &instruction : program.body)
        if (!(instruction.exceptFirst && round == 0) &&
            !(instruction.exceptLast && round + 1 == program.getRounds()))
          steps.push_back({&instruction, round * program.turnsOfRound + instruction.turn});
    for (const auto *list : {&program.rest, &program.after})
      for (const Instruction &instruction : *list)
        steps.push_back({&instruction, instruction.turn});
    return steps;
  }

  std::string work(const Role &role, const Step &step, std::map<unsigned, Content> &memory) const {
    const auto &accesses = step.instruction->accesses;
    if (role.kind == Role::Fill) {
      memory[accesses.front().storage] = {-1, -1};
    } else if (role.kind == Role::Unpack) {
      memory[accesses[1].storage] = memory[accesses[0].storage];
    } else {
      std::vector<int64_t> out;
      const bool isInLoop = step.instruction->moment >= 0;
      for (size_t v = 0; v < values.size(); ++v)
        if (values[v].from == role.value && values[v].isInLoop == isInLoop)
          out.push_back(static_cast<int64_t>(v));
      size_t made = 0;
      for (const Access &access : accesses)
        if (access.writes)
          memory[access.storage] = {out[made++], step.turn};
        else if (const Content found = memory[access.storage];
                 found.second != step.turn || found.first < 0 || values[found.first].to != role.value)
          return "part " + std::to_string(role.value) + " in turn " + std::to_string(step.turn) +
                 " reads what value " + std::to_string(found.first) + " was in turn " +
                 std::to_string(found.second);
    }
    return {};
  }

  const dist::Pipeline shape;
  const int64_t turns;
  const std::vector<Value> values;
  std::vector<llvm::SmallVector<dist::Message>> sends, receives; // by value
  std::vector<step::Flight> flights;
  std::vector<llvm::SmallVector<int64_t>> orders; ///< of a training step, by stage
  mlir::MLIRContext context;
  std::vector<Stage> all;
};

class MeetingOrder : public testing::TestWithParam<std::tuple<int64_t, int64_t, int64_t>> {
protected:
  const int64_t stages = std::get<0>(GetParam()), chunks = std::get<1>(GetParam()),
                turns = std::get<2>(GetParam());
  const int64_t parts = stages * chunks;

  std::vector<Value> chain() const {
    std::vector<Value> values;
    for (int64_t part = 0; part + 1 < parts; ++part)
      values.push_back({part, part + 1});
    return values;
  }
};

TEST_P(MeetingOrder, ChainsComeToTheirEnds) {
  EXPECT_EQ(Pipeline(stages, chunks, turns, chain()).run(), "");
}

// As the skips of a U-Net do: from each part to the one that stands as far from the end.
TEST_P(MeetingOrder, SkipsComeToTheirEnds) {
  std::vector<Value> values;
  for (int64_t part = 0; part < parts / 2; ++part)
    values.push_back({part, parts - 1 - part});
  for (const Value &value : chain())
    values.push_back(value);
  EXPECT_EQ(Pipeline(stages, chunks, turns, values).run(), "");
}

TEST_P(MeetingOrder, AnyValuesComeToTheirEnds) {
  std::mt19937 random(17);
  auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<Value> values = chain();
    for (int64_t more = below(3 * parts); more > 0; --more) {
      const int64_t from = below(parts - 1);
      values.push_back({from, from + 1 + below(parts - 1 - from), below(4) != 0, below(4) == 0});
    }
    std::shuffle(values.begin(), values.end(), random);
    EXPECT_EQ(Pipeline(stages, chunks, turns, values).run(), "") << "trial " << trial;
  }
}

// Where values go to the next stage, all but the first are asked for while the pass before is computed.
TEST_P(MeetingOrder, ChainsReceiveAheadOfTime) {
  if (chunks > 1)
    return;
  Pipeline pipeline(stages, chunks, turns, chain());
  for (int64_t stage = 1; stage < stages; ++stage)
    EXPECT_EQ(pipeline.countAhead(stage), turns - 1) << stage;
}

INSTANTIATE_TEST_SUITE_P(Pipelines, MeetingOrder,
                         testing::Combine(testing::Values<int64_t>(2, 3, 4, 5, 8),
                                          testing::Values<int64_t>(1, 2, 3),
                                          testing::Values<int64_t>(2, 3, 4, 5, 8, 9)));

/// A training step by a schedule: parts, and the passes of all stages as they are simulated.
class Training : public testing::TestWithParam<std::tuple<cost::Schedule, int64_t, int64_t>> {
protected:
  void SetUp() override {
    const auto schedule = std::get<0>(GetParam());
    shape.stages = std::get<1>(GetParam());
    shape.isV = schedule == cost::Schedule::ZeroBubbleV;
    shape.chunks = shape.isV || schedule == cost::Schedule::Interleaved ? 2 : 1;
    shape.hasBackward = true;
    shape.splits = cost::splitsBackward(schedule);
    shape.levels = 3;
    cost::PipelineProblem problem;
    problem.schedule = schedule;
    problem.stages = static_cast<int>(shape.stages);
    problem.chunks = static_cast<int>(shape.chunks);
    problem.microbatches = static_cast<int>(turns);
    for (int64_t part = 0; part < shape.countForwardParts(); ++part) {
      cost::ChunkWork &work = problem.work.emplace_back();
      work.forward = 1;
      work.backward = work.weightGradient = 1;
      work.activationBytes = 1;
      work.weightGradientBytes = 0.5;
    }
    cost::PipelineResult result = cost::simulate(problem, /*withTimeline=*/true);
    ASSERT_EQ(result.error, "");
    std::stable_sort(result.timeline.begin(), result.timeline.end(),
                     [](const auto &a, const auto &b) { return a.start < b.start; });
    for (const cost::PipelineEvent &event : result.timeline) {
      int64_t chunk = event.chunk;
      if (event.pass != cost::PipelineEvent::Forward)
        chunk = (event.pass == cost::PipelineEvent::Backward ? 2 : 3) * shape.chunks - 1 - event.chunk;
      passes.push_back({event.stage, chunk, event.microbatch});
    }
  }

  void add(std::vector<Value> &values, const Value &value) const {
    if (shape.getStage(value.from) != shape.getStage(value.to)) // a stage keeps its own
      values.push_back(value);
  }
  /// Forward and back.
  std::vector<Value> chain() const {
    std::vector<Value> values;
    for (int64_t part = 0; part + 1 < 2 * shape.countForwardParts(); ++part)
      add(values, {part, part + 1});
    return values;
  }

  const int64_t turns = std::get<2>(GetParam());
  dist::Pipeline shape;
  std::vector<step::StagePass> passes;
};

TEST_P(Training, ChainsComeToTheirEnds) {
  EXPECT_EQ(Pipeline(shape, turns, passes, chain()).run(), "");
}

// What stages have in common, before the microbatches and behind them; skips; what is unpacked in its pass.
TEST_P(Training, AnyValuesComeToTheirEnds) {
  std::mt19937 random(17);
  auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  const int64_t chained = 2 * shape.countForwardParts(), parts = shape.countParts();
  for (int trial = 0; trial < 10; ++trial) {
    std::vector<Value> values = chain();
    for (int64_t more = below(2 * parts); more > 0; --more) {
      const bool isInLoop = below(2) != 0;
      const int64_t from = below((isInLoop ? chained : parts) - 1);
      add(values, {from, from + 1 + below((isInLoop ? chained : parts) - 1 - from), isInLoop, below(4) == 0});
    }
    std::shuffle(values.begin(), values.end(), random);
    EXPECT_EQ(Pipeline(shape, turns, passes, values).run(), "") << "trial " << trial;
  }
}

// Where each stage receives when it needs something, those that send to each other wait.
TEST_P(Training, WithoutACommonOrderStagesWait) {
  if (std::get<0>(GetParam()) != cost::Schedule::OneFOneB || turns <= shape.stages)
    return; // all forward passes come first
  EXPECT_NE(Pipeline(shape, turns, passes, chain(), /*asksLate=*/true).run(), "");
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, Training,
    testing::Combine(testing::Values(cost::Schedule::GPipe, cost::Schedule::OneFOneB,
                                     cost::Schedule::Interleaved, cost::Schedule::ZeroBubbleH1,
                                     cost::Schedule::ZeroBubbleH2, cost::Schedule::ZeroBubbleV),
                     testing::Values<int64_t>(2, 3, 4, 8), testing::Values<int64_t>(2, 4, 6, 8, 9, 16)));

} // namespace
