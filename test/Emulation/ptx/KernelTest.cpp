// Kernels.cu as nvcc compiles it, for several chips and levels of optimization, against what the host
// computes. All runs are free of faults, in several orders of blocks and warps, and on several host threads.
#include "Harness.h"
#include "Values.h"

#include <cmath>
#include <map>

namespace colossal::ptx {
namespace {

class Kernels : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    static std::map<std::string, std::unique_ptr<Module>> modules;
    std::unique_ptr<Module> &found = modules[GetParam()];
    if (!found)
      found = loaded(fileText(GetParam()));
    module = found.get();
    ASSERT_TRUE(module);
  }
  /// Runs, and expects no fault.
  void run(Launch launch) {
    launch.seed = seed;
    launch.threads = 1 + seed % 2;
    Report report = module->run(launch);
    EXPECT_TRUE(report.clean()) << describe(report);
    EXPECT_GT(report.warpInstructions, 0u);
  }
  Module *module = nullptr;
  unsigned seed = 1;
};

void expectNear(const std::vector<float> &found, const std::vector<float> &expected, double relative,
                double absolute = 0) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], std::abs(expected[i]) * relative + absolute) << "at " << i;
}

TEST_P(Kernels, Saxpy) {
  for (int n : {1, 31, 1000}) {
    std::vector<float> x = randomFloats(n, -1, 1, 2), y = randomFloats(n, -1, 1, 3), expected(n);
    for (int i = 0; i < n; ++i)
      expected[i] = std::fma(1.5f, x[i], y[i]);
    Device device;
    std::uint64_t dx = device.put("x", x, false), dy = device.put("y", y);
    run(device.launch("saxpy", {unsigned(n + 127) / 128}, {128}, n, 1.5f, dx, dy));
    expectNear(device.get<float>(dy), expected, 1e-6, 1e-7);
  }
}

TEST_P(Kernels, Softmax) {
  constexpr unsigned rows = 5, n = 384;
  std::vector<float> x = randomFloats(rows * n, -8, 8), expected(rows * n);
  for (unsigned r = 0; r < rows; ++r) {
    double sum = 0, highest = -INFINITY;
    for (unsigned i = 0; i < n; ++i)
      highest = std::max<double>(highest, x[r * n + i]);
    for (unsigned i = 0; i < n; ++i)
      sum += std::exp(x[r * n + i] - highest);
    for (unsigned i = 0; i < n; ++i)
      expected[r * n + i] = static_cast<float>(std::exp(x[r * n + i] - highest) / sum);
  }
  for (seed = 1; seed < 5; ++seed) {
    Device device;
    std::uint64_t dx = device.put("x", x), dy = device.put("y", std::vector<float>(rows * n));
    run(device.launch("softmax", {rows}, {128}, dx, dy, int(n)));
    expectNear(device.get<float>(dy), expected, 2e-5, 1e-9);
  }
}

TEST_P(Kernels, NormalizeInDynamicSharedMemory) {
  constexpr unsigned rows = 3, n = 200;
  std::vector<float> x = randomFloats(rows * n, -2, 5), scale = randomFloats(n, 0.5, 2),
                     bias = randomFloats(n, -1, 1), expected(rows * n);
  for (unsigned r = 0; r < rows; ++r) {
    double mean = 0, squares = 0;
    for (unsigned i = 0; i < n; ++i)
      mean += x[r * n + i] / double(n);
    for (unsigned i = 0; i < n; ++i)
      squares += (x[r * n + i] - mean) * (x[r * n + i] - mean) / n;
    for (unsigned i = 0; i < n; ++i)
      expected[r * n + i] =
          static_cast<float>((x[r * n + i] - mean) / std::sqrt(squares + 1e-5) * scale[i] + bias[i]);
  }
  for (seed = 1; seed < 5; ++seed) {
    Device device;
    std::uint64_t dx = device.put("x", x), ds = device.put("scale", scale), db = device.put("bias", bias),
                  dy = device.put("y", std::vector<float>(rows * n));
    Launch launch = device.launch("normalize", {rows}, {96}, dx, ds, db, dy, int(n), 1e-5f);
    launch.dynamicShared = n * sizeof(float);
    run(launch);
    expectNear(device.get<float>(dy), expected, 1e-5, 1e-5);
  }
}

