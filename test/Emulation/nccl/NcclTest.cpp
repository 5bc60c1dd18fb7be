// The stand-in for NCCL, called as the runtime calls NCCL, by members that are threads of one process: its
// rules, and that it catches who breaks them. What collectives compute is for communicator-conformance.
#include "runtime/comm/nccl/Abi.h"
#include "test/Emulation/Resolve.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

using namespace colossal;

namespace {

const cuda::Functions &driver() {
  static const cuda::Functions functions = [] {
    cuda::Functions found;
    // By its name, as the stand-in for NCCL asks for it.
    void *handle = emulation::open(COLOSSAL_EMULATED_DRIVER);
#define COLOSSAL_RESOLVE(symbol, arguments) emulation::resolve(handle, #symbol, found.symbol);
    COLOSSAL_CUDA_DRIVER(COLOSSAL_RESOLVE)
#undef COLOSSAL_RESOLVE
    return found;
  }();
  return functions;
}

const nccl::Functions &library() {
  static const nccl::Functions functions = [] {
    driver();
    nccl::Functions found;
    void *handle = emulation::open(COLOSSAL_EMULATED_NCCL);
#define COLOSSAL_RESOLVE(type, symbol, arguments) emulation::resolve(handle, #symbol, found.symbol);
    COLOSSAL_NCCL(COLOSSAL_RESOLVE)
#undef COLOSSAL_RESOLVE
    return found;
  }();
  return functions;
}

/// One rank: a communicator, a stream, and 4096 bytes of device memory, which hold its number as floats.
struct Member {
  unsigned rank = 0;
  nccl::Comm communicator = nullptr;
  cuda::Stream stream = nullptr;
  cuda::DevicePointer memory = 0;
  float *pinned = nullptr;

