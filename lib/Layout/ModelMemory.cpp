//===- ModelMemory.cpp - what takes memory in a layout problem, and when ----===//
#include "Model.h"

#include "colossal/FactorGraph/LossParts.h"
#include "dialects/Colossal/Colossal.h"
#include "dialects/Dist/Stages.h"
#include "dialects/Dist/State.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::layout;

//===----------------------------------------------------------------------===//
// What ops make
//===----------------------------------------------------------------------===//

std::pair<int64_t, int64_t> Model::Program::lifeOf(int tensor, Value value) const {
  if (storage) {
    const StorageLives::Life life = storage->lives.lookup(value);
    return {begin + life.begin, begin + life.end};
  }
  return {begin + kind().tensors[tensor].begin, begin + kind().tensors[tensor].end};
}

int64_t layout::getPartBytes(int64_t bytes, ShardingAttr layout, unsigned dim, MeshAttr mesh) {
  SmallVector<int64_t> shape = layout.getLocalShape(mesh);
  double rows = 1;
  for (int64_t size : ArrayRef(shape).drop_back())
    rows *= static_cast<double>(size);
  return bytes / factors::lossParts(shape[dim], rows, static_cast<double>(bytes));
}

//===----------------------------------------------------------------------===//
// Arguments and results
//===----------------------------------------------------------------------===//

bool layout::isBetweenStages(DictionaryAttr attributes) {
  return attributes && (attributes.contains(kReceivesAttrName) || attributes.contains(kSendsAttrName));
}

int64_t Model::countParts(DictionaryAttr attributes) const {
  // One goes while another is computed, or computed with.
  return isBetweenStages(attributes) ? 2 : mesh.getNumTurns();
}

/// Whether a value of `function` becomes that of a state, in whose place it then lies.
static bool isNewState(func::FuncOp function, Value value) {
  for (auto [i, returned] : llvm::enumerate(function.front().getTerminator()->getOperands()))
    if (returned == value && function.getResultAttr(i, kStateAttrName))
      return true;
  return false;
}

std::pair<int64_t, int64_t> Model::getBoundaryLife(const Program &program, DictionaryAttr attributes,
                                                   Value value) const {
  auto given = attributes ? attributes.getAs<ShardingAttr>(kShardingAttrName) : ShardingAttr();
  // What turns hand on is there in all of them.
  if (!program.storage || !isBetweenStages(attributes) || (given && findLoop(given, mesh)))
    return {program.begin, program.lastStep() + 1};
  if (isNewState(program.function, value))
    return {program.begin, program.begin};
  int64_t begin = program.lastStep(), finish = program.begin;
  auto meet = [&](Operation *op) {
    auto step = program.storage->steps.find(op);
    const int64_t at =
        step == program.storage->steps.end() ? program.lastStep() : program.begin + step->second;
    begin = std::min(begin, at);
    finish = std::max(finish, at + 1);
  };
  if (Operation *maker = value.getDefiningOp()) {
    meet(maker);
    begin =
        program.begin + program.storage->lives.lookup(value).begin; // of a sum, of the first that adds to it
  }
  for (Operation *reader : value.getUsers())
    if (isa<BlockArgument>(value) || !isa<func::ReturnOp>(reader))
      meet(reader);
  return {begin, finish};
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// Copies of less than this part of the limit are left to the reserve of what the search does not see.
static constexpr double kSmallCopyDivisor = 256;

bool Model::countsCopies(const Transfer &transfer, ArrayAttr layouts) const {
  Type element = getTensor(transfer.value).getElementType();
  return memoryLimit && llvm::any_of(layouts, [&](Attribute layout) {
           return getLocalBytes(cast<ShardingAttr>(layout), element, mesh) >
                  static_cast<double>(*memoryLimit) / kSmallCopyDivisor;
         });
}

std::optional<std::pair<int64_t, int64_t>> Model::endParts(const Transfer &transfer) {
  const NodeInfo &maker = nodes[transfer.maker];
  if (maker.kind != NodeInfo::Kind::Op)
    return std::nullopt;
  const Program &program = programs[maker.program];
  if (!program.storage || program.lossValues.contains(transfer.value))
    return std::nullopt;
  const StorageLives::Life life = program.storage->lives.lookup(transfer.value);
  const int64_t begin = program.begin + life.begin, finish = program.begin + life.end;
  // What turns of a loop add up is summed between ranks behind it.
  const int64_t end = transfer.madeInLoop && finish > program.loopEnd() ? program.loopEnd() : begin + 1;
  if (!life.isStored || end <= begin || end >= finish)
    return std::nullopt;
  bool hasParts = false;
  Type element = getTensor(transfer.value).getElementType();
  for (auto [c, candidate] : llvm::enumerate(problem.nodes[transfer.maker].candidates)) {
    const ShardingAttr layout = transfer.made[static_cast<int32_t>(c)];
    if (!layout.isPartial())
      continue;
    const auto bytes = static_cast<int64_t>(getLocalBytes(layout, element, mesh));
    auto held = llvm::find_if(candidate.memory, [&](const search::MemoryUse &use) {
      return use.begin == begin && use.end == finish && use.bytes == bytes;
    });
    if (held == candidate.memory.end())
      continue;
    held->end = end;
    hasParts = true;
  }
  return hasParts ? std::optional(std::pair(end, finish)) : std::nullopt;
}

std::pair<int64_t, int64_t> Model::getUseLife(const Transfer &transfer) const {
  const NodeInfo &reader = nodes[transfer.to];
  if (reader.kind == NodeInfo::Kind::Result || reader.kind == NodeInfo::Kind::State) {
    Value value = transfer.value;
    auto function = value.getParentRegion()->getParentOfType<func::FuncOp>();
    auto program = llvm::find_if(programs, [&](const Program &known) { return known.function == function; });
    return {program->lastStep(), program->lastStep() + 1};
  }
  const Program &program = programs[reader.program];
  const factors::Operation &op = program.kind().operations[reader.operation];
  const int64_t step = program.stepOf(reader.operation);
  // What all turns of the loop read is needed to its end.
  if (op.repeated && !transfer.madeInLoop)
    return {step, program.loopEnd()};
  // What a view shows lies in its operand.
  int64_t finish = step + 1;
  if (op.kind == factors::Operation::View)
    finish = std::max(
        finish,
        program.lifeOf(op.results.front().tensor, program.getOp(reader.operation)->getResult(0)).second);
  return {step, finish};
}
