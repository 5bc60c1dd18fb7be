//===- LyingOp.cpp - an op with a deliberately wrong rule -------------------===//
#include "LyingOp.h"

#include "dialects/Dist/FactorRule.h"

using namespace mlir;
using namespace colossal::dist;
using namespace colossal::test;

namespace {

/// `test.lying`: operands and results of the op in its region.
class LyingOp : public Op<LyingOp, OpTrait::OneRegion, OpTrait::VariadicOperands, OpTrait::VariadicResults,
                          OpTrait::SingleBlock, OpTrait::NoTerminator, ShardingRuleOpInterface::Trait> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LyingOp)
  using Op::Op;
  static StringRef getOperationName() { return "test.lying"; }
  static ArrayRef<StringRef> getAttributeNames() { return {}; }

  Lie getLie() { return static_cast<Lie>((*this)->getAttrOfType<IntegerAttr>("test.lie").getInt()); }
  ShardingRuleOpInterface getTruth() { return cast<ShardingRuleOpInterface>(&getRegion().front().front()); }

  FactorRule getFactorRule();
  FailureOr<SmallVector<Value>> buildLocal(OpBuilder &builder, LocalContext &context);
};

class TestDialect : public Dialect {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestDialect)
  explicit TestDialect(MLIRContext *context)
      : Dialect(getDialectNamespace(), context, TypeID::get<TestDialect>()) {
    addOperations<LyingOp>();
  }
  static StringRef getDialectNamespace() { return "test"; }
};

/// Hides where shards begin.
class WithoutOffsets : public LocalContext {
public:
  explicit WithoutOffsets(LocalContext &real) : real(real) {}
  const FactorRule &rule() const override { return real.rule(); }
  MeshAttr mesh() const override { return real.mesh(); }
  Value operand(unsigned i) override { return real.operand(i); }
  int64_t localSize(unsigned factor) const override { return real.localSize(factor); }
  SmallVector<int64_t> localResultShape(unsigned i) const override { return real.localResultShape(i); }
  ShardingAttr resultSharding(unsigned i) const override { return real.resultSharding(i); }
  Value getOffset(OpBuilder &, unsigned) override { return {}; }
  Value getValidCount(OpBuilder &builder, unsigned factor) override {
    return real.getValidCount(builder, factor);
  }
  SmallVector<unsigned> axes(unsigned factor) const override { return real.axes(factor); }
  Value reduceStatistic(OpBuilder &builder, Value part, ReductionKind reduction) override {
    return real.reduceStatistic(builder, part, reduction);
  }
  Value gatherStatistic(OpBuilder &builder, Value part, int64_t dim) override {
    return real.gatherStatistic(builder, part, dim);
  }
  Value fillStagedPadding(OpBuilder &builder, Value value, unsigned i, PaddingFill fill) override {
    return real.fillStagedPadding(builder, value, i, fill);
  }

private:
  LocalContext &real;
};

} // namespace

FactorRule LyingOp::getFactorRule() {
  FactorRule rule = getTruth().getFactorRule();
  switch (getLie()) {
  case Lie::None:
  case Lie::NoOffset: break;
  case Lie::AllWhole:
    for (Factor &factor : rule.factors)
      factor.kind = FactorKind::Whole;
    break;
  case Lie::WholeIsParallel:
    for (Factor &factor : rule.factors)
      if (factor.kind == FactorKind::Whole)
        factor.kind = FactorKind::Parallel;
    break;
  case Lie::OneStage:
    for (Factor &factor : rule.factors)
      factor.staged = false;
    break;
  case Lie::WrongReduction:
    for (Factor &factor : rule.factors)
      if (factor.kind == FactorKind::Reduction)
        factor.reduction = factor.reduction == ReductionKind::Sum ? ReductionKind::Max : ReductionKind::Sum;
    break;
  case Lie::NoPadding:
    for (Factor &factor : rule.factors)
      factor.padding = PaddingFill::Any;
    break;
  case Lie::ExchangedFactors:
    // Splitting one dimension then splits the operand's other one.
    for (size_t d = 0; d + 1 < rule.operands[0].size(); ++d)
      std::swap(rule.operands[0][d], rule.operands[0][d + 1]);
    break;
  }
  return rule;
}

FailureOr<SmallVector<Value>> LyingOp::buildLocal(OpBuilder &builder, LocalContext &context) {
  if (getLie() != Lie::NoOffset)
    return getTruth().buildLocal(builder, context);
  WithoutOffsets blind(context);
  return getTruth().buildLocal(builder, blind);
}

void colossal::test::replaceByLyingOp(Operation *op, Lie lie) {
  MLIRContext *context = op->getContext();
  context->getOrLoadDialect<TestDialect>();
  OpBuilder builder(op);
  OperationState state(
      op->getLoc(), LyingOp::getOperationName(), op->getOperands(), op->getResultTypes(),
      {builder.getNamedAttr("test.lie", builder.getI64IntegerAttr(static_cast<int64_t>(lie)))});
  Region *region = state.addRegion();
  Block *block = new Block;
  region->push_back(block);
  Operation *liar = builder.create(state);
  op->replaceAllUsesWith(liar->getResults());
  Block &inside = liar->getRegion(0).front();
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    inside.addArgument(operand.getType(), op->getLoc());
  op->moveBefore(&inside, inside.end());
  op->setOperands(inside.getArguments());
}
