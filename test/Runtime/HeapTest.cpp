// What a run takes from the heap: words about what goes on, and nothing as long as what is sent.
//
// This program's operator new is replaced by one that remembers the longest request while it is told to.
#include "PlanBuilder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

using namespace colossal;
using namespace colossal::runtime;

namespace {
std::atomic<bool> watching{false};
std::atomic<size_t> longest{0};

void *take(size_t bytes, size_t alignment) {
  if (watching) {
    size_t known = longest;
    while (known < bytes && !longest.compare_exchange_weak(known, bytes)) {
    }
  }
  // What is taken in aligned parts must be a multiple of these.
  const size_t rounded = (std::max<size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  if (void *memory = std::aligned_alloc(alignment, rounded))
    return memory;
  throw std::bad_alloc();
}
} // namespace

void *operator new(size_t bytes) {
  return take(bytes, alignof(std::max_align_t));
}
void *operator new(size_t bytes, std::align_val_t alignment) {
  return take(bytes, static_cast<size_t>(alignment));
}
void operator delete(void *memory) noexcept {
  std::free(memory);
}
void operator delete(void *memory, size_t) noexcept {
  std::free(memory);
}
void operator delete(void *memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void *memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

TEST(Heap, MessagesWaitInNothingOfIt) {
  constexpr uint64_t bytes = 1 << 16;
  for (uint32_t slots : {0u, 1u, 3u}) {
    PlanBuilder builder({2}, 8 * bytes);
    builder.plan.set_message_slots(slots);
    // Rank 0 sends four messages before rank 1 takes the first, as far as they may wait.
    plan::Expr other = binary(plan::Expr::SUB, constant(1), coordinate(0));
    for (bool sends : {true, false}) {
      plan::Predicate &part = *builder.add().mutable_predicate();
      *part.mutable_condition() = sends ? other : coordinate(0);
      plan::Instruction &repeat = *part.add_body();
      repeat.mutable_repeat()->set_count(4);
      plan::Instruction &message = *repeat.mutable_repeat()->add_body();
      message.set_queue(2);
      if (sends) {
        *message.mutable_send()->mutable_src() = builder.buffer(2, 0, bytes);
        *message.mutable_send()->mutable_peer() = other;
      } else {
        *message.mutable_recv()->mutable_dst() = builder.buffer(2, 4 * bytes, bytes);
        *message.mutable_recv()->mutable_peer() = other;
      }
    }
    std::unique_ptr<Session> session;
    Status status = builder.open(session);
    ASSERT_TRUE(status.ok()) << status.describe();
    for (int run = 0; run < 3; ++run) {
      longest = 0;
      watching = true;
      status = session->run(1, {});
      watching = false;
      ASSERT_TRUE(status.ok()) << status.describe();
      EXPECT_LT(longest, bytes) << "with " << slots << " messages that may wait, in run " << run;
    }
  }
  // It would be seen.
  longest = 0;
  watching = true;
  EXPECT_FALSE(std::string(2 * bytes, 'x').empty());
  watching = false;
  EXPECT_GE(longest, 2 * bytes);
}
