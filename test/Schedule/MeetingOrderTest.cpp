// Pipelines whose sends wait for their receivers, for any stages, chunks, turns and values between them:
// every rank does its text in order, a send and its receive happen together, and all come to their ends, each
// pass with what was sent for it.
#include "DoubleBuffers.h"
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
      : stages(stages), chunks(chunks), turns(turns), values(std::move(values)) {
    orderValues();
    for (int64_t stage = 0; stage < stages; ++stage)
      makeProgram(stage);
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
            const int64_t to = values[role.value].to % stages;
            if (to == stage) {
              if (!toItself[s].empty())
                return "two messages of a stage to itself wait";
              toItself[s].push_back(sent);
            } else {
              if (next[to] >= steps[to].size())
                break;
              const Step &other = steps[to][next[to]];
              const Role &receive = all[to].roleOf(*other.instruction);
              if (receive.kind != Role::Receive || values[receive.value].from % stages != stage)
                break;
              if (receive.value != role.value || other.turn != step.turn)
                return describe(receive.value, other.turn) + " receives " + describe(role.value, step.turn);
              memory[to][other.instruction->accesses.front().storage] = sent;
              ++next[to];
            }
            ++next[s];
          } else if (role.kind == Role::Receive) {
            if (values[role.value].from % stages != stage || toItself[s].empty())
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

  void orderValues() {
    std::vector<step::Flight> flights;
    for (const Value &value : values) {
      dist::Message message;
      message.pieces.push_back({0, {4, 4}, {value.isUnpacked ? 8 : 4, 1}});
      message.peers = {value.isUnpacked ? int64_t(-1) : int64_t(0)};
      sends.push_back({message});
      receives.push_back({message});
    }
    for (size_t v = 0; v < values.size(); ++v)
      flights.push_back({values[v].from, values[v].to, values[v].isInLoop, sends[v], receives[v]});
    step::orderMessages(flights, stages, chunks);
  }

  void makeProgram(int64_t number) {
    Stage &stage = all.emplace_back();
    Program &program = stage.program;
    program.turns = turns;
    program.stages = stages;
    program.chunkWaits.assign(chunks, false);
    for (const bool isInLoop : {false, true}) {
      std::vector<Instruction> &list = isInLoop ? program.body : program.instructions;
      auto storage = [&] {
        program.storages.push_back({Life::Activations, 64});
        return static_cast<unsigned>(program.storages.size() - 1);
      };
      auto add = [&](int64_t chunk, Role role, llvm::SmallVector<Access> accesses,
                     const dist::Message *message = nullptr) {
        Instruction instruction{std::move(accesses), false, mlir::UnknownLoc::get(&context), {}, {}};
        instruction.chunk = chunk;
        const auto place = static_cast<int64_t>(list.size());
        stage.roles[instruction.moment = isInLoop ? place : -1 - place] = role;
        if (message) {
          instruction.queue = 2;
          instruction.passes = message->passes;
          instruction.order = message->order;
        }
        list.push_back(std::move(instruction));
      };
      for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        const int64_t part = chunk * stages + number;
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
    doubleBuffer(program);
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
    for (const Instruction &instruction : program.rest)
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

  const int64_t stages, chunks, turns;
  const std::vector<Value> values;
  std::vector<llvm::SmallVector<dist::Message>> sends, receives; // by value
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

} // namespace
