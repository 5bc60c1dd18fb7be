//===- Pipeline.cpp - passes of a training step through stages --------------===//
#include "dialects/Dist/Pipeline.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace colossal::dist {

int64_t Pipeline::getPart(int64_t stage, int64_t chunk) const {
  const int64_t forward = countForwardParts();
  if (chunk < chunks)
    return isV && chunk == 1 ? 2 * stages - 1 - stage : chunk * stages + stage;
  if (isClosing(chunk))
    return chunk * stages + stage;
  // Backward chunks come in the opposite order; the gradients of weights are numbered as those of inputs.
  const int64_t inGroup = chunk % chunks;
  return chunk / chunks * forward + (forward - 1 - getPart(stage, chunks - 1 - inGroup));
}

int64_t Pipeline::getStage(int64_t part) const {
  const int64_t forward = countForwardParts(), group = part / forward;
  if (part >= countTurnChunks() * stages)
    return part % stages;
  const int64_t inGroup = part % forward, place = group == 0 ? inGroup : forward - 1 - inGroup;
  return isV && place >= stages ? 2 * stages - 1 - place : place % stages;
}

int64_t Pipeline::getChunk(int64_t part) const {
  return part / stages;
}

DictionaryAttr toAttribute(MLIRContext *context, const Pipeline &pipeline) {
  Builder b(context);
  return b.getDictionaryAttr({b.getNamedAttr("stages", b.getI64IntegerAttr(pipeline.stages)),
                              b.getNamedAttr("chunks", b.getI64IntegerAttr(pipeline.chunks)),
                              b.getNamedAttr("v", b.getBoolAttr(pipeline.isV)),
                              b.getNamedAttr("backward", b.getBoolAttr(pipeline.hasBackward)),
                              b.getNamedAttr("splits", b.getBoolAttr(pipeline.splits)),
                              b.getNamedAttr("levels", b.getI64IntegerAttr(pipeline.levels))});
}

std::optional<Pipeline> getPipeline(Operation *function) {
  auto given = function->getAttrOfType<DictionaryAttr>(kPipelineAttrName);
  if (!given)
    return std::nullopt;
  auto number = [&](StringRef name) {
    auto value = given.getAs<IntegerAttr>(name);
    return value ? value.getInt() : 0;
  };
  auto flag = [&](StringRef name) {
    auto value = given.getAs<BoolAttr>(name);
    return value && value.getValue();
  };
  return Pipeline{number("stages"), number("chunks"), flag("v"),
                  flag("backward"), flag("splits"),   number("levels")};
}

} // namespace colossal::dist
