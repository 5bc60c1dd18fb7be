// The stand-in for the driver, called as the runtime calls a driver: what it does, and that it catches what
// it is there to catch, each fault next to a twin without it.
#include "runtime/cuda/Abi.h"
#include "test/Emulation/Resolve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

using namespace colossal;
using namespace colossal::cuda;

namespace {

const Functions &driver() {
  static const Functions functions = [] {
    Functions found;
    void *handle = emulation::open(COLOSSAL_EMULATED_DRIVER);
#define COLOSSAL_RESOLVE(symbol, arguments) emulation::resolve(handle, #symbol, found.symbol);
    COLOSSAL_CUDA_DRIVER(COLOSSAL_RESOLVE)
    return found;
  }();
  return functions;
}

std::string fileText(const char *path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class EmulatedDriver : public ::testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(driver().cuInit(0), Success);
    ASSERT_EQ(driver().cuDevicePrimaryCtxRetain(&context, 0), Success);
    ASSERT_EQ(driver().cuCtxSetCurrent(context), Success);
    ASSERT_EQ(driver().cuStreamCreate(&stream, StreamNonBlocking), Success);
    ASSERT_EQ(driver().cuStreamCreate(&other, StreamNonBlocking), Success);
    ASSERT_EQ(driver().cuEventCreate(&event, EventDisableTiming), Success);
    ASSERT_EQ(driver().cuEventCreate(&back, EventDisableTiming), Success);
    ASSERT_EQ(driver().cuMemAlloc_v2(&memory, bytes), Success);
    void *host = nullptr;
    ASSERT_EQ(driver().cuMemHostAlloc(&host, bytes, HostAllocPortable), Success);
    pinned = static_cast<unsigned char *>(host);
  }
  void TearDown() override {
    driver().cuStreamDestroy_v2(stream);
    driver().cuStreamDestroy_v2(other);
    driver().cuMemFree_v2(memory);
    driver().cuMemFreeHost(pinned);
    driver().cuDevicePrimaryCtxRelease_v2(0);
  }

  void load(const char *name, Function &function) {
    const std::string text = fileText(COLOSSAL_TEST_PTX);
    ASSERT_EQ(driver().cuModuleLoadDataEx(&module, text.c_str(), 0, nullptr, nullptr), Success);
    ASSERT_EQ(driver().cuModuleGetFunction(&function, module, name), Success);
  }
  /// out[i] = x[i + shift] for 32 floats each, in `memory` and 1024 bytes on.
  Result shifted(Function function, std::int64_t shift, Stream where) {
    std::uint64_t x = memory, out = memory + 1024, tiles = 1;
    void *parameters[] = {&x, &out, &shift, &tiles};
    return driver().cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, where, parameters, nullptr);
  }

  static constexpr std::size_t bytes = 4096;
  Context context = nullptr;
  Stream stream = nullptr, other = nullptr;
  Event event = nullptr, back = nullptr;
  DevicePointer memory = 0;
  unsigned char *pinned = nullptr;
  Module module = nullptr;
};

