// The stand-in for cuBLASLt, called as the runtime calls the library: products of all layouts and types
// against sums of doubles, and that it refuses what the library refuses, each next to a twin that it takes.
#include "runtime/cuda/cublaslt/Abi.h"
#include "test/Emulation/Resolve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

using namespace colossal;
using namespace colossal::cublaslt;

namespace {

const cuda::Functions &driver() {
  static const cuda::Functions functions = [] {
    cuda::Functions found;
    void *handle = emulation::open(COLOSSAL_EMULATED_DRIVER);
#define COLOSSAL_RESOLVE(symbol, arguments) emulation::resolve(handle, #symbol, found.symbol);
    COLOSSAL_CUDA_DRIVER(COLOSSAL_RESOLVE)
#undef COLOSSAL_RESOLVE
    return found;
  }();
  return functions;
}

const Functions &library() {
  static const Functions functions = [] {
    driver();
    Functions found;
    void *handle = emulation::open(COLOSSAL_EMULATED_CUBLASLT);
#define COLOSSAL_RESOLVE(type, symbol, arguments) emulation::resolve(handle, #symbol, found.symbol);
    COLOSSAL_CUBLASLT(COLOSSAL_RESOLVE)
#undef COLOSSAL_RESOLVE
    return found;
  }();
  return functions;
}

size_t bytesOf(DataType type) {
  return type == R64F ? 8 : type == R32F ? 4 : 2;
}

/// bfloat keeps the upper half of a float; what is stored here has no more digits.
void store(double value, DataType type, unsigned char *to) {
  const auto single = static_cast<float>(value);
  std::uint32_t bits;
  std::memcpy(&bits, &single, 4);
  const auto upper = static_cast<std::uint16_t>(bits >> 16);
  if (type == R64F)
    std::memcpy(to, &value, 8);
  else if (type == R32F)
    std::memcpy(to, &single, 4);
  else
    std::memcpy(to, &upper, 2);
}
double fetch(DataType type, const unsigned char *from) {
  double wide;
  float single;
  std::uint16_t upper;
  if (type == R64F)
    return std::memcpy(&wide, from, 8), wide;
  if (type == R32F)
    return std::memcpy(&single, from, 4), static_cast<double>(single);
  std::memcpy(&upper, from, 2);
  const std::uint32_t bits = std::uint32_t(upper) << 16;
  return std::memcpy(&single, &bits, 4), static_cast<double>(single);
}

/// D = op(A) op(B), column by column, with the bytes of each matrix at a place of its own in one allocation.
struct Product {
  ComputeType compute = Compute32F;
  DataType scale = R32F, type = R32F;
  std::int32_t transposeA = OperationN, transposeB = OperationN;
  int m = 20, n = 12, k = 100, batch = 1;
  int gap = 0;              ///< elements between columns, and between matrices
  bool interleaved = false; ///< D's matrices lie side by side in each column
  std::uint32_t epilogue = EpilogueDefault;
  size_t offsetA = 0, offsetD = 0, offsetBias = 0; ///< bytes beyond an alignment of 256
  size_t workspaceBytes = 1 << 20;
  bool workspaceGiven = true;
  size_t workspaceOffset = 0;
  std::uint32_t alignment = 256;
  int choice = 0; ///< of the algorithms that are advised
  // After run():
  int advised = 0;
  Result advice = Success, result = Success;
  size_t needed = 0;
  double worst = 0; ///< of the greatest value

  int rowsA() const { return transposeA ? k : m; }
  int columnsA() const { return transposeA ? m : k; }
  int rowsB() const { return transposeB ? n : k; }
  int columnsB() const { return transposeB ? k : n; }
  void run();
};

constexpr size_t pieceBytes = 1 << 20;

class CublasLt : public ::testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(driver().cuInit(0), cuda::Success);
    cuda::Context context = nullptr;
    ASSERT_EQ(driver().cuDevicePrimaryCtxRetain(&context, 0), cuda::Success);
    ASSERT_EQ(driver().cuCtxSetCurrent(context), cuda::Success);
  }
  void TearDown() override { driver().cuDevicePrimaryCtxRelease_v2(0); }
};

