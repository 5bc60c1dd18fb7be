// What every device must do, whatever it is made of; and that the discrete one catches what it is there to
// catch.
#include "runtime/cpu/Target.h"
#include "runtime/device/HostAccess.h"
#include "runtime/device/Registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <sstream>

using namespace colossal;
using namespace colossal::runtime;

namespace {

std::unique_ptr<Device> makeDevice(const std::string &kind, Driver &driver, Abort &abort) {
  std::unique_ptr<Device> device;
  EXPECT_TRUE(driver.createDevice({2, 50, false}, abort, device).ok()) << kind;
  return device;
}

std::vector<std::byte> pattern(uint64_t bytes, unsigned salt) {
  std::vector<std::byte> made(bytes);
  for (uint64_t i = 0; i < bytes; ++i)
    made[i] = static_cast<std::byte>((i * 31 + salt * 17 + i / 251) & 0xFF);
  return made;
}

class DeviceSuite : public ::testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    ASSERT_TRUE(openDriver(GetParam(), driver).ok());
    device = makeDevice(GetParam(), *driver, abort);
    queue = device->createQueue(false);
    beside = device->createQueue(true);
    event = device->createEvent();
  }

  static bool isCuda() { return std::string(GetParam()) == "cuda"; }

  std::unique_ptr<Allocation> allocate(uint64_t bytes, uint64_t alignment = 64) {
    std::unique_ptr<Allocation> memory;
    Status status = device->allocate(bytes, alignment, memory);
    EXPECT_TRUE(status.ok()) << status.describe();
    return memory;
  }
  std::unique_ptr<Allocation> pinned(uint64_t bytes) {
    std::unique_ptr<Allocation> memory;
    EXPECT_TRUE(device->allocatePinned(bytes, memory).ok());
    return memory;
  }
  static void expectOk(const Status &status) { EXPECT_TRUE(status.ok()) << status.describe(); }

  /// What lies in the first bytes of `memory`.
  std::vector<std::byte> contents(const Allocation &memory, uint64_t bytes) {
    std::vector<std::byte> found(bytes);
    HostAccess access(*device);
    expectOk(access.read(*queue, memory.address(), bytes,
                         [&](const std::byte *host, uint64_t begin, uint64_t end) {
                           std::copy(host, host + (end - begin), found.data() + begin);
                           return Status();
                         }));
    return found;
  }

  Abort abort;
  std::unique_ptr<Driver> driver;
  std::unique_ptr<Device> device;
  std::unique_ptr<Queue> queue, beside;
  std::unique_ptr<Event> event;
};

} // namespace

TEST_P(DeviceSuite, AllocatesAtTheAlignment) {
  for (uint64_t alignment : {64u, 4096u, 65536u}) {
    auto memory = allocate(100, alignment);
    EXPECT_EQ(reinterpret_cast<uint64_t>(memory->address()) % alignment, 0u);
    EXPECT_EQ(memory->bytes(), 100u);
  }
  EXPECT_NE(allocate(0)->address(), nullptr);
}

TEST_P(DeviceSuite, MovesBytesInTheOrderOfAQueue) {
  for (uint64_t bytes : {1u, 4097u, 100003u}) {
    auto first = allocate(bytes), second = allocate(bytes), in = pinned(bytes), out = pinned(bytes);
    const std::vector<std::byte> want = pattern(bytes, 1);
    std::copy(want.begin(), want.end(), in->address());
    expectOk(queue->fill(second->address(), std::byte{7}, bytes));
    expectOk(queue->upload(first->address(), in->address(), bytes));
    expectOk(queue->copy(second->address(), first->address(), bytes - 1));
    expectOk(queue->download(out->address(), second->address(), bytes));
    expectOk(queue->record(*event));
    expectOk(event->synchronize());
    EXPECT_TRUE(event->complete());
    EXPECT_TRUE(std::equal(want.begin(), want.end() - 1, out->address()));
    EXPECT_EQ(out->address()[bytes - 1], std::byte{7});
  }
}

TEST_P(DeviceSuite, ASourceMayBeReusedAfterItsEvent) {
  constexpr uint64_t bytes = 1000, rounds = 50;
  auto memory = allocate(bytes * rounds), in = pinned(bytes);
  for (unsigned round = 0; round < rounds; ++round) {
    const std::vector<std::byte> want = pattern(bytes, round);
    expectOk(event->synchronize());
    std::copy(want.begin(), want.end(), in->address());
    expectOk(queue->upload(memory->address() + round * bytes, in->address(), bytes));
    expectOk(queue->record(*event));
  }
  const std::vector<std::byte> found = contents(*memory, bytes * rounds);
  for (unsigned round = 0; round < rounds; ++round) {
    const std::vector<std::byte> want = pattern(bytes, round);
    EXPECT_TRUE(std::equal(want.begin(), want.end(), found.begin() + round * bytes)) << round;
  }
}

