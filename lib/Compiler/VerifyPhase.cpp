//===- VerifyPhase.cpp - what has no place in a module after a phase --------===//
//
// Each phase has a rule: a function that says, of one op, what is wrong with its standing there. All that is
// wrong is listed, since one mistake of a phase shows in many places and the first is seldom the plainest.
//
//===----------------------------------------------------------------------===//
#include "colossal/Compiler/Passes.h"

#include "colossal/Outline/Outline.h"
#include "colossal/Partition/Partition.h"
#include "dialects/Colossal/Colossal.h"
#include "dialects/Dist/Stages.h"
#include "dialects/Plan/PlanDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace colossal {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_VERIFYPHASE
#define GEN_PASS_REGISTRATION
#include "colossal/Compiler/Passes.h.inc"

namespace {

/// What is wrong with `op`; empty if nothing. `symbols` keeps the tables of one walk.
using Rule = std::string (*)(Operation *op, SymbolTableCollection &symbols);

/// More than these and nobody reads them.
constexpr unsigned kMostListed = 20;

std::string checkTypes(Operation *op) {
  auto check = [](Type type) {
    auto tensor = dyn_cast<TensorType>(type);
    return !tensor || (isa<RankedTensorType>(tensor) && tensor.hasStaticShape());
  };
  if (!llvm::all_of(op->getOperandTypes(), check) || !llvm::all_of(op->getResultTypes(), check))
    return "has a tensor whose shape is not known";
  return "";
}

/// Ops of the model over whole tensors, in functions that nobody calls.
std::string checkGlobal(Operation *op, bool calls) {
  if (isa<ModuleOp, func::ReturnOp>(op))
    return "";
  if (auto function = dyn_cast<func::FuncOp>(op))
    return function.isPrivate() && !calls ? "is private: bodies of blocks should have been put back" : "";
  if (isa<func::CallOp>(op))
    return calls ? "" : "is a call: bodies of blocks should have been put back";
  if (!isa<ColossalDialect>(op->getDialect()))
    return "is no op of the colossal dialect";
  return checkTypes(op);
}

std::string checkImported(Operation *op, SymbolTableCollection &) {
  if (op->getDiscardableAttr(dist::kAssignmentAttrName))
    return "has an assignment before any search";
  return checkGlobal(op, false);
}

std::string checkOutlined(Operation *op, SymbolTableCollection &) {
  if (op->getDiscardableAttr(dist::kAssignmentAttrName))
    return "has an assignment before any search";
  return checkGlobal(op, true);
}

std::string checkStepped(Operation *op, SymbolTableCollection &) {
  // Where there is a loop over microbatches, assignments say what it goes over.
  if (op->getDiscardableAttr(dist::kAssignmentAttrName) &&
      dist::getMesh(op->getParentOfType<ModuleOp>()).getLoopAxis() < 0)
    return "has an assignment before any search";
  return checkGlobal(op, false);
}

std::string checkSearched(Operation *op, SymbolTableCollection &) {
  if (isa<ModuleOp>(op) && !op->getAttrOfType<dist::MeshAttr>(dist::kMeshAttrName))
    return "has no mesh";
  return checkGlobal(op, false);
}

/// Index values made of coordinates, in the ops that a plan's expressions have.
std::string checkIndexArithmetic(Operation *op) {
  if (!isa<arith::ConstantOp, arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::FloorDivSIOp,
           arith::RemSIOp, arith::MinSIOp, arith::MaxSIOp>(op))
    return "is not index arithmetic that a plan can say";
  return llvm::all_of(op->getResultTypes(), [](Type type) { return type.isIndex(); })
             ? ""
             : "computes something else than an index";
}

/// Ops over one rank's shards, and what moves data between ranks.
std::string checkPartitioned(Operation *op, SymbolTableCollection &) {
  if (op->getDiscardableAttr(dist::kAssignmentAttrName))
    return "has an assignment, which partitioning should have used up";
  if (isa<ModuleOp>(op))
    return op->getAttrOfType<dist::MeshAttr>(dist::kMeshAttrName) ? "" : "has no mesh";
  if (isa<shard::GridOp, func::ReturnOp>(op))
    return "";
  if (auto function = dyn_cast<func::FuncOp>(op)) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (!function.getArgAttrOfType<dist::ShardingAttr>(i, dist::kShardingAttrName))
        return "has no sharding of argument " + std::to_string(i);
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (!function.getResultAttrOfType<dist::ShardingAttr>(i, dist::kShardingAttrName))
        return "has no sharding of result " + std::to_string(i);
    return "";
  }
  if (isa<arith::ArithDialect>(op->getDialect()))
    return checkIndexArithmetic(op);
  if (isa<ParameterOp>(op) && !op->getAttrOfType<dist::ShardingAttr>(dist::kShardingAttrName))
    return "has no sharding";
  if (isa<AttentionGradientOp>(op))
    return "has no kernel: partitioning should have made it of other ops";
  if (!isa<ColossalDialect, dist::DistDialect>(op->getDialect()) &&
      !isa<shard::AllGatherOp, shard::AllReduceOp, shard::ReduceScatterOp, shard::AllToAllOp,
           shard::AllSliceOp>(op))
    return "is no op of local tensors";
  return checkTypes(op);
}

