// The generators with the threads of a GPU's block as their team: kernels down to PTX, which an executor runs
// on the host with all its checks. Each result is the folder's.
#include "TeamCase.h"

#include "Ptx.h"
#include "lib/Codegen/CUDA/Attention.h"
#include "lib/Codegen/CUDA/BlockTeam.h"
#include "lib/Codegen/CUDA/Contraction.h"
#include "lib/Codegen/CUDA/GroupedConvolution.h"
#include "lib/Codegen/CUDA/PtxCompiler.h"

#include "llvm/Support/FormatVariadic.h"

#include <cstring>
#include <sstream>

using namespace mlir;
using namespace colossal;
using namespace colossal::test;

namespace {

struct Setting {
  const char *name, *chip;
  int64_t threads;
  std::uint64_t seed;
};

class BlockTeams : public testing::TestWithParam<Setting> {
protected:
  BlockTeams() {
    context.loadDialect<ColossalDialect, func::FuncDialect>();
    nvidia::loadKernelDialects(context);
  }

  /// Of an attention, by its kernel on tensor cores where `tensors` says how query, key, value and result are
  /// aligned.
  void check(StringRef text, double tolerance = 4e-6, std::optional<std::array<int64_t, 4>> tensors = {}) {
    SCOPED_TRACE(text.str());
    const nvidia::Chip chip = llvm::cantFail(nvidia::Chip::create(GetParam().chip));
    nvidia::BlockTeam team(GetParam().threads);
    TeamCase tried(context, text);
    tried.align(alignment);
    ASSERT_TRUE(tried.op);
    auto attention = dyn_cast<AttentionOp>(tried.op);
    auto product = dyn_cast<ContractOp>(tried.op);
    auto convolution = dyn_cast<ConvOp>(tried.op);
    llvm::Expected<kernel::GeneratedKernel> generated = attention
                                                            ? generateAttention(team, attention, tensors)
                                                        : product     ? generateProduct(team, product)
                                                        : convolution ? generateConvolution(team, convolution)
                                                                      : tried.generate(team);
    ASSERT_TRUE(bool(generated)) << llvm::toString(generated.takeError());
    nvidia::PtxCompiler compiler({chip}, 0);
    const std::string symbol = compiler.add(*generated->module, "team");
    EXPECT_EQ(compiler.add(*generated->module, "again"), symbol);
    llvm::Expected<std::vector<std::string>> texts = compiler.finish();
    ASSERT_TRUE(bool(texts)) << llvm::toString(texts.takeError());
    const std::string *ptx = &texts->front();
    lastText = *ptx;
    ptx::Module::Diagnostics refused;
    std::unique_ptr<ptx::Module> module = ptx::Module::load(*ptx, refused);
    for (const ptx::Module::Diagnostic &diagnostic : refused)
      ADD_FAILURE() << "line " << diagnostic.line << ": " << diagnostic.what << ": " << diagnostic.text;
    ASSERT_TRUE(module) << *ptx;

    const ptx::Kernel *kernel = module->find(symbol);
    ASSERT_TRUE(kernel && kernel->maximalThreads);
    EXPECT_EQ(*kernel->maximalThreads, tried.walksTiles() ? 1u : std::uint64_t(GetParam().threads));
    ptx::Launch launch;
    launch.kernel = symbol;
    // Fewer blocks than tiles, so that some take several.
    const auto blocks = std::uint32_t(std::max<int64_t>(1, generated->tiles / 2 + 1));
    launch.grid = {blocks};
    launch.block = {std::uint32_t(*kernel->maximalThreads)};
    launch.seed = GetParam().seed;
    std::vector<std::vector<std::max_align_t>> memory;
    std::vector<std::uint64_t> words;
    auto place = [&](size_t bytes) {
      memory.emplace_back(bytes / sizeof(std::max_align_t) + 1);
      const std::uint64_t address = 0x700000000 + (std::uint64_t(memory.size()) << 32);
      launch.buffers.push_back(
          {"b" + std::to_string(words.size()), address, bytes, memory.back().data(), true});
      words.push_back(address);
      return reinterpret_cast<char *>(memory.back().data());
    };
    for (std::vector<char> &bytes : tried.storage)
      llvm::copy(bytes, place(bytes.size()));
    if (generated->scratchBytes)
      place(blocks * llvm::alignTo(generated->scratchBytes, 128));
    words.push_back(std::uint64_t(generated->tiles));
    launch.parameters.resize(words.size() * 8);
    std::memcpy(launch.parameters.data(), words.data(), launch.parameters.size());
    const ptx::Report report = module->run(launch);
    std::ostringstream faults;
    for (const ptx::Fault &fault : report.faults)
      faults << fault;
    ASSERT_TRUE(report.clean()) << report.error << faults.str() << *ptx;
    for (auto [i, bytes] : llvm::enumerate(tried.storage))
      std::memcpy(bytes.data(), memory[i].data(), bytes.size());
    tried.expectFolded(tolerance);
  }