TEST_P(Kernels, Transpose) {
  constexpr int rows = 70, columns = 45;
  std::vector<float> x = randomFloats(rows * columns, -1, 1), expected(rows * columns);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c)
      expected[c * rows + r] = x[r * columns + c];
  for (seed = 1; seed < 4; ++seed) {
    Device device;
    std::uint64_t dx = device.put("x", x), dy = device.put("y", std::vector<float>(rows * columns));
    run(device.launch("transpose", {2, 3}, {32, 8}, dx, dy, rows, columns));
    EXPECT_EQ(device.get<float>(dy), expected);
  }
}

TEST_P(Kernels, HistogramByAtomics) {
  std::mt19937 generator(4);
  std::vector<unsigned char> x(5000);
  std::vector<unsigned> expected(256);
  for (unsigned char &value : x)
    ++expected[value = static_cast<unsigned char>(generator() % 200)];
  for (seed = 1; seed < 4; ++seed) {
    Device device;
    std::uint64_t dx = device.put("x", x), bins = device.put("bins", std::vector<unsigned>(256));
    run(device.launch("histogram", {6}, {96}, dx, int(x.size()), bins));
    EXPECT_EQ(device.get<unsigned>(bins), expected);
  }
}

TEST_P(Kernels, SumByTheLastBlock) {
  std::vector<float> x = randomFloats(3000, -1, 1);
  double sum = 0;
  for (float value : x)
    sum += value;
  for (seed = 1; seed < 6; ++seed) {
    Device device;
    std::uint64_t dx = device.put("x", x), partial = device.put("partial", std::vector<float>(9)),
                  result = device.put("result", std::vector<float>(1));
    run(device.launch("sumInOneLaunch", {9}, {64}, dx, int(x.size()), partial, result));
    EXPECT_NEAR(device.get<float>(result)[0], sum, 1e-4);
  }
}

unsigned ackermannLike(unsigned m, unsigned n) {
  return m == 0 ? n + 1 : n == 0 ? ackermannLike(m - 1, 1) : ackermannLike(m - 1, ackermannLike(m, n - 1));
}

unsigned controlled(unsigned x) {
  unsigned v = x, steps = 0, code = 0, reversed = 0;
  for (; v > 1 && steps < 500; ++steps)
    v = v & 1 ? 3 * v + 1 : v / 2;
  for (unsigned j = 0; j < 16; ++j)
    code = code * 5 + (x >> (2 * ((j * 7 + steps) & 15)) & 3);
  for (unsigned j = 0; j < 32; ++j)
    reversed |= (code >> j & 1) << (31 - j);
  switch (x % 9) {
  case 0: return code + steps;
  case 1: return code ^ steps * 3;
  case 2: return static_cast<unsigned>(__builtin_popcount(code));
  case 3: return (code ? static_cast<unsigned>(__builtin_clz(code)) : 32) + 100;
  case 4: return reversed;
  case 5: return steps << 5 | code >> 27;
  case 6: return code / (steps + 1);
  case 7: return ackermannLike(2, x % 5);
  default: return (code & 255) | (steps & 255) << 8 | (code >> 8 & 255) << 16 | (steps >> 8 & 255) << 24;
  }
}

// __byte_perm(code, steps, 0x5140): bytes, from the lowest, 0 and 4, then 1 and 5.
TEST_P(Kernels, BranchesLoopsCallsAndLocalArrays) {
  std::mt19937 generator(5);
  std::vector<unsigned> x(333), expected;
  for (unsigned &value : x) {
    value = generator() >> (generator() % 24);
    expected.push_back(controlled(value));
  }
  for (seed = 1; seed < 3; ++seed) {
    Device device;
    std::uint64_t dx = device.put("x", x);
    run(device.launch("control", {6}, {64}, dx, int(x.size())));
    EXPECT_EQ(device.get<unsigned>(dx), expected);
  }
}