/// Holds a stream until it is told to go on.
struct Gate {
  std::atomic<bool> open{false};
  static void wait(void *gate) {
    while (!static_cast<Gate *>(gate)->open.load())
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

TEST_F(EmulatedDriver, ATouchByTheHostIsFatal) {
  auto *device = reinterpret_cast<volatile unsigned char *>(memory);
  EXPECT_DEATH({ *device = 1; }, "");
  EXPECT_DEATH(
      {
        unsigned char seen = device[bytes - 1];
        (void)seen;
      },
      "");
}

TEST_F(EmulatedDriver, FreshMemoryIsPoisoned) {
  ASSERT_EQ(driver().cuMemcpyDtoHAsync_v2(pinned, memory, bytes, stream), Success);
  std::memset(pinned, 0, bytes);
  ASSERT_EQ(driver().cuStreamSynchronize(stream), Success);
  EXPECT_TRUE(std::all_of(pinned, pinned + bytes, [](unsigned char byte) { return byte == 0xFF; }));
}

TEST_F(EmulatedDriver, MemoryEndsWhereItEnds) {
  EXPECT_EQ(driver().cuMemsetD8Async(memory + 1, 0, bytes, stream), InvalidValue);
  EXPECT_EQ(driver().cuMemsetD8Async(memory + 1, 0, bytes - 1, stream), Success);
  EXPECT_EQ(driver().cuMemcpyDtoDAsync_v2(memory, reinterpret_cast<std::uintptr_t>(pinned), 16, stream),
            InvalidValue)
      << "not device memory";
  unsigned char onTheStack[16];
  EXPECT_EQ(driver().cuMemcpyDtoHAsync_v2(onTheStack, memory, 16, stream), InvalidValue) << "not pinned";
  std::size_t available = 0, total = 0, after = 0;
  ASSERT_EQ(driver().cuMemGetInfo_v2(&available, &total), Success);
  DevicePointer more = 0;
  EXPECT_EQ(driver().cuMemAlloc_v2(&more, available + 1), OutOfMemory);
  ASSERT_EQ(driver().cuMemAlloc_v2(&more, 1 << 20), Success);
  EXPECT_EQ(more % 256, 0u);
  ASSERT_EQ(driver().cuMemGetInfo_v2(&after, &total), Success);
  EXPECT_EQ(available - after, std::size_t(1) << 20);
  EXPECT_EQ(driver().cuMemFree_v2(more), Success);
  EXPECT_EQ(driver().cuMemFree_v2(more), InvalidValue) << "freed twice";
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

TEST_F(EmulatedDriver, AnUploadReadsItsSourceLate) {
  Gate gate;
  ASSERT_EQ(driver().cuLaunchHostFunc(stream, Gate::wait, &gate), Success);
  pinned[0] = 1;
  ASSERT_EQ(driver().cuMemcpyHtoDAsync_v2(memory, pinned, 1, stream), Success);
  pinned[0] = 2;
  EXPECT_EQ(driver().cuStreamQuery(stream), NotReady);
  gate.open = true;
  ASSERT_EQ(driver().cuMemcpyDtoHAsync_v2(pinned + 64, memory, 1, stream), Success);
  ASSERT_EQ(driver().cuStreamSynchronize(stream), Success);
  EXPECT_EQ(pinned[64], 2);
}

TEST_F(EmulatedDriver, UnorderedUseIsFoundWhateverTheTime) {
  for (bool ordered : {true, false}) {
    ASSERT_EQ(driver().cuMemsetD8Async(memory, 1, 64, stream), Success);
    ASSERT_EQ(driver().cuEventRecord(event, stream), Success);
    if (ordered) {
      ASSERT_EQ(driver().cuStreamWaitEvent(other, event, 0), Success);
    } else { // long enough that it works by chance
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    ASSERT_EQ(driver().cuMemcpyDtoHAsync_v2(pinned, memory, 64, other), Success);
    ASSERT_EQ(driver().cuStreamSynchronize(other), ordered ? Success : LaunchFailed);
    if (ordered) {
      ASSERT_EQ(driver().cuStreamSynchronize(stream), Success);
    }
  }
  EXPECT_EQ(driver().cuMemsetD8Async(memory, 1, 64, stream), LaunchFailed) << "nothing works afterwards";
}

TEST_F(EmulatedDriver, TheHostOrdersByWaiting) {
  ASSERT_EQ(driver().cuMemsetD8Async(memory, 1, 64, stream), Success);
  ASSERT_EQ(driver().cuStreamSynchronize(stream), Success);
  ASSERT_EQ(driver().cuMemsetD8Async(memory, 2, 64, other), Success);
  ASSERT_EQ(driver().cuEventRecord(event, other), Success);
  ASSERT_EQ(driver().cuEventSynchronize(event), Success);
  ASSERT_EQ(driver().cuMemsetD8Async(memory, 3, 64, stream), Success);
  EXPECT_EQ(driver().cuStreamSynchronize(stream), Success);
  // Bytes next to each other are no conflict.
  ASSERT_EQ(driver().cuMemsetD8Async(memory + 64, 3, 64, other), Success);
  ASSERT_EQ(driver().cuMemsetD8Async(memory + 128, 3, 64, stream), Success);
  EXPECT_EQ(driver().cuStreamSynchronize(stream), Success);
  EXPECT_EQ(driver().cuStreamSynchronize(other), Success);
}

TEST_F(EmulatedDriver, KernelsAreOrderedByWhatTheyTouch) {
  Function function = nullptr;
  load("shifted", function);
  for (bool ordered : {true, false}) {
    ASSERT_EQ(driver().cuMemsetD8Async(memory, 0, bytes, stream), Success);
    ASSERT_EQ(driver().cuStreamSynchronize(stream), Success);
    ASSERT_EQ(shifted(function, 1, stream), Success);
    ASSERT_EQ(driver().cuEventRecord(event, stream), Success);
    if (ordered) {
      ASSERT_EQ(driver().cuStreamWaitEvent(other, event, 0), Success);
    }
    // What it reads begins at the second float, what it wrote 1024 bytes on; this is the 32nd behind that.
    ASSERT_EQ(driver().cuMemsetD8Async(memory + 1024 + 128, 7, 4, other), Success);
    ASSERT_EQ(driver().cuMemsetD8Async(memory, 7, 4, other), Success);
    ASSERT_EQ(driver().cuMemsetD8Async(memory + 4, 7, 4, other), Success);
    // Whichever comes later finds it.
    const Result ofOther = driver().cuStreamSynchronize(other), own = driver().cuStreamSynchronize(stream);
    EXPECT_EQ(ofOther != Success ? ofOther : own, ordered ? Success : LaunchFailed);
  }
}

TEST_F(EmulatedDriver, HostFunctionsComeOneAtATimeAndMayNotCall) {
  struct Seen {
    const Functions *functions;
    Stream stream;
    Result result = Success;
  } seen{&driver(), stream};
  ASSERT_EQ(driver().cuLaunchHostFunc(
                stream,
                [](void *argument) {
                  auto &seen = *static_cast<Seen *>(argument);
                  seen.result = seen.functions->cuStreamQuery(seen.stream);
                },
                &seen),
            Success);
  ASSERT_EQ(driver().cuStreamSynchronize(stream), Success);
  EXPECT_EQ(seen.result, NotPermitted);
  // A function that waits keeps those of other streams from running.
  Gate gate;
  std::atomic<bool> ran{false};
  ASSERT_EQ(driver().cuLaunchHostFunc(stream, Gate::wait, &gate), Success);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_EQ(driver().cuLaunchHostFunc(
                other, [](void *ran) { static_cast<std::atomic<bool> *>(ran)->store(true); }, &ran),
            Success);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(ran);
  gate.open = true;
  ASSERT_EQ(driver().cuStreamSynchronize(other), Success);
  EXPECT_TRUE(ran);
}

TEST_F(EmulatedDriver, WordsAreWrittenAndWaitedFor) {
  auto *words = reinterpret_cast<std::atomic<std::uint32_t> *>(pinned);
  words[0] = 0, words[2] = words[3] = 0;
  DevicePointer address = 0;
  ASSERT_EQ(driver().cuMemHostGetDevicePointer_v2(&address, pinned, 0), Success);
  ASSERT_EQ(driver().cuStreamWaitValue32_v2(stream, address, 2, StreamWaitValueGreaterOrEqual), Success);
  ASSERT_EQ(driver().cuStreamWriteValue64_v2(stream, address + 8, 5, 0), Success);
  EXPECT_EQ(driver().cuStreamWriteValue64_v2(stream, address + 4, 5, 0), InvalidValue) << "not aligned";
  words[0] = 1;
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(words[2], 0u);
  words[0] = 3;
  ASSERT_EQ(driver().cuStreamSynchronize(stream), Success);
  EXPECT_EQ(words[2], 5u);
}

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

TEST_F(EmulatedDriver, AnOverrunBreaksTheContext) {
  Function function = nullptr;
  load("shifted", function);
  ASSERT_EQ(driver().cuMemsetD8Async(memory, 0, bytes, stream), Success);
  ASSERT_EQ(shifted(function, 4, stream), Success);
  ASSERT_EQ(driver().cuStreamSynchronize(stream), Success);
  ASSERT_EQ(shifted(function, 4096, stream), Success);
  EXPECT_EQ(driver().cuStreamSynchronize(stream), IllegalAddress);
  EXPECT_EQ(driver().cuEventRecord(event, stream), IllegalAddress);
}

TEST_F(EmulatedDriver, RefusesWhatNoGpuLikeItLoads) {
  char words[256] = {};
  JitOption options[] = {JitErrorLogBuffer, JitErrorLogBufferSizeBytes};
  void *values[] = {words, reinterpret_cast<void *>(sizeof words)};
  auto loads = [&](const char *image) {
    return driver().cuModuleLoadDataEx(&module, image, 2, options, values);
  };
  EXPECT_EQ(loads("\177ELF\2\1\1"), NoBinaryForGpu);
  EXPECT_EQ(loads(".version 8.0\n.target sm_999\n.address_size 64\n"), InvalidPtx);
  EXPECT_NE(std::string(words).find("sm_999"), std::string::npos) << words;
  EXPECT_EQ(
      loads(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry f()\n{\nconjure.b32;\nret;\n}\n"),
      InvalidPtx);
  EXPECT_NE(std::string(words).find("conjure"), std::string::npos) << words;
  Function function = nullptr;
  load("shifted", function);
  EXPECT_EQ(driver().cuModuleGetFunction(&function, module, "missing"), NotFound);
  int threads = 0;
  EXPECT_EQ(driver().cuFuncGetAttribute(&threads, FunctionMaxThreadsPerBlock, function), Success);
  EXPECT_EQ(threads, 32);
  void *none[] = {nullptr};
  EXPECT_EQ(driver().cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, stream, none, nullptr), InvalidValue)
      << "more threads than the kernel takes";
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

TEST_F(EmulatedDriver, GraphsRunAgainWhatWasCaptured) {
  ASSERT_EQ(driver().cuStreamBeginCapture_v2(stream, CaptureModeThreadLocal), Success);
  ASSERT_EQ(driver().cuMemsetD8Async(memory, 3, 64, stream), Success);
  ASSERT_EQ(driver().cuEventRecord(event, stream), Success);
  ASSERT_EQ(driver().cuStreamWaitEvent(other, event, 0), Success);
  ASSERT_EQ(driver().cuMemcpyDtoDAsync_v2(memory + 64, memory, 64, other), Success);
  ASSERT_EQ(driver().cuEventRecord(back, other), Success);
  ASSERT_EQ(driver().cuStreamWaitEvent(stream, back, 0), Success);
  ASSERT_EQ(driver().cuMemcpyDtoHAsync_v2(pinned, memory + 64, 64, stream), Success);
  Graph graph = nullptr;
  ASSERT_EQ(driver().cuStreamEndCapture(stream, &graph), Success);
  GraphExec executable = nullptr;
  ASSERT_EQ(driver().cuGraphInstantiateWithFlags(&executable, graph, 0), Success);
  ASSERT_EQ(driver().cuGraphDestroy(graph), Success);
  for (int round = 0; round < 3; ++round) {
    std::memset(pinned, 0, 64);
    ASSERT_EQ(driver().cuGraphLaunch(executable, other), Success);
    ASSERT_EQ(driver().cuStreamSynchronize(other), Success);
    EXPECT_EQ(pinned[63], 3);
  }
  EXPECT_EQ(driver().cuGraphExecDestroy(executable), Success);
}

TEST_F(EmulatedDriver, GraphsAreOrderedByTheirEdges) {
  ASSERT_EQ(driver().cuStreamBeginCapture_v2(stream, CaptureModeThreadLocal), Success);
  ASSERT_EQ(driver().cuEventRecord(event, stream), Success);
  ASSERT_EQ(driver().cuStreamWaitEvent(other, event, 0), Success);
  ASSERT_EQ(driver().cuMemsetD8Async(memory, 3, 64, stream), Success);
  ASSERT_EQ(driver().cuMemsetD8Async(memory + 32, 3, 64, other), Success);
  ASSERT_EQ(driver().cuEventRecord(back, other), Success);
  ASSERT_EQ(driver().cuStreamWaitEvent(stream, back, 0), Success);
  Graph graph = nullptr;
  ASSERT_EQ(driver().cuStreamEndCapture(stream, &graph), Success);
  GraphExec executable = nullptr;
  ASSERT_EQ(driver().cuGraphInstantiateWithFlags(&executable, graph, 0), Success);
  ASSERT_EQ(driver().cuGraphLaunch(executable, stream), Success);
  EXPECT_EQ(driver().cuStreamSynchronize(stream), LaunchFailed);
}

TEST_F(EmulatedDriver, CapturesForbidWhatTheyForbid) {
  Graph graph = nullptr;
  auto broken = [&] { return driver().cuStreamEndCapture(stream, &graph); };
  auto begin = [&] { return driver().cuStreamBeginCapture_v2(stream, CaptureModeThreadLocal); };
  ASSERT_EQ(begin(), Success);
  DevicePointer more = 0;
  EXPECT_EQ(driver().cuMemAlloc_v2(&more, 16), StreamCaptureUnsupported);
  EXPECT_EQ(broken(), StreamCaptureInvalidated);

  ASSERT_EQ(begin(), Success);
  EXPECT_EQ(driver().cuStreamSynchronize(stream), StreamCaptureUnsupported);
  EXPECT_EQ(driver().cuMemsetD8Async(memory, 3, 64, stream), StreamCaptureInvalidated);
  EXPECT_EQ(broken(), StreamCaptureInvalidated);

  ASSERT_EQ(begin(), Success);
  ASSERT_EQ(driver().cuEventRecord(event, stream), Success);
  EXPECT_EQ(driver().cuEventSynchronize(event), StreamCaptureUnsupported);
  EXPECT_EQ(broken(), StreamCaptureInvalidated);
  EXPECT_EQ(driver().cuEventSynchronize(event), CapturedEvent);

  // An event from outside of the capture.
  ASSERT_EQ(driver().cuEventRecord(back, other), Success);
  ASSERT_EQ(begin(), Success);
  EXPECT_EQ(driver().cuStreamWaitEvent(stream, back, 0), StreamCaptureIsolation);
  EXPECT_EQ(broken(), StreamCaptureInvalidated);

  // A stream that was drawn in and did not come back.
  ASSERT_EQ(begin(), Success);
  ASSERT_EQ(driver().cuEventRecord(event, stream), Success);
  ASSERT_EQ(driver().cuStreamWaitEvent(other, event, 0), Success);
  ASSERT_EQ(driver().cuMemsetD8Async(memory, 3, 64, other), Success);
  EXPECT_EQ(driver().cuStreamEndCapture(other, &graph), StreamCaptureUnmatched);
  EXPECT_EQ(broken(), StreamCaptureUnjoined);

  EXPECT_EQ(broken(), IllegalState) << "no capture";
  ASSERT_EQ(driver().cuMemsetD8Async(memory, 3, 64, stream), Success);
  EXPECT_EQ(driver().cuStreamSynchronize(stream), Success) << "the stream is as before";
}

TEST_F(EmulatedDriver, EventsMeasureTime) {
  Event start = nullptr, end = nullptr;
  ASSERT_EQ(driver().cuEventCreate(&start, EventDefault), Success);
  ASSERT_EQ(driver().cuEventCreate(&end, EventDefault), Success);
  ASSERT_EQ(driver().cuEventRecord(start, stream), Success);
  ASSERT_EQ(driver().cuLaunchHostFunc(
                stream, [](void *) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }, nullptr),
            Success);
  ASSERT_EQ(driver().cuEventRecord(end, stream), Success);
  float milliseconds = 0;
  ASSERT_EQ(driver().cuEventSynchronize(end), Success);
  ASSERT_EQ(driver().cuEventElapsedTime(&milliseconds, start, end), Success);
  EXPECT_GE(milliseconds, 20.0f);
  EXPECT_EQ(driver().cuEventElapsedTime(&milliseconds, event, end), InvalidHandle) << "has no time";
}