TEST_P(DeviceSuite, EventsOrderQueues) {
  // Each round one queue counts up and the other copies what it finds; both wait for each other.
  auto memory = allocate(2), out = pinned(1);
  auto back = device->createEvent();
  for (unsigned round = 1; round <= 50; ++round) {
    expectOk(beside->wait(*back));
    expectOk(beside->fill(memory->address(), static_cast<std::byte>(round), 1));
    expectOk(beside->record(*event));
    expectOk(queue->wait(*event));
    expectOk(queue->copy(memory->address() + 1, memory->address(), 1));
    expectOk(queue->record(*back));
    expectOk(queue->download(out->address(), memory->address() + 1, 1));
    expectOk(queue->synchronize());
    ASSERT_EQ(out->address()[0], static_cast<std::byte>(round));
  }
  expectOk(beside->synchronize());
}

TEST_P(DeviceSuite, HostTasksSeeWhatCameBeforeThem) {
  for (Queue *each : {queue.get(), beside.get()}) {
    auto memory = allocate(1), in = pinned(1), out = pinned(1);
    in->address()[0] = std::byte{42};
    std::byte seen{};
    expectOk(each->upload(memory->address(), in->address(), 1));
    expectOk(each->download(out->address(), memory->address(), 1));
    expectOk(each->hostTask([&] {
      seen = out->address()[0];
      out->address()[0] = std::byte{43};
      return Status();
    }));
    expectOk(each->upload(memory->address(), out->address(), 1));
    expectOk(each->synchronize());
    EXPECT_EQ(seen, std::byte{42});
    EXPECT_EQ(contents(*memory, 1)[0], std::byte{43});
  }
}

TEST_P(DeviceSuite, AnErrorStopsAQueueAndIsKept) {
  bool ran = false;
  expectOk(beside->hostTask([] { return Status(Code::RankFailed, "the first"); }));
  expectOk(beside->hostTask([&] {
    ran = true;
    return Status();
  }));
  expectOk(beside->record(*event));
  EXPECT_EQ(beside->synchronize().message(), "the first");
  EXPECT_FALSE(ran);
  EXPECT_TRUE(event->complete()) << "nobody waits for ever";
}

TEST_P(DeviceSuite, TakesTheImageThatItCanLoad) {
  Images images;
  auto add = [&](plan::Image::Format format, const std::string &architecture) {
    images.Add()->set_format(format);
    images[images.size() - 1].set_architecture(architecture);
  };
  int chosen = -1;
  add(plan::Image::CUBIN, "sm_1");
  add(plan::Image::PTX, "sm_999");
  Status none = device->chooseImage(images, chosen);
  EXPECT_EQ(none.code(), Code::Unsupported);
  EXPECT_NE(none.message().find("the plan's code is cubin for sm_1, PTX for sm_999; "), std::string::npos)
      << none.message();
  EXPECT_NE(none.message().find("--target"), std::string::npos) << none.message();
  if (isCuda()) {
    // Machine code is for others than what executes PTX; of several it takes the newest that it knows.
    add(plan::Image::CUBIN, "sm_90");
    add(plan::Image::PTX, "sm_80");
    add(plan::Image::PTX, "sm_90");
    add(plan::Image::PTX, "sm_90a");
    expectOk(device->chooseImage(images, chosen));
    EXPECT_EQ(chosen, 4);
    return;
  }
  add(plan::Image::ELF, "another");
  add(plan::Image::ELF, hostArchitecture());
  expectOk(device->chooseImage(images, chosen));
  EXPECT_EQ(chosen, 3);
}

