// The routine "contraction": what a plan may say of it, and what it computes on an emulated GPU, whose
// library stands in for cuBLASLt (tests of the suite Cuda).
#include "PlanBuilder.h"
#include "Variable.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>

using namespace colossal;
using namespace colossal::runtime;

namespace {

constexpr uint64_t piece = 1 << 14;

/// C[batch, m, n] = A[batch, m, k] B[k, n], dense, both from inputs; B is the same for all of the batch.
plan::Contraction dense(uint64_t batch, uint64_t m, uint64_t n, uint64_t k) {
  plan::Contraction c;
  c.set_type(plan::F32);
  c.set_result_type(plan::F32);
  c.set_compute("f32");
  c.set_batch(batch);
  c.set_m(m);
  c.set_n(n);
  c.set_k(k);
  for (uint64_t stride : {m * k, k, uint64_t(1)})
    c.add_a_strides(stride);
  for (uint64_t stride : {uint64_t(0), n, uint64_t(1)})
    c.add_b_strides(stride);
  for (uint64_t stride : {m * n, n, uint64_t(1)})
    c.add_c_strides(stride);
  return c;
}

PlanBuilder planOf(const plan::Contraction &c) {
  PlanBuilder builder({}, 1 << 17);
  const uint64_t a = c.batch() * c.m() * c.k(), b = c.k() * c.n(), out = c.batch() * c.m() * c.n();
  builder.input("a", plan::F32, {a}, builder.box({a}), 0);
  builder.input("b", plan::F32, {b}, builder.box({b}), piece);
  plan::LibraryCall &call = *builder.add("/matmul").mutable_library();
  call.set_routine("contraction");
  *call.mutable_contraction() = c;
  *call.add_buffers() = builder.buffer(PlanBuilder::io, 0, a * 4);
  *call.add_buffers() = builder.buffer(PlanBuilder::io, piece, b * 4);
  if (c.bias()) {
    builder.input("bias", plan::F32, {c.n()}, builder.box({c.n()}), 2 * piece);
    *call.add_buffers() = builder.buffer(PlanBuilder::io, 2 * piece, c.n() * 4);
  }
  *call.add_buffers() = builder.buffer(PlanBuilder::activations, 0, piece);
  *call.add_buffers() = builder.buffer(PlanBuilder::io, 3 * piece, out * 4);
  call.set_writes(2);
  builder.output("c", plan::F32, {out}, builder.box({out}), 3 * piece);
  return builder;
}

std::vector<float> values(uint64_t count, int salt) {
  std::vector<float> made(count);
  for (uint64_t i = 0; i < count; ++i)
    made[i] =
        static_cast<float>(static_cast<int>((i * 7 + i / 13 + static_cast<uint64_t>(salt)) % 17) - 8) / 16;
  return made;
}

/// Runs three times, of which the last is replayed; each has the right results.
void expectRight(const plan::Contraction &c) {
  SCOPED_TRACE(c.ShortDebugString());
  PlanBuilder builder = planOf(c);
  std::unique_ptr<Session> session;
  Status status = builder.open(session);
  ASSERT_TRUE(status.ok()) << status.describe();
  for (int run = 0; run < 3; ++run) {
    const std::vector<float> a = values(c.batch() * c.m() * c.k(), run), b = values(c.k() * c.n(), run + 3),
                             bias = values(c.n(), run + 5);
    Tensors inputs = {{"a", floats({a.size()}, a)}, {"b", floats({b.size()}, b)}};
    if (c.bias())
      inputs.emplace("bias", floats({bias.size()}, bias));
    status = session->run(1, inputs);
    ASSERT_TRUE(status.ok()) << status.describe();
    Tensors outputs;
    ASSERT_TRUE(session->outputs(1, outputs).ok());
    const std::vector<float> found = floatsOf(outputs["c"]);
    for (uint64_t i = 0; i < c.batch(); ++i)
      for (uint64_t row = 0; row < c.m(); ++row)
        for (uint64_t column = 0; column < c.n(); ++column) {
          double sum = c.bias() ? static_cast<double>(bias[column]) : 0;
          for (uint64_t p = 0; p < c.k(); ++p)
            sum += static_cast<double>(a[i * c.a_strides(0) + row * c.a_strides(1) + p * c.a_strides(2)]) *
                   static_cast<double>(b[p * c.b_strides(1) + column * c.b_strides(2)]);
          if (c.activation() == "relu")
            sum = std::max(sum, 0.0);
          if (c.activation() == "gelu_tanh")
            sum = 0.5 * sum *
                  (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (sum + 0.044715 * sum * sum * sum)));
          const uint64_t at = i * c.c_strides(0) + row * c.c_strides(1) + column * c.c_strides(2);
          ASSERT_NEAR(static_cast<double>(found[at]), sum, 1e-5)
              << run << ": " << i << " " << row << " " << column;
        }
  }
}

std::string textOf(const std::filesystem::path &file) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

} // namespace

TEST(Contraction, AcceptsWhatIsRight) {
  for (plan::Contraction c : {dense(1, 4, 6, 3), dense(3, 1, 6, 3), dense(2, 5, 1, 1)}) {
    Status status = planOf(c).validate();
    EXPECT_TRUE(status.ok()) << status.describe();
    c.set_bias(true);
    c.set_activation("relu");
    status = planOf(c).validate();
    EXPECT_TRUE(status.ok()) << status.describe();
  }
}