/// What an argument or a counter may be.
struct Range {
  int64_t least = 0, greatest = 0;
};

/// Of an operand of a call: a constant, or the counter of a repeat.
Range getRange(Value operand) {
  if (auto constant = operand.getDefiningOp<arith::ConstantOp>())
    if (auto integer = dyn_cast<IntegerAttr>(constant.getValue()))
      return {integer.getInt(), integer.getInt()};
  if (auto argument = dyn_cast<BlockArgument>(operand))
    if (auto repeat = dyn_cast<plan::RepeatOp>(argument.getOwner()->getParentOp()))
      return {0, static_cast<int64_t>(repeat.getCount()) - 1};
  return {};
}

/// Of the arguments of a function, over all calls.
SmallVector<Range> getRanges(plan::FunctionOp function) {
  SmallVector<Range> ranges(function.getBody().getNumArguments());
  bool isFirst = true;
  function->getParentOp()->walk([&](plan::CallOp call) {
    if (call.getCallee() != function.getSymName() || call.getArguments().size() != ranges.size())
      return;
    for (auto [range, argument] : llvm::zip_equal(ranges, call.getArguments())) {
      Range own = getRange(argument);
      range = isFirst ? own : Range{std::min(range.least, own.least), std::max(range.greatest, own.greatest)};
    }
    isFirst = false;
  });
  return ranges;
}

/// Whether a buffer of `op` lies in its arena, whatever its strides belong to.
std::string checkBuffer(Operation *op, plan::BufferAttr buffer, ArrayRef<Range> values,
                        SymbolTableCollection &symbols) {
  auto arena = symbols.lookupNearestSymbolFrom<plan::ArenaOp>(op, buffer.getArena());
  std::string name = "@" + buffer.getArena().getValue().str();
  if (!arena)
    return "names arena " + name + ", which the module does not have";
  ArrayRef<int64_t> strides = buffer.getStrides();
  if (strides.size() > values.size())
    return "has a buffer with " + std::to_string(strides.size()) + " strides, and sees " +
           std::to_string(values.size()) + " arguments and counters";
  const uint64_t size = arena.getBytes();
  int64_t lowest = 0, highest = 0; // that it moves by
  bool isFar = false;
  for (auto [stride, value] : llvm::zip(strides, values)) {
    int64_t moves[2] = {};
    isFar |= llvm::MulOverflow(stride, value.least, moves[0]) != 0 ||
             llvm::MulOverflow(stride, value.greatest, moves[1]) != 0 ||
             std::abs(moves[0]) > static_cast<int64_t>(size) ||
             std::abs(moves[1]) > static_cast<int64_t>(size);
    lowest += isFar ? 0 : std::min(moves[0], moves[1]);
    highest += isFar ? 0 : std::max(moves[0], moves[1]);
  }
  const auto offset = static_cast<int64_t>(buffer.getOffset());
  if (isFar || buffer.getOffset() > size || buffer.getBytes() > size || offset + lowest < 0 ||
      offset + highest > static_cast<int64_t>(size - buffer.getBytes()))
    return "has " + std::to_string(buffer.getBytes()) + " bytes at " + std::to_string(buffer.getOffset()) +
           " of arena " + name + ", which has " + std::to_string(size) +
           (strides.empty() ? "" : ", in some turn or call");
  return "";
}

