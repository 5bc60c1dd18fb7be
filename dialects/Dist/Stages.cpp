//===- Stages.cpp - a module cut into stages --------------------------------===//
#include "dialects/Dist/Stages.h"

#include "dialects/Dist/Pipeline.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace colossal::dist {

std::optional<int64_t> getStage(ModuleOp module) {
  auto stage = module->getAttrOfType<IntegerAttr>(kStageAttrName);
  return stage ? std::optional(stage.getInt()) : std::nullopt;
}

SmallVector<ModuleOp> getStages(ModuleOp module) {
  SmallVector<ModuleOp> stages;
  for (auto nested : module.getOps<ModuleOp>())
    if (getStage(nested))
      stages.push_back(nested);
  if (stages.empty())
    stages.push_back(module);
  return stages;
}

static int64_t countRanks(ModuleOp module) {
  auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttrName);
  return mesh ? mesh.getNumRanks() : 1;
}

int64_t getNumRanks(ModuleOp module) {
  if (getStage(module))
    if (auto outer = module->getParentOfType<ModuleOp>())
      module = outer;
  int64_t ranks = 0;
  for (ModuleOp stage : getStages(module))
    ranks += countRanks(stage);
  return ranks;
}

int64_t getFirstRank(ModuleOp stage) {
  auto outer = stage->getParentOfType<ModuleOp>();
  int64_t first = 0;
  if (outer)
    for (ModuleOp other : getStages(outer)) {
      if (other == stage)
        break;
      first += countRanks(other);
    }
  return first;
}

int64_t getChunk(DictionaryAttr attributes) {
  auto chunk = attributes ? attributes.getAs<IntegerAttr>(kChunkAttrName) : IntegerAttr();
  return chunk ? chunk.getInt() : 0;
}

int64_t countChunks(ArrayRef<ModuleOp> stages) {
  int64_t last = 0;
  for (ModuleOp stage : stages)
    for (auto function : stage.getOps<func::FuncOp>()) {
      for (unsigned i = 0; i < function.getNumArguments(); ++i)
        last = std::max(last, getChunk(function.getArgAttrDict(i)));
      for (unsigned i = 0; i < function.getNumResults(); ++i)
        last = std::max(last, getChunk(function.getResultAttrDict(i)));
    }
  return last + 1;
}

LogicalResult verifyStages(ModuleOp module) {
  SmallVector<ModuleOp> stages = getStages(module);
  if (stages.front() == module)
    return success();
  for (auto [i, stage] : llvm::enumerate(stages))
    if (getStage(stage) != static_cast<int64_t>(i))
      return stage.emitOpError() << "stands in place of stage " << i << " (C1)";
  if (getNumRanks(module) != countRanks(module))
    return module.emitOpError() << "has a mesh of " << countRanks(module) << " ranks, its stages have "
                                << getNumRanks(module) << " (C1)";
  // Values by number: their type, and the part that sends them.
  llvm::StringMap<llvm::DenseMap<int64_t, std::pair<Type, int64_t>>> sent;
  auto partOf = [&](func::FuncOp function, size_t stage, DictionaryAttr attributes) {
    const Pipeline pipeline =
        getPipeline(function).value_or(Pipeline{static_cast<int64_t>(stages.size()), countChunks(stages)});
    return pipeline.getPart(static_cast<int64_t>(stage), getChunk(attributes));
  };
  for (auto [s, stage] : llvm::enumerate(stages)) {
    if (range_size(stage.getOps<func::FuncOp>()) != range_size(stages.front().getOps<func::FuncOp>()))
      return stage.emitOpError() << "has another number of functions than the stages before it (C2)";
    for (auto function : stage.getOps<func::FuncOp>()) {
      if (!stages.front().lookupSymbol<func::FuncOp>(function.getName()))
        return function.emitOpError() << "is no part of a program: stage 0 has no function of this name (C2)";
      for (unsigned i = 0; i < function.getNumResults(); ++i)
        if (auto id = function.getResultAttrOfType<IntegerAttr>(i, kSendsAttrName))
          if (!sent[function.getName()]
                   .try_emplace(id.getInt(), function.getResultTypes()[i],
                                partOf(function, s, function.getResultAttrDict(i)))
                   .second)
            return function.emitOpError() << "sends value " << id.getInt() << ", which was sent before (C3)";
    }
  }
  for (auto [s, stage] : llvm::enumerate(stages))
    for (auto function : stage.getOps<func::FuncOp>()) {
      auto &known = sent[function.getName()];
      for (unsigned i = 0; i < function.getNumArguments(); ++i) {
        auto id = function.getArgAttrOfType<IntegerAttr>(i, kReceivesAttrName);
        if (!id)
          continue;
        auto found = known.find(id.getInt());
        if (found == known.end() || found->second.second >= partOf(function, s, function.getArgAttrDict(i)))
          return function.emitOpError()
                 << "receives value " << id.getInt() << ", which no earlier stage sends (C3)";
        if (found->second.first != function.getArgumentTypes()[i])
          return function.emitOpError()
                 << "receives value " << id.getInt() << " as " << function.getArgumentTypes()[i]
                 << ", which is sent as " << found->second.first << " (C3)";
      }
    }
  return success();
}

