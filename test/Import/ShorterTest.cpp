// The model with three of its repetitions, which an import hands out before the whole: what is in it, and of
// which models there is one.
#include "colossal/Import/ONNX.h"
#include "dialects/Colossal/Colossal.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "onnx-ml.pb.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

using namespace mlir;
using namespace colossal;

namespace {

class Shorter : public testing::Test {
protected:
  Shorter() {
    std::string pattern = (std::filesystem::temp_directory_path() / "shorter-XXXXXX").string();
    folder = mkdtemp(pattern.data());
  }
  ~Shorter() override { std::filesystem::remove_all(folder); }

  static void addWeight(onnx::GraphProto &graph, const std::string &name, float value) {
    onnx::TensorProto &weight = *graph.add_initializer();
    weight.set_name(name);
    weight.set_data_type(onnx::TensorProto::FLOAT);
    weight.add_dims(8);
    weight.add_dims(8);
    for (int i = 0; i < 64; ++i)
      weight.add_float_data(value + static_cast<float>(i));
  }
  static void addNode(onnx::GraphProto &graph, const char *type, const std::vector<std::string> &inputs,
                      const std::string &output) {
    onnx::NodeProto &node = *graph.add_node();
    node.set_op_type(type);
    for (const std::string &input : inputs)
      node.add_input(input);
    node.add_output(output);
  }
  static void addTensor(onnx::ValueInfoProto &info, const std::string &name) {
    info.set_name(name);
    onnx::TypeProto::Tensor &type = *info.mutable_type()->mutable_tensor_type();
    type.set_elem_type(onnx::TensorProto::FLOAT);
    type.mutable_shape()->add_dim()->set_dim_value(4);
    type.mutable_shape()->add_dim()->set_dim_value(8);
  }

  /// y_i = y_(i-1) + relu(y_(i-1) w_i), behind a tanh and before a sigmoid.
  std::string writeModel(int layers) {
    onnx::ModelProto model;
    model.set_ir_version(8);
    model.add_opset_import()->set_version(17);
    onnx::GraphProto &graph = *model.mutable_graph();
    addTensor(*graph.add_input(), "x");
    addNode(graph, "Tanh", {"x"}, "y0");
    for (int i = 1; i <= layers; ++i) {
      const std::string n = std::to_string(i), before = "y" + std::to_string(i - 1);
      addWeight(graph, "w" + n, static_cast<float>(i));
      addNode(graph, "MatMul", {before, "w" + n}, "m" + n);
      addNode(graph, "Relu", {"m" + n}, "r" + n);
      addNode(graph, "Add", {before, "r" + n}, "y" + n);
    }
    addNode(graph, "Sigmoid", {"y" + std::to_string(layers)}, "out");
    addTensor(*graph.add_output(), "out");
    std::string path = folder + "/model.onnx";
    std::ofstream file(path, std::ios::binary);
    model.SerializeToOstream(&file);
    return path;
  }

  struct Counts {
    int shorter = -1; ///< products of the shorter model; -1: there was none
    int whole = 0;
    bool isValid = true;
  };
  Counts import(const std::string &path) {
    Counts counts;
    ImportOptions options;
    options.modelPath = path;
    auto count = [](ModuleOp module) {
      int found = 0;
      module.walk([&](ContractOp) { ++found; });
      return found;
    };
    ImportHooks hooks;
    hooks.shorter = [&](OwningOpRef<ModuleOp> module) {
      counts.shorter = count(*module);
      counts.isValid = succeeded(verify(*module));
    };
    auto module = importOnnx(&context, options, hooks);
    counts.whole = succeeded(module) ? count(**module) : -1;
    return counts;
  }

  MLIRContext context;
  std::string folder;
};

TEST_F(Shorter, HasThreeOfManyLayers) {
  Counts counts = import(writeModel(60));
  EXPECT_EQ(counts.whole, 60);
  EXPECT_EQ(counts.shorter, 3);
  EXPECT_TRUE(counts.isValid);
}

TEST_F(Shorter, IsNotMadeOfFewLayers) {
  Counts counts = import(writeModel(12));
  EXPECT_EQ(counts.whole, 12);
  EXPECT_EQ(counts.shorter, -1);
}

} // namespace
