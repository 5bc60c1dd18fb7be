// Frames of the GPUs' kernels, and how a block's threads combine what they have.
#include "BlockTeam.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::nvidia;

namespace {

constexpr int64_t warpThreads = 32;
constexpr int64_t scratchAlignment = 128;
constexpr llvm::StringLiteral sharedName = "partials";
constexpr unsigned sharedSpace = 3;

class BlockFrame final : public kernel::Frame {
public:
  BlockFrame(MLIRContext &context, ArrayRef<kernel::BufferSpec> buffers, unsigned params,
             int64_t scratchBytes, int64_t threads)
      : b(&context), location(UnknownLoc::get(&context)), buffers(buffers.size()), params(params),
        scratchBytes(scratchBytes), threads(threads) {
    loadKernelDialects(context);
    module = ModuleOp::create(location);
    module->getOperation()->setAttr(threadsName, b.getI64IntegerAttr(threads));
    b.setInsertionPointToEnd(module->getBody());
    SmallVector<Type> types(buffers.size() + (scratchBytes != 0), LLVM::LLVMPointerType::get(&context));
    types.append(params + 1, b.getI64Type());
    function = func::FuncOp::create(b, location, entryName, b.getFunctionType(types, {}));
    for (auto [i, buffer] : llvm::enumerate(buffers))
      if (buffer.noalias)
        function.setArgAttr(i, "llvm.noalias", b.getUnitAttr());
    if (scratchBytes)
      function.setArgAttr(buffers.size(), "llvm.noalias", b.getUnitAttr());
    b.setInsertionPointToStart(function.addEntryBlock());
    auto wide = [&](Value narrow) {
      return arith::ExtUIOp::create(b, location, b.getI64Type(), narrow).getResult();
    };
    Type i32 = b.getI32Type();
    thread = wide(NVVM::ThreadIdXOp::create(b, location, i32));
    block = wide(NVVM::BlockIdXOp::create(b, location, i32));
    blocks = wide(NVVM::GridDimXOp::create(b, location, i32));
    if (scratchBytes) {
      Value stride = constant(llvm::alignTo(scratchBytes, scratchAlignment));
      Value offset = arith::MulIOp::create(b, location, block, stride);
      own = LLVM::GEPOp::create(b, location, types[0], b.getI8Type(), function.getArgument(buffers.size()),
                                ArrayRef<LLVM::GEPArg>{offset});
    }
    auto end = func::ReturnOp::create(b, location);
    b.setInsertionPoint(end);
  }

  OpBuilder &builder() override { return b; }
  Location loc() const override { return location; }
  Value pointer(unsigned buffer) const override {
    return const_cast<func::FuncOp &>(function).getArgument(buffer);
  }
  Value scratch() const override { return own; }
  Value param(unsigned index) const override { return pointer(buffers + (scratchBytes != 0) + index); }

  void forEachTile(llvm::function_ref<void(Value)> body) override {
    auto loop = scf::ForOp::create(b, location, block, param(params), blocks);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    body(loop.getInductionVar());
  }

  Value member() override { return thread; }

  /// Within warps by shuffles, then what the warps have through shared memory: the same order for all, and so
  /// the same bits.
  Value combine(Value partial, llvm::function_ref<Value(Value, Value)> merge) override {
    Type type = partial.getType();
    for (int64_t distance = 1; distance < warpThreads; distance *= 2)
      partial = merge(partial, fromBits(exchange(toBits(partial), distance), type));
    if (threads == warpThreads)
      return partial;
    Value shared = sharedWords();
    Value lane = arith::AndIOp::create(b, location, thread, constant(warpThreads - 1));
    Value warp = arith::ShRUIOp::create(b, location, thread, constant(llvm::Log2_64(warpThreads)));
    Value bits = toBits(partial);
    Value first = arith::CmpIOp::create(b, location, arith::CmpIPredicate::eq, lane, constant(0));
    auto branch = scf::IfOp::create(b, location, first);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(&branch.getThenRegion().front());
      LLVM::StoreOp::create(b, location, bits, wordAt(shared, warp));
    }
    NVVM::Barrier0Op::create(b, location);
    Value total;
    for (int64_t other = 0; other < threads / warpThreads; ++other) {
      Value word = LLVM::LoadOp::create(b, location, bits.getType(), wordAt(shared, constant(other)));
      Value value = fromBits(word, type);
      total = total ? merge(total, value) : value;
    }
    // The words are written again only when all have read them.
    NVVM::Barrier0Op::create(b, location);
    return total;
  }

