// The table, and the walk over a graph's nodes.
#include "ShapingInputs.h"

#include "onnx-ml.pb.h"

#include <functional>
#include <set>

namespace colossal::conformance {

namespace {

struct Row {
  const char *op;
  int input;
  const char *name;
  Binding binding = Binding::Shapes;
};

// Names as in the operators' schemas.
constexpr Row kRows[] = {
    {"AffineGrid", 1, "size"},
    {"BlackmanWindow", 0, "size"},
    {"CenterCropPad", 1, "shape"},
    {"Col2Im", 1, "image_shape"},
    {"Col2Im", 2, "block_shape"},
    {"Compress", 1, "condition"},
    {"ConstantOfShape", 0, "input"},
    {"CumProd", 1, "axis"},
    {"CumSum", 1, "axis"},
    {"DFT", 1, "dft_length"},
    {"DFT", 2, "axis"},
    {"Dropout", 1, "ratio"},
    {"Dropout", 2, "training_mode"},
    {"Expand", 1, "shape"},
    {"HammingWindow", 0, "size"},
    {"HannWindow", 0, "size"},
    {"If", 0, "cond"},
    {"Loop", 0, "M"},
    {"Loop", 1, "cond"},
    {"MaxUnpool", 2, "output_shape"},
    {"MelWeightMatrix", 0, "num_mel_bins"},
    {"MelWeightMatrix", 1, "dft_length"},
    {"MelWeightMatrix", 2, "sample_rate"},
    {"MelWeightMatrix", 3, "lower_edge_hertz"},
    {"MelWeightMatrix", 4, "upper_edge_hertz"},
    {"NonZero", 0, "X", Binding::Data},
    {"OneHot", 1, "depth"},
    {"Pad", 1, "pads"},
    {"Pad", 3, "axes"},
    {"Range", 0, "start"},
    {"Range", 1, "limit"},
    {"Range", 2, "delta"},
    {"ReduceL1", 1, "axes"},
    {"ReduceL2", 1, "axes"},
    {"ReduceLogSum", 1, "axes"},
    {"ReduceLogSumExp", 1, "axes"},
    {"ReduceMax", 1, "axes"},
    {"ReduceMean", 1, "axes"},
    {"ReduceMin", 1, "axes"},
    {"ReduceProd", 1, "axes"},
    {"ReduceSum", 1, "axes"},
    {"ReduceSumSquare", 1, "axes"},
    {"Reshape", 1, "shape"},
    {"Resize", 1, "roi"},
    {"Resize", 2, "scales"},
    {"Resize", 3, "sizes"},
    {"STFT", 1, "frame_step"},
    {"STFT", 3, "frame_length"},
    {"Slice", 1, "starts"},
    {"Slice", 2, "ends"},
    {"Slice", 3, "axes"},
    {"Slice", 4, "steps"},
    {"Split", 1, "split"},
    {"Squeeze", 1, "axes"},
    {"Tile", 1, "repeats"},
    {"TopK", 1, "K"},
    {"Trilu", 1, "k"},
    {"Unique", 0, "X", Binding::Data},
    {"Unsqueeze", 1, "axes"},
    {"Upsample", 1, "scales"},
};

} // namespace

std::pair<Binding, std::vector<BoundInput>> findShapingInputs(const onnx::GraphProto &graph,
                                                              const onnx::GraphProto &original) {
  std::set<std::string> inputs;
  for (const onnx::ValueInfoProto &input : graph.input())
    inputs.insert(input.name());
  Binding binding = Binding::Nothing;
  std::vector<BoundInput> bound;
  std::function<void(const onnx::GraphProto &)> visit = [&](const onnx::GraphProto &inner) {
    for (const onnx::NodeProto &node : inner.node()) {
      for (const Row &row : kRows)
        if (node.op_type() == row.op && node.domain().empty() && row.input < node.input_size() &&
            inputs.erase(node.input(row.input))) {
          bound.push_back({node.input(row.input), std::string(row.op) + " " + row.name});
          binding = std::max(binding, row.binding);
        }
      for (const onnx::AttributeProto &attribute : node.attribute())
        if (attribute.has_g())
          visit(attribute.g());
    }
  };
  visit(original);
  if (&graph != &original)
    visit(graph);
  return {binding, bound};
}

} // namespace colossal::conformance
