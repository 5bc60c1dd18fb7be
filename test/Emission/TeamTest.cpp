// The generators on teams that no device of ours has: several threads to a tile, which share scratch and
// combine what they have of a row; indices of 32 bits; no masks. Each result is the folder's.
#include "../Codegen/LoadedKernels.h"
#include "TeamCase.h"
#include "colossal/Codegen/CPU/SingleThread.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <condition_variable>
#include <gtest/gtest.h>
#include <mutex>
#include <thread>

using namespace mlir;
using namespace colossal;
using namespace colossal::test;

namespace {

/// All of `members` threads come to it, then all go on.
class Barrier {
public:
  explicit Barrier(int64_t members) : members(members) {}
  static void meet(void *barrier) { static_cast<Barrier *>(barrier)->wait(); }

private:
  void wait() {
    std::unique_lock<std::mutex> lock(mutex);
    int64_t turn = turns;
    if (++waiting == members) {
      waiting = 0;
      ++turns;
      changed.notify_all();
    } else {
      changed.wait(lock, [&] { return turns != turn; });
    }
  }
  int64_t members, waiting = 0, turns = 0;
  std::mutex mutex;
  std::condition_variable changed;
};

/// The CPU's frame with one more buffer, which holds the address of Barrier::meet, that of a barrier, and a
/// word for each member; and with one more parameter, the member.
class TeamFrame final : public kernel::Frame {
public:
  TeamFrame(MLIRContext &context, SmallVector<kernel::BufferSpec> buffers, unsigned params,
            int64_t scratchBytes, int64_t members)
      : words(buffers.size()), own(params), members(members),
        inner(context, withWords(std::move(buffers), context, members), params + 1, scratchBytes) {}

  OpBuilder &builder() override { return inner.builder(); }
  Location loc() const override { return inner.loc(); }
  Value pointer(unsigned buffer) const override { return inner.pointer(buffer); }
  Value scratch() const override { return inner.scratch(); }
  Value param(unsigned index) const override { return inner.param(index); }
  void forEachTile(llvm::function_ref<void(Value)> body) override { inner.forEachTile(body); }
  Value member() override { return inner.param(own); }

  Value combine(Value partial, llvm::function_ref<Value(Value, Value)> merge) override {
    OpBuilder &b = builder();
    Type i64 = b.getI64Type();
    auto slot = [&](LLVM::GEPArg index) {
      return LLVM::GEPOp::create(b, loc(), inner.pointer(words).getType(), i64, inner.pointer(words),
                                 ArrayRef<LLVM::GEPArg>{index})
          .getResult();
    };
    auto meet = [&] {
      Type pointer = inner.pointer(words).getType();
      Value wait = LLVM::LoadOp::create(b, loc(), pointer, slot(0));
      Value barrier = LLVM::LoadOp::create(b, loc(), pointer, slot(1));
      auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), {pointer});
      LLVM::CallOp::create(b, loc(), type, ValueRange{wait, barrier});
    };
    Value mine = LLVM::GEPOp::create(b, loc(), inner.pointer(words).getType(), i64, slot(2),
                                     ArrayRef<LLVM::GEPArg>{member()});
    LLVM::StoreOp::create(b, loc(), partial, mine);
    meet();
    Value total;
    for (int32_t i = 0; i < members; ++i) {
      Value next = LLVM::LoadOp::create(b, loc(), partial.getType(), slot(2 + i));
      total = total ? merge(total, next) : next;
    }
    meet();
    return total;
  }
  OwningOpRef<ModuleOp> take() override { return inner.take(); }

private:
  static SmallVector<kernel::BufferSpec> withWords(SmallVector<kernel::BufferSpec> buffers,
                                                   MLIRContext &context, int64_t members) {
    buffers.push_back({IntegerType::get(&context, 64), {2 + members}, {}, /*noalias=*/false});
    return buffers;
  }
  unsigned words, own;
  int64_t members;
  cpu::KernelFunction inner;
};

