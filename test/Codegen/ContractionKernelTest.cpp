// Contractions of odd sizes, strides, groups of dimensions and types against loops over the definition.
#include "colossal/Codegen/CPU/ContractionKernel.h"
#include "LoadedKernels.h"
#include "colossal/Codegen/Kernel/VectorMath.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/MLIRContext.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <random>

using namespace mlir;
using namespace colossal::cpu;
using namespace colossal::cpu::test;

namespace {

/// All index tuples' offsets of one group, row-major.
std::vector<int64_t> offsets(ArrayRef<ContractionDim> dims, int64_t ContractionDim::*stride) {
  std::vector<int64_t> result = {0};
  for (const ContractionDim &dim : dims) {
    std::vector<int64_t> next;
    for (int64_t offset : result)
      for (int64_t i = 0; i < dim.size; ++i)
        next.push_back(offset + i * (dim.*stride));
    result = next;
  }
  return result;
}

int64_t extent(std::initializer_list<ArrayRef<ContractionDim>> groups, int64_t ContractionDim::*stride) {
  int64_t last = 0;
  for (ArrayRef<ContractionDim> dims : groups)
    for (const ContractionDim &dim : dims)
      last += (dim.size - 1) * std::abs(dim.*stride);
  return last + 1;
}

float bfloatToFloat(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float result;
  std::memcpy(&result, &wide, 4);
  return result;
}
uint16_t floatToBfloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

struct BFloat {
  uint16_t bits = 0;
  BFloat() = default;
  BFloat(double value) : bits(floatToBfloat(float(value))) {}
  operator double() const { return bfloatToFloat(bits); }
};
using Half = _Float16;

template <typename T>
Type typeOf(MLIRContext &context) {
  Builder b(&context);
  if constexpr (std::is_same_v<T, float>)
    return b.getF32Type();
  else if constexpr (std::is_same_v<T, double>)
    return b.getF64Type();
  else if constexpr (std::is_same_v<T, BFloat>)
    return b.getBF16Type();
  else if constexpr (std::is_same_v<T, Half>)
    return b.getF16Type();
  else if constexpr (std::is_unsigned_v<T>)
    return b.getIntegerType(8 * sizeof(T), false);
  else
    return b.getIntegerType(8 * sizeof(T));
}

class ContractionTest : public ::testing::Test {
protected:
  template <typename T>
  std::vector<T> random(int64_t count) {
    std::vector<T> result(count);
    for (T &value : result) {
      if constexpr (std::is_integral_v<T>)
        value = T(std::uniform_int_distribution<int>(std::is_signed_v<T> ? -100 : 0, 100)(engine));
      else
        value = T(std::normal_distribution<double>()(engine));
    }
    return result;
  }

