//===- MessageSlots.cpp - how many messages may wait, and how long they are --===//
#include "MessageSlots.h"

#include "PassOrder.h"

#include <map>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::step;

static int64_t countBytes(const Flight &flight, const Message &message) {
  int64_t elements = 0;
  for (const Piece &piece : message.pieces)
    elements += piece.getNumElements();
  return elements * flight.elementBytes;
}

static int64_t findLongest(const Flight &flight) {
  int64_t longest = 0;
  for (const Message &message : flight.sends)
    longest = std::max(longest, countBytes(flight, message));
  return longest;
}

//===----------------------------------------------------------------------===//
// Without passes
//===----------------------------------------------------------------------===//

/// When a stage with chunks begins with each turn of each part (by part, then turn), where every pass takes
/// one unit of time: groups of as many turns as there are stages go through the chunks, one after the other,
/// as cost::simulate has it, and each part follows the one before.
static std::vector<std::vector<int64_t>> getPassTimes(int64_t stages, int64_t chunks, int64_t turns) {
  std::vector<std::vector<int64_t>> times(stages * chunks, std::vector<int64_t>(turns, 0));
  std::vector<int64_t> free(stages, 0);
  // A group's chunk on all stages, one after the other: what it needs has its time by then.
  for (int64_t first = 0; first < turns; first += stages)
    for (int64_t part = 0; part < stages * chunks; ++part)
      for (int64_t turn = first; turn < std::min(turns, first + stages); ++turn) {
        int64_t &now = free[part % stages];
        if (part > 0)
          now = std::max(now, times[part - 1][turn] + 1);
        times[part][turn] = now++;
      }
  return times;
}

/// Messages that a rank of some stage must have room for at most. In one order of all that the ranks do:
/// first what all turns share, part by part; then turns as getPassTimes says, where at each time all send
/// before any receives. If they have room in one order, no rank waits for ever in any.
static int64_t countSlots(ArrayRef<Flight> flights, int64_t stages, int64_t chunks, int64_t turns) {
  if (chunks == 1) { // what goes to the next stage is received in turn; the rest so many turns later
    std::vector<int64_t> waiting(stages, 0);
    for (const Flight &flight : flights)
      if (flight.isInLoop)
        waiting[flight.from] += (flight.to - flight.from - 1) * static_cast<int64_t>(flight.sends.size());
    return 1 + *llvm::max_element(waiting);
  }
  // After a few groups all is as before.
  const int64_t looked = std::min(turns, 4 * stages + turns % stages), before = -stages * chunks - 1;
  const std::vector<std::vector<int64_t>> times = getPassTimes(stages, chunks, looked);
  std::map<std::pair<int64_t, int64_t>, int64_t> changes; // by stage and time: of what waits
  auto wait = [&](const Flight &flight, int64_t sent, int64_t received) {
    const auto count = static_cast<int64_t>(flight.sends.size());
    changes[{flight.from % stages, sent}] += count;
    changes[{flight.from % stages, received + 1}] -= count;
  };
  for (const Flight &flight : flights)
    if (!flight.isInLoop)
      wait(flight, before + flight.from + 1, before + flight.to);
    else
      for (int64_t turn = 0; turn < looked; ++turn)
        wait(flight, times[flight.from][turn] + 1, times[flight.to][turn]);
  int64_t most = 1, now = 0, stage = -1;
  for (const auto &[when, change] : changes) {
    now = (when.first == stage ? now : 0) + change;
    stage = when.first;
    most = std::max(most, now);
  }
  return most;
}

void MessageSlots::add(ArrayRef<Flight> flights, int64_t stages, int64_t chunks, int64_t turns) {
  slots = std::max(slots, countSlots(flights, stages, chunks, turns));
  mostSlots = std::max(mostSlots, slots);
  for (const Flight &flight : flights)
    bytes = std::max(bytes, findLongest(flight));
  mostBytes = std::max(mostBytes, bytes);
}

//===----------------------------------------------------------------------===//
// With passes in an order
//===----------------------------------------------------------------------===//

/// All that the stages do with messages, part by part, in one order in which they can do it: calls `visit`
/// with each part and whether it is one of a turn.
static void visitParts(const Pipeline &pipeline, ArrayRef<func::FuncOp> functions,
                       llvm::function_ref<void(int64_t part, bool isInLoop)> visit) {
  const int64_t closing = pipeline.countTurnChunks() * pipeline.stages;
  for (int64_t part = 0; part < closing; ++part)
    visit(part, false);
  if (func::FuncOp(functions.front())->hasAttr(kPassesAttrName))
    for (const StagePass &pass : mergePasses(functions))
      visit(pipeline.getPart(pass.stage, pass.chunk), true);
  for (int64_t part = closing; part < pipeline.countParts(); ++part)
    visit(part, false);
}