TEST_P(Kernels, FunctionsOfTheLibrary) {
  std::vector<float> x = randomFloats(500, -6, 6);
  int n = static_cast<int>(x.size());
  Device device;
  std::uint64_t dx = device.put("x", x), dy = device.put("y", std::vector<float>(10 * x.size()));
  run(device.launch("functions", {4}, {128}, dx, dy, n));
  std::vector<float> y = device.get<float>(dy);
  for (int i = 0; i < n; ++i) {
    double v = x[i], a = std::abs(v);
    const double expected[] = {std::exp(v),
                               std::erf(v),
                               std::tanh(v),
                               std::sin(v),
                               std::log(double(std::abs(x[i]) + 1e-3f)),
                               std::fmod(x[i], 0.7f),
                               std::pow(a, double(1.3f)),
                               std::exp(v),
                               std::nearbyint(v) + std::floor(v) + std::ceil(v) + std::trunc(v) +
                                   std::round(v),
                               std::sqrt(a) + 1 / v + v / 3.1f};
    for (int f = 0; f < 10; ++f)
      ASSERT_NEAR(y[f * n + i], expected[f], std::abs(expected[f]) * 5e-6 + 3e-7)
          << "function " << f << " of " << v;
  }
}

TEST_P(Kernels, NarrowTypes) {
  std::vector<float> x = randomFloats(300, -300, 300);
  for (std::size_t i = 0; i < x.size(); i += 3)
    x[i] *= 1e-4f;
  for (std::size_t i = 1; i < x.size(); i += 11)
    x[i] *= 1000;
  int n = static_cast<int>(x.size());
  Device device;
  std::uint64_t dx = device.put("x", x), dy = device.put("y", std::vector<float>(8 * x.size()));
  run(device.launch("narrow", {3}, {128}, dx, dy, n));
  std::vector<float> y = device.get<float>(dy);
  auto to = [](double value, const Format &format, bool saturate = false,
               Rounding rounding = Rounding::NearestEven) {
    return decode(encode(value, format, rounding, saturate), format);
  };
  for (int i = 0; i < n; ++i) {
    double v = x[i], h = to(v, kHalf), b = to(v, kBFloat);
    double low = to(h * h + h, kHalf), high = to(h * h - h, kHalf);
    ASSERT_EQ(y[i], static_cast<float>(h));
    ASSERT_EQ(y[n + i], static_cast<float>(b));
    ASSERT_EQ(y[2 * n + i], static_cast<float>(to(v, kE4M3, true)));
    ASSERT_EQ(y[3 * n + i], static_cast<float>(to(v, kE5M2, true)));
    if (std::isfinite(low) && std::isfinite(high)) {
      ASSERT_EQ(y[4 * n + i], static_cast<float>(low) + static_cast<float>(high)) << v;
    }
    double square = to(b * b, kBFloat);
    ASSERT_NEAR(y[5 * n + i],
                static_cast<float>(to(square + b, kBFloat)) + static_cast<float>(to(square - b, kBFloat)),
                std::abs(square) * 0.02)
        << v;
    ASSERT_EQ(y[6 * n + i], static_cast<float>(to(v, kHalf, false, Rounding::Zero)));
    ASSERT_NEAR(y[7 * n + i], v + 0.1 + v * 0.1, std::abs(v) * 3e-7 + 3e-8);
  }
}

TEST_P(Kernels, WhatLanesDoTogether) {
  constexpr int n = 128;
  std::mt19937 generator(6);
  std::vector<int> x(n);
  for (int &value : x)
    value = static_cast<int>(generator() % 100);
  for (int i = 64; i < 96; ++i)
    x[i] += 6;
  Device device;
  std::uint64_t dx = device.put("x", x), dy = device.put("y", std::vector<int>(7 * n));
  run(device.launch("lanes", {2}, {64}, dx, dy, n));
  std::vector<int> y = device.get<int>(dy);
  for (int i = 0; i < n; ++i) {
    const int *w = &x[i / 32 * 32];
    int lane = i % 32, odd = 0, any = 0, all = 1, match = 0, sum = 0, highest = 0, prefix = 0;
    for (int l = 0; l < 32; ++l) {
      odd |= (w[l] & 1) << l;
      any |= w[l] > 90;
      all &= w[l] > 5;
      match |= (w[l] % 4 == x[i] % 4) << l;
      sum += w[l];
      highest = std::max(highest, w[l]);
      prefix += l <= lane ? w[l] : 0;
    }
    ASSERT_EQ(y[i], odd);
    ASSERT_EQ(y[n + i], any + 2 * all);
    ASSERT_EQ(y[2 * n + i], match);
    ASSERT_EQ(y[3 * n + i], sum + highest);
    ASSERT_EQ(y[4 * n + i], prefix);
    ASSERT_EQ(y[5 * n + i], w[lane % 8 + 3 < 8 ? lane + 3 : lane] + w[x[i] & 31]);
    int together = __builtin_popcount(odd);
    ASSERT_EQ(y[6 * n + i], x[i] & 1 ? together : together - 32);
  }
}

