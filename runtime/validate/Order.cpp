// Clocks of instructions, and who touched which bytes last.
#include "runtime/validate/Order.h"

#include "runtime/validate/Validate.h"

#include <algorithm>
#include <map>

namespace colossal::runtime {

namespace {

using plan::InstructionList;

// Programs of at most so many instructions, counted as often as they run, are walked as they run ...
constexpr uint64_t walkedWhole = 1 << 16;
// ... and so are repeats in longer ones.
constexpr uint64_t unrolled = 1 << 12;
// What an instruction costs, in the validator's measure of work.
constexpr uint64_t workEach = 16;
// Turns of what is longer; see Order.h.
constexpr uint64_t turns = 3;

void join(Clock &clock, const Clock &other) {
  for (size_t q = 0; q < clock.size(); ++q)
    clock[q] = std::max(clock[q], other[q]);
}

const InstructionList &bodyOf(const plan::Plan &plan, const plan::Instruction &instruction) {
  if (instruction.has_repeat())
    return instruction.repeat().body();
  if (instruction.has_predicate())
    return instruction.predicate().body();
  return plan.functions(static_cast<int>(instruction.call().function())).body();
}

bool isNested(const plan::Instruction &instruction) {
  return instruction.has_repeat() || instruction.has_predicate() || instruction.has_call();
}

/// How many instructions bodies run, at most 2^40.
class Lengths {
public:
  explicit Lengths(const plan::Plan &plan) : plan(plan) {}
  uint64_t of(const InstructionList &body) {
    auto [known, isNew] = lengths.try_emplace(&body, 0);
    if (!isNew)
      return known->second;
    uint64_t length = 0;
    for (const plan::Instruction &instruction : body) {
      unsigned __int128 own = 1;
      if (isNested(instruction))
        own += static_cast<unsigned __int128>(of(bodyOf(plan, instruction))) *
               (instruction.has_repeat() ? instruction.repeat().count() : 1);
      length = static_cast<uint64_t>(std::min<unsigned __int128>(length + own, uint64_t(1) << 40));
    }
    return lengths[&body] = length;
  }

private:
  const plan::Plan &plan;
  std::map<const InstructionList *, uint64_t> lengths;
};

/// Bytes that an instruction touches.
struct Touch {
  const plan::BufferRef *ref;
  bool writes;
};

std::vector<Touch> touchesOf(const plan::Instruction &instruction) {
  std::vector<Touch> touches;
  auto buffers = [&](const auto &refs, uint32_t writes) {
    for (int i = 0; i < refs.size(); ++i)
      touches.push_back({&refs.Get(i), i >= refs.size() - static_cast<int>(writes)});
  };
  switch (instruction.kind_case()) {
  case plan::Instruction::kLaunch:
    buffers(instruction.launch().buffers(), instruction.launch().writes());
    for (uint32_t also : instruction.launch().also_written())
      touches[also].writes = true;
    break;
  case plan::Instruction::kLibrary:
    buffers(instruction.library().buffers(), instruction.library().writes());
    break;
  case plan::Instruction::kCollective:
    touches.push_back({&instruction.collective().src(), false});
    touches.push_back({&instruction.collective().dst(), true});
    if (instruction.collective().has_scratch())
      touches.push_back({&instruction.collective().scratch(), true});
    break;
  case plan::Instruction::kCopy:
    if (instruction.copy().has_buffer())
      touches.push_back({&instruction.copy().buffer(), false});
    touches.push_back({&instruction.copy().dst(), true});
    break;
  case plan::Instruction::kSend: touches.push_back({&instruction.send().src(), false}); break;
  case plan::Instruction::kRecv: touches.push_back({&instruction.recv().dst(), true}); break;
  default: break;
  }
  return touches;
}

/// Who touched the bytes of a rank's arenas last, by queue.
class Bytes {
public:
  struct Toucher {
    uint64_t number = 0; // among the instructions of its queue; 0: nobody
    const plan::Instruction *instruction = nullptr;
  };

