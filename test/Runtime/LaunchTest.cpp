// Who a process is told to be, and what processes say to each other over TCP.
#include "runtime/comm/Launch.h"
#include "runtime/comm/tcp/Control.h"
#include "runtime/comm/tcp/Socket.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <thread>
#include <unistd.h>

using namespace colossal;
using namespace colossal::runtime;

namespace {

using Variables = std::map<std::string, std::string>;

Status find(const Variables &variables, Launch &launch) {
  return findLaunch(launch, [&](const char *name) -> const char * {
    auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

} // namespace

TEST(Launch, ReadsEachLaunchersVariables) {
  Launch launch;
  ASSERT_TRUE(find({}, launch).ok());
  EXPECT_EQ(launch.size, 1u);
  EXPECT_TRUE(launch.by.empty());

  ASSERT_TRUE(find({{"RANK", "3"},
                    {"WORLD_SIZE", "8"},
                    {"LOCAL_RANK", "1"},
                    {"LOCAL_WORLD_SIZE", "2"},
                    {"MASTER_ADDR", "node7"},
                    {"MASTER_PORT", "29500"},
                    {"TORCHELASTIC_USE_AGENT_STORE", "True"}},
                   launch)
                  .ok());
  EXPECT_EQ(launch.rank, 3u);
  EXPECT_EQ(launch.size, 8u);
  EXPECT_EQ(launch.localRank, 1u);
  EXPECT_EQ(launch.localSize, 2u);
  EXPECT_EQ(launch.host, "node7");
  EXPECT_EQ(launch.port, 29501) << "torchrun's own store has the other";

  ASSERT_TRUE(find({{"OMPI_COMM_WORLD_RANK", "1"},
                    {"OMPI_COMM_WORLD_SIZE", "4"},
                    {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                    {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                    {"PMIX_NAMESPACE", "a"}},
                   launch)
                  .ok());
  EXPECT_EQ(launch.by, "Open MPI (OMPI_COMM_WORLD_RANK=1, OMPI_COMM_WORLD_SIZE=4)");
  EXPECT_EQ(launch.host, "127.0.0.1") << "all are on this host";
  const uint16_t port = launch.port;
  ASSERT_TRUE(find({{"OMPI_COMM_WORLD_RANK", "0"},
                    {"OMPI_COMM_WORLD_SIZE", "4"},
                    {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                    {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                    {"PMIX_NAMESPACE", "b"}},
                   launch)
                  .ok());
  EXPECT_NE(launch.port, port) << "another job's";

  ASSERT_TRUE(find({{"SLURM_PROCID", "5"},
                    {"SLURM_STEP_NUM_TASKS", "8"},
                    {"SLURM_LOCALID", "1"},
                    {"SLURM_TASKS_PER_NODE", "4(x2)"},
                    {"SLURM_STEP_NODELIST", "gpu[03-04],cpu1"},
                    {"SLURM_JOB_ID", "77"}},
                   launch)
                  .ok());
  EXPECT_EQ(launch.rank, 5u);
  EXPECT_EQ(launch.localSize, 4u);
  EXPECT_EQ(launch.host, "gpu03");

  ASSERT_TRUE(find({{"PMI_RANK", "0"},
                    {"PMI_SIZE", "2"},
                    {"COLOSSAL_STORE", "10.0.0.1:4711"},
                    {"COLOSSAL_TOKEN", "word"}},
                   launch)
                  .ok());
  EXPECT_EQ(launch.host, "10.0.0.1");
  EXPECT_EQ(launch.port, 4711);
  EXPECT_EQ(launch.token, "word");
}

TEST(Launch, OneLauncherStartsAnother) {
  Launch launch;
  ASSERT_TRUE(
      find({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"RANK", "6"}, {"WORLD_SIZE", "8"}}, launch)
          .ok());
  EXPECT_EQ(launch.rank, 6u);
  ASSERT_TRUE(
      find({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"COLOSSAL_RANK", "1"}, {"COLOSSAL_SIZE", "2"}}, launch)
          .code() == Code::InvalidArgument);
}

TEST(Launch, RefusesWhatCannotBe) {
  Launch launch;
  Status status =
      find({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}},
           launch);
  EXPECT_EQ(status.code(), Code::InvalidArgument);
  EXPECT_NE(status.message().find("torchrun (RANK=1, WORLD_SIZE=4), and Open MPI (OMPI_COMM_WORLD_RANK=2"),
            std::string::npos)
      << status.message();
  status = find({{"RANK", "4"}, {"WORLD_SIZE", "4"}}, launch);
  EXPECT_NE(status.message().find("RANK=4, WORLD_SIZE=4"), std::string::npos) << status.message();
  status = find({{"RANK", "4"}}, launch);
  EXPECT_NE(status.message().find("WORLD_SIZE=?"), std::string::npos) << status.message();
  status = find({{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"COLOSSAL_STORE", "here"}}, launch);
  EXPECT_NE(status.message().find("expected HOST:PORT"), std::string::npos) << status.message();
}

namespace {

/// A port that nobody listens on.
uint16_t freePort() {
  static uint16_t next = static_cast<uint16_t>(20000 + ::getpid() % 10000);
  for (;; ++next) {
    Socket door;
    if (Socket::listen("127.0.0.1", next, door).ok())
      return next++;
  }
}

/// Ranks as threads; each gets its control.
void withRanks(uint32_t count, const std::function<void(TcpControl &, Abort &, uint32_t)> &body) {
  Launch launch;
  launch.size = count, launch.host = "127.0.0.1", launch.port = freePort(), launch.token = "word";
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      Launch own = launch;
      own.rank = rank;
      Abort abort;
      abort.timeout = std::chrono::seconds(20);
      std::unique_ptr<TcpControl> control;
      Status status = createTcpControl(own, abort, control);
      ASSERT_TRUE(status.ok()) << rank << ": " << status.describe();
      body(*control, abort, rank);
    });
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace

TEST(TcpControl, MeetsAndCollects) {
  std::atomic<int> here{0};
  withRanks(4, [&](TcpControl &control, Abort &, uint32_t rank) {
    for (int round = 1; round <= 20; ++round) {
      ++here;
      ASSERT_TRUE(control.barrier().ok());
      EXPECT_GE(here, 4 * round);
      ASSERT_TRUE(control.barrier().ok());
      std::vector<std::string> all;
      const std::string mine(rank * 100000, static_cast<char>('a' + rank));
      ASSERT_TRUE(control.gather(mine, all).ok());
      ASSERT_EQ(all.size(), rank == 0 ? 4u : 0u);
      for (size_t from = 0; from < all.size(); ++from)
        EXPECT_EQ(all[from], std::string(from * 100000, static_cast<char>('a' + from)));
      std::string text = rank == 0 ? "round " + std::to_string(round) : "";
      ASSERT_TRUE(control.broadcast(text).ok());
      EXPECT_EQ(text, "round " + std::to_string(round));
    }
  });
}

TEST(TcpControl, KeepsValues) {
  withRanks(3, [&](TcpControl &control, Abort &, uint32_t rank) {
    const std::string binary("\0a b\xff", 5);
    ASSERT_TRUE(control.set("of " + std::to_string(rank), std::to_string(rank) + binary).ok());
    for (uint32_t other = 0; other < 3; ++other) {
      std::string value;
      ASSERT_TRUE(control.get("of " + std::to_string(other), value).ok());
      EXPECT_EQ(value, std::to_string(other) + binary);
    }
  });
}

TEST(TcpControl, ThoseWhoAreAskedAnswer) {
  withRanks(3, [&](TcpControl &control, Abort &, uint32_t rank) {
    // The last one watches nothing.
    for (int look = 0; look < 40 && rank < 2; ++look) {
      control.answer("rank " + std::to_string(rank), look % 5 == 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (rank < 2) {
      const std::vector<std::string> answers = control.answers(std::chrono::seconds(1));
      ASSERT_EQ(answers.size(), 3u);
      EXPECT_EQ(answers[1 - rank], "rank " + std::to_string(1 - rank));
      EXPECT_EQ(answers[2], "");
    }
    ASSERT_TRUE(control.barrier().ok());
  });
}

TEST(TcpControl, RefusesStrangers) {
  Launch launch;
  launch.size = 2, launch.host = "127.0.0.1", launch.port = freePort(), launch.token = "word";
  Abort rootAbort;
  rootAbort.timeout = std::chrono::seconds(20);
  std::unique_ptr<TcpControl> root;
  std::thread waiting([&] { EXPECT_TRUE(createTcpControl(launch, rootAbort, root).ok()); });
  auto visit = [&](const char *token, uint32_t size) {
    Launch own = launch;
    own.rank = 1, own.token = token, own.size = size;
    Abort abort;
    std::unique_ptr<TcpControl> control;
    Status status = createTcpControl(own, abort, control);
    return status.ok() ? "welcome" : status.message();
  };
  EXPECT_NE(visit("ward", 2).find("different tokens"), std::string::npos);
  EXPECT_NE(visit("word", 3).find("is told another number"), std::string::npos);
  EXPECT_EQ(visit("word", 2), "welcome");
  waiting.join();
}

TEST(TcpControl, TellsWhoIsGone) {
  // The process of rank 1 ends without a word: its connection does.
  const Launch launch = [] {
    Launch made;
    made.size = 3, made.host = "127.0.0.1", made.port = freePort(), made.token = "word";
    return made;
  }();
  std::thread lost([&] {
    Socket socket;
    while (!Socket::connect(launch.host, launch.port, socket).ok())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    Frame frame{1, 1, 0, "colossal control 1\n3\nword"};
    ASSERT_TRUE(socket.send(frame).ok());
    bool closed = false;
    ASSERT_TRUE(socket.receive(frame, closed).ok());
    ASSERT_FALSE(closed);
  });
  std::vector<std::thread> others;
  for (uint32_t rank : {0u, 2u})
    others.emplace_back([&, rank] {
      Launch own = launch;
      own.rank = rank;
      Abort abort;
      abort.timeout = std::chrono::seconds(20);
      std::unique_ptr<TcpControl> control;
      ASSERT_TRUE(createTcpControl(own, abort, control).ok());
      Status status = control->barrier();
      EXPECT_EQ(status.code(), Code::RankFailed);
      EXPECT_NE(status.message().find("rank 1 is gone"), std::string::npos) << status.message();
    });
  lost.join();
  for (std::thread &other : others)
    other.join();
}
