// A table lies as the operations that read it do, where their dimensions are its own.
#include "Tables.h"

#include "colossal/Partition/Resharding.h"
#include "dialects/Colossal/Colossal.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::factors;
using dist::getElementBytes;
using dist::GradientOpInterface;

/// Where the elements of what is known when a plan is loaded lie: movements are views, but for a reshape of
/// what was repeated, which is stored.
static Value findTable(Value value) {
  Value reshaped;
  while (mlir::Operation *maker = value.getDefiningOp()) {
    auto kernel = dyn_cast<KernelOpInterface>(maker);
    if (!kernel || kernel.getKernelKind() != KernelKind::Movement || maker->getNumOperands() != 1)
      break;
    if (isa<BroadcastOp>(maker) && reshaped)
      return reshaped;
    if (isa<ReshapeOp>(maker) && !reshaped)
      reshaped = value;
    value = maker->getOperand(0);
  }
  return value;
}

namespace {
/// What a program computes when it is loaded, and of that, what its other operations read.
struct Constants {
  llvm::DenseSet<Value> known;
  llvm::MapVector<Value, double> bytes; ///< by table
};
} // namespace

/// What is one number everywhere is a part of kernels, but for masks of attention. Indices of rows that are
/// trained are there once more, as the gradient takes them.
static Constants findConstants(func::FuncOp function, llvm::function_ref<bool(StringRef)> isTrained) {
  Constants constants;
  auto isKnown = [&](Value value) { return constants.known.contains(value); };
  for (mlir::Operation &op : function.front().without_terminator()) {
    auto parameter = dyn_cast<ParameterOp>(op);
    if (parameter ? !isTrained(parameter.getName()) : llvm::all_of(op.getOperands(), isKnown)) {
      constants.known.insert(op.result_begin(), op.result_end());
      continue;
    }
    for (OpOperand &operand : op.getOpOperands()) {
      if (!isKnown(operand.get()))
        continue;
      const Value table = findTable(operand.get());
      auto type = dyn_cast<RankedTensorType>(table.getType());
      DenseElementsAttr constant;
      if (!type || type.getNumElements() <= 1 ||
          (matchPattern(table, m_Constant(&constant)) && constant.isSplat() && !isa<AttentionOp>(op)))
        continue;
      const double size = static_cast<double>(type.getNumElements()) * getElementBytes(type.getElementType());
      constants.bytes.try_emplace(table, size);
      auto gradient = dyn_cast<GradientOpInterface>(op);
      if (isa<GatherOp>(op) && operand.getOperandNumber() == 1 && gradient.getGradientFlops(0) > 0 &&
          !isKnown(op.getOperand(0)))
        constants.bytes[table] += size;
    }
  }
  return constants;
}

/// The dimensions of a tensor of shape `whole` in which `table`, which is broadcast to it, has its elements.
static std::vector<int> findDims(RankedTensorType table, RankedTensorType whole) {
  std::vector<int> dims;
  const int64_t before = whole.getRank() - table.getRank();
  for (int64_t dim = 0; dim < table.getRank(); ++dim)
    if (table.getDimSize(dim) > 1 && table.getDimSize(dim) == whole.getDimSize(before + dim))
      dims.push_back(static_cast<int>(before + dim));
  return dims;
}

/// The tables that a unit's operations read, and where: `read` gets a table and its use, in one order for all
/// units of a kind. What is computed outside of units, of tables and of parameters, is looked through where
/// dimensions stay as they are; a table whose elements were moved is read whole.
static void findUses(const Unit &unit, const UnitCut &cut, const llvm::DenseSet<mlir::Operation *> &isInUnits,
                     const Constants &constants, llvm::function_ref<void(Value, TableUse)> read) {
  for (int i = unit.begin; i < unit.end; ++i) {
    int tensors = 0; // operands before
    for (Value operand : cut.stream[i]->getOperands()) {
      auto shape = dyn_cast<RankedTensorType>(operand.getType());
      if (!shape)
        continue;
      const int number = tensors++;
      SmallVector<Value> work{operand};
      while (!work.empty()) {
        Value next = work.pop_back_val();
        auto type = dyn_cast<RankedTensorType>(next.getType());
        if (!type || type.getRank() > shape.getRank())
          continue;
        if (constants.known.contains(next)) {
          const Value table = findTable(next);
          if (constants.bytes.contains(table))
            read(table, {i - unit.begin, number,
                         table.getType() == type ? findDims(type, shape) : std::vector<int>()});
        } else if (auto maker = next.getDefiningOp<ElementwiseOp>();
                   maker && !isInUnits.contains(maker.getOperation())) {
          llvm::append_range(work, maker->getOperands());
        }
      }
    }
  }
}

void factors::addTables(AtBatch few, AtBatch many, const UnitCut &cut,
                        llvm::function_ref<bool(StringRef)> isTrained, FactorGraph &graph) {
  const Constants constants = findConstants(few.function, isTrained),
                  atMany = findConstants(many.function, isTrained);
  auto add = [&](double bytes, double more) {
    Table &table = graph.tables.emplace_back();
    table.bytesPerSequence = std::max(0.0, (more - bytes) / static_cast<double>(many.batch - few.batch));
    table.bytes = bytes - table.bytesPerSequence * static_cast<double>(few.batch);
  };
  auto sum = [](const Constants &of) {
    double bytes = 0;
    for (auto [table, size] : of.bytes)
      bytes += size;
    return bytes;
  };
  if (constants.bytes.size() != atMany.bytes.size()) { // some are one number at one batch
    add(sum(constants), sum(atMany));
    return;
  }
  llvm::DenseMap<Value, int> numbers;
  for (auto [table, other] : llvm::zip_equal(constants.bytes, atMany.bytes)) {
    numbers[table.first] = static_cast<int>(graph.tables.size());
    add(table.second, other.second);
  }
  const llvm::DenseSet<mlir::Operation *> isInUnits(cut.stream.begin(), cut.stream.end());
  std::vector<bool> isKnown(graph.kinds.size(), false);
  for (auto [u, unit] : llvm::enumerate(cut.units)) {
    std::vector<TableUse> &uses = graph.kinds[unit.kind].tables;
    int place = 0;
    findUses(unit, cut, isInUnits, constants, [&, u = u](Value table, TableUse use) {
      if (!isKnown[unit.kind])
        uses.push_back(std::move(use));
      if (place < static_cast<int>(uses.size()))
        graph.tables[numbers[table]].uses.push_back({static_cast<int>(u), place++});
    });
    isKnown[unit.kind] = true;
  }
}