  /// The instruction that touches some of [begin, end) and is not known to have ended at `clock`; null if
  /// none.
  const plan::Instruction *conflict(uint32_t arena, uint64_t begin, uint64_t end, bool writes, uint32_t queue,
                                    const Clock &clock) const {
    auto found = arenas.find(arena);
    if (found == arenas.end())
      return nullptr;
    auto at = found->second.upper_bound(begin);
    if (at != found->second.begin())
      --at;
    for (; at != found->second.end() && at->first < end; ++at) {
      if (at->second.end <= begin)
        continue;
      for (uint32_t q = 0; q < plan::queueCount; ++q) {
        if (q == queue)
          continue;
        if (at->second.writer[q].number > clock[q])
          return at->second.writer[q].instruction;
        if (writes && at->second.reader[q].number > clock[q])
          return at->second.reader[q].instruction;
      }
    }
    return nullptr;
  }

  /// Who writes comes after all before, or there was a conflict: it takes their place.
  void touch(uint32_t arena, uint64_t begin, uint64_t end, bool writes, uint32_t queue, Toucher who) {
    if (begin >= end)
      return;
    std::map<uint64_t, Segment> &segments = arenas[arena];
    cut(segments, begin);
    cut(segments, end);
    uint64_t next = begin;
    for (auto at = segments.lower_bound(begin); next < end;) {
      if (at == segments.end() || at->first > next) {
        const uint64_t gapEnd = at == segments.end() ? end : std::min(end, at->first);
        at = segments.emplace_hint(at, next, Segment{gapEnd, {}, {}});
      }
      if (writes) {
        at->second.writer = {};
        at->second.reader = {};
        at->second.writer[queue] = who;
      } else {
        at->second.reader[queue] = who;
      }
      next = at->second.end;
      ++at;
      if (writes) // one segment is enough for what one wrote
        while (at != segments.end() && at->first == next && next < end) {
          next = at->second.end;
          at = segments.erase(at);
          std::prev(at)->second.end = next;
        }
    }
  }

private:
  struct Segment {
    uint64_t end;
    std::array<Toucher, plan::queueCount> writer, reader;
  };
  static void cut(std::map<uint64_t, Segment> &segments, uint64_t place) {
    auto at = segments.upper_bound(place);
    if (at == segments.begin())
      return;
    --at;
    if (at->first < place && place < at->second.end) {
      Segment second = at->second;
      at->second.end = place;
      segments.emplace(place, second);
    }
  }
  std::map<uint32_t, std::map<uint64_t, Segment>> arenas;
};

/// Walks what one rank runs.
class Walk {
public:
  Walk(const plan::StageView &stage, int program, const plan::MeshPosition &position,
       const std::function<Status(uint64_t)> &spend)
      : stage(stage), plan(*stage.plan), lengths(plan), spend(spend), body(stage.body(program)),
        owner("program '" + plan.programs(program).name() + "'" + stage.suffix()) {
    environments.emplace_back(stage, position);
    levels.emplace_back();
    whole = lengths.of(body) <= walkedWhole;
  }

  Status checkOrder() {
    checksBytes = true;
    return walk(body, owner, "");
  }

  Status list(std::vector<Meeting> &found) {
    meetings = &found;
    whole = true;
    return walk(body, owner, "");
  }

private:
  /// A repeat of which three turns are walked.
  struct Long {
    uint64_t turn = 0;
    Clock before = {}, ofFirst = {};   // the last instructions before the first turn, and of it
    bool begun[plan::queueCount] = {}; // whether a queue has begun the last turn
    bool ordered = true;               // all of a turn before all of the turn after the next
  };
  /// What was touched in a long repeat, over all its turns.
  struct Touched {
    uint32_t arena, queue;
    uint64_t begin, end; // over all turns
    Affine address;
    bool isExact; // nothing in the address of which only the range is known
    bool writes;
    Bytes::Toucher who;
  };
  struct Level {
    Bytes bytes;
    std::vector<Touched> inside; // of the long repeat one level further in, in its last turn
  };