void Product::run() {
  const auto &lt = library();
  const auto &gpu = driver();
  cuda::Stream stream = nullptr;
  cuda::DevicePointer memory = 0;
  void *host = nullptr;
  ASSERT_EQ(gpu.cuStreamCreate(&stream, cuda::StreamNonBlocking), cuda::Success);
  ASSERT_EQ(gpu.cuMemAlloc_v2(&memory, 5 * pieceBytes + 4096), cuda::Success);
  ASSERT_EQ(gpu.cuMemHostAlloc(&host, 5 * pieceBytes + 4096, 0), cuda::Success);
  auto *bytes = static_cast<unsigned char *>(host);
  const size_t size = bytesOf(type);
  auto place = [&](int piece, size_t offset) { return static_cast<size_t>(piece) * pieceBytes + offset; };
  const size_t atA = place(0, offsetA), atB = place(1, 0), atD = place(2, offsetD),
               atBias = place(3, offsetBias), atWorkspace = place(4, workspaceOffset);
  const int ldA = rowsA() + gap, ldB = rowsB() + gap, ldD = interleaved ? m * batch : m + gap;
  const int strideA = ldA * columnsA() + gap, strideB = ldB * columnsB() + gap,
            strideD = interleaved ? m : ldD * n + gap;
  auto value = [](int i) { return ((i * 7 + i / 13) % 17 - 8) / 16.0; };
  std::memset(bytes, 0xFF, 5 * pieceBytes);
  for (int i = 0; i < batch * strideA; ++i)
    store(value(i), type, bytes + atA + static_cast<size_t>(i) * size);
  for (int i = 0; i < batch * strideB; ++i)
    store(value(i + 5), type, bytes + atB + static_cast<size_t>(i) * size);
  for (int i = 0; i < m; ++i)
    store(value(3 * i), type, bytes + atBias + static_cast<size_t>(i) * size);
  ASSERT_EQ(gpu.cuMemcpyHtoDAsync_v2(memory, host, 5 * pieceBytes, stream), cuda::Success);

  Handle handle = nullptr;
  MatmulDesc operation = nullptr;
  MatrixLayout a = nullptr, b = nullptr, d = nullptr;
  Preference preference = nullptr;
  ASSERT_EQ(lt.cublasLtCreate(&handle), Success);
  ASSERT_EQ(lt.cublasLtMatmulDescCreate(&operation, compute, scale), Success);
  ASSERT_EQ(lt.cublasLtMatmulDescSetAttribute(operation, DescTransA, &transposeA, sizeof transposeA),
            Success);
  ASSERT_EQ(lt.cublasLtMatmulDescSetAttribute(operation, DescTransB, &transposeB, sizeof transposeB),
            Success);
  ASSERT_EQ(lt.cublasLtMatmulDescSetAttribute(operation, DescEpilogue, &epilogue, sizeof epilogue), Success);
  const cuda::DevicePointer bias = memory + atBias;
  if (epilogue & EpilogueBias) {
    ASSERT_EQ(lt.cublasLtMatmulDescSetAttribute(operation, DescBiasPointer, &bias, sizeof bias), Success);
  }
  auto create = [&](MatrixLayout &layout, int rows, int columns, int leading, int stride) {
    ASSERT_EQ(lt.cublasLtMatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(rows),
                                            static_cast<std::uint64_t>(columns), leading),
              Success);
    const std::int32_t count = batch;
    const std::int64_t distance = stride;
    ASSERT_EQ(lt.cublasLtMatrixLayoutSetAttribute(layout, LayoutBatchCount, &count, sizeof count), Success);
    ASSERT_EQ(
        lt.cublasLtMatrixLayoutSetAttribute(layout, LayoutStridedBatchOffset, &distance, sizeof distance),
        Success);
  };
  create(a, rowsA(), columnsA(), ldA, strideA);
  create(b, rowsB(), columnsB(), ldB, strideB);
  create(d, m, n, ldD, strideD);
  ASSERT_EQ(lt.cublasLtMatmulPreferenceCreate(&preference), Success);
  const std::uint64_t most = workspaceBytes;
  ASSERT_EQ(
      lt.cublasLtMatmulPreferenceSetAttribute(preference, PreferenceMaxWorkspaceBytes, &most, sizeof most),
      Success);
  for (PreferenceAttribute each :
       {PreferenceMinAlignmentA, PreferenceMinAlignmentB, PreferenceMinAlignmentC, PreferenceMinAlignmentD})
    ASSERT_EQ(lt.cublasLtMatmulPreferenceSetAttribute(preference, each, &alignment, sizeof alignment),
              Success);
  HeuristicResult advices[8] = {};
  advice = lt.cublasLtMatmulAlgoGetHeuristic(handle, operation, a, b, d, d, preference, 8, advices, &advised);
  if (advice == Success && choice < advised) {
    HeuristicResult checked = {};
    EXPECT_EQ(lt.cublasLtMatmulAlgoCheck(handle, operation, a, b, d, d, &advices[choice].algorithm, &checked),
              Success);
    needed = advices[choice].workspaceBytes;
    EXPECT_EQ(checked.workspaceBytes, needed);
    const float one = 1, zero = 0;
    const double oneWide = 1, zeroWide = 0;
    const bool wide = scale == R64F;
    auto *at = reinterpret_cast<unsigned char *>(memory);
    result = lt.cublasLtMatmul(handle, operation, wide ? static_cast<const void *>(&oneWide) : &one, at + atA,
                               a, at + atB, b, wide ? static_cast<const void *>(&zeroWide) : &zero, at + atD,
                               d, at + atD, d, &advices[choice].algorithm,
                               workspaceGiven ? at + atWorkspace : nullptr, workspaceBytes, stream);
    ASSERT_EQ(gpu.cuMemcpyDtoHAsync_v2(host, memory, 5 * pieceBytes, stream), cuda::Success);
    ASSERT_EQ(gpu.cuStreamSynchronize(stream), cuda::Success);
    double greatest = 0;
    for (int matrix = 0; matrix < batch && result == Success; ++matrix)
      for (int j = 0; j < n; ++j)
        for (int i = 0; i < m; ++i) {
          double sum =
              epilogue & EpilogueBias ? fetch(type, bytes + atBias + static_cast<size_t>(i) * size) : 0;
          for (int p = 0; p < k; ++p) {
            const int x = matrix * strideA + (transposeA ? i * ldA + p : p * ldA + i),
                      y = matrix * strideB + (transposeB ? p * ldB + j : j * ldB + p);
            sum += fetch(type, bytes + atA + static_cast<size_t>(x) * size) *
                   fetch(type, bytes + atB + static_cast<size_t>(y) * size);
          }
          if (epilogue & EpilogueRelu)
            sum = std::max(sum, 0.0);
          if (epilogue & EpilogueGelu)
            sum = 0.5 * sum *
                  (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (sum + 0.044715 * sum * sum * sum)));
          const double found =
              fetch(type, bytes + atD + static_cast<size_t>(matrix * strideD + j * ldD + i) * size);
          greatest = std::max(greatest, std::abs(sum));
          worst = std::isnan(found) ? 1e9 : std::max(worst, std::abs(found - sum));
        }
    worst /= greatest > 0 ? greatest : 1;
  }
  lt.cublasLtMatmulPreferenceDestroy(preference);
  for (MatrixLayout layout : {a, b, d})
    lt.cublasLtMatrixLayoutDestroy(layout);
  lt.cublasLtMatmulDescDestroy(operation);
  lt.cublasLtDestroy(handle);
  gpu.cuStreamDestroy_v2(stream);
  gpu.cuMemFree_v2(memory);
  gpu.cuMemFreeHost(host);
}