  /// Runs spec on random operands and compares C with the definition in double (or in int64).
  template <typename A, typename B = A, typename Acc = float, typename C = float>
  void check(ContractionSpec spec, bool pack, double tolerance = 2e-6,
             std::function<double(double, int64_t m, int64_t n)> after = nullptr,
             std::vector<void *> extras = {}) {
    spec.aType = typeOf<A>(context), spec.bType = typeOf<B>(context), spec.cType = typeOf<C>(context);
    spec.accumulate = typeOf<Acc>(context);
    std::vector<A> a = random<A>(extent({spec.batch, spec.m, spec.k}, &ContractionDim::a));
    std::vector<B> b = random<B>(extent({spec.batch, spec.k, spec.n}, &ContractionDim::b));
    std::vector<C> c(extent({spec.batch, spec.m, spec.n}, &ContractionDim::c), C(-77));
    std::vector<C> expected = c, parts = c;

    auto list = [](auto dims, auto stride) { return offsets(dims, stride); };
    std::vector<int64_t> aB = list(spec.batch, &ContractionDim::a), bB = list(spec.batch, &ContractionDim::b),
                         cB = list(spec.batch, &ContractionDim::c), aM = list(spec.m, &ContractionDim::a),
                         cM = list(spec.m, &ContractionDim::c), bN = list(spec.n, &ContractionDim::b),
                         cN = list(spec.n, &ContractionDim::c), aK = list(spec.k, &ContractionDim::a),
                         bK = list(spec.k, &ContractionDim::b);
    std::vector<double> magnitude(c.size(), 1);
    for (size_t batch = 0; batch < aB.size(); ++batch)
      for (size_t m = 0; m < aM.size(); ++m)
        for (size_t n = 0; n < bN.size(); ++n) {
          double sum = 0, size = 0;
          for (size_t k = 0; k < aK.size(); ++k) {
            double term =
                double(a[aB[batch] + aM[m] + aK[k]]) * double(b[spec.bFirst + bB[batch] + bK[k] + bN[n]]);
            sum += term, size += std::fabs(term);
          }
          int64_t place = cB[batch] + cM[m] + cN[n];
          expected[place] = C(after ? after(sum, m, n) : sum);
          magnitude[place] = std::max(1.0, std::sqrt(size) * 4);
        }

    std::vector<B> packed;
    void *right = b.data();
    if (pack) {
      const bool pairs = multipliesPairs(processor, spec.aType, spec.bType, spec.accumulate);
      RunnableKernel packer(generatePackWeights(context, processor, spec.bType, spec.accumulate, spec.batch,
                                                spec.n, spec.k, pairs, spec.bFirst),
                            processor);
      int64_t elements = packedElements(processor, spec.bType, spec.accumulate, bN.size(), aK.size(), pairs);
      const double unset = std::is_integral_v<B> ? 0 : std::numeric_limits<double>::quiet_NaN();
      packed.assign(elements * bB.size(), B(unset));
      packer.run({b.data(), packed.data()}, {}, 3);
      right = packed.data();
      spec.packed = true;
      int64_t stride = elements;
      for (size_t i = spec.batch.size(); i-- > 0;) {
        spec.batch[i].b = stride;
        stride *= spec.batch[i].size;
      }
    }
    void *left = a.data();
    std::vector<Acc> copy;
    if (int64_t elements = copies ? copiedElements(processor, spec) : 0) {
      copy.assign(elements, Acc(std::is_integral_v<Acc> ? 0 : std::numeric_limits<double>::quiet_NaN()));
      RunnableKernel(generateRowCopy(context, processor, spec), processor)
          .run({a.data(), copy.data()}, {}, 5);
      left = copy.data(), spec.copied = true, ++copied;
    }
    llvm::Expected<GeneratedKernel> generated = generateContraction(context, processor, spec);
    ASSERT_TRUE(bool(generated)) << llvm::toString(generated.takeError());
    RunnableKernel kernel(std::move(*generated), processor);
    std::vector<void *> buffers = {left, right};
    buffers.insert(buffers.end(), extras.begin(), extras.end());
    buffers.push_back(c.data());
    kernel.run(buffers);
    buffers.back() = parts.data();
    kernel.run(buffers, {}, 5);
    EXPECT_EQ(std::memcmp(c.data(), parts.data(), c.size() * sizeof(C)), 0)
        << "depends on the split over threads";
    int64_t wrong = 0;
    for (size_t i = 0; i < c.size(); ++i)
      if (!(std::fabs(double(c[i]) - double(expected[i])) <= tolerance * magnitude[i]) && ++wrong <= 5)
        ADD_FAILURE() << "at " << i << ": " << double(c[i]) << " instead of " << double(expected[i]);
    EXPECT_EQ(wrong, 0);
  }