class TestTeam final : public kernel::Team {
public:
  TestTeam(const cpu::Processor &processor, int64_t members, unsigned width, Tail tail, unsigned bits)
      : processor(processor), count(members), width(width), rest(tail), bits(bits) {
    if (members > 1)
      single = std::make_unique<TestTeam>(processor, 1, width, tail, bits);
  }
  const kernel::Instructions &instructions() const override { return processor; }
  int64_t members() const override { return count; }
  Tail tail() const override { return rest; }
  unsigned lanes(int64_t) const override { return width; }
  unsigned indexBits(int64_t) const override { return bits; }
  int64_t tileElements() const override { return 64; }
  int64_t scratchLimit() const override { return 4096; }
  const Team &alone() const override { return single ? *single : *this; }
  std::unique_ptr<kernel::Frame> open(MLIRContext &context, ArrayRef<kernel::BufferSpec> buffers,
                                      unsigned params, int64_t scratchBytes) const override {
    if (count == 1)
      return std::make_unique<cpu::KernelFunction>(context, buffers, params, scratchBytes);
    return std::make_unique<TeamFrame>(context, SmallVector<kernel::BufferSpec>(buffers), params,
                                       scratchBytes, count);
  }

private:
  const cpu::Processor &processor;
  int64_t count;
  unsigned width;
  Tail rest;
  unsigned bits;
  std::unique_ptr<TestTeam> single;
};

struct Shape {
  const char *name;
  int64_t members;
  unsigned width;
  kernel::Team::Tail tail;
  unsigned bits;
};

class Teams : public testing::TestWithParam<Shape> {
protected:
  Teams() { context.loadDialect<ColossalDialect, func::FuncDialect>(); }

  /// Random operands of the one op of a function `(arguments) | op`, its kernel run by all members, and what
  /// the folder says.
  void check(StringRef text) {
    SCOPED_TRACE(text.str());
    const Shape &shape = GetParam();
    TestTeam team(processor, shape.members, shape.width, shape.tail, shape.bits);
    TeamCase tried(context, text);
    ASSERT_TRUE(tried.op);
    llvm::Expected<kernel::GeneratedKernel> generated = tried.generate(team);
    ASSERT_TRUE(bool(generated)) << llvm::toString(generated.takeError());
    cpu::KernelCompiler compiler(processor, 0);
    std::string symbol = compiler.add(*generated->module, "team");
    llvm::Expected<std::string> image = compiler.finish();
    ASSERT_TRUE(bool(image)) << llvm::toString(image.takeError());
    cpu::test::LoadedKernels kernels(*image);
    auto entry = kernels.get(symbol);

    const int64_t members = tried.walksTiles() ? 1 : shape.members;
    Barrier barrier(members);
    std::vector<int64_t> words(2 + members);
    words[0] = reinterpret_cast<int64_t>(&Barrier::meet);
    words[1] = reinterpret_cast<int64_t>(&barrier);
    std::vector<char> scratch(generated->scratchBytes + 64);
    std::vector<void *> buffers;
    for (std::vector<char> &bytes : tried.storage)
      buffers.push_back(bytes.data());
    if (members > 1)
      buffers.push_back(words.data());
    buffers.push_back(reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64));
    std::vector<std::thread> threads;
    for (int64_t member = 0; member < members; ++member)
      threads.emplace_back([&, member] { entry(buffers.data(), &member, 0, generated->tiles); });
    for (std::thread &thread : threads)
      thread.join();
    tried.expectFolded();
  }

  MLIRContext context;
  cpu::Processor processor = cpu::test::testTarget();
};

