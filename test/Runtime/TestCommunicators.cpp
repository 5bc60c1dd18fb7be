// Delays around transfers, regular or drawn.
#include "TestCommunicators.h"

#include "runtime/comm/Open.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

namespace colossal::runtime {

namespace {

using Pause = std::chrono::microseconds;

class DelayedTransfers : public Transfers {
public:
  /// `before` and `after` give the next transfer's delays. `scribbles`: see any:SEED.
  DelayedTransfers(std::unique_ptr<Transfers> inner, std::function<Pause()> before,
                   std::function<Pause()> after, bool scribbles)
      : inner(std::move(inner)), before(std::move(before)), after(std::move(after)), scribbles(scribbles) {}
  ReductionOrder reductionOrder() const override { return inner->reductionOrder(); }
  Reach reach() const override { return inner->reach(); }
  uint64_t shortAllReduce() const override { return inner->shortAllReduce(); }
  bool tellsMessagesApart() const override { return inner->tellsMessagesApart(); }
  Status attach(Device &device, const std::vector<Queue *> &messageQueues) override {
    return inner->attach(device, messageQueues);
  }
  Status createGroup(const std::vector<uint32_t> &members, uint32_t channel,
                     std::shared_ptr<Group> &group) override {
    return inner->createGroup(members, channel, group);
  }
  Status reserve(const std::shared_ptr<const CollectiveCall> &call, Queue &queue) override {
    return inner->reserve(call, queue);
  }
  Status reserveMessage(uint64_t bytes, Queue &queue) override { return inner->reserveMessage(bytes, queue); }
  Status reserveSlots(uint32_t count, uint64_t bytes, Queue &queue) override {
    return inner->reserveSlots(count, bytes, queue);
  }
  Status collective(std::shared_ptr<const CollectiveCall> call, Queue &queue) override {
    COLOSSAL_RETURN_IF_ERROR(delay(before(), queue));
    COLOSSAL_RETURN_IF_ERROR(inner->collective(std::move(call), queue));
    return delay(after(), queue);
  }
  Status send(const void *data, uint64_t bytes, uint32_t peer, uint32_t tag, Queue &queue) override {
    COLOSSAL_RETURN_IF_ERROR(delay(before(), queue));
    COLOSSAL_RETURN_IF_ERROR(inner->send(data, bytes, peer, tag, queue));
    return delay(after(), queue);
  }
  Status receive(void *data, uint64_t bytes, uint32_t peer, uint32_t tag, Queue &queue) override {
    if (scribbles && bytes > 0)
      COLOSSAL_RETURN_IF_ERROR(queue.hostTask([=] {
        std::memset(data, 0x5A, bytes);
        return Status();
      }));
    COLOSSAL_RETURN_IF_ERROR(delay(before(), queue));
    COLOSSAL_RETURN_IF_ERROR(inner->receive(data, bytes, peer, tag, queue));
    return delay(after(), queue);
  }
  uint64_t stagingBytes() const override { return inner->stagingBytes(); }
  std::map<uint32_t, uint64_t> messageBytes() const override { return inner->messageBytes(); }

private:
  static Status delay(Pause pause, Queue &queue) {
    if (pause.count() == 0)
      return {};
    return queue.hostTask([pause] {
      std::this_thread::sleep_for(pause);
      return Status();
    });
  }
  std::unique_ptr<Transfers> inner;
  std::function<Pause()> before, after;
  const bool scribbles;
};

/// Mostly nothing, sometimes so long that others pass by.
Pause draw(std::minstd_rand &random) {
  const unsigned chance = random() % 16;
  return Pause(chance < 8 ? 0 : chance < 14 ? random() % 40 : random() % 400);
}

const bool registered = [] {
  const char *kind = std::getenv("COLOSSAL_TEST_COMMUNICATOR");
  return kind && wrapTransfers(kind);
}();

} // namespace

bool wrapTransfers(const std::string &kind) {
  if (kind == "late")
    return wrapLocalTransfers([](std::unique_ptr<Transfers> inner, uint32_t rank) {
      auto calls = std::make_shared<uint32_t>(0);
      return std::make_unique<DelayedTransfers>(
          std::move(inner), [calls, rank] { return Pause(20 + (++*calls * 7 + rank * 13) % 80); },
          [] { return Pause(0); }, false);
    });
  if (kind.rfind("any:", 0) != 0)
    return false;
  const auto seed = static_cast<unsigned>(std::strtoul(kind.c_str() + 4, nullptr, 10));
  return wrapLocalTransfers([seed](std::unique_ptr<Transfers> inner, uint32_t rank) {
    auto random = std::make_shared<std::minstd_rand>(seed * 1000003 + rank + 1);
    const auto next = [random] { return draw(*random); };
    return std::make_unique<DelayedTransfers>(std::move(inner), next, next, true);
  });
}

} // namespace colossal::runtime
