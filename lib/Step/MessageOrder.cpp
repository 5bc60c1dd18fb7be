//===- MessageOrder.cpp - one order for the messages of all stages ----------===//
#include "colossal/Step/MessageOrder.h"

#include <map>
#include <tuple>

using namespace colossal;
using namespace colossal::dist;
using namespace colossal::step;

namespace {
/// Passes before its own that a stage may receive for, and after it that it may send, by its memory.
constexpr int64_t kAhead = 2, kBehind = 1;

/// What a stage does at a message, as it is sorted among all that it does between two of its passes.
struct Event {
  int64_t kind; ///< 0: to the next stage; 1: where slots meet; 2 and more: from the stage before
  int64_t from, to;
  size_t flight, number;
  bool isReceive;
  Message *message;
  auto key() const { return std::tie(kind, from, to, flight, number, isReceive); }
};
} // namespace

/// Whether a rank that does not receive unpacks what lay there before: see lowerReceives of the schedule.
static bool isUnpackedInItsPass(const Flight &flight) {
  return llvm::any_of(flight.receives, [](const Message &message) {
    const bool isRun = message.pieces.size() == 1 && message.pieces.front().isRun();
    return !isRun && llvm::is_contained(message.peers, -1);
  });
}

/// The slot in which each stage without chunks does turn 0: at most one after the stage before, and as late
/// as what passes over stages allows. O(stages * flights).
static llvm::SmallVector<int64_t> findSlots(llvm::ArrayRef<Flight> flights, int64_t stages) {
  llvm::SmallVector<int64_t> slots;
  for (int64_t stage = 0; stage < stages; ++stage)
    slots.push_back(stage);
  for (bool isSettled = false; !isSettled;) {
    isSettled = true;
    auto limit = [&](int64_t stage, int64_t slot) {
      if (slots[stage] <= slot)
        return;
      slots[stage] = slot;
      isSettled = false;
    };
    for (int64_t stage = 1; stage < stages; ++stage) {
      limit(stage, slots[stage - 1] + 1);
      limit(stage - 1, slots[stage]);
    }
    for (const Flight &flight : flights)
      if (flight.isInLoop)
        limit(flight.to, slots[flight.from] + kBehind + (isUnpackedInItsPass(flight) ? 1 : kAhead));
  }
  return slots;
}

void step::orderMessages(llvm::MutableArrayRef<Flight> flights, int64_t stages, int64_t chunks) {
  const llvm::SmallVector<int64_t> slots = findSlots(chunks > 1 ? llvm::ArrayRef<Flight>() : flights, stages);
  std::vector<llvm::SmallVector<Event>> loop(stages), once(stages);
  for (auto [number, flight] : llvm::enumerate(flights)) {
    const int64_t from = flight.from % stages, to = flight.to % stages;
    int64_t behind = 0, ahead, sendKind = 1, receiveKind = 1, order = -flight.from;
    if (flight.isInLoop) {
      const int64_t distance = chunks > 1 ? flight.to - flight.from : slots[to] - slots[from];
      const int64_t most = from == to || isUnpackedInItsPass(flight) ? 1 : kAhead;
      if (from < to && distance + 1 <= most) {
        ahead = distance + 1;
        sendKind = 0;
        receiveKind = 2 + from;
      } else {
        ahead = std::min(distance, most);
        behind = distance - ahead;
      }
    } else {
      // Before the first own pass that comes after the sender's; as many passes before that which needs it.
      const int64_t first = (flight.from - to + stages) / stages;
      ahead = flight.to / stages - first + 1;
      order = flight.from;
    }
    for (auto [m, send, receive] : llvm::enumerate(flight.sends, flight.receives)) {
      send.passes = behind;
      receive.passes = ahead;
      auto &events = flight.isInLoop ? loop : once;
      events[from].push_back({sendKind, order, flight.to, number, m, false, &send});
      events[to].push_back({receiveKind, order, flight.to, number, m, true, &receive});
    }
  }
  for (auto *kind : {&loop, &once})
    for (llvm::SmallVector<Event> &events : *kind) {
      llvm::sort(events, [](const Event &a, const Event &b) { return a.key() < b.key(); });
      for (auto [order, event] : llvm::enumerate(events))
        event.message->order = static_cast<int64_t>(order);
    }
}

std::vector<llvm::SmallVector<int64_t>> step::placeMessages(llvm::MutableArrayRef<Flight> flights,
                                                            const Pipeline &pipeline,
                                                            llvm::ArrayRef<StagePass> passes) {
  std::vector<llvm::SmallVector<int64_t>> done(pipeline.stages);
  std::vector<int64_t> count(pipeline.stages, 0);
  // By part, and whether it is of a turn.
  std::map<std::pair<int64_t, bool>, llvm::SmallVector<const Flight *>> before, behind;
  for (Flight &flight : flights) {
    const bool isLate = isUnpackedInItsPass(flight);
    (isLate ? before : behind)[{isLate ? flight.to : flight.from, flight.isInLoop}].push_back(&flight);
    for (auto [send, receive] : llvm::zip_equal(flight.sends, flight.receives)) {
      send.order = count[pipeline.getStage(flight.from)]++;
      receive.order = count[pipeline.getStage(flight.to)]++;
    }
  }
  auto meet = [&](llvm::ArrayRef<const Flight *> all, int64_t turn) {
    for (const Flight *flight : all)
      for (auto [send, receive] : llvm::zip_equal(flight->sends, flight->receives)) {
        done[pipeline.getStage(flight->from)].append({-1 - send.order, turn});
        done[pipeline.getStage(flight->to)].append({-1 - receive.order, turn});
      }
  };
  auto place = [&](int64_t part, int64_t turn) {
    meet(before[{part, turn >= 0}], turn);
    done[pipeline.getStage(part)].append({pipeline.getChunk(part), turn});
    meet(behind[{part, turn >= 0}], turn);
  };
  const int64_t closing = pipeline.countTurnChunks() * pipeline.stages;
  for (int64_t part = 0; part < closing; ++part)
    place(part, -1);
  for (const StagePass &pass : passes)
    place(pipeline.getPart(pass.stage, pass.chunk), pass.turn);
  for (int64_t part = closing; part < pipeline.countParts(); ++part)
    place(part, -1);
  return done;
}

void step::splitAscending(llvm::SmallVector<Message> &sends, llvm::SmallVector<Message> &receives,
                          int64_t firstRank) {
  llvm::SmallVector<Message> splitSends, splitReceives;
  for (auto [send, receive] : llvm::zip_equal(sends, receives))
    for (const bool ascends : {true, false}) {
      Message ownSend = send, ownReceive = receive;
      bool isEmpty = true;
      for (auto [rank, peer] : llvm::enumerate(ownSend.peers)) {
        if (peer >= 0 && (peer >= firstRank + static_cast<int64_t>(rank)) != ascends)
          peer = -1;
        isEmpty &= peer < 0;
      }
      for (auto [rank, peer] : llvm::enumerate(ownReceive.peers))
        if (peer >= 0 && (firstRank + static_cast<int64_t>(rank) >= peer) != ascends)
          peer = -1;
      if (isEmpty)
        continue;
      splitSends.push_back(std::move(ownSend));
      splitReceives.push_back(std::move(ownReceive));
    }
  sends = std::move(splitSends);
  receives = std::move(splitReceives);
}
