// Messages and collectives of all ranks, brought together: each rank goes as far as it can, until all have
// ended or nobody gets any further.
//
// What can happen is decided without choosing an order: a queue does its meetings one after the other, a
// message goes to one receiver, and a slot belongs to one queue, so that nothing that a rank does takes away
// what another could do. Where all come to their ends in one order, they do in every order.
#include "runtime/validate/Order.h"

#include "runtime/validate/Validate.h"

#include "colossal/Plan/Traffic.h"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>

namespace colossal::runtime {

namespace {

/// Sender, receiver, and the tag, or the queue where tags do not count.
using Channel = std::tuple<uint32_t, uint32_t, uint32_t>;

uint64_t bytesOf(const plan::Instruction &instruction) {
  return instruction.has_send() ? instruction.send().src().bytes() : instruction.recv().dst().bytes();
}

class Simulation {
public:
  Simulation(const std::vector<plan::StageView> &stages, int program, bool inOrder)
      : stages(stages), program(program), inOrder(inOrder), plan(*stages.front().plan) {}

  Status run(const std::function<Status(uint64_t)> &spend) {
    for (const plan::StageView &stage : stages)
      for (uint64_t rank = stage.firstRank; rank < stage.firstRank + stage.ranks; ++rank) {
        ranks.emplace_back();
        COLOSSAL_RETURN_IF_ERROR(
            listMeetings(stage, program, stage.positionOf(rank), spend, ranks.back().meetings));
        prepare(static_cast<uint32_t>(rank));
      }
    for (const auto &[channel, ends] : channels)
      COLOSSAL_RETURN_IF_ERROR(match(channel, ends));
    for (uint32_t rank = 0; rank < ranks.size(); ++rank)
      wake(rank);
    while (!awake.empty()) {
      const uint32_t rank = awake.front();
      awake.pop_front();
      ranks[rank].isAwake = false;
      for (uint32_t queue = 0; queue < plan::queueCount; ++queue)
        while (advance(rank, queue)) {
        }
    }
    return standstill();
  }

private:
  struct Rank {
    std::vector<Meeting> meetings;
    std::vector<uint32_t> queues[plan::queueCount]; // indices of them
    Clock ended = {};
    bool begun[plan::queueCount] = {};       // whether the next one has come, and waits for others
    uint32_t waiting[plan::queueCount] = {}; // messages in slots
    bool isAwake = false;
  };
  struct Posted {
    uint32_t queue; // the sender's
    uint64_t bytes;
    const plan::Instruction *instruction;
  };
  struct Ends {
    std::vector<const Meeting *> sends, receives;
    std::deque<Posted> posted;
  };
  struct Group {
    size_t arrived = 0;
    std::vector<uint32_t> members;
  };

  void wake(uint32_t rank) {
    if (!ranks[rank].isAwake)
      awake.push_back(rank);
    ranks[rank].isAwake = true;
  }

  Channel channelOf(uint32_t rank, const Meeting &meeting) const {
    const bool sends = meeting.instruction->has_send();
    const uint32_t tag = inOrder ? meeting.queue
                         : sends ? meeting.instruction->send().tag()
                                 : meeting.instruction->recv().tag();
    return sends ? Channel(rank, meeting.peer, tag) : Channel(meeting.peer, rank, tag);
  }

  Group &groupOf(uint32_t rank, const Meeting &meeting) {
    const plan::StageView &stage = plan::stageOf(stages, rank);
    std::vector<uint32_t> axes(meeting.instruction->collective().axes().begin(),
                               meeting.instruction->collective().axes().end());
    std::vector<uint32_t> members = stage.members(axes, rank);
    const uint32_t first = members.front();
    axes.insert(axes.end(), {first, meeting.queue}); // what makes two groups one
    Group &group = groups[std::move(axes)];
    if (group.members.empty())
      group.members = std::move(members);
    return group;
  }

  void prepare(uint32_t rank) {
    Rank &own = ranks[rank];
    for (uint32_t m = 0; m < own.meetings.size(); ++m)
      own.queues[own.meetings[m].queue].push_back(m);
    for (const Meeting &meeting : own.meetings)
      if (meeting.instruction->has_send())
        channels[channelOf(rank, meeting)].sends.push_back(&meeting);
      else if (meeting.instruction->has_recv())
        channels[channelOf(rank, meeting)].receives.push_back(&meeting);
  }

  std::string describe(const plan::Instruction &instruction) const {
    return instructionKind(instruction) +
           (instruction.source().empty() ? "" : " from " + instruction.source());
  }

  Status fail(uint32_t rank, const plan::Instruction &instruction, const std::string &what) const {
    return {Code::InvalidPlan, "program '" + stages.front().plan->programs(program).name() + "', rank " +
                                   std::to_string(rank) + ", " + describe(instruction) + ": " + what};
  }