  Status walk(const InstructionList &instructions, const std::string &name, const std::string &prefix) {
    for (int i = 0; i < instructions.size(); ++i) {
      const plan::Instruction &instruction = instructions.Get(i);
      COLOSSAL_RETURN_IF_ERROR(spend(workEach));
      Status status = isNested(instruction) ? nest(instruction, name, prefix, i) : leaf(instruction);
      if (!status.ok())
        return std::move(status).withInstruction(
            describeInstruction(name, prefix + std::to_string(i), instruction));
    }
    return {};
  }

  /// What the queue has come to when the waits of an instruction are over.
  void begin(const plan::Instruction &instruction) {
    const uint32_t queue = instruction.queue();
    for (uint32_t event : instruction.waits()) {
      auto found = events.find(event);
      if (found == events.end())
        continue; // complete where it was never recorded
      join(clocks[queue], found->second.first);
      join(blocking[queue], found->second.second);
    }
    join(blocking[queue], host);
    // The first queue may work in the calls of the rank's thread, which gets no further then.
    if (queue == 0)
      host = blocking[0];
  }
  void end(const plan::Instruction &instruction) {
    if (instruction.signals())
      events[instruction.signals()] = {clocks[instruction.queue()], blocking[instruction.queue()]};
  }

  Status nest(const plan::Instruction &instruction, const std::string &name, const std::string &prefix,
              int index) {
    begin(instruction);
    const std::string inner = prefix + std::to_string(index) + ".";
    const InstructionList &nested = bodyOf(plan, instruction);
    if (instruction.has_predicate()) {
      Affine condition;
      for (Environment &environment : environments) {
        COLOSSAL_RETURN_IF_ERROR(environment.affine(instruction.predicate().condition(), condition));
        if (!condition.terms.empty())
          return {Code::InvalidPlan,
                  "it depends on the turn of a repeat that is too long to be followed turn by turn"};
      }
      if (condition.constant != 0)
        COLOSSAL_RETURN_IF_ERROR(walk(nested, name, inner));
    } else if (instruction.has_call()) {
      const std::vector<Environment> around = environments;
      const plan::Function &function = plan.functions(static_cast<int>(instruction.call().function()));
      for (Environment &environment : environments)
        COLOSSAL_RETURN_IF_ERROR(environment.enterCall(instruction.call(), function.arguments()));
      COLOSSAL_RETURN_IF_ERROR(walk(nested, "function '" + function.name() + "'" + stage.suffix(), ""));
      environments = around;
    } else {
      const uint64_t count = instruction.repeat().count();
      const uint64_t length = lengths.of(nested);
      if (whole || count <= turns || length <= unrolled / count) {
        const std::vector<Environment> around = environments;
        for (uint64_t turn = 0; turn < count; ++turn) {
          for (Environment &environment : environments)
            environment.enterTurn(turn);
          COLOSSAL_RETURN_IF_ERROR(walk(nested, name, inner));
          environments = around;
        }
      } else {
        COLOSSAL_RETURN_IF_ERROR(walkLong(nested, count, name, inner));
      }
    }
    end(instruction);
    return {};
  }

  Status walkLong(const InstructionList &nested, uint64_t count, const std::string &name,
                  const std::string &inner) {
    const std::vector<Environment> around = environments;
    loops.emplace_back();
    loops.back().before = numbers;
    levels.emplace_back();
    for (uint64_t turn = 0; turn < turns; ++turn) {
      environments = around;
      for (Environment &environment : environments)
        environment.enterRepeat(count);
      environments.push_back(around.back());
      environments.back().enterTurn(turn);
      loops.back().turn = turn;
      COLOSSAL_RETURN_IF_ERROR(walk(nested, name, inner));
      if (turn == 0)
        loops.back().ofFirst = numbers;
    }
    environments = around;
    levels.pop_back();
    const Long loop = loops.back();
    loops.pop_back();
    std::vector<Touched> inside;
    inside.swap(levels.back().inside);
    COLOSSAL_RETURN_IF_ERROR(checkTurns(inside, loop.ordered));
    for (const Touched &touched : inside)
      levels.back().bytes.touch(touched.arena, touched.begin, touched.end, touched.writes, touched.queue,
                                touched.who);
    return {};
  }