  OwningOpRef<ModuleOp> take() override { return std::move(module); }

private:
  Value constant(int64_t value) { return arith::ConstantOp::create(b, location, b.getI64IntegerAttr(value)); }
  /// Any scalar as an integer of 32 or 64 bits, and back.
  Value toBits(Value value) {
    const unsigned width = value.getType().getIntOrFloatBitWidth();
    Type integer = b.getIntegerType(width);
    if (value.getType() != integer)
      value = arith::BitcastOp::create(b, location, integer, value);
    return width < 32 ? arith::ExtUIOp::create(b, location, b.getI32Type(), value).getResult() : value;
  }
  Value fromBits(Value bits, Type type) {
    Type integer = b.getIntegerType(type.getIntOrFloatBitWidth());
    if (bits.getType() != integer)
      bits = arith::TruncIOp::create(b, location, integer, bits);
    return type == integer ? bits : arith::BitcastOp::create(b, location, type, bits).getResult();
  }
  /// What the thread of the warp has whose number differs in the bit `distance`.
  Value exchange(Value bits, int64_t distance) {
    Type i32 = b.getI32Type();
    auto word = [&](Value value) -> Value {
      auto number = [&](int32_t n) {
        return arith::ConstantOp::create(b, location, b.getI32IntegerAttr(n)).getResult();
      };
      return NVVM::ShflOp::create(b, location, i32, number(-1), value, number(int32_t(distance)),
                                  number(warpThreads - 1), NVVM::ShflKind::bfly, UnitAttr());
    };
    if (bits.getType() == i32)
      return word(bits);
    Value half = constant(32), low = word(arith::TruncIOp::create(b, location, i32, bits));
    Value high = word(arith::TruncIOp::create(b, location, i32,
                                              arith::ShRUIOp::create(b, location, bits, half).getResult()));
    Type i64 = b.getI64Type();
    Value upper =
        arith::ShLIOp::create(b, location, arith::ExtUIOp::create(b, location, i64, high).getResult(), half);
    return arith::OrIOp::create(b, location, upper,
                                arith::ExtUIOp::create(b, location, i64, low).getResult());
  }
  /// A word for each warp, in shared memory.
  Value sharedWords() {
    Type words = LLVM::LLVMArrayType::get(b.getI64Type(), threads / warpThreads);
    auto global = module->lookupSymbol<LLVM::GlobalOp>(sharedName);
    if (!global) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(module->getBody());
      global = LLVM::GlobalOp::create(b, location, words, /*isConstant=*/false, LLVM::Linkage::Internal,
                                      sharedName, Attribute(), /*alignment=*/8, sharedSpace);
    }
    return LLVM::AddressOfOp::create(b, location, global);
  }
  Value wordAt(Value shared, Value index) {
    return LLVM::GEPOp::create(b, location, shared.getType(), b.getI64Type(), shared,
                               ArrayRef<LLVM::GEPArg>{index});
  }

  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  OpBuilder b;
  Location location;
  unsigned buffers, params;
  int64_t scratchBytes, threads;
  Value thread, block, blocks, own;
};

} // namespace

void nvidia::loadKernelDialects(MLIRContext &context) {
  context.loadDialect<arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect, LLVM::LLVMDialect,
                      math::MathDialect, NVVM::NVVMDialect, scf::SCFDialect, ub::UBDialect,
                      vector::VectorDialect>();
}

BlockTeam::BlockTeam(int64_t threads) : threads(threads) {
  if (threads > 1)
    single = std::make_unique<BlockTeam>(1);
}

std::unique_ptr<kernel::Frame> BlockTeam::open(MLIRContext &context, ArrayRef<kernel::BufferSpec> buffers,
                                               unsigned params, int64_t scratchBytes) const {
  return std::make_unique<BlockFrame>(context, buffers, params, scratchBytes, threads);
}