  /// The n-th message that is sent is the n-th that is received.
  Status match(const Channel &channel, const Ends &ends) const {
    const auto [from, to, tag] = channel;
    for (const auto *side : {&ends.sends, &ends.receives})
      for (const Meeting *meeting : *side)
        if (meeting->queue != side->front()->queue)
          return fail(
              side == &ends.sends ? from : to, *meeting->instruction,
              "messages between two ranks with one tag stand on two queues, which order them in no way");
    for (size_t m = 0; m < std::min(ends.sends.size(), ends.receives.size()); ++m)
      if (bytesOf(*ends.sends[m]->instruction) != bytesOf(*ends.receives[m]->instruction))
        return fail(from, *ends.sends[m]->instruction,
                    "it sends " + std::to_string(bytesOf(*ends.sends[m]->instruction)) + " bytes, and rank " +
                        std::to_string(to) + " expects " +
                        std::to_string(bytesOf(*ends.receives[m]->instruction)) + " (" +
                        describe(*ends.receives[m]->instruction) + ")");
    if (ends.sends.size() > ends.receives.size())
      return fail(from, *ends.sends[ends.receives.size()]->instruction,
                  "rank " + std::to_string(to) + " does not receive it");
    if (ends.sends.size() < ends.receives.size())
      return fail(to, *ends.receives[ends.sends.size()]->instruction,
                  "rank " + std::to_string(from) + " does not send it");
    return {};
  }

  /// In which messages to `meeting`'s peer wait.
  uint32_t slotsFor(uint32_t rank, const Meeting &meeting) const {
    const bool waits = inOrder && meeting.peer != rank;
    return waits || plan::slotBytes(plan, bytesOf(*meeting.instruction)) < bytesOf(*meeting.instruction)
               ? 0
               : plan.message_slots();
  }

  const Meeting *next(uint32_t rank, uint32_t queue) const {
    const Rank &own = ranks[rank];
    return own.ended[queue] < own.queues[queue].size() ? &own.meetings[own.queues[queue][own.ended[queue]]]
                                                       : nullptr;
  }

  bool mayBegin(uint32_t rank, const Meeting &meeting) const {
    for (uint32_t q = 0; q < plan::queueCount; ++q)
      if (ranks[rank].ended[q] < meeting.needs[q])
        return false;
    return true;
  }

  void finish(uint32_t rank, uint32_t queue) {
    ++ranks[rank].ended[queue];
    ranks[rank].begun[queue] = false;
    wake(rank);
  }

  /// Whether the queue's next meeting ended.
  bool advance(uint32_t rank, uint32_t queue) {
    Rank &own = ranks[rank];
    const Meeting *meeting = next(rank, queue);
    if (!meeting || !mayBegin(rank, *meeting))
      return false;
    const plan::Instruction &instruction = *meeting->instruction;
    if (instruction.has_collective()) {
      if (own.begun[queue])
        return false;
      own.begun[queue] = true;
      Group &group = groupOf(rank, *meeting);
      if (++group.arrived < group.members.size())
        return false;
      group.arrived = 0;
      for (uint32_t member : group.members)
        finish(member, queue);
      return true;
    }
    Ends &ends = channels[channelOf(rank, *meeting)];
    const uint32_t slots = slotsFor(rank, *meeting);
    if (instruction.has_send()) {
      if (own.begun[queue] || (slots > 0 && own.waiting[queue] == slots))
        return false;
      ends.posted.push_back({queue, bytesOf(instruction), &instruction});
      wake(meeting->peer);
      if (slots == 0) {
        own.begun[queue] = true;
        return false;
      }
      ++own.waiting[queue];
      finish(rank, queue);
      return true;
    }
    if (ends.posted.empty())
      return false;
    const Posted posted = ends.posted.front();
    ends.posted.pop_front();
    if (slots == 0) {
      finish(meeting->peer, posted.queue);
    } else {
      --ranks[meeting->peer].waiting[posted.queue];
      wake(meeting->peer);
    }
    finish(rank, queue);
    return true;
  }

  /// All have ended, or those that wait for one another are named.
  Status standstill() const {
    for (uint32_t rank = 0; rank < ranks.size(); ++rank)
      for (uint32_t queue = 0; queue < plan::queueCount; ++queue) {
        const Meeting *meeting = next(rank, queue);
        if (!meeting || !mayBegin(rank, *meeting))
          continue;
        std::string others;
        unsigned named = 0;
        for (uint32_t other = 0; other < ranks.size() && named < 3; ++other)
          for (uint32_t q = 0; q < plan::queueCount && named < 3; ++q)
            if (const Meeting *stuck = next(other, q);
                stuck && mayBegin(other, *stuck) && (other != rank || q != queue)) {
              others += (named++ ? ", " : "") + ("rank " + std::to_string(other)) + " in its " +
                        describe(*stuck->instruction);
            }
        return fail(rank, *meeting->instruction,
                    "the ranks wait for one another in a circle: nothing can go on while it waits" +
                        (others.empty() ? std::string() : ", as do " + others));
      }
    return {};
  }

  const std::vector<plan::StageView> &stages;
  const int program;
  const bool inOrder;
  const plan::Plan &plan;
  std::deque<Rank> ranks; // meetings are referred to
  std::map<Channel, Ends> channels;
  std::map<std::vector<uint32_t>, Group> groups;
  std::deque<uint32_t> awake;
};

} // namespace

Status checkMeetings(const std::vector<plan::StageView> &stages, int program, bool inOrder,
                     const std::function<Status(uint64_t)> &spend) {
  return Simulation(stages, program, inOrder).run(spend);
}

} // namespace colossal::runtime