  static ContractionSpec dense(int64_t m, int64_t n, int64_t k) {
    ContractionSpec spec;
    spec.m = {{m, k, 0, n}};
    spec.n = {{n, 0, 1, 1}};
    spec.k = {{k, 1, n, 0}};
    return spec;
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  Processor processor = testTarget();
  std::mt19937 engine{7};
  bool copies = false; ///< the left side where that is worth it
  int copied = 0;      ///< how often it was
};

TEST_F(ContractionTest, PackedSizes) {
  for (int64_t m : {1, 3, 8, 13, 100})
    for (int64_t n : {1, 16, 47, 64, 100})
      for (int64_t k : {3, 64})
        check<float>(dense(m, n, k), true);
}

TEST_F(ContractionTest, PackedDeep) {
  for (int64_t m : {1, 4, 17, 70})
    check<float>(dense(m, 65, 2700), true);
}

TEST_F(ContractionTest, SharesOfBlocksThatDoNotDivide) {
  // Blocks of rows are shared out by what the second-level cache holds; whatever its size, some of these
  // leave the last share's last tiles without rows.
  for (int64_t m : {1601, 3136})
    for (int64_t k : {64, 257, 1024})
      check<float>(dense(m, 32, k), true);
}

TEST_F(ContractionTest, InPlaceAndPackedOnTheWay) {
  for (int64_t m : {1, 3, 16, 50})
    for (int64_t n : {5, 48, 77, 128})
      for (int64_t k : {1, 40, 1500})
        check<float>(dense(m, n, k), false);
}

TEST_F(ContractionTest, TransposedOperands) {
  for (int64_t m : {1, 9, 40})
    for (int64_t n : {3, 50, 96})
      for (int64_t k : {5, 16, 100, 1300}) {
        ContractionSpec spec;
        spec.m = {{m, 1, 0, n}}; // A is [k, m]
        spec.n = {{n, 0, k, 1}}; // B is [n, k]
        spec.k = {{k, m, 1, 0}};
        check<float>(spec, true);
        check<float>(spec, false);
      }
}

// As windows of a weight that are read in reverse: k's go backwards through B.
TEST_F(ContractionTest, StridesBackwards) {
  for (int64_t rows : {3, 50})
    for (bool pack : {false, true}) {
      ContractionSpec spec;
      spec.m = {{rows, 9 * 5, 0, 20}};
      spec.n = {{20, 0, 9, 1}};
      spec.k = {{3, 15, -3, 0}, {3, 5, -1, 0}, {5, 1, 180, 0}};
      spec.bFirst = 8;
      check<float>(spec, pack);
    }
}

TEST_F(ContractionTest, PanelsKeptForManyRows) {
  // Several blocks of rows use what a thread has packed, in one block of k and in several. The longest sums
  // are of thousands of terms, one after the other.
  for (int64_t k : {40, 3000, 9000})
    for (int64_t m : {130, 300}) {
      check<float>(dense(m, 100, k), false, 1e-5);
      ContractionSpec transposed = dense(m, 100, k);
      transposed.n[0].b = k, transposed.k[0].b = 1;
      check<float>(transposed, false, 1e-5);
    }
  check<float>(dense(2500, 50, 70), false);
  // Few panels, for which a tile has fewer rows.
  check<float>(dense(130, 33, 9000), false, 1e-5);
}

// As in dw = x^T dy: A is [k, m], copied by register tiles, with a last tile and block of fewer rows.
class RowsSideBySide : public ContractionTest, public ::testing::WithParamInterface<bool> {
protected:
  void SetUp() override { copies = GetParam(); }
  static ContractionSpec turned(int64_t m, int64_t n, int64_t k) {
    ContractionSpec spec = dense(m, n, k);
    spec.m[0].a = 1, spec.k[0].a = m;
    return spec;
  }
};

INSTANTIATE_TEST_SUITE_P(Copied, RowsSideBySide, ::testing::Values(false, true),
                         [](const auto &info) { return info.param ? "before" : "by_threads"; });

TEST_P(RowsSideBySide, ForManyPanels) {
  for (int64_t m : {50, 67, 131})
    for (int64_t k : {2, 301})
      check<float>(turned(m, 400, k), false, 4e-6);
  check<float>(turned(2301, 400, 70), false);
  check<float>(turned(403, 385, 1200), false, 1e-5); // shares of rows that begin a copy anew
  for (int64_t outer : {5, 300}) {
    ContractionSpec groups = turned(70, 400, 4);
    groups.k = {{outer, 9 * 70, 400 * 4, 0}, {4, 2 * 70, 400, 0}};
    check<float>(groups, false, 4e-6);
  }
  ContractionSpec batched = turned(70, 400, 33);
  batched.batch = {{3, 70 * 33, 400 * 33, 70 * 400}};
  check<float>(batched, false);
  check<double, double, double, double>(turned(70, 400, 33), false, 1e-14);
  check<BFloat>(turned(70, 400, 33), false);
  for (int64_t k : {33, 300}) {
    check<Half, Half, float, Half>(turned(300, 400, k), false, 1e-3);
    check<int8_t, int8_t, int32_t, int32_t>(turned(300, 400, k), false, 0);
  }
  // What is large for the processor's caches is copied, at least some of these and not all.
  EXPECT_TRUE(copies ? copied > 2 && copied < 15 : copied == 0) << copied;
}

// More k's than one block has, whatever the cache: each block of them is copied for a group of panels, the
// last of which has fewer, and ends in the middle of a panel.
TEST_P(RowsSideBySide, ForGroupsOfPanels) {
  constexpr int64_t manyPanels = 17 * 48 + 5;
  check<float>(turned(140, 200, 5200), false, 2e-5);
  check<float>(turned(20, manyPanels, 5200), false, 2e-5);
  ContractionSpec groups = turned(20, 200, 4);
  groups.k = {{1301, 9 * 20, 200 * 4, 0}, {4, 2 * 20, 200, 0}};
  check<float>(groups, false, 2e-5);
  ContractionSpec batched = turned(20, 200, 5200);
  batched.batch = {{2, 20 * 5200, 200 * 5200, 20 * 200}};
  check<float>(batched, false, 2e-5);
  check<Half, Half, float, Half>(turned(20, 200, 5200), false, 2e-3);
  EXPECT_EQ(copied, 0); // not before
}

TEST_F(ContractionTest, TransposedPairs) {
  for (int64_t m : {1, 9, 40, 300})
    for (int64_t k : {1, 2, 5, 33, 512, 2001}) {
      ContractionSpec spec;
      spec.m = {{m, 1, 0, 50}}; // A is [k, m]
      spec.n = {{50, 0, 1, 1}};
      spec.k = {{k, m, 50, 0}};
      check<BFloat>(spec, true, 1e-5);
      check<BFloat>(spec, false, 1e-5);
      spec.k = {{k, 9 * m, 50 * 4, 0}, {4, 2 * m, 50, 0}}; // and what lies between is left out
      check<BFloat>(spec, false, 1e-5);
      spec.k = {{k, 7 * m, 50 * 3, 0}, {3, 2 * m, 50, 0}};
      check<BFloat>(spec, false, 1e-5);
    }
}

TEST_F(ContractionTest, StridedResult) {
  ContractionSpec spec = dense(19, 53, 30);
  spec.m[0].c = 1, spec.n[0].c = 19;
  check<float>(spec, true);
  spec.m[0].c = 200, spec.n[0].c = 3;
  check<float>(spec, false);
}

TEST_F(ContractionTest, GroupsOfDimensions) {
  // A [2, 3, h, w] seen with k = (h, w); m = (2, 3) with gaps; n = heads * width stored [heads, m, width].
  for (int64_t width : {16, 10}) {
    ContractionSpec spec;
    spec.m = {{2, 500, 0, 5 * 3 * width * 2}, {3, 100, 0, width}};
    spec.k = {{4, 20, 7 * 5 * width, 0}, {7, 1, 5 * width, 0}};
    spec.n = {{5, 0, width, 3 * width}, {width, 0, 1, 1}};
    check<float>(spec, true);
    check<float>(spec, false);
  }
  ContractionSpec deep; // k of two dimensions, longer than one block
  deep.m = {{5, 4000, 0, 33}};
  deep.k = {{60, 50, 1650, 0}, {40, 1, 40, 0}};
  deep.n = {{33, 0, 1, 1}};
  check<float>(deep, true);
  check<float>(deep, false);
}

TEST_F(ContractionTest, Batches) {
  ContractionSpec spec = dense(11, 37, 24);
  spec.batch = {{3, 11 * 24 * 2, 0, 2 * 11 * 37}, {2, 11 * 24, 24 * 37, 11 * 37}};
  check<float>(spec, false);
  spec.batch[0].b = 2 * 24 * 37;
  check<float>(spec, true);
}

TEST_F(ContractionTest, EmptyGroups) {
  ContractionSpec dot;
  dot.k = {{37, 1, 1, 0}};
  check<float>(dot, true);
  check<float>(dot, false);
  ContractionSpec outer;
  outer.m = {{9, 1, 0, 21}};
  outer.n = {{21, 0, 1, 1}};
  check<float>(outer, false);
}

TEST_F(ContractionTest, NothingToSum) {
  check<float>(dense(3, 20, 0), false);
}

TEST_F(ContractionTest, Types) {
  for (int64_t m : {1, 10, 40})
    for (bool pack : {true, false}) {
      check<double, double, double, double>(dense(m, 29, 50), pack, 1e-14);
      check<BFloat>(dense(m, 61, 50), pack);
      check<BFloat, BFloat, float, BFloat>(dense(m, 61, 1700), pack, 1e-2);
      check<Half>(dense(m, 61, 50), pack);
      check<Half, Half, float, Half>(dense(m, 61, 50), pack, 1e-3);
      check<float, BFloat>(dense(m, 61, 50), pack);
      check<int8_t, int8_t, int32_t, int32_t>(dense(m, 61, 50), pack, 0);
      check<uint8_t, int8_t, int32_t, int32_t>(dense(m, 61, 50), pack, 0);
      check<int16_t, int16_t, int32_t, int32_t>(dense(m, 61, 50), pack, 0);
      check<int32_t, int32_t, int32_t, int32_t>(dense(m, 61, 50), pack, 0);
      check<uint32_t, uint32_t, int32_t, int32_t>(dense(m, 61, 50), pack, 0);
      check<int64_t, int64_t, int64_t, int64_t>(dense(m, 61, 50), pack, 0);
      check<uint64_t, uint64_t, int64_t, int64_t>(dense(m, 61, 50), pack, 0);
    }
}

TEST_F(ContractionTest, PairsOfBFloat) {
  // Where the processor has instructions for them: odd depths leave half a pair, runs of odd lengths cut
  // them.
  for (bool pack : {true, false}) {
    for (int64_t m : {1, 9, 70})
      for (int64_t n : {3, 50})
        for (int64_t k : {1, 16, 99, 1501}) {
          check<BFloat>(dense(m, n, k), pack);
          ContractionSpec turned;
          turned.m = {{m, 1, 0, n}}; // A is [k, m]
          turned.n = {{n, 0, k, 1}}; // B is [n, k]
          turned.k = {{k, m, 1, 0}};
          check<BFloat>(turned, pack);
          ContractionSpec rows = dense(m, n, k);
          rows.n[0].b = k, rows.k[0].b = 1; // B is [n, k], A is [m, k]
          check<BFloat>(rows, pack);
        }
    for (int64_t run : {7, 8, 601}) { // runs of k that follow each other in B and not in A, and the other way
      ContractionSpec spec;
      spec.m = {{45, 3 * (run + 2), 0, 9}};
      spec.k = {{3, run + 2, run * 9, 0}, {run, 1, 9, 0}};
      spec.n = {{9, 0, 1, 1}};
      check<BFloat>(spec, pack);
      spec.m[0].a = 3 * run, spec.k[0] = {3, run, run + 1, 0}, spec.k[1] = {run, 1, 1, 0};
      spec.n[0].b = 3 * (run + 1);
      check<BFloat>(spec, pack);
    }
    ContractionSpec batched = dense(11, 37, 25);
    batched.batch = {{3, 11 * 25, 25 * 37, 11 * 37}};
    check<BFloat>(batched, pack);
  }
}

TEST_F(ContractionTest, ConvertedOperandOfGroups) {
  // A is converted on the way; its k runs on in B, but not in A.
  ContractionSpec spec;
  spec.m = {{5, 7, 0, 9}};
  spec.k = {{3, 40, 7 * 9, 0}, {7, 1, 9, 0}};
  spec.n = {{9, 0, 1, 1}};
  for (bool pack : {true, false}) {
    check<Half>(spec, pack);
    check<int8_t, int8_t, int32_t, int32_t>(spec, pack, 0);
  }
}

TEST_F(ContractionTest, EpilogueAddsBiasAndResidual) {
  for (int64_t n : {48, 70}) {
    int64_t m = 21;
    ContractionSpec spec = dense(m, n, 33);
    std::vector<float> bias = random<float>(n), residual = random<float>(m * n);
    Type f32 = Float32Type::get(&context);
    spec.extraInputs = {{f32, {n}, {}}, {f32, {m, n}, {}}};
    spec.epilogue = [&](OpBuilder &b, Location loc, Value acc, const EpilogueIndex &index) -> Value {
      Value biasValue = loadAt(b, loc, processor, index.kernel.pointer(2), f32, {{}, {0}, {1}}, index);
      Value residualValue = loadAt(b, loc, processor, index.kernel.pointer(3), f32, {{}, {n}, {1}}, index);
      Value sum = arith::AddFOp::create(b, loc, acc, biasValue);
      sum = VectorMath(b, loc, processor).geluErf(sum);
      return arith::AddFOp::create(b, loc, sum, residualValue);
    };
    check<float>(spec, true, 2e-6,
                 [&](double sum, int64_t row, int64_t column) {
                   double x = sum + bias[column];
                   return x / 2 * (1 + std::erf(x / std::sqrt(2.0))) + residual[row * n + column];
                 },
                 {bias.data(), residual.data()});
  }
}

} // namespace