  /// Of two dense matrices by the kernel of its own; f32 as tf32.
  kernel::GeneratedKernel generateProduct(const nvidia::BlockTeam &team, ContractOp op) {
    const int64_t m = shapeOf(op.getLhs())[0], k = shapeOf(op.getLhs())[1], n = shapeOf(op.getRhs())[1];
    nvidia::ContractionShape shape;
    shape.aType = elementTypeOf(op.getLhs()), shape.bType = elementTypeOf(op.getRhs());
    shape.cType = elementTypeOf(op.getResult()), shape.accumulate = Float32Type::get(&context);
    shape.isRounded = true;
    shape.m = {{m, k, 0, n}}, shape.n = {{n, 0, 1, 1}}, shape.k = {{k, 1, n, 0}};
    return nvidia::generateContraction(context, team, shape);
  }

  /// Of groups with few channels by its kernel, of tensors that lie dense.
  kernel::GeneratedKernel generateConvolution(const nvidia::BlockTeam &team, ConvOp op) {
    EXPECT_TRUE(nvidia::isGrouped(op));
    nvidia::GroupedSpec spec = nvidia::describeGrouped(op);
    auto dense = [](Value value) {
      SmallVector<int64_t> strides = schedule::denseStrides(shapeOf(value));
      return std::array<int64_t, 4>{strides[0], strides[1], strides.size() == 4 ? strides[2] : 0,
                                    strides.back()};
    };
    spec.input = dense(op.getInput()), spec.weight = dense(op.getWeight()),
    spec.output = dense(op.getResult());
    if (alignment) {
      spec.inputAlignment = alignment, spec.alignments = {alignment};
      const int64_t row = spec.places[1];
      spec.lanes = std::min<int64_t>(16 / kernel::elementBytes(spec.type), row & -row);
    }
    EXPECT_EQ(nvidia::hasLongWindows(spec), expectsLongWindows);
    return expectsLongWindows ? nvidia::generateLongWindows(context, team, spec)
                              : nvidia::generateGrouped(context, team, spec);
  }

  /// By the kernel of its own, of tensors that lie dense.
  kernel::GeneratedKernel generateAttention(const nvidia::BlockTeam &team, AttentionOp op,
                                            std::optional<std::array<int64_t, 4>> tensors) {
    nvidia::AttentionSpec spec = nvidia::describeAttention(op);
    spec.isRounded = tensors.has_value();
    spec.alignment = tensors.value_or(spec.alignment);
    EXPECT_TRUE(tensors ? nvidia::hasTensorKernel(spec) : nvidia::hasKernel(spec));
    auto dense = [](Value value) {
      ArrayRef<int64_t> shape = shapeOf(value);
      std::array<int64_t, 4> strides = {};
      int64_t stride = 1;
      for (int64_t d = int64_t(shape.size()) - 1; d >= 0; --d) {
        strides[4 - shape.size() + d] = shape[d] == 1 ? 0 : stride;
        stride *= shape[d];
      }
      return strides;
    };
    spec.q = dense(op.getQuery()), spec.k = dense(op.getKey()), spec.v = dense(op.getValue());
    spec.out = dense(op.getResult());
    if (op.getMask())
      spec.mask = dense(op.getMask());
    if (op.getStatistics())
      spec.statistics = dense(op.getStatistics());
    return tensors ? nvidia::generateTensorAttention(context, team, spec)
                   : nvidia::generateAttention(context, team, spec);
  }

