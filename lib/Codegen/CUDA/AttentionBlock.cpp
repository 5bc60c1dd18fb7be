// Tiles of queries, the keys that they see, and what becomes of a product before the softmax.
#include "AttentionBlock.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::nvidia;
using kernel::BufferSpec;

namespace {
constexpr unsigned sharedSpace = 3;
} // namespace

bool nvidia::readsMask(const AttentionSpec &spec) {
  Type type = spec.maskType;
  return !type || type.isInteger(1) || type.isF32() || type.isF16() || type.isBF16();
}

AttentionBlock::AttentionBlock(MLIRContext &context, const BlockTeam &team, const AttentionSpec &spec,
                               int64_t rows)
    : spec(spec), rows(rows), buffers(describe()),
      frame(team.open(context, buffers, spec.hasOffset + spec.hasCount, 0)), b(frame->builder()),
      loc(frame->loc()), memory(b, loc, team.instructions(), team.indexBits(kernel::largestOffset(buffers))),
      math(b, loc, team.instructions()), f32(b.getF32Type()) {}

llvm::SmallVector<BufferSpec> AttentionBlock::describe() const {
  llvm::SmallVector<BufferSpec> specs;
  auto add = [&](Type type, ArrayRef<int64_t> shape, ArrayRef<int64_t> strides) {
    specs.push_back(
        {kernel::storageType(type), SmallVector<int64_t>(shape), SmallVector<int64_t>(strides), true});
  };
  add(spec.type, {spec.batch, spec.queryHeads, spec.queries, spec.width}, spec.q);
  add(spec.type, {spec.batch, spec.keyHeads, spec.keys, spec.width}, spec.k);
  add(spec.type, {spec.batch, spec.keyHeads, spec.keys, spec.valueWidth}, spec.v);
  if (spec.maskType)
    add(spec.maskType, {spec.batch, spec.queryHeads, spec.queries, spec.keys}, spec.mask);
  add(spec.type, {spec.batch, spec.queryHeads, spec.queries, spec.valueWidth}, spec.out);
  if (spec.hasStatistics)
    add(Float32Type::get(spec.type.getContext()), {spec.batch, spec.queryHeads, spec.queries, 1},
        spec.statistics);
  return specs;
}

kernel::GeneratedKernel AttentionBlock::emit(llvm::function_ref<void()> tile) {
  thread = toIndex(frame->member());
  frame->forEachTile([&](Value number) {
    openTile(toIndex(number));
    tile();
  });
  kernel::GeneratedKernel result;
  result.tiles = spec.batch * spec.queryHeads * llvm::divideCeil(spec.queries, rows);
  result.buffers = static_cast<unsigned>(buffers.size());
  result.params = spec.hasOffset + spec.hasCount;
  result.module = frame->take();
  return result;
}

void AttentionBlock::openTile(Value number) {
  SmallVector<Value> at = memory.delinearize(
      number, {spec.batch, spec.queryHeads, static_cast<int64_t>(llvm::divideCeil(spec.queries, rows))});
  Value keyHead = memory.divRem(at[1], spec.queryHeads / spec.keyHeads).first;
  auto base = [&](const std::array<int64_t, 4> &strides, Value head) {
    return memory.add(memory.mulConstant(at[0], strides[0]), memory.mulConstant(head, strides[1]));
  };
  queryBase = base(spec.q, at[1]), keyBase = base(spec.k, keyHead), valueBase = base(spec.v, keyHead);
  maskBase = base(spec.mask, at[1]), outBase = base(spec.out, at[1]),
  statisticBase = base(spec.statistics, at[1]);
  firstQuery = memory.mulConstant(at[2], rows);
  end = endOf(memory.addConstant(firstQuery, rows - 1));
}

Value AttentionBlock::endOf(Value query) {
  Value end = memory.constant(spec.keys), none = memory.constant(0);
  auto atMost = [&](Value count) { end = memory.min(end, select(below(count, none), none, count)); };
  if (spec.hasCount)
    atMost(toIndex(frame->param(spec.hasOffset)));
  if (spec.causal) {
    Value last = memory.addConstant(query, 1 + spec.causalOffset);
    if (spec.hasOffset)
      last = memory.add(last, toIndex(frame->param(0)));
    atMost(last);
  }
  return end;
}