TEST_P(DeviceSuite, LaunchesKernelsOfAnImage) {
  std::ifstream file(isCuda() ? COLOSSAL_TEST_PTX : COLOSSAL_TEST_KERNELS, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  const std::string code = text.str() + '\0';
  std::shared_ptr<Image> image;
  expectOk(device->loadImage({reinterpret_cast<const std::byte *>(code.data()), code.size()}, image));
  Kernel scale = nullptr, missing = nullptr;
  expectOk(image->find("scale", scale));
  EXPECT_EQ(image->find("no such kernel", missing).code(), Code::InvalidPlan);
  constexpr uint64_t count = 1000;
  auto memory = allocate(8 * count), in = pinned(4 * count);
  for (uint64_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(i);
    std::memcpy(in->address() + 4 * i, &value, 4);
  }
  for (Queue *each : {queue.get(), beside.get()}) {
    expectOk(each->fill(memory->address(), std::byte{0}, 8 * count));
    expectOk(each->upload(memory->address(), in->address(), 4 * count));
    {
      // The arrays end with the call.
      void *buffers[] = {memory->address(), memory->address() + 4 * count};
      int64_t params[] = {3, 1, count};
      KernelLaunch launch;
      launch.kernel = scale;
      launch.buffers = buffers;
      launch.bufferCount = 2;
      launch.params = params;
      launch.paramCount = 3;
      launch.tiles = (count + 15) / 16;
      expectOk(each->launch(launch));
      std::fill(std::begin(buffers), std::end(buffers), nullptr);
      std::fill(std::begin(params), std::end(params), 0);
    }
    expectOk(each->synchronize());
    const std::vector<std::byte> found = contents(*memory, 8 * count);
    for (uint64_t i = 0; i < count; ++i) {
      float value;
      std::memcpy(&value, found.data() + 4 * (count + i), 4);
      ASSERT_EQ(value, 3.0f * static_cast<float>(i) + 1);
    }
  }
}

TEST_P(DeviceSuite, TheHostWritesAndReadsInPieces) {
  for (uint64_t bytes : {0u, 1u, (4u << 20) + 3u, (13u << 20) + 64u}) {
    auto memory = allocate(bytes);
    HostAccess access(*device);
    const std::vector<std::byte> want = pattern(bytes, 5);
    uint64_t next = 0, pieces = 0;
    expectOk(
        access.write(*queue, memory->address(), bytes, [&](std::byte *host, uint64_t begin, uint64_t end) {
          EXPECT_EQ(begin, next);
          EXPECT_EQ(begin % 64, 0u);
          if (device->hostReachesMemory()) {
            EXPECT_EQ(host, memory->address()) << "in place";
          }
          std::copy(want.data() + begin, want.data() + end, host);
          next = end;
          ++pieces;
          return Status();
        }));
    expectOk(queue->synchronize());
    EXPECT_EQ(next, bytes);
    if (device->hostReachesMemory()) {
      EXPECT_EQ(pieces, 1u);
    }
    EXPECT_EQ(contents(*memory, bytes), want);
    EXPECT_EQ(access.stagingBytes() == 0, device->hostReachesMemory());
  }
}

INSTANTIATE_TEST_SUITE_P(Device, DeviceSuite, ::testing::Values("cpu", "discrete", "cuda"),
                         [](const ::testing::TestParamInfo<const char *> &info) {
                           return std::string(info.param);
                         });

TEST(Registry, SaysWhichDevicesThereAre) {
  std::unique_ptr<Driver> driver;
  Status status = openDriver("abacus", driver);
  EXPECT_EQ(status.code(), Code::Unsupported);
  EXPECT_EQ(status.message(), "the plan is for device 'abacus'; this runtime has: cpu, cuda, discrete");
}

namespace {

class Discrete : public ::testing::Test {
protected:
  void SetUp() override {
    ASSERT_TRUE(openDriver("discrete", driver).ok());
    device = makeDevice("discrete", *driver, abort);
    queue = device->createQueue(false);
    ASSERT_TRUE(device->allocate(4096, 64, memory).ok());
    ASSERT_TRUE(device->allocatePinned(4096, pinned).ok());
  }
  Abort abort;
  std::unique_ptr<Driver> driver;
  std::unique_ptr<Device> device;
  std::unique_ptr<Queue> queue;
  std::unique_ptr<Allocation> memory, pinned;
};

} // namespace

TEST_F(Discrete, ATouchByTheHostIsFatal) {
  EXPECT_DEATH({ *static_cast<volatile std::byte *>(memory->address()) = std::byte{1}; }, "");
  EXPECT_DEATH(
      {
        volatile std::byte seen = *static_cast<volatile std::byte *>(memory->address());
        (void)seen;
      },
      "");
}

TEST_F(Discrete, FreshMemoryIsPoisoned) {
  ASSERT_TRUE(queue->download(pinned->address(), memory->address(), 4096).ok());
  ASSERT_TRUE(queue->synchronize().ok());
  EXPECT_TRUE(std::all_of(pinned->address(), pinned->address() + 4096,
                          [](std::byte byte) { return byte == std::byte{0xFF}; }));
}

TEST_F(Discrete, AnUploadReadsItsSourceLate) {
  std::atomic<bool> changed{false};
  // The queue is held until the source is another.
  ASSERT_TRUE(queue
                  ->hostTask([&] {
                    while (!changed.load()) {
                    }
                    return Status();
                  })
                  .ok());
  pinned->address()[0] = std::byte{1};
  ASSERT_TRUE(queue->upload(memory->address(), pinned->address(), 1).ok());
  pinned->address()[0] = std::byte{2};
  changed.store(true);
  ASSERT_TRUE(queue->download(pinned->address() + 64, memory->address(), 1).ok());
  ASSERT_TRUE(queue->synchronize().ok());
  EXPECT_EQ(pinned->address()[64], std::byte{2});
}

TEST_F(Discrete, RefusesWhatADriverWould) {
  std::byte onTheStack[64] = {};
  EXPECT_EQ(queue->upload(memory->address(), onTheStack, 64).code(), Code::Internal) << "not pinned";
  EXPECT_EQ(queue->upload(memory->address() + 4090, pinned->address(), 64).code(), Code::Internal)
      << "beyond the allocation";
  EXPECT_EQ(queue->copy(memory->address(), pinned->address(), 64).code(), Code::Internal)
      << "not device memory";
  ASSERT_TRUE(queue->hostTask([&] { return queue->fill(memory->address(), std::byte{0}, 1); }).ok());
  EXPECT_EQ(queue->synchronize().message(), "a host task called its device");
}