void MessageSlots::add(ArrayRef<Flight> flights, const Pipeline &pipeline, ArrayRef<func::FuncOp> functions) {
  std::vector<size_t> first; // message of each flight
  size_t messages = 0;
  for (const Flight &flight : flights) {
    first.push_back(messages);
    messages += flight.sends.size();
    const bool isOfLevel = pipeline.isClosing(pipeline.getChunk(flight.to));
    mostBytes = std::max(mostBytes, findLongest(flight));
    if (!isOfLevel)
      bytes = std::max(bytes, findLongest(flight));
  }
  // A stage sends its results in their order.
  SmallVector<size_t> bySender = llvm::to_vector(llvm::seq<size_t>(0, flights.size()));
  llvm::stable_sort(bySender, [&](size_t a, size_t b) { return flights[a].result < flights[b].result; });
  Meetings meetings(pipeline.stages);
  std::vector<int64_t> waiting(pipeline.stages, 0);
  visitParts(pipeline, functions, [&](int64_t part, bool isInLoop) {
    const int64_t stage = pipeline.getStage(part);
    auto meet = [&](size_t f, bool isReceive) {
      const Flight &flight = flights[f];
      const int64_t sender = pipeline.getStage(flight.from);
      for (auto [m, message] : llvm::enumerate(flight.sends))
        meetings[stage].push_back({first[f] + m, sender, countBytes(flight, message), isReceive});
      waiting[sender] += (isReceive ? -1 : 1) * static_cast<int64_t>(flight.sends.size());
    };
    for (size_t f = 0; f < flights.size(); ++f)
      if (flights[f].to == part && flights[f].isInLoop == isInLoop)
        meet(f, true);
    for (size_t f : bySender)
      if (flights[f].from == part && flights[f].isInLoop == isInLoop)
        meet(f, false);
    const int64_t most = *llvm::max_element(waiting);
    mostSlots = std::max(mostSlots, most);
    if (!pipeline.isClosing(pipeline.getChunk(part)))
      slots = std::max(slots, most);
  });
  ordered.push_back(std::move(meetings));
}

/// Played through: each stage goes as far as it can. Where all come to their ends in one order they do in
/// any, and ranks, which have some of their stage's messages in its order, do as well.
bool MessageSlots::comesToItsEnd(const Meetings &meetings, const Room &room) {
  struct Stage {
    size_t next = 0;
    int64_t waiting = 0;   ///< messages in slots
    bool hasBegun = false; ///< with a send that waits to be received
  };
  std::vector<Stage> stages(meetings.size());
  std::map<size_t, int64_t> onTheirWay; // by message
  auto isLong = [&](const Meeting &meeting) { return room.bytes > 0 && meeting.bytes > room.bytes; };
  auto advance = [&](Stage &stage, const Meeting &meeting) {
    int64_t &sent = onTheirWay[meeting.message];
    if (meeting.isReceive) {
      if (sent == 0)
        return false;
      --sent;
      stages[meeting.sender].waiting -= isLong(meeting) ? 0 : 1;
    } else if (!isLong(meeting)) {
      if (stage.waiting == room.slots)
        return false;
      ++stage.waiting;
      ++sent;
    } else if (!stage.hasBegun) {
      stage.hasBegun = true;
      ++sent;
      return false;
    } else {
      if (sent > 0)
        return false;
      stage.hasBegun = false;
    }
    ++stage.next;
    return true;
  };
  for (bool goesOn = true; goesOn;) {
    goesOn = false;
    for (auto [stage, own] : llvm::zip_equal(stages, meetings))
      while (stage.next < own.size()) {
        const bool hadBegun = stage.hasBegun;
        const bool isDone = advance(stage, own[stage.next]);
        goesOn |= isDone || hadBegun != stage.hasBegun;
        if (!isDone)
          break;
      }
  }
  return llvm::all_of(llvm::zip_equal(stages, meetings),
                      [](const auto &one) { return std::get<0>(one).next == std::get<1>(one).size(); });
}

MessageSlots::Room MessageSlots::find() const {
  for (Room room{slots, bytes < mostBytes ? std::max<int64_t>(bytes, 1) : 0}; room.slots <= mostSlots;
       ++room.slots)
    if (llvm::all_of(ordered, [&](const Meetings &meetings) { return comesToItsEnd(meetings, room); }))
      return room;
  return {mostSlots, 0};
}