  /// Lines of the kernel tried last that have `what`, and those among them that move 16 bytes.
  std::pair<int, int> count(StringRef what) const {
    std::pair<int, int> found;
    SmallVector<StringRef> lines;
    StringRef(lastText).split(lines, '\n');
    for (StringRef line : lines)
      if (line.contains(what)) {
        ++found.first;
        found.second += line.contains(".v4.b32") || line.contains(".v4.f32") || line.contains(".v4.u32") ||
                        line.contains(".v2.b64");
      }
    return found;
  }

  MLIRContext context;
  int64_t alignment = 0; ///< of tensors, as generators know it
  bool expectsLongWindows = false;
  std::string lastText;
};

TEST_P(BlockTeams, ComputeElements) {
  check("(%0: tensor<3x70xf32>, %1: tensor<70xf32>) | colossal.elementwise add(%0, %1) : (tensor<3x70xf32>, "
        "tensor<70xf32>) -> tensor<3x70xf32>");
  check("(%0: tensor<2000xf32>) | colossal.elementwise gelu(%0) : (tensor<2000xf32>) -> tensor<2000xf32>");
  check("(%0: tensor<70xf32>) | colossal.elementwise tanh(%0) : (tensor<70xf32>) -> tensor<70xf32>");
  check("(%0: tensor<70xf32>) | colossal.elementwise sin(%0) : (tensor<70xf32>) -> tensor<70xf32>");
  check("(%0: tensor<1xf32>) | colossal.elementwise exp(%0) : (tensor<1xf32>) -> tensor<1xf32>");
  check("(%0: tensor<33x35xf32>) | colossal.transpose %0 [1, 0] : tensor<33x35xf32> -> tensor<35x33xf32>");
  check("(%0: tensor<6x40xf32>) | colossal.reshape %0 : tensor<6x40xf32> -> tensor<4x60xf32>");
  check("(%0: tensor<9x40xf32>, %1: tensor<5xi64>) | colossal.gather %0[%1] {axis = 0 : i64} : "
        "tensor<9x40xf32>, tensor<5xi64> -> tensor<5x40xf32>");
  check("() | colossal.iota {axis = 0 : i64, start = 1.0 : f64, step = 0.5 : f64} : tensor<70xf32>");
  check("() | colossal.random uniform {a = 0.0 : f64, b = 1.0 : f64, seed = 5 : i64, extents = array<i64: 3, "
        "40>} : "
        "tensor<3x40xf32>");
  check("(%0: tensor<3x40xf32>, %1: tensor<2xi64>) | colossal.dropout %0 stream %1 : tensor<2xi64> {ratio = "
        "0.4 : f64, "
        "seed = 5 : i64, extents = array<i64: 3, 40>} : tensor<3x40xf32>");
  check("(%0: tensor<3x40xf32>) | colossal.pad %0 low [1, 3] : tensor<3x40xf32> -> tensor<6x50xf32>");
}

TEST_P(BlockTeams, CombineRows) {
  check("(%0: tensor<5x70xf32>) | colossal.reduce sum %0 over [1] : tensor<5x70xf32> -> tensor<5xf32>");
  check("(%0: tensor<5x700xf32>) | colossal.reduce max %0 over [1] : tensor<5x700xf32> -> tensor<5xf32>");
  check("(%0: tensor<5x3xf32>) | colossal.reduce prod %0 over [1] : tensor<5x3xf32> -> tensor<5xf32>");
  check("(%0: tensor<5x70xi64>) | colossal.reduce sum %0 over [0, 1] : tensor<5x70xi64> -> tensor<i64>");
  check("(%0: tensor<5x70xf32>) | colossal.softmax %0 {axis = 1 : i64} : tensor<5x70xf32>");
  check("(%0: tensor<2x1301xf32>) | colossal.softmax %0 {axis = 1 : i64, log = true} : tensor<2x1301xf32>");
  check("(%0: tensor<5x70xf32>, %1: tensor<70xf32>) | colossal.normalize layer(%0, scale %1) {axis = 1 : "
        "i64, epsilon = 1.0e-5 : f64} : (tensor<5x70xf32>, tensor<70xf32>) -> tensor<5x70xf32>");
}

TEST_P(BlockTeams, ComputeRowsSideBySide) {
  check("(%0: tensor<5x70xf32>) | colossal.reduce max %0 over [0] : tensor<5x70xf32> -> tensor<70xf32>");
  check("(%0: tensor<5x70xf32>) | colossal.softmax %0 {axis = 0 : i64} : tensor<5x70xf32>");
}

// A row is read once, 16 bytes at a time; what loops over it come back to is in registers.
TEST_P(BlockTeams, HoldRows) {
  if (GetParam().threads == 32)
    GTEST_SKIP() << "a warp has no room for these rows";
  alignment = 256;
  check("(%0: tensor<5x2048xf32>) | colossal.softmax %0 {axis = 1 : i64} : tensor<5x2048xf32>");
  const int vectors = int(2048 / (4 * GetParam().threads));
  EXPECT_EQ(count("ld.global"), std::pair(vectors, vectors)) << lastText;
  EXPECT_EQ(count("st.global"), std::pair(vectors, vectors)) << lastText;
  check("(%0: tensor<5x2048xbf16>) | colossal.softmax %0 {axis = 1 : i64} : tensor<5x2048xbf16>", 1e-2);
  EXPECT_EQ(count("ld.global"), std::pair(vectors / 2, vectors / 2)) << lastText;
  // With 128 threads, of the last vectors some members have none; scale and bias are read beside the row.
  check("(%0: tensor<3x768xf32>, %1: tensor<768xf32>, %2: tensor<768xf32>) | colossal.normalize layer(%0, "
        "scale %1, "
        "bias %2) {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<3x768xf32>, tensor<768xf32>, "
        "tensor<768xf32>) -> "
        "tensor<3x768xf32>");
  if (GetParam().threads == 128) {
    EXPECT_EQ(count("ld.global").first, count("ld.global").second) << lastText;
  }
  check("(%0: tensor<4x1024xf32>, %1: tensor<1024xf32>) | colossal.elementwise add(%0, %1) : "
        "(tensor<4x1024xf32>, "
        "tensor<1024xf32>) -> tensor<4x1024xf32>");
  EXPECT_EQ(count("ld.global").first, count("ld.global").second) << lastText;
  // A row of which each access may begin anywhere.
  alignment = 4;
  check("(%0: tensor<5x512xf32>) | colossal.softmax %0 {axis = 1 : i64} : tensor<5x512xf32>");
  EXPECT_EQ(count("ld.global"), std::pair(int(512 / GetParam().threads), 0)) << lastText;
}

TEST_P(BlockTeams, Attend) {
  if (GetParam().threads != 128)
    GTEST_SKIP() << "a block of 128 threads";
  // More and fewer queries and keys than a tile, widths that its threads do not divide.
  check("(%0: tensor<2x3x20x16xf32>, %1: tensor<2x3x37x16xf32>, %2: tensor<2x3x37x12xf32>) | "
        "colossal.attention(%0, %1, %2) {scale = 2.5e-1 : f64} : (tensor<2x3x20x16xf32>, "
        "tensor<2x3x37x16xf32>, "
        "tensor<2x3x37x12xf32>) -> tensor<2x3x20x12xf32>");
  check("(%0: tensor<1x4x5x6xf32>, %1: tensor<1x2x5x6xf32>, %2: tensor<1x2x5x9xf32>) | "
        "colossal.attention(%0, %1, %2) {scale = 4.0e-1 : f64, causal = true} : (tensor<1x4x5x6xf32>, "
        "tensor<1x2x5x6xf32>, tensor<1x2x5x9xf32>) -> tensor<1x4x5x9xf32>");
  check("(%0: tensor<1x1x40x8xf32>, %1: tensor<1x1x70x8xf32>, %2: tensor<1x1x70x8xf32>) | "
        "colossal.attention(%0, %1, %2) {scale = 4.0e-1 : f64, causal = true, causal_offset = 30 : i64} : "
        "(tensor<1x1x40x8xf32>, tensor<1x1x70x8xf32>, tensor<1x1x70x8xf32>) -> tensor<1x1x40x8xf32>");
  // Rows that see nothing.
  check("(%0: tensor<1x1x20x8xf32>, %1: tensor<1x1x9x8xf32>, %2: tensor<1x1x9x8xf32>) | "
        "colossal.attention(%0, %1, %2) {scale = 1.0 : f64, causal = true, causal_offset = -12 : i64, guard "
        "= true} : "
        "(tensor<1x1x20x8xf32>, tensor<1x1x9x8xf32>, tensor<1x1x9x8xf32>) -> tensor<1x1x20x8xf32>");
  check("(%0: tensor<1x2x7x8xf32>, %1: tensor<1x2x9x8xf32>, %2: tensor<1x2x9x8xf32>, %3: tensor<7x9xf32>) | "
        "colossal.attention(%0, %1, %2, mask %3) {scale = 3.0e-1 : f64, softcap = 2.0 : f64} : "
        "(tensor<1x2x7x8xf32>, "
        "tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<7x9xf32>) -> tensor<1x2x7x8xf32>");
  check(
      "(%0: tensor<1x2x7x200xf32>, %1: tensor<1x1x40x200xf32>, %2: tensor<1x1x40x136xf32>, %3: "
      "tensor<1x1x1x40xi1>) | colossal.attention(%0, %1, %2, mask %3) {scale = 7.0e-2 : f64, guard = true} : "
      "(tensor<1x2x7x200xf32>, tensor<1x1x40x200xf32>, tensor<1x1x40x136xf32>, tensor<1x1x1x40xi1>) -> "
      "tensor<1x2x7x136xf32>");
}

constexpr std::array<int64_t, 4> aligned = {256, 256, 256, 256};

/// Of `sizes` batch, heads, heads of keys, queries, keys, width of queries and of values.
std::string attention(StringRef type, ArrayRef<int64_t> sizes, StringRef options,
                      bool withStatistics = false) {
  auto tensor = [&](int64_t heads, int64_t rows, int64_t columns, StringRef type) {
    return llvm::formatv("tensor<{0}x{1}x{2}x{3}x{4}>", sizes[0], heads, rows, columns, type).str();
  };
  const std::string q = tensor(sizes[1], sizes[3], sizes[5], type),
                    k = tensor(sizes[2], sizes[4], sizes[5], type),
                    v = tensor(sizes[2], sizes[4], sizes[6], type),
                    result = tensor(sizes[1], sizes[3], sizes[6], type) +
                             (withStatistics ? ", " + tensor(sizes[1], sizes[3], 1, "f32") : "");
  return llvm::formatv(
             "(%0: {0}, %1: {1}, %2: {2}) | colossal.attention(%0, %1, %2) {{{3}} : ({0}, {1}, {2}) -> {4}",
             q, k, v, options, result)
      .str();
}

// What 16 bits, or the ten of tf32, make of products and weights is the tolerance.
TEST_P(BlockTeams, AttendOnTensorCores) {
  if (GetParam().threads != 128)
    GTEST_SKIP() << "a block of 128 threads";
  for (auto [type, tolerance] : {std::pair("f16", 4e-3), std::pair("bf16", 3e-2), std::pair("f32", 4e-3)}) {
    // More queries than a block's, more keys than two tiles, of which the last is not full.
    check(attention(type, {1, 1, 1, 70, 150, 32, 32}, "scale = 2.0e-1 : f64"), tolerance, aligned);
    EXPECT_GT(count("mma.sync").first, 0);
    EXPECT_GT(count("cp.async.cg.shared.global").first, 0);
    // Heads that share keys, what is causal, widths that are padded; one element at a time, and four bytes.
    check(attention(type, {1, 4, 2, 33, 33, 24, 12}, "scale = 2.0e-1 : f64, causal = true"), tolerance,
          aligned);
    check(attention(type, {1, 2, 1, 5, 40, 10, 7},
                    "scale = 3.0e-1 : f64, causal = true, causal_offset = 35 : i64"),
          tolerance, aligned);
    check(attention(type, {1, 1, 1, 17, 20, 16, 16}, "scale = 2.5e-1 : f64"), tolerance, {{2, 2, 4, 2}});
    EXPECT_GT(count("mma.sync").first, 0);
    EXPECT_EQ(count("cp.async.cg").first, 0);
    EXPECT_GT(count("cp.async.ca").first, 0);
    // Rows that see nothing, a width at which two blocks fit a multiprocessor.
    check(attention(type, {1, 1, 1, 20, 9, 128, 128},
                    "scale = 8.0e-2 : f64, causal = true, causal_offset = -12 : i64, guard = true"),
          tolerance, aligned);
  }
  check("(%0: tensor<1x2x7x16xbf16>, %1: tensor<1x2x9x16xbf16>, %2: tensor<1x2x9x16xbf16>, %3: "
        "tensor<7x9xf32>) | "
        "colossal.attention(%0, %1, %2, mask %3) {scale = 3.0e-1 : f64, softcap = 2.0 : f64} : "
        "(tensor<1x2x7x16xbf16>, tensor<1x2x9x16xbf16>, tensor<1x2x9x16xbf16>, tensor<7x9xf32>) -> "
        "tensor<1x2x7x16xbf16>",
        3e-2, aligned);
  check("(%0: tensor<1x2x70x16xf16>, %1: tensor<1x1x40x16xf16>, %2: tensor<1x1x40x16xf16>, %3: "
        "tensor<1x1x1x40xi1>) | "
        "colossal.attention(%0, %1, %2, mask %3) {scale = 7.0e-2 : f64, guard = true} : "
        "(tensor<1x2x70x16xf16>, "
        "tensor<1x1x40x16xf16>, tensor<1x1x40x16xf16>, tensor<1x1x1x40xi1>) -> tensor<1x2x70x16xf16>",
        4e-3, aligned);
}

// Wide heads: the matrices of a block fill nearly all registers.
TEST_P(BlockTeams, AttendWideHeadsOnTensorCores) {
  if (GetParam().threads != 128)
    GTEST_SKIP() << "a block of 128 threads";
  // Few queries and keys: the host computes each element of the result by itself.
  check(attention("bf16", {1, 1, 1, 2, 3, 256, 256}, "scale = 6.0e-2 : f64"), 3e-2, aligned);
  EXPECT_GT(count("mma.sync").first, 0);
  check(attention("f16", {1, 2, 1, 2, 18, 256, 10},
                  "scale = 6.0e-2 : f64, causal = true, causal_offset = 16 : i64"),
        4e-3, aligned);
  check(attention("f16", {1, 1, 1, 20, 18, 8, 256}, "scale = 6.0e-2 : f64"), 4e-3, aligned);
}

// The logarithm of each row's sum of exponentials, by either kernel; of rows that see nothing it is -inf.
TEST_P(BlockTeams, AttendWithStatistics) {
  if (GetParam().threads != 128)
    GTEST_SKIP() << "a block of 128 threads";
  for (auto [type, tolerance] : {std::pair("f16", 4e-3), std::pair("bf16", 3e-2), std::pair("f32", 4e-3)})
    for (bool onTensorCores : {true, false}) {
      std::optional<std::array<int64_t, 4>> tensors;
      if (onTensorCores)
        tensors = aligned;
      check(attention(type, {1, 1, 1, 70, 150, 32, 32}, "scale = 2.0e-1 : f64", true), tolerance, tensors);
      EXPECT_EQ(count("mma.sync").first > 0, onTensorCores);
      check(attention(type, {2, 4, 2, 33, 33, 24, 12}, "scale = 2.0e-1 : f64, causal = true", true),
            tolerance, tensors);
      check(attention(type, {1, 1, 1, 20, 9, 16, 16},
                      "scale = 8.0e-2 : f64, causal = true, causal_offset = -12 : i64, guard = true", true),
            tolerance, tensors);
    }
}

TEST_P(BlockTeams, MultiplyOnTensorCores) {
  if (GetParam().threads != 128)
    GTEST_SKIP() << "a block of 128 threads";
  for (StringRef type : {"f16", "bf16", "f32"})
    for (auto [m, n, k] : {std::tuple(70, 40, 67), std::tuple(5, 9, 16)}) {
      check(llvm::formatv("(%0: tensor<{0}x{1}x{3}>, %1: tensor<{1}x{2}x{3}>) | colossal.contract %0 [0, 1], "
                          "%1 [1, 2] -> "
                          "[0, 2] : (tensor<{0}x{1}x{3}>, tensor<{1}x{2}x{3}>) -> tensor<{0}x{2}xf32>",
                          m, k, n, type)
                .str(),
            1e-2);
      EXPECT_GT(count("mma.sync").first, 0);
      EXPECT_GT(count("ldmatrix").first, 0);
    }
}

struct Convolution {
  SmallVector<int64_t> input, weight, strides, dilations, pads;
  int64_t group;
  bool hasBias = false;
};

std::string textOf(const Convolution &conv, StringRef type) {
  auto tensor = [&](ArrayRef<int64_t> shape) {
    std::string text = "tensor<";
    for (int64_t size : shape)
      text += std::to_string(size) + "x";
    return text + type.str() + ">";
  };
  auto list = [](ArrayRef<int64_t> values) {
    std::string text = "array<i64";
    for (auto [i, value] : llvm::enumerate(values))
      text += (i == 0 ? ": " : ", ") + std::to_string(value);
    return text + ">";
  };
  const unsigned spatial = conv.strides.size();
  SmallVector<int64_t> result{conv.input[0], conv.weight[0]};
  for (unsigned d = 0; d < spatial; ++d)
    result.push_back((conv.input[d + 2] + conv.pads[d] + conv.pads[d + spatial] -
                      conv.dilations[d] * (conv.weight[d + 2] - 1) - 1) /
                         conv.strides[d] +
                     1);
  const std::string input = tensor(conv.input), weight = tensor(conv.weight), bias = tensor(conv.weight[0]);
  return llvm::formatv("(%0: {0}, %1: {1}{2}) | colossal.conv(%0, %1{3}) {{strides = {4}, dilations = {5}, "
                       "pads = {6}, group = {7} : i64} : ({0}, {1}{8}) -> {9}",
                       input, weight, conv.hasBias ? ", %2: " + bias : "", conv.hasBias ? ", %2" : "",
                       list(conv.strides), list(conv.dilations), list(conv.pads), conv.group,
                       conv.hasBias ? ", " + bias : "", tensor(result))
      .str();
}

constexpr std::pair<const char *, double> convolvedTypes[] = {
    {"f32", 4e-6}, {"f16", 2e-3}, {"bf16", 2e-2}, {"f64", 1e-12}};

TEST_P(BlockTeams, ConvolveGroups) {
  if (GetParam().threads != 128)
    GTEST_SKIP() << "a block of 128 threads";
  const Convolution cases[] = {
      {{2, 5, 9, 11}, {5, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 5, true},
      {{1, 3, 7, 7}, {3, 1, 7, 7}, {1, 1}, {1, 1}, {3, 3, 3, 3}, 3},
      // Strides, dilations and pads that differ along both dimensions, and at both ends.
      {{1, 4, 13, 10}, {4, 1, 3, 5}, {2, 3}, {1, 1}, {0, 2, 1, 1}, 4},
      {{1, 2, 12, 17}, {2, 1, 3, 2}, {1, 2}, {3, 4}, {2, 3, 4, 0}, 2, true},
      // Channel multipliers, several channels of a group on both sides.
      {{2, 3, 6, 5}, {9, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 3, true},
      {{1, 6, 6, 9}, {14, 3, 3, 2}, {1, 1}, {1, 1}, {1, 0, 1, 0}, 2},
      // More groups than a block takes, and not as many in the last one.
      {{1, 71, 4, 4}, {71, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 71},
      // One dimension, rows longer than a block's columns, windows beyond what is written one after another.
      {{2, 3, 40}, {3, 1, 4}, {1}, {1}, {3, 0}, 3, true},
      {{1, 2, 700}, {2, 1, 3}, {1}, {2}, {2, 2}, 2},
      {{1, 2, 60}, {2, 1, 29}, {1}, {1}, {14, 14}, 2},
      {{1, 2, 24, 20}, {2, 1, 11, 13}, {1, 1}, {1, 1}, {5, 6, 5, 6}, 2, true},
      // Windows apart from each other, and pads beyond a whole window.
      {{1, 2, 9, 9}, {2, 1, 2, 2}, {4, 3}, {1, 1}, {0, 0, 0, 0}, 2},
      {{1, 2, 3, 3}, {2, 1, 2, 2}, {1, 1}, {1, 1}, {5, 4, 3, 6}, 2},
      {{1, 2, 1, 1}, {2, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 2}};
  for (auto [type, tolerance] : convolvedTypes)
    for (const Convolution &conv : cases)
      check(textOf(conv, type), tolerance);
}

// Of rows that lie at multiples of 16 bytes, pieces of as many are copied to shared memory, and stored.
TEST_P(BlockTeams, ConvolveAlignedGroups) {
  if (GetParam().threads != 128)
    GTEST_SKIP() << "a block of 128 threads";
  alignment = 256;
  for (auto [type, tolerance] : convolvedTypes) {
    check(textOf({{1, 3, 9, 32}, {3, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 3, true}, type), tolerance);
    EXPECT_GT(count("cp.async.cg.shared.global").first, 0) << lastText;
    EXPECT_EQ(count("cp.async.ca").first, 0);
    const auto [stores, wide] = count("st.global");
    EXPECT_GT(stores, 0);
    EXPECT_EQ(stores, wide) << lastText;
    // Columns of 64 bits, a stride, a dilation.
    check(textOf({{1, 3, 9, 18}, {3, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 3}, type), tolerance);
    check(textOf({{1, 2, 9, 32}, {2, 1, 3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, 2}, type), tolerance);
    check(textOf({{1, 2, 9, 40}, {2, 1, 3, 3}, {1, 1}, {2, 3}, {2, 3, 2, 3}, 2}, type), tolerance);
  }
}

// What does not fit shared memory is read where it lies.
TEST_P(BlockTeams, ConvolveWideWindows) {
  if (GetParam().threads != 128)
    GTEST_SKIP() << "a block of 128 threads";
  check(textOf({{1, 2, 3, 5000}, {2, 1, 3, 3}, {1, 1}, {1, 2400}, {1, 2400, 1, 2400}, 2}, "f64"), 1e-12);
  EXPECT_EQ(count("cp.async").first, 0);
  EXPECT_EQ(count("ld.shared").first, 0);
}

// As in the gradient of a depthwise convolution's weight: few places, windows of a whole image.
TEST_P(BlockTeams, ConvolveLongWindows) {
  if (GetParam().threads != 128)
    GTEST_SKIP() << "a block of 128 threads";
  expectsLongWindows = true;
  for (auto [type, tolerance] : {std::pair("f32", 4e-5), std::pair("bf16", 1e-1), std::pair("f64", 1e-12)}) {
    check(textOf({{1, 6, 27, 30}, {3, 2, 27, 30}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 3}, type), tolerance);
    check(textOf({{2, 4, 40, 21}, {4, 2, 20, 13}, {1, 1}, {2, 1}, {1, 0, 0, 2}, 2, true}, type), tolerance);
    check(textOf({{1, 2, 600}, {2, 1, 598}, {1}, {1}, {1, 1}, 2}, type), tolerance);
  }
}

TEST_P(BlockTeams, WalkTilesAlone) {
  check("(%0: tensor<5x40xf32>) | colossal.cumulate %0 {axis = 1 : i64, exclusive = true, reverse = true} : "
        "tensor<5x40xf32>");
  check("(%0: tensor<5x40xf32>) | colossal.topk %0 {axis = 0 : i64, largest = true} : tensor<5x40xf32> -> "
        "tensor<3x40xf32>, tensor<3x40xi64>");
}

INSTANTIATE_TEST_SUITE_P(Kernels, BlockTeams,
                         testing::Values(Setting{"warp", "sm_80", 32, 1},
                                         Setting{"fourWarps", "sm_90", 128, 2},
                                         Setting{"eightWarps", "sm_100", 256, 3}),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
