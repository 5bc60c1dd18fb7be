// Room for messages that wait: what passes hand on sets it, and what is sent once a step waits where it lies,
// unless stages would wait for one another in a circle.
#include "MessageSlots.h"

#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

#include <deque>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::step;

namespace {

/// Two stages with a forward part each (0 and 1) and two levels (2 and 3, 4 and 5), of one microbatch.
class Slots : public ::testing::Test {
protected:
  Slots() {
    context.loadDialect<func::FuncDialect, DistDialect>();
    module = ModuleOp::create(UnknownLoc::get(&context));
    function = func::FuncOp::create(UnknownLoc::get(&context), "step", FunctionType::get(&context, {}, {}));
    module->push_back(function);
  }
  /// Result #`result` of part `from`, of so many bytes.
  void send(int64_t from, int64_t to, unsigned result, int64_t bytes) {
    Message message;
    message.peers = {0};
    message.pieces.push_back({0, {bytes}, {1}});
    auto &sends = messages.emplace_back(SmallVector<Message>{message});
    auto &receives = messages.emplace_back(SmallVector<Message>{message});
    flights.push_back({from, to, false, sends, receives, result, 1});
  }
  MessageSlots::Room find() {
    MessageSlots room;
    room.add(flights, Pipeline{2, 1, false, false, false, 2}, {function, function});
    return room.find();
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  std::deque<SmallVector<Message>> messages; // flights refer to them
  std::vector<Flight> flights;
};

TEST_F(Slots, WhatIsSentOnceAStepTakesNone) {
  send(0, 1, 0, 16);
  for (unsigned result : {1, 2, 3}) // they would wait together
    send(2, 3, result, 4);
  send(2, 3, 4, 1000);
  const auto [slots, bytes] = find();
  EXPECT_EQ(slots, 1);
  EXPECT_EQ(bytes, 16);
}

TEST_F(Slots, WithoutLongMessagesAllHaveRoom) {
  send(0, 1, 0, 16);
  send(2, 3, 1, 4);
  EXPECT_EQ(find().bytes, 0);
}

TEST_F(Slots, AreMoreWhereStagesWouldWaitInACircle) {
  // Stage 0 sends first what stage 1 receives last.
  send(0, 1, 0, 16);
  send(2, 5, 1, 4);
  send(2, 3, 2, 4);
  EXPECT_EQ(find().slots, 2);
}

TEST_F(Slots, HaveRoomForAnyWhereALongOneCannotWait) {
  send(0, 1, 0, 16);
  send(2, 5, 1, 1000);
  send(2, 3, 2, 4);
  const auto [slots, bytes] = find();
  EXPECT_EQ(slots, 2);
  EXPECT_EQ(bytes, 0);
}

} // namespace