Value AttentionBlock::scoreOf(Value product, Value query, Value key, double unit) {
  Value score = multiply(product, number(spec.softcap != 0 ? spec.scale : spec.scale * unit));
  if (spec.softcap != 0) {
    Value bent = math.tanh(arith::DivFOp::create(b, loc, score, number(spec.softcap)));
    score = multiply(bent, number(spec.softcap * unit));
  }
  if (spec.maskType) {
    Type stored = kernel::storageType(spec.maskType);
    Value row = memory.minConstant(query, spec.queries - 1), column = memory.minConstant(key, spec.keys - 1);
    Value mask = load(Mask, stored,
                      memory.add(maskBase, memory.linearize({row, column}, {spec.mask[2], spec.mask[3]})));
    if (spec.maskType.isInteger(1)) {
      Value isSet = compare(arith::CmpIPredicate::ne, mask, memory.constantLike(stored, 0));
      score = select(isSet, score, lowest());
    } else {
      mask = memory.convert(mask, f32);
      score = unit == 1 ? add(score, mask) : math.fma(mask, number(unit), score);
    }
  }
  Value visible = below(key, end);
  if (spec.causal) {
    Value last = memory.addConstant(query, spec.causalOffset);
    if (spec.hasOffset)
      last = memory.add(last, toIndex(frame->param(0)));
    visible = both(visible, compare(arith::CmpIPredicate::sle, key, last));
  }
  return select(visible, score, lowest());
}

void AttentionBlock::writeStatistics(Value query, Value statistic) {
  Value offset = memory.add(statisticBase, memory.mulConstant(query, spec.statistics[2]));
  memory.store(statistic, memory.address(frame->pointer(statisticsBuffer()), f32, offset));
}

Value AttentionBlock::sharedArray(StringRef name, Type element, int64_t elements) {
  auto module = b.getInsertionBlock()->getParentOp()->getParentOfType<ModuleOp>();
  LLVM::GlobalOp global;
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    global =
        LLVM::GlobalOp::create(b, loc, LLVM::LLVMArrayType::get(element, elements), /*isConstant=*/false,
                               LLVM::Linkage::Internal, name, Attribute(), /*alignment=*/16, sharedSpace);
  }
  return LLVM::AddressOfOp::create(b, loc, global);
}

Value AttentionBlock::toIndex(Value word) {
  return word.getType() == memory.indexType()
             ? word
             : arith::TruncIOp::create(b, loc, memory.indexType(), word).getResult();
}

void AttentionBlock::barrier() {
  NVVM::Barrier0Op::create(b, loc);
}

llvm::SmallVector<Value> AttentionBlock::loop(Value begin, Value end, int64_t step, ValueRange carried,
                                              Body body) {
  auto op = scf::ForOp::create(b, loc, begin, end, memory.constant(step), carried,
                               [&](OpBuilder &, Location, Value at, ValueRange state) {
                                 scf::YieldOp::create(b, loc, body(at, state));
                               });
  return op.getResults();
}

llvm::SmallVector<Value> AttentionBlock::guarded(Value condition, ValueRange no,
                                                 llvm::function_ref<SmallVector<Value>()> yes) {
  auto branch = scf::IfOp::create(b, loc, TypeRange(no.getTypes()), condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&branch.getThenRegion().front());
  scf::YieldOp::create(b, loc, yes());
  b.setInsertionPointToStart(&branch.getElseRegion().front());
  scf::YieldOp::create(b, loc, no);
  return branch.getResults();
}

void AttentionBlock::when(Value condition, llvm::function_ref<void()> body) {
  auto branch = scf::IfOp::create(b, loc, condition);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&branch.getThenRegion().front());
  body();
}

Value AttentionBlock::ofLanes(Value value, int64_t lanes, llvm::function_ref<Value(Value, Value)> merge) {
  Type i32 = b.getI32Type();
  auto number = [&](int64_t n) {
    return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(int32_t(n))).getResult();
  };
  for (int64_t distance = 1; distance < lanes; distance *= 2) {
    Value bits = arith::BitcastOp::create(b, loc, i32, value);
    Value other = NVVM::ShflOp::create(b, loc, i32, number(-1), bits, number(distance), number(31),
                                       NVVM::ShflKind::bfly, UnitAttr());
    value = merge(value, arith::BitcastOp::create(b, loc, value.getType(), other));
  }
  return value;
}