  /// Three turns stand for all only where addresses move alike, and where turns further apart are ordered.
  Status checkTurns(const std::vector<Touched> &inside, bool ordered) {
    COLOSSAL_RETURN_IF_ERROR(spend(static_cast<uint64_t>(inside.size()) * inside.size() / 2));
    for (size_t a = 0; a < inside.size(); ++a)
      for (size_t b = 0; b < a; ++b) {
        const Touched &one = inside[a], &other = inside[b];
        if (one.queue == other.queue || one.arena != other.arena || !(one.writes || other.writes) ||
            one.end <= other.begin || other.end <= one.begin)
          continue;
        if (!ordered || one.address.terms != other.address.terms || !one.isExact || !other.isExact)
          return {Code::InvalidPlan,
                  "it repeats too often to be followed turn by turn, and two instructions in it, on queues " +
                      std::to_string(other.queue) + " and " + std::to_string(one.queue) +
                      (ordered ? ", may touch the same bytes at addresses that move differently"
                               : ", may touch the same bytes in turns that nothing orders") +
                      nameOf(other.who.instruction) + nameOf(one.who.instruction)};
      }
    return {};
  }

  static std::string nameOf(const plan::Instruction *instruction) {
    return " (" + instructionKind(*instruction) +
           (instruction->source().empty() ? ")" : "; from " + instruction->source() + ")");
  }

  Status leaf(const plan::Instruction &instruction) {
    begin(instruction);
    const uint32_t queue = instruction.queue();
    Clock &clock = clocks[queue];
    if (checksBytes) {
      for (Long &loop : loops)
        if (loop.turn == turns - 1 && !loop.begun[queue]) {
          loop.begun[queue] = true;
          for (uint32_t q = 0; q < plan::queueCount; ++q)
            loop.ordered = loop.ordered &&
                           (q == queue || loop.before[q] == loop.ofFirst[q] || clock[q] >= loop.ofFirst[q]);
        }
      COLOSSAL_RETURN_IF_ERROR(touch(instruction));
    }
    if (meetings)
      COLOSSAL_RETURN_IF_ERROR(meet(instruction));
    clock[queue] = blocking[queue][queue] = ++numbers[queue];
    if (queue == 0)
      host = blocking[0];
    if (meetings)
      ended[queue].push_back(met[queue]);
    end(instruction);
    return {};
  }

  /// Bytes of an arena that an instruction touches in all turns that a level stands for.
  struct TouchedRange {
    uint32_t arena;
    bool writes;
    Affine address;
    uint64_t begin, end;
  };
  static std::vector<TouchedRange> rangesOf(const std::vector<Touch> &touches,
                                            const Environment &environment) {
    std::vector<TouchedRange> ranges;
    for (const Touch &each : touches) {
      if (each.ref->bytes() == 0)
        continue;
      Affine address = environment.address(each.ref->offset(), each.ref->strides());
      const Range range = environment.range(address);
      ranges.push_back({each.ref->arena(), each.writes, std::move(address),
                        static_cast<uint64_t>(range.least),
                        static_cast<uint64_t>(range.greatest + each.ref->bytes())});
    }
    return ranges;
  }

