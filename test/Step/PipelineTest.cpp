// How parts of a training step are numbered: each chunk of each stage is one part, gradients stand on the
// stage of what they are of, and values go from a part to a later one.
#include "dialects/Dist/Pipeline.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

#include <set>

using namespace colossal::dist;

namespace {

std::vector<Pipeline> listPipelines() {
  std::vector<Pipeline> all;
  for (int64_t stages : {2, 3, 4})
    for (int64_t chunks : {1, 2, 3})
      for (bool isV : {false, true})
        for (bool splits : {false, true})
          if (!isV || chunks == 2) {
            all.push_back({stages, chunks, isV, true, splits, 3});
            all.push_back({stages, chunks, isV, false, false, 2});
          }
  return all;
}

TEST(Pipeline, EveryChunkIsOnePart) {
  for (const Pipeline &pipeline : listPipelines()) {
    std::set<int64_t> parts;
    for (int64_t stage = 0; stage < pipeline.stages; ++stage)
      for (int64_t chunk = 0; chunk < pipeline.countChunks(); ++chunk) {
        const int64_t part = pipeline.getPart(stage, chunk);
        parts.insert(part);
        EXPECT_EQ(pipeline.getStage(part), stage) << "part " << part;
        EXPECT_EQ(pipeline.getChunk(part), chunk) << "part " << part;
      }
    EXPECT_EQ(parts.size(), static_cast<size_t>(pipeline.countParts()));
    EXPECT_EQ(*parts.rbegin(), pipeline.countParts() - 1);
  }
}

TEST(Pipeline, GradientsStandWithWhatTheyAreOf) {
  for (const Pipeline &pipeline : listPipelines())
    for (int64_t part = 0; pipeline.hasBackward && part < pipeline.countForwardParts(); ++part) {
      const int64_t backward = pipeline.getBackward(part);
      EXPECT_EQ(pipeline.getStage(backward), pipeline.getStage(part));
      EXPECT_EQ(pipeline.getChunk(backward), 2 * pipeline.chunks - 1 - pipeline.getChunk(part));
      if (pipeline.splits) {
        const int64_t stage = pipeline.getStage(part), chunk = pipeline.getChunk(backward);
        EXPECT_EQ(pipeline.getPart(stage, chunk + pipeline.chunks), backward + pipeline.countForwardParts());
      }
    }
}

TEST(Pipeline, AVEndsWhereItBegins) {
  const Pipeline pipeline{4, 2, true, true, true, 1};
  EXPECT_EQ(pipeline.getStage(3), 3);
  EXPECT_EQ(pipeline.getStage(4), 3);
  EXPECT_EQ(pipeline.getStage(7), 0);
  EXPECT_EQ(pipeline.getStage(8), 0) << "its gradients come first";
}

TEST(Pipeline, AttributesHoldIt) {
  mlir::MLIRContext context;
  const Pipeline pipeline{4, 2, true, true, true, 5};
  mlir::OperationState state(mlir::UnknownLoc::get(&context), "test.function");
  context.allowUnregisteredDialects();
  state.addAttribute(kPipelineAttrName, toAttribute(&context, pipeline));
  mlir::Operation *function = mlir::Operation::create(state);
  const std::optional<Pipeline> read = getPipeline(function);
  ASSERT_TRUE(read);
  EXPECT_EQ(toAttribute(&context, *read), toAttribute(&context, pipeline));
  function->removeAttr(kPipelineAttrName);
  EXPECT_FALSE(getPipeline(function));
  function->destroy();
}

} // namespace