TEST_P(Kernels, ALockThatLanesFightFor) {
  Device device;
  std::uint64_t lock = device.put("lock", std::vector<int>(1)),
                counter = device.put("counter", std::vector<int>(1));
  // One block at a time: a block that waits for another holds up its host thread.
  run(device.launch("locked", {3}, {64}, lock, counter));
  EXPECT_EQ(device.get<int>(counter)[0], 3 * 64);
}

TEST_P(Kernels, AtomicSumsOfAllTypes) {
  Device device;
  std::uint64_t h = device.put("h", std::vector<std::uint16_t>(2)),
                f = device.put("f", std::vector<float>(1)), d = device.put("d", std::vector<double>(1));
  run(device.launch("addNarrow", {2}, {64}, h, f, d));
  EXPECT_EQ(decode(device.get<std::uint16_t>(h)[0], kHalf), 128);
  EXPECT_EQ(decode(device.get<std::uint16_t>(h)[1], kHalf), 64);
  EXPECT_EQ(device.get<float>(f)[0], 32);
  EXPECT_EQ(device.get<double>(d)[0], 16);
}

// For sm_80 nvcc makes a loop around a compare-and-swap of it, which begins with a weak read of what others
// change atomically: a race by the letter, and found.
TEST_P(Kernels, AtomicSumsOfBFloats) {
  Device device;
  std::uint64_t b = device.put("b", std::vector<std::uint16_t>(2));
  Report report = module->run(device.launch("addBFloat", {2}, {64}, b));
  for (const Fault &fault : report.faults)
    EXPECT_EQ(fault.kind, FaultKind::GlobalRace) << fault;
  EXPECT_EQ(decode(device.get<std::uint16_t>(b)[0], kBFloat), 128);
  EXPECT_EQ(decode(device.get<std::uint16_t>(b)[1], kBFloat), 256);
}

TEST_P(Kernels, ConstantMemory) {
  Device device;
  std::uint64_t y = device.put("y", std::vector<float>(64));
  run(device.launch("lookUp", {1}, {64}, y));
  for (int i = 0; i < 64; ++i)
    EXPECT_EQ(device.get<float>(y)[i], 1 << i % 8);
}

TEST_P(Kernels, WarpsThatHandOverByNamedBarriers) {
  std::vector<int> x(160), expected(160);
  for (int i = 0; i < 160; ++i) {
    x[i] = i * 7;
    expected[i / 32 * 32 + 31 - i % 32] = i * 7;
  }
  for (seed = 1; seed < 8; ++seed) {
    Device device;
    std::uint64_t dx = device.put("x", x), dy = device.put("y", std::vector<int>(160));
    run(device.launch("handOver", {1}, {64}, dx, dy, 5));
    EXPECT_EQ(device.get<int>(dy), expected);
  }
}

TEST_P(Kernels, ContractionByTensorCores) {
  constexpr int m = 64, n = 96, k = 80;
  std::mt19937 generator(7);
  std::vector<std::uint16_t> a(m * k), b(k * n);
  for (auto *matrix : {&a, &b})
    for (std::uint16_t &value : *matrix)
      value = static_cast<std::uint16_t>(encode(static_cast<int>(generator() % 33) - 16, kBFloat));
  std::vector<float> expected(m * n);
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j)
      for (int l = 0; l < k; ++l)
        expected[i * n + j] += bfloatToFloat(a[i * k + l]) * bfloatToFloat(b[l * n + j]);
  for (seed = 1; seed < 4; ++seed) {
    Device device;
    std::uint64_t da = device.put("a", a), db = device.put("b", b),
                  dc = device.put("c", std::vector<float>(m * n));
    run(device.launch("contract", {n / 32, m / 32}, {128}, da, db, dc, m, n, k));
    EXPECT_EQ(device.get<float>(dc), expected);
  }
}

std::vector<const char *> files() {
  std::vector<const char *> list = {PTX_FILES};
  return list;
}
std::string nameOf(const testing::TestParamInfo<const char *> &info) {
  std::string path = info.param, name = path.substr(path.rfind('/') + 1);
  name.resize(name.rfind('.'));
  for (char &c : name)
    c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(Nvcc, Kernels, testing::ValuesIn(files()), nameOf);

} // namespace
} // namespace colossal::ptx