  Status touch(const plan::Instruction &instruction) {
    const uint32_t queue = instruction.queue();
    const std::vector<Touch> touches = touchesOf(instruction);
    for (size_t level = 0; level < levels.size(); ++level) {
      bool first = true, last = true; // turns of all long repeats further in
      for (size_t loop = level; loop < loops.size(); ++loop) {
        first = first && loops[loop].turn == 0;
        last = last && loops[loop].turn == turns - 1;
      }
      const bool here = level == loops.size();
      if (!first && !last && !here)
        continue;
      const Environment &environment = environments[level];
      std::vector<TouchedRange> ranges = rangesOf(touches, environment);
      if (first || here)
        for (const TouchedRange &each : ranges)
          if (const plan::Instruction *other = levels[level].bytes.conflict(
                  each.arena, each.begin, each.end, each.writes, queue, clocks[queue]))
            return {Code::InvalidPlan, "nothing orders it after the " + instructionKind(*other) +
                                           " on queue " + std::to_string(other->queue()) +
                                           " that touches the same bytes" +
                                           (other->source().empty() ? "" : ", from " + other->source())};
      const Bytes::Toucher who = {numbers[queue] + 1, &instruction};
      for (TouchedRange &each : ranges) {
        const bool isExact = environment.isExact(each.address);
        if (here)
          levels[level].bytes.touch(each.arena, each.begin, each.end, each.writes, queue, who);
        else if (last)
          levels[level].inside.push_back(
              {each.arena, queue, each.begin, each.end, std::move(each.address), isExact, each.writes, who});
      }
    }
    return {};
  }

  Status meet(const plan::Instruction &instruction) {
    Meeting meeting;
    meeting.instruction = &instruction;
    meeting.queue = instruction.queue();
    if (instruction.has_send() || instruction.has_recv()) {
      Affine peer;
      COLOSSAL_RETURN_IF_ERROR(environments.back().affine(
          instruction.has_send() ? instruction.send().peer() : instruction.recv().peer(), peer));
      if (peer.constant < 0)
        return {};
      meeting.peer = static_cast<uint32_t>(peer.constant);
    } else if (!instruction.has_collective()) {
      return {};
    }
    for (uint32_t q = 0; q < plan::queueCount; ++q) {
      const uint64_t until = blocking[meeting.queue][q];
      meeting.needs[q] = until == 0 ? 0 : ended[q][until - 1];
    }
    meetings->push_back(meeting);
    ++met[meeting.queue];
    return {};
  }

  const plan::StageView &stage;
  const plan::Plan &plan;
  Lengths lengths;
  const std::function<Status(uint64_t)> &spend;
  const InstructionList &body;
  const std::string owner;
  bool whole = true, checksBytes = false;
  std::vector<Meeting> *meetings = nullptr;
  uint64_t met[plan::queueCount] = {};           // meetings so far, by queue
  std::vector<uint64_t> ended[plan::queueCount]; // of them after each instruction of the queue

  /// By level: which long repeats stand at a turn, the outer ones, and which for all their turns.
  std::vector<Environment> environments;
  std::vector<Level> levels;
  std::vector<Long> loops;
  Clock numbers = {}; // instructions so far, by queue
  /// What has ended when a queue's next instruction begins: for certain, and where the first queue's work is
  /// done inside the calls of the rank's thread.
  std::array<Clock, plan::queueCount> clocks = {}, blocking = {};
  Clock host = {};
  std::map<uint32_t, std::pair<Clock, Clock>> events;
};

} // namespace

Status checkOrder(const plan::StageView &stage, int program, const plan::MeshPosition &position,
                  const std::function<Status(uint64_t)> &spend) {
  return Walk(stage, program, position, spend).checkOrder();
}

Status listMeetings(const plan::StageView &stage, int program, const plan::MeshPosition &position,
                    const std::function<Status(uint64_t)> &spend, std::vector<Meeting> &meetings) {
  return Walk(stage, program, position, spend).list(meetings);
}

std::vector<bool> orderAxes(const plan::StageView &stage, int program) {
  std::vector<bool> axes(static_cast<size_t>(stage.mesh->axes_size()));
  std::vector<const InstructionList *> seen;
  const std::function<void(const InstructionList &)> visit = [&](const InstructionList &body) {
    if (std::find(seen.begin(), seen.end(), &body) != seen.end())
      return;
    seen.push_back(&body);
    for (const plan::Instruction &instruction : body) {
      plan::markCoordinates(instruction.predicate().condition(), axes);
      for (const plan::Expr &argument : instruction.call().arguments())
        plan::markCoordinates(argument, axes);
      if (isNested(instruction))
        visit(bodyOf(*stage.plan, instruction));
    }
  };
  visit(stage.body(program));
  return axes;
}

} // namespace colossal::runtime