void expectRight(Product product, double error, const char *what) {
  SCOPED_TRACE(what);
  product.choice = 0;
  do { // every algorithm that is advised
    product.worst = 0;
    product.run();
    ASSERT_EQ(product.advice, Success);
    ASSERT_GE(product.advised, 1);
    EXPECT_EQ(product.result, Success) << product.choice;
    EXPECT_LT(product.worst, error) << product.choice;
  } while (++product.choice < product.advised);
}

TEST_F(CublasLt, MultipliesAllLayouts) {
  for (std::int32_t transposeA : {OperationN, OperationT})
    for (std::int32_t transposeB : {OperationN, OperationT})
      for (int batch : {1, 3}) {
        Product product;
        product.transposeA = transposeA, product.transposeB = transposeB, product.batch = batch;
        expectRight(product, 1e-6, "dense");
        product.gap = 4;
        expectRight(product, 1e-6, "with gaps");
        product.m = 129, product.n = 5, product.k = 7, product.gap = 1;
        expectRight(product, 1e-6, "odd");
      }
  Product interleaved;
  interleaved.batch = 4, interleaved.interleaved = true;
  expectRight(interleaved, 1e-6, "side by side");
}

TEST_F(CublasLt, MultipliesAllTypes) {
  Product product;
  product.type = R64F, product.scale = R64F, product.compute = Compute64F;
  expectRight(product, 1e-14, "doubles");
  product = {};
  product.type = R16BF;
  expectRight(product, 1e-2, "bfloats");
  product = {};
  product.compute = Compute32FFastTF32; // the operands have few digits
  expectRight(product, 1e-6, "tf32");
}