  void *at(size_t floats) const { return reinterpret_cast<void *>(memory + 4 * floats); }
  nccl::Result await() const {
    nccl::Result result = nccl::InProgress;
    while (result == nccl::InProgress)
      EXPECT_EQ(library().ncclCommGetAsyncError(communicator, &result), nccl::Success);
    return result;
  }
  float first() const {
    EXPECT_EQ(driver().cuMemcpyDtoHAsync_v2(pinned, memory, 4096, stream), cuda::Success);
    EXPECT_EQ(driver().cuStreamSynchronize(stream), cuda::Success);
    return pinned[0];
  }
};

void withMembers(unsigned count, int blocking, const std::function<void(Member &)> &body) {
  nccl::UniqueId id;
  ASSERT_EQ(library().ncclGetUniqueId(&id), nccl::Success);
  ASSERT_EQ(driver().cuInit(0), cuda::Success);
  std::vector<std::thread> threads;
  for (unsigned rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      Member member;
      member.rank = rank;
      cuda::Context context = nullptr;
      ASSERT_EQ(driver().cuDevicePrimaryCtxRetain(&context, 0), cuda::Success);
      ASSERT_EQ(driver().cuCtxSetCurrent(context), cuda::Success);
      ASSERT_EQ(driver().cuStreamCreate(&member.stream, cuda::StreamNonBlocking), cuda::Success);
      ASSERT_EQ(driver().cuMemAlloc_v2(&member.memory, 4096), cuda::Success);
      void *host = nullptr;
      ASSERT_EQ(driver().cuMemHostAlloc(&host, 4096, 0), cuda::Success);
      member.pinned = static_cast<float *>(host);
      for (int i = 0; i < 1024; ++i)
        member.pinned[i] = static_cast<float>(rank + 1);
      ASSERT_EQ(driver().cuMemcpyHtoDAsync_v2(member.memory, host, 4096, member.stream), cuda::Success);
      nccl::Config config;
      config.blocking = blocking;
      const nccl::Result made = library().ncclCommInitRankConfig(
          &member.communicator, static_cast<int>(count), id, static_cast<int>(rank), &config);
      ASSERT_TRUE(made == nccl::Success || (made == nccl::InProgress && !blocking));
      ASSERT_EQ(member.await(), nccl::Success);
      body(member);
      if (member.communicator)
        library().ncclCommDestroy(member.communicator);
      driver().cuStreamDestroy_v2(member.stream);
      driver().cuMemFree_v2(member.memory);
      driver().cuMemFreeHost(host);
    });
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace

TEST(EmulatedNccl, AddsUp) {
  for (int blocking : {0, 1})
    withMembers(3, blocking, [](Member &member) {
      const nccl::Result result = library().ncclAllReduce(member.at(0), member.at(0), 1024, nccl::Float32,
                                                          nccl::Sum, member.communicator, member.stream);
      ASSERT_TRUE(result == nccl::Success || result == nccl::InProgress);
      ASSERT_EQ(member.await(), nccl::Success);
      EXPECT_EQ(member.first(), 6);
    });
}

TEST(EmulatedNccl, ASendWaitsForItsReceiver) {
  std::atomic<bool> received{false};
  withMembers(2, 1, [&](Member &member) {
    if (member.rank == 0) {
      ASSERT_EQ(library().ncclSend(member.at(0), 4, nccl::Float32, 1, member.communicator, member.stream),
                nccl::Success);
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      EXPECT_EQ(driver().cuStreamQuery(member.stream), received ? cuda::Success : cuda::NotReady);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      received = true;
      ASSERT_EQ(library().ncclRecv(member.at(0), 4, nccl::Float32, 0, member.communicator, member.stream),
                nccl::Success);
      EXPECT_EQ(member.first(), 1);
    }
    EXPECT_EQ(driver().cuStreamSynchronize(member.stream), cuda::Success);
  });
}

TEST(EmulatedNccl, MessagesOfAGroupWaitForNoOtherOfIt) {
  withMembers(2, 0, [&](Member &member) {
    const int peer = static_cast<int>(1 - member.rank);
    ASSERT_EQ(library().ncclGroupStart(), nccl::Success);
    ASSERT_EQ(
        library().ncclSend(member.at(512), 512, nccl::Float32, peer, member.communicator, member.stream),
        nccl::Success);
    ASSERT_EQ(library().ncclRecv(member.at(0), 512, nccl::Float32, peer, member.communicator, member.stream),
              nccl::Success);
    (void)library().ncclGroupEnd();
    ASSERT_EQ(member.await(), nccl::Success);
    EXPECT_EQ(member.first(), static_cast<float>(peer + 1));
  });
}

TEST(EmulatedNccl, RefusesWhatIsWrong) {
  withMembers(2, 1, [&](Member &member) {
    const nccl::Comm communicator = member.communicator;
    EXPECT_EQ(library().ncclSend(member.at(0), 4, nccl::Float32, 2, communicator, member.stream),
              nccl::InvalidArgument)
        << "no such member";
    EXPECT_EQ(library().ncclSend(member.at(0), 4, nccl::Float32, static_cast<int>(member.rank), communicator,
                                 member.stream),
              nccl::InvalidUsage)
        << "to itself";
    EXPECT_EQ(library().ncclSend(nullptr, 4, nccl::Float32, 0, communicator, member.stream),
              nccl::InvalidArgument);
    EXPECT_EQ(library().ncclGroupEnd(), nccl::InvalidUsage) << "no group was begun";
  });
  withMembers(2, 1, [&](Member &member) {
    const int peer = static_cast<int>(1 - member.rank);
    EXPECT_EQ(library().ncclSend(member.pinned, 4, nccl::Float32, peer, member.communicator, member.stream),
              nccl::UnhandledCudaError)
        << "the host's memory";
    EXPECT_NE(std::string(library().ncclGetLastError(member.communicator)), "");
  });
  // A communicator that does not block is asked first whether the last call has ended.
  std::atomic<unsigned> early{0};
  withMembers(2, 0, [&](Member &member) {
    for (int round = 0; round < 20; ++round) {
      const nccl::Result result = library().ncclAllReduce(member.at(0), member.at(0), 4, nccl::Float32,
                                                          nccl::Max, member.communicator, member.stream);
      if (result == nccl::InProgress) {
        EXPECT_EQ(library().ncclAllReduce(member.at(0), member.at(0), 4, nccl::Float32, nccl::Max,
                                          member.communicator, member.stream),
                  nccl::InvalidUsage);
        ++early;
      }
      ASSERT_EQ(member.await(), nccl::Success);
    }
    EXPECT_EQ(member.first(), 2);
  });
  EXPECT_GT(early, 0u);
}

TEST(EmulatedNccl, FindsMembersThatDisagree) {
  withMembers(2, 1, [&](Member &member) {
    // One sums and one takes the greatest.
    ASSERT_EQ(library().ncclAllReduce(member.at(0), member.at(0), 4, nccl::Float32,
                                      member.rank ? nccl::Sum : nccl::Max, member.communicator,
                                      member.stream),
              nccl::Success);
    nccl::Result result = nccl::Success;
    while (result == nccl::Success)
      ASSERT_EQ(library().ncclCommGetAsyncError(member.communicator, &result), nccl::Success);
    EXPECT_TRUE(result == nccl::InvalidUsage || result == nccl::RemoteError);
    EXPECT_EQ(driver().cuStreamQuery(member.stream), cuda::NotReady) << "it does not come back by itself";
    EXPECT_EQ(library().ncclCommAbort(member.communicator), nccl::Success);
    member.communicator = nullptr;
    EXPECT_EQ(driver().cuStreamSynchronize(member.stream), cuda::Success);
  });
}

TEST(EmulatedNccl, TellsThatAPeerIsGone) {
  withMembers(2, 1, [&](Member &member) {
    if (member.rank == 1)
      return; // and destroys its communicator
    ASSERT_EQ(library().ncclRecv(member.at(0), 4, nccl::Float32, 1, member.communicator, member.stream),
              nccl::Success);
    nccl::Result result = nccl::Success;
    while (result == nccl::Success)
      ASSERT_EQ(library().ncclCommGetAsyncError(member.communicator, &result), nccl::Success);
    EXPECT_EQ(result, nccl::RemoteError);
    EXPECT_EQ(library().ncclCommAbort(member.communicator), nccl::Success);
    member.communicator = nullptr;
    EXPECT_EQ(driver().cuStreamSynchronize(member.stream), cuda::Success);
  });
}