/// Whether the buffers of an instruction lie in their arenas; `values`: of the function that it stands in.
std::string checkBuffers(Operation *op, ArrayRef<Range> values, SymbolTableCollection &symbols) {
  SmallVector<Range> all;
  for (auto repeat = op->getParentOfType<plan::RepeatOp>(); repeat;
       repeat = repeat->getParentOfType<plan::RepeatOp>())
    all.insert(all.begin(), Range{0, static_cast<int64_t>(repeat.getCount()) - 1});
  all.insert(all.begin(), values.begin(), values.end());
  std::string problem;
  auto check = [&](Attribute attribute) {
    if (auto buffer = dyn_cast<plan::BufferAttr>(attribute); buffer && problem.empty())
      problem = checkBuffer(op, buffer, all, symbols);
  };
  auto checkAll = [&](Attribute attribute) {
    if (!attribute)
      return;
    check(attribute);
    if (auto many = dyn_cast<ArrayAttr>(attribute))
      llvm::for_each(many, check);
  };
  for (StringAttr name : op->getName().getAttributeNames()) // a dictionary would be sorted and kept
    checkAll(op->getInherentAttr(name).value_or(Attribute()));
  for (NamedAttribute attribute : op->getDiscardableAttrs())
    checkAll(attribute.getValue());
  return problem;
}

/// Programs of instructions over arenas, and index arithmetic between them.
std::string checkScheduled(Operation *op, SymbolTableCollection &symbols) {
  if (auto module = dyn_cast<ModuleOp>(op)) {
    unsigned loads = llvm::count_if(module.getOps<plan::ProgramOp>(), [](plan::ProgramOp program) {
      return program.getRole() == plan::Role::Load;
    });
    if (dist::getStages(module).front() != module) // its stages have one each
      return "";
    return loads == 1 ? "" : "has " + std::to_string(loads) + " load programs, expected one";
  }
  if (isa<shard::GridOp>(op))
    return "";
  if (isa<arith::ArithDialect>(op->getDialect()))
    return checkIndexArithmetic(op);
  if (isa<dist::CoordinateOp>(op))
    return "";
  if (!isa<plan::PlanDialect>(op->getDialect()))
    return "is no instruction";
  if (op->getParentOfType<plan::FunctionOp>())
    return ""; // seen with the function
  auto function = dyn_cast<plan::FunctionOp>(op);
  if (!function)
    return checkBuffers(op, {}, symbols);
  SmallVector<Range> values = getRanges(function);
  std::string problem;
  function.getBody().walk([&](Operation *instruction) {
    if (problem.empty() && isa<plan::PlanDialect>(instruction->getDialect()))
      problem = checkBuffers(instruction, values, symbols);
  });
  return problem.empty() ? "" : "holds an instruction that " + problem;
}

struct VerifyPhasePass : impl::VerifyPhaseBase<VerifyPhasePass> {
  using VerifyPhaseBase::VerifyPhaseBase;

  void runOnOperation() override {
    // What precision and training make of a model looks like one.
    static constexpr Rule rules[] = {checkImported, checkImported, checkImported,    checkOutlined,
                                     checkStepped,  checkSearched, checkPartitioned, checkScheduled};
    std::optional<Phase> after = parsePhase(phase);
    if (!after || *after == Phase::Plan) {
      getOperation().emitError()
          << "colossal-verify-phase: '" << phase.getValue()
          << "' is not one of import, precision, differentiate, outline, step, search, partition, schedule";
      return signalPassFailure();
    }
    // A step is outlined first, calls of blocks are put back before anything else is made of them, and a
    // search only says what is where, which the partitioner checks: what these leave is verified as a part of
    // what comes of it.
    const bool isVerified =
        *after != Phase::Differentiate && *after != Phase::Outline && *after != Phase::Search;
    if (isVerified && failed(mlir::verify(getOperation())))
      return signalPassFailure();
    Rule rule = rules[static_cast<unsigned>(*after)];
    unsigned found = 0;
    SymbolTableCollection symbols;
    getOperation().walk<WalkOrder::PreOrder>([&](Operation *op) {
      std::string problem = rule(op, symbols);
      if (!problem.empty() && found++ < kMostListed)
        op->emitOpError() << problem << " (after phase '" << phase.getValue() << "')";
    });
    if (found > kMostListed)
      getOperation().emitError() << "and " << found - kMostListed << " more";
    if (found || (*after == Phase::Outline && failed(outline::verifyCalls(getOperation()))) ||
        (*after == Phase::Step && failed(dist::verifyStages(getOperation()))))
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace

std::unique_ptr<Pass> createVerifyPhasePass(Phase phase) {
  VerifyPhaseOptions options;
  options.phase = getPhaseName(phase).str();
  return std::make_unique<VerifyPhasePass>(options);
}

void registerPhaseVerifier() {
  registerCompilerPasses();
}

} // namespace colossal