TEST_F(CublasLt, AppliesEpilogues) {
  for (std::uint32_t epilogue :
       {EpilogueRelu, EpilogueBias, EpilogueReluBias, EpilogueGelu, EpilogueGeluBias}) {
    Product product;
    product.epilogue = epilogue;
    expectRight(product, 1e-6, std::to_string(epilogue).c_str());
  }
}

TEST_F(CublasLt, AdvisesByAlignmentAndWorkspace) {
  Product all;
  all.run();
  EXPECT_EQ(all.advised, 3);
  EXPECT_GT(all.needed, 0u);
  Product without;
  without.workspaceBytes = 0;
  without.run();
  EXPECT_EQ(without.advised, 2);
  EXPECT_EQ(without.result, Success);
  Product loose;
  loose.alignment = 4, loose.offsetA = 4;
  loose.run();
  EXPECT_EQ(loose.advised, 1);
  EXPECT_EQ(loose.result, Success);
  Product odd; // columns that begin anywhere
  odd.gap = 1;
  odd.run();
  EXPECT_EQ(odd.advised, 1);
}

TEST_F(CublasLt, RefusesOperandsThatAreNotAlignedAsAsked) {
  for (size_t Product::*offset : {&Product::offsetA, &Product::offsetD, &Product::offsetBias}) {
    Product product;
    product.epilogue = EpilogueBias;
    product.choice = 1;
    product.*offset = 16;
    product.run();
    EXPECT_EQ(product.result, Success);
    product.*offset = 8;
    product.run();
    // The bias is looked at when advice is given; the others are promised.
    EXPECT_TRUE(product.result == InvalidValue || product.advised == 1);
  }
}

TEST_F(CublasLt, RefusesAWorkspaceThatWillNotDo) {
  Product product;
  product.workspaceGiven = false;
  product.run();
  EXPECT_EQ(product.result, InvalidValue);
  product.workspaceGiven = true, product.workspaceOffset = 128;
  product.run();
  EXPECT_EQ(product.result, InvalidValue);
  product.workspaceOffset = 256;
  product.run();
  EXPECT_EQ(product.result, Success);
}

TEST_F(CublasLt, RefusesWhatTheLibraryHasNoKernelFor) {
  Product product;
  product.type = R64F; // in singles
  product.run();
  EXPECT_EQ(product.advice, NotSupported);
  product = {};
  product.type = R64F, product.scale = R64F, product.compute = Compute64F, product.epilogue = EpilogueBias;
  product.run();
  EXPECT_EQ(product.advice, NotSupported);
  product = {};
  product.epilogue = 3;
  product.run();
  EXPECT_EQ(product.advice, InvalidValue);
}

TEST_F(CublasLt, RefusesAttributesOfAnotherSize) {
  MatmulDesc operation = nullptr;
  ASSERT_EQ(library().cublasLtMatmulDescCreate(&operation, Compute32F, R32F), Success);
  const std::int64_t wide = OperationT;
  EXPECT_EQ(library().cublasLtMatmulDescSetAttribute(operation, DescTransA, &wide, sizeof wide),
            InvalidValue);
  const std::int32_t right = OperationT;
  EXPECT_EQ(library().cublasLtMatmulDescSetAttribute(operation, DescTransA, &right, sizeof right), Success);
  EXPECT_EQ(library().cublasLtMatmulDescDestroy(operation), Success);
}

} // namespace
