// The CPU's queues and pool, behind translated addresses and random delays.
#include "Device.h"

#include "Memory.h"

#include "runtime/cpu/Device.h"
#include "runtime/cpu/Target.h"

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

namespace colossal::runtime {

namespace {

thread_local bool inHostTask = false;

/// What a driver says to a host task that calls it.
Status checkCaller() {
  return inHostTask ? Status(Code::Internal, "a host task called its device") : Status();
}

class DiscreteQueue : public Queue {
public:
  DiscreteQueue(std::unique_ptr<Queue> executor, std::shared_ptr<AddressSpace> space, unsigned seed)
      : executor(std::move(executor)), space(std::move(space)), random(seed) {}

  Status launch(const KernelLaunch &launch) override {
    COLOSSAL_RETURN_IF_ERROR(begin());
    COLOSSAL_RETURN_IF_ERROR(translate(launch.buffers, launch.bufferCount));
    KernelLaunch translated = launch;
    translated.buffers = addresses.data();
    return executor->launch(translated);
  }
  Status call(Routine &routine, void *const *buffers, uint32_t count) override {
    COLOSSAL_RETURN_IF_ERROR(begin());
    COLOSSAL_RETURN_IF_ERROR(translate(buffers, count));
    return executor->call(routine, addresses.data(), count);
  }
  Status copy(void *destination, const void *source, uint64_t bytes) override {
    COLOSSAL_RETURN_IF_ERROR(begin());
    std::byte *to = nullptr, *from = nullptr;
    COLOSSAL_RETURN_IF_ERROR(space->translate(destination, bytes, to));
    COLOSSAL_RETURN_IF_ERROR(space->translate(source, bytes, from));
    return executor->copy(to, from, bytes);
  }
  Status fill(void *destination, std::byte value, uint64_t bytes) override {
    COLOSSAL_RETURN_IF_ERROR(begin());
    std::byte *to = nullptr;
    COLOSSAL_RETURN_IF_ERROR(space->translate(destination, bytes, to));
    return executor->fill(to, value, bytes);
  }
  Status upload(void *destination, const void *source, uint64_t bytes) override {
    COLOSSAL_RETURN_IF_ERROR(begin());
    COLOSSAL_RETURN_IF_ERROR(space->checkPinned(source, bytes));
    std::byte *to = nullptr;
    COLOSSAL_RETURN_IF_ERROR(space->translate(destination, bytes, to));
    return executor->copy(to, source, bytes);
  }
  Status download(void *destination, const void *source, uint64_t bytes) override {
    COLOSSAL_RETURN_IF_ERROR(begin());
    COLOSSAL_RETURN_IF_ERROR(space->checkPinned(destination, bytes));
    std::byte *from = nullptr;
    COLOSSAL_RETURN_IF_ERROR(space->translate(source, bytes, from));
    return executor->copy(destination, from, bytes);
  }
  Status hostTask(std::function<Status()> task) override {
    COLOSSAL_RETURN_IF_ERROR(checkCaller());
    return executor->hostTask([task = std::move(task)] {
      inHostTask = true;
      Status status = task();
      inHostTask = false;
      return status;
    });
  }
  Status mark(std::atomic<uint64_t> &word, uint64_t value) override {
    COLOSSAL_RETURN_IF_ERROR(begin());
    return executor->mark(word, value);
  }
  Status record(Event &event) override {
    COLOSSAL_RETURN_IF_ERROR(begin());
    return executor->record(event);
  }
  Status wait(Event &event) override {
    COLOSSAL_RETURN_IF_ERROR(begin());
    return executor->wait(event);
  }
  Status synchronize() override {
    COLOSSAL_RETURN_IF_ERROR(checkCaller());
    return executor->synchronize();
  }
  bool immediate() const override { return false; }

private:
  /// Lets some of the work begin late.
  Status begin() {
    COLOSSAL_RETURN_IF_ERROR(checkCaller());
    const unsigned chance = random() % 16;
    if (chance > 1)
      return {};
    return executor->hostTask([span = std::chrono::microseconds(chance ? 20 : 200)] {
      std::this_thread::sleep_for(span);
      return Status();
    });
  }

  /// How long a launch's buffer is, its kernel knows; the address is looked up.
  Status translate(void *const *buffers, uint32_t count) {
    addresses.resize(count);
    for (uint32_t i = 0; i < count; ++i) {
      std::byte *there = nullptr;
      COLOSSAL_RETURN_IF_ERROR(space->translate(buffers[i], 0, there));
      addresses[i] = there;
    }
    return {};
  }

  std::unique_ptr<Queue> executor;
  std::shared_ptr<AddressSpace> space;
  std::minstd_rand random;
  std::vector<void *> addresses;
};

class DiscreteDevice : public Device {
public:
  DiscreteDevice(const DeviceOptions &options, Abort &abort, std::shared_ptr<ImageCache> images)
      : cpu(options.threads, options.spins, abort, std::move(images)) {}

  bool hostReachesMemory() const override { return false; }
  Status allocate(uint64_t bytes, uint64_t alignment, std::unique_ptr<Allocation> &memory) override {
    COLOSSAL_RETURN_IF_ERROR(checkCaller());
    return space->allocate(bytes, alignment, memory);
  }
  Status allocatePinned(uint64_t bytes, std::unique_ptr<Allocation> &memory) override {
    COLOSSAL_RETURN_IF_ERROR(checkCaller());
    return space->allocatePinned(bytes, memory);
  }
  Status chooseImage(const Images &images, int &chosen) const override {
    return cpu.chooseImage(images, chosen);
  }
  Status loadImage(plan::ByteView code, std::shared_ptr<Image> &image) override {
    return cpu.loadImage(code, image);
  }
  Status createRoutine(const plan::LibraryCall &call, std::unique_ptr<Routine> &routine) override {
    return cpu.createRoutine(call, routine);
  }
  std::unique_ptr<Queue> createQueue(bool) override {
    static std::atomic<unsigned> seed{1};
    return std::make_unique<DiscreteQueue>(cpu.createQueue(true), space, seed++);
  }
  std::unique_ptr<Event> createEvent() override { return cpu.createEvent(); }
  Status reserveTileScratch(uint64_t bytes) override { return cpu.reserveTileScratch(bytes); }
  uint64_t scratchBytes() const override { return cpu.scratchBytes(); }
  DeviceDescription describe() const override { return {"discrete"}; }

private:
  CpuDevice cpu;
  std::shared_ptr<AddressSpace> space = std::make_shared<AddressSpace>();
};

class DiscreteDriver : public Driver {
public:
  Status checkTarget(const plan::Target &target) override { return checkCpuTarget(target); }
  Status createDevice(const DeviceOptions &options, Abort &abort, std::unique_ptr<Device> &device) override {
    device = std::make_unique<DiscreteDevice>(options, abort, images);
    return {};
  }

  Inventory inventory() override { return {}; }

private:
  std::shared_ptr<ImageCache> images = std::make_shared<ImageCache>();
};

} // namespace

std::unique_ptr<Driver> createDiscreteDriver() {
  return std::make_unique<DiscreteDriver>();
}

} // namespace colossal::runtime