TEST(Contraction, RefusesWhatIsWrong) {
  using Break = std::function<void(plan::LibraryCall &)>;
  auto contraction = [](auto change) {
    return [change](plan::LibraryCall &call) { change(*call.mutable_contraction()); };
  };
  const std::pair<Break, const char *> cases[] = {
      {contraction([](plan::Contraction &c) { c.set_m(0); }), "an extent is 0"},
      {contraction([](plan::Contraction &c) { c.set_k(uint64_t(1) << 31); }), "out of range"},
      {contraction([](plan::Contraction &c) { c.set_compute("f64"); }), "does not know its types"},
      {contraction([](plan::Contraction &c) { c.set_type(plan::I32); }), "does not know its types"},
      {contraction([](plan::Contraction &c) { c.set_activation("tanh"); }), "unknown activation"},
      {contraction([](plan::Contraction &c) { c.add_a_strides(1); }), "has 4 strides"},
      {contraction([](plan::Contraction &c) { c.set_a_strides(1, 2); }), "without gaps"},
      {contraction([](plan::Contraction &c) { c.set_c_strides(0, 3); }), "share their place"},
      {contraction([](plan::Contraction &c) { c.set_c_strides(0, uint64_t(1) << 60); }), "out of range"},
      {contraction([](plan::Contraction &c) {
         c.set_bias(true);
         c.set_c_strides(1, 1);
         c.set_c_strides(2, 4);
       }),
       "along which no bias"},
      {contraction([](plan::Contraction &c) { c.set_bias(true); }), "takes 5 buffers"},
      {contraction([](plan::Contraction &c) { c.set_batch(3); }), "bytes and needs"},
      {[](plan::LibraryCall &call) { call.set_writes(1); }, "writes 2"},
      {[](plan::LibraryCall &call) { call.mutable_buffers(0)->set_offset(2); }, "not aligned"},
      {[](plan::LibraryCall &call) { *call.mutable_buffers(3) = call.buffers(0); }, "bytes and needs"},
      {[](plan::LibraryCall &call) { call.mutable_buffers(3)->set_offset(16); }, "overlaps"},
  };
  for (const auto &[breakIt, message] : cases) {
    PlanBuilder builder = planOf(dense(2, 4, 6, 3));
    ASSERT_TRUE(builder.validate().ok()) << builder.validate().describe();
    breakIt(*builder.infer().mutable_body(0)->mutable_library());
    Status status = builder.validate();
    EXPECT_FALSE(status.ok()) << message;
    EXPECT_NE(status.message().find(message), std::string::npos)
        << status.message() << ", expected: " << message;
  }
}

TEST(Contraction, IsNoRoutineOfTheCpu) {
  if (plansAreForCuda())
    GTEST_SKIP();
  std::unique_ptr<Session> session;
  Status status = planOf(dense(1, 4, 6, 3)).open(session);
  EXPECT_EQ(status.code(), Code::Unsupported);
  EXPECT_NE(status.message().find("no library routine 'contraction'"), std::string::npos)
      << status.describe();
}

TEST(Cuda, ContractionsAreTheLibrarys) {
  expectRight(dense(1, 7, 5, 3));
  expectRight(dense(1, 32, 48, 100)); // in two parts of k
  expectRight(dense(3, 8, 16, 64));
  expectRight(dense(1, 1, 33, 70));
  expectRight(dense(2, 9, 1, 20));
  for (const char *activation : {"", "relu", "gelu_tanh"})
    for (bool bias : {false, true}) {
      plan::Contraction c = dense(2, 12, 20, 64);
      c.set_bias(bias);
      c.set_activation(activation);
      expectRight(c);
    }
  // Operands and results that lie column by column.
  for (int which = 0; which < 8; ++which) {
    plan::Contraction c = dense(1, 12, 20, 16);
    if (which & 1)
      c.set_a_strides(1, 1), c.set_a_strides(2, 12);
    if (which & 2)
      c.set_b_strides(1, 1), c.set_b_strides(2, 16);
    if (which & 4)
      c.set_c_strides(1, 1), c.set_c_strides(2, 12);
    expectRight(c);
  }
}

TEST(Cuda, ContractionsAreTimedOnceAndRemembered) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("colossal-cache-" + std::to_string(::getpid()));
  std::filesystem::remove_all(folder);
  const Variable cache("COLOSSAL_CACHE", folder.string()), tune("COLOSSAL_TUNE", "1");
  expectRight(dense(1, 24, 40, 72));
  ASSERT_TRUE(std::filesystem::exists(folder));
  std::vector<std::filesystem::path> files;
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1u); // and nothing half-written beside it
  EXPECT_NE(files[0].filename().string().find("sm_90"), std::string::npos) << files[0];
  const std::string text = textOf(files[0]);
  EXPECT_NE(text.find("24 40 72"), std::string::npos) << text;
  expectRight(dense(1, 24, 40, 72)); // what is known is not timed, and the file not written, again
  EXPECT_EQ(textOf(files[0]), text);
  expectRight(dense(1, 24, 40, 64));
  EXPECT_NE(textOf(files[0]).find("24 40 64"), std::string::npos);
  EXPECT_NE(textOf(files[0]).find("24 40 72"), std::string::npos);
  std::filesystem::remove_all(folder);
}
