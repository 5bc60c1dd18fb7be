// The C interface against wrong use: sizes, handles, arguments, and several threads in one session.
#include "PlanBuilder.h"

#include "runtime/include/colossal-runtime.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

using namespace colossal;
using namespace colossal::runtime;

namespace {

/// x of two floats to y, by a kernel.
std::string writeScale(const char *name) {
  PlanBuilder builder;
  builder.input("x", plan::F32, {2}, builder.box({2}), 0);
  builder.output("y", plan::F32, {2}, builder.box({2}), 64);
  uint32_t scale = builder.kernel("scale", 2, 3);
  builder.launch(scale, {builder.buffer(2, 0, 8), builder.buffer(2, 64, 8)}, 1,
                 {constant(2), constant(1), constant(2)}, 1);
  std::string file = builder.path(name);
  EXPECT_TRUE(builder.write(file).ok());
  return file;
}

const float input[2] = {3, 4};
const uint64_t shape[1] = {2};

colossal_session *openScale(const char *name) {
  colossal_session *session = nullptr;
  EXPECT_EQ(colossal_open(writeScale(name).c_str(), nullptr, &session), COLOSSAL_OK) << colossal_last_error();
  EXPECT_EQ(colossal_set_input(session, "x", COLOSSAL_F32, 1, shape, input), COLOSSAL_OK);
  return session;
}

bool says(const char *words) {
  return std::string(colossal_last_error()).find(words) != std::string::npos;
}

} // namespace

TEST(Api, SizesOfStructsMustBeKnown) {
  const std::string file = writeScale("sizes");
  for (size_t size :
       {size_t(0), size_t(1), sizeof(colossal_options) - 8, sizeof(colossal_options) + 8, ~size_t(0)}) {
    colossal_options options = {};
    options.size = size;
    colossal_session *session = nullptr;
    EXPECT_EQ(colossal_open(file.c_str(), &options, &session), COLOSSAL_INVALID_ARGUMENT) << size;
    EXPECT_EQ(session, nullptr);
    EXPECT_TRUE(says("colossal_options.size")) << colossal_last_error();
  }
  colossal_options options = {};
  options.size = sizeof options;
  colossal_session *session = nullptr;
  ASSERT_EQ(colossal_open(file.c_str(), &options, &session), COLOSSAL_OK) << colossal_last_error();
  for (size_t size : {size_t(0), sizeof(colossal_statistics) + 8}) {
    colossal_statistics statistics = {};
    statistics.size = size;
    EXPECT_EQ(colossal_get_statistics(session, &statistics), COLOSSAL_INVALID_ARGUMENT);
  }
  colossal_close(session);
}

TEST(Api, OptionsOutOfRangeAreRefused) {
  const std::string file = writeScale("range");
  auto open = [&](auto change) {
    colossal_options options = {};
    options.size = sizeof options;
    change(options);
    colossal_session *session = nullptr;
    colossal_status status = colossal_open(file.c_str(), &options, &session);
    colossal_close(session);
    return status;
  };
  EXPECT_EQ(open([](auto &options) { options.timeout_seconds = -1; }), COLOSSAL_INVALID_ARGUMENT);
  EXPECT_EQ(open([](auto &options) { options.timeout_seconds = NAN; }), COLOSSAL_INVALID_ARGUMENT);
  EXPECT_EQ(open([](auto &options) { options.timeout = "100"; }), COLOSSAL_OK);
  EXPECT_EQ(open([](auto &options) { options.timeout = "soon"; }), COLOSSAL_INVALID_ARGUMENT);
  EXPECT_EQ(open([](auto &options) { options.timeout = "100", options.timeout_seconds = 3; }),
            COLOSSAL_INVALID_ARGUMENT);
  EXPECT_EQ(open([](auto &options) { options.threads = 1u << 30; }), COLOSSAL_INVALID_ARGUMENT);
  EXPECT_EQ(open([](auto &options) { options.communicator = "pigeons"; }), COLOSSAL_INVALID_ARGUMENT);
}

TEST(Api, EveryCallChecksItsArguments) {
  colossal_session *session = nullptr;
  EXPECT_EQ(colossal_open(nullptr, nullptr, &session), COLOSSAL_INVALID_ARGUMENT);
  EXPECT_EQ(colossal_open("plan", nullptr, nullptr), COLOSSAL_INVALID_ARGUMENT);

  session = openScale("arguments");
  colossal_tensor tensor;
  EXPECT_EQ(colossal_program_name(session, 1), nullptr);
  EXPECT_EQ(colossal_input_count(session, 1), 0u);
  EXPECT_EQ(colossal_output_count(session, ~size_t(0)), 0u);
  EXPECT_EQ(colossal_input(session, 0, 1, &tensor), COLOSSAL_INVALID_ARGUMENT);
  EXPECT_EQ(colossal_input(session, 1, 0, &tensor), COLOSSAL_INVALID_ARGUMENT);
  EXPECT_EQ(colossal_input(session, 0, 0, nullptr), COLOSSAL_INVALID_ARGUMENT);
  EXPECT_EQ(colossal_output(session, 0, 0, nullptr), COLOSSAL_INVALID_ARGUMENT);
  EXPECT_EQ(colossal_set_input(session, nullptr, COLOSSAL_F32, 1, shape, input), COLOSSAL_INVALID_ARGUMENT);
  EXPECT_EQ(colossal_set_input(session, "x", static_cast<colossal_type>(99), 1, shape, input),
            COLOSSAL_INVALID_ARGUMENT);
  EXPECT_EQ(colossal_set_input(session, "x", COLOSSAL_F32, 1, nullptr, input), COLOSSAL_INVALID_ARGUMENT);
  EXPECT_EQ(colossal_set_input(session, "x", COLOSSAL_F32, 1, shape, nullptr), COLOSSAL_INVALID_ARGUMENT);
  EXPECT_EQ(colossal_set_input(session, "x", COLOSSAL_F32, ~size_t(0), shape, input),
            COLOSSAL_INVALID_ARGUMENT);
  EXPECT_EQ(colossal_set_random_input(session, 0, 7, 1), COLOSSAL_INVALID_ARGUMENT);
  EXPECT_EQ(colossal_set_random_input(session, 3, 0, 1), COLOSSAL_INVALID_ARGUMENT);
  EXPECT_EQ(colossal_get_statistics(session, nullptr), COLOSSAL_INVALID_ARGUMENT);
  EXPECT_EQ(colossal_write_trace(session, nullptr), COLOSSAL_INVALID_ARGUMENT);
  EXPECT_EQ(colossal_get_memory(session, nullptr, nullptr), COLOSSAL_OK);
  EXPECT_EQ(colossal_get_output(session, "y", nullptr, nullptr), COLOSSAL_NOT_FOUND); // nothing has run
  EXPECT_EQ(colossal_run(session, nullptr), COLOSSAL_OK) << colossal_last_error();
  EXPECT_EQ(colossal_get_output(session, nullptr, nullptr, nullptr), COLOSSAL_INVALID_ARGUMENT);
  EXPECT_EQ(colossal_get_output(session, "y", nullptr, nullptr), COLOSSAL_OK);
  EXPECT_EQ(colossal_crash_site(nullptr, nullptr), 0);
  colossal_close(session);
}