int64_t Piece::getNumElements() const {
  int64_t elements = 1;
  for (int64_t size : sizes)
    elements *= size;
  return elements;
}

bool Piece::isRun() const {
  int64_t expected = 1;
  for (auto [size, stride] : llvm::reverse(llvm::zip_equal(sizes, strides))) {
    if (size != 1 && stride != expected)
      return false;
    expected *= size;
  }
  return true;
}

ArrayAttr toAttribute(MLIRContext *context, ArrayRef<Message> messages) {
  Builder b(context);
  SmallVector<Attribute> list;
  for (const Message &message : messages) {
    SmallVector<Attribute> pieces;
    for (const Piece &piece : message.pieces)
      pieces.push_back(
          b.getDictionaryAttr({b.getNamedAttr("offset", b.getI64IntegerAttr(piece.offset)),
                               b.getNamedAttr("sizes", b.getDenseI64ArrayAttr(piece.sizes)),
                               b.getNamedAttr("strides", b.getDenseI64ArrayAttr(piece.strides))}));
    SmallVector<NamedAttribute> entries{b.getNamedAttr("tag", b.getI64IntegerAttr(message.tag)),
                                        b.getNamedAttr("peers", b.getDenseI64ArrayAttr(message.peers)),
                                        b.getNamedAttr("pieces", b.getArrayAttr(pieces))};
    if (message.order >= 0) {
      entries.push_back(b.getNamedAttr("passes", b.getI64IntegerAttr(message.passes)));
      entries.push_back(b.getNamedAttr("order", b.getI64IntegerAttr(message.order)));
    }
    list.push_back(b.getDictionaryAttr(entries));
  }
  return b.getArrayAttr(list);
}

SmallVector<Message> toMessages(ArrayAttr attribute) {
  SmallVector<Message> messages;
  for (auto entry : attribute.getAsRange<DictionaryAttr>()) {
    Message &message = messages.emplace_back();
    message.tag = entry.getAs<IntegerAttr>("tag").getInt();
    if (auto order = entry.getAs<IntegerAttr>("order")) {
      message.order = order.getInt();
      message.passes = entry.getAs<IntegerAttr>("passes").getInt();
    }
    llvm::append_range(message.peers, entry.getAs<DenseI64ArrayAttr>("peers").asArrayRef());
    for (auto piece : entry.getAs<ArrayAttr>("pieces").getAsRange<DictionaryAttr>()) {
      Piece &one = message.pieces.emplace_back();
      one.offset = piece.getAs<IntegerAttr>("offset").getInt();
      llvm::append_range(one.sizes, piece.getAs<DenseI64ArrayAttr>("sizes").asArrayRef());
      llvm::append_range(one.strides, piece.getAs<DenseI64ArrayAttr>("strides").asArrayRef());
    }
  }
  return messages;
}

} // namespace colossal::dist