TEST_P(Teams, ComputeElements) {
  check("(%0: tensor<3x70xf32>, %1: tensor<70xf32>) | colossal.elementwise add(%0, %1) : (tensor<3x70xf32>, "
        "tensor<70xf32>) -> tensor<3x70xf32>");
  check("(%0: tensor<70xf32>) | colossal.elementwise gelu(%0) : (tensor<70xf32>) -> tensor<70xf32>");
  check("(%0: tensor<1xf32>) | colossal.elementwise exp(%0) : (tensor<1xf32>) -> tensor<1xf32>");
  check("(%0: tensor<33x35xf32>) | colossal.transpose %0 [1, 0] : tensor<33x35xf32> -> tensor<35x33xf32>");
  check("(%0: tensor<6x40xf32>) | colossal.reshape %0 : tensor<6x40xf32> -> tensor<4x60xf32>");
  check("(%0: tensor<9x40xf32>, %1: tensor<5xi64>) | colossal.gather %0[%1] {axis = 0 : i64} : "
        "tensor<9x40xf32>, tensor<5xi64> -> tensor<5x40xf32>");
  check("(%0: tensor<4x9xf32>, %1: tensor<40xi32>) | colossal.gather %0[%1] {axis = 1 : i64} : "
        "tensor<4x9xf32>, tensor<40xi32> -> tensor<4x40xf32>");
  check("() | colossal.iota {axis = 0 : i64, start = 1.0 : f64, step = 0.5 : f64} : tensor<70xf32>");
  check("() | colossal.random uniform {a = 0.0 : f64, b = 1.0 : f64, seed = 5 : i64, extents = array<i64: 3, "
        "40>} : "
        "tensor<3x40xf32>");
  check("(%0: tensor<3x40xf32>, %1: tensor<2xi64>) | colossal.dropout %0 stream %1 : tensor<2xi64> {ratio = "
        "0.4 : f64, "
        "seed = 5 : i64, extents = array<i64: 3, 40>} : tensor<3x40xf32>");
  check("(%0: tensor<3x40xf32>) | colossal.pad %0 low [1, 3] : tensor<3x40xf32> -> tensor<6x50xf32>");
}

TEST_P(Teams, CombineRows) {
  check("(%0: tensor<5x70xf32>) | colossal.reduce sum %0 over [1] : tensor<5x70xf32> -> tensor<5xf32>");
  check("(%0: tensor<5x700xf32>) | colossal.reduce max %0 over [1] : tensor<5x700xf32> -> tensor<5xf32>");
  check("(%0: tensor<5x3xf32>) | colossal.reduce prod %0 over [1] : tensor<5x3xf32> -> tensor<5xf32>");
  check("(%0: tensor<5x70xi32>) | colossal.reduce sum %0 over [0, 1] : tensor<5x70xi32> -> tensor<i32>");
  check("(%0: tensor<5x70xf32>) | colossal.softmax %0 {axis = 1 : i64} : tensor<5x70xf32>");
  check("(%0: tensor<2x301xf32>) | colossal.softmax %0 {axis = 1 : i64, log = true} : tensor<2x301xf32>");
  check("(%0: tensor<5x70xf32>, %1: tensor<70xf32>) | colossal.normalize layer(%0, scale %1) {axis = 1 : "
        "i64, epsilon = 1.0e-5 : f64} : (tensor<5x70xf32>, tensor<70xf32>) -> tensor<5x70xf32>");
}

TEST_P(Teams, ComputeRowsSideBySide) {
  check("(%0: tensor<5x70xf32>) | colossal.reduce max %0 over [0] : tensor<5x70xf32> -> tensor<70xf32>");
  check("(%0: tensor<5x70xf32>) | colossal.softmax %0 {axis = 0 : i64} : tensor<5x70xf32>");
}

TEST_P(Teams, WalkTilesAlone) {
  check("(%0: tensor<5x40xf32>) | colossal.cumulate %0 {axis = 1 : i64, exclusive = true, reverse = true} : "
        "tensor<5x40xf32>");
  check("(%0: tensor<5x40xf32>) | colossal.topk %0 {axis = 0 : i64, largest = true} : tensor<5x40xf32> -> "
        "tensor<3x40xf32>, tensor<3x40xi64>");
}

using Tail = kernel::Team::Tail;
INSTANTIATE_TEST_SUITE_P(Kernels, Teams,
                         testing::Values(Shape{"narrowIndices", 1, 8, Tail::Masked, 32},
                                         Shape{"withoutMasks", 1, 4, Tail::Scalar, 32},
                                         Shape{"scalars", 1, 1, Tail::Scalar, 64},
                                         Shape{"fourThreads", 4, 4, Tail::Scalar, 32},
                                         Shape{"threeThreadsWithMasks", 3, 4, Tail::Masked, 64},
                                         Shape{"eightScalarThreads", 8, 1, Tail::Scalar, 32}),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