// NULL, what was closed, and what never was a session.
TEST(Api, HandlesOfNoSessionAreRefused) {
  colossal_session *closed = openScale("closed");
  colossal_close(closed);
  int other = 0;
  for (colossal_session *session :
       {static_cast<colossal_session *>(nullptr), closed, reinterpret_cast<colossal_session *>(&other)}) {
    colossal_tensor tensor;
    colossal_statistics statistics = {};
    statistics.size = sizeof statistics;
    EXPECT_EQ(colossal_run(session, nullptr), COLOSSAL_INVALID_ARGUMENT);
    EXPECT_TRUE(says("no open session")) << colossal_last_error();
    EXPECT_EQ(colossal_program_count(session), 0u);
    EXPECT_EQ(colossal_program_name(session, 0), nullptr);
    EXPECT_EQ(colossal_input(session, 0, 0, &tensor), COLOSSAL_INVALID_ARGUMENT);
    EXPECT_EQ(colossal_set_input(session, "x", COLOSSAL_F32, 1, shape, input), COLOSSAL_INVALID_ARGUMENT);
    EXPECT_EQ(colossal_clear_inputs(session), COLOSSAL_INVALID_ARGUMENT);
    EXPECT_EQ(colossal_set_random_input(session, 0, 0, 1), COLOSSAL_INVALID_ARGUMENT);
    EXPECT_EQ(colossal_select(session, nullptr), COLOSSAL_INVALID_ARGUMENT);
    EXPECT_EQ(colossal_get_output(session, "y", &tensor, nullptr), COLOSSAL_INVALID_ARGUMENT);
    EXPECT_EQ(colossal_get_statistics(session, &statistics), COLOSSAL_INVALID_ARGUMENT);
    EXPECT_EQ(colossal_get_memory(session, nullptr, nullptr), COLOSSAL_INVALID_ARGUMENT);
    EXPECT_EQ(colossal_write_trace(session, "trace"), COLOSSAL_INVALID_ARGUMENT);
    EXPECT_STREQ(colossal_warning(session), "");
    colossal_end_processes(session, 1);
    colossal_close(session);
  }
  colossal_interrupt(nullptr);
}

// Some calls of each thread meet another's and are told so; those that run give right values.
TEST(Api, TwoThreadsInOneSessionAreAnError) {
  colossal_session *session = openScale("busy");
  std::atomic<int> fine{0}, busy{0}, other{0};
  std::vector<std::thread> threads;
  // On few processors it takes a while until two are in at once.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 500 || (busy == 0 && std::chrono::steady_clock::now() < deadline); ++i) {
        colossal_status statuses[] = {colossal_set_input(session, "x", COLOSSAL_F32, 1, shape, input),
                                      colossal_run(session, nullptr),
                                      colossal_get_output(session, "y", nullptr, nullptr)};
        for (colossal_status status : statuses)
          ++(status == COLOSSAL_OK                                     ? fine
             : status == COLOSSAL_BUSY || status == COLOSSAL_NOT_FOUND ? busy
                                                                       : other);
        EXPECT_EQ(colossal_input_count(session, 0), 1u); // any thread may ask
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_GT(fine, 0);
  EXPECT_GT(busy, 0);
  EXPECT_EQ(other, 0);
  ASSERT_EQ(colossal_run(session, nullptr), COLOSSAL_OK) << colossal_last_error();
  const void *data = nullptr;
  ASSERT_EQ(colossal_get_output(session, "y", nullptr, &data), COLOSSAL_OK);
  EXPECT_EQ(static_cast<const float *>(data)[1], 2 * 4 + 1);
  colossal_close(session);
}

// While one thread runs another closes: the run ends as it would have, and the session is gone after it.
TEST(Api, ClosingDuringARunIsNoCrash) {
  for (int round = 0; round < 20; ++round) {
    colossal_session *session = openScale("closing");
    std::thread runner([&] {
      while (colossal_run(session, nullptr) == COLOSSAL_OK) {
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    colossal_close(session);
    runner.join();
    EXPECT_EQ(colossal_run(session, nullptr), COLOSSAL_INVALID_ARGUMENT);
  }
}
