// The model with four of its repetitions, which an import hands out before the whole: what is in it, and of
// which models there is one. And the copies of one repetition: that they are what an import of each makes,
// and which repetitions are not copied.
#include "dialects/Colossal/Colossal.h"
#include "lib/Import/ONNX/Lengthening.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "onnx-ml.pb.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
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
  std::string writeModel(int layers, const std::function<void(onnx::GraphProto &)> &change = nullptr) {
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
    if (change)
      change(graph);
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

  /// Imports a changed model as it is, and by copies, which must give the same with the same names; whether
  /// there were copies.
  bool isCopied(int layers, const std::function<void(onnx::GraphProto &)> &change = nullptr) {
    ImportOptions options;
    options.modelPath = writeModel(layers, change);
    auto print = [](ModuleOp module) {
      std::string text;
      llvm::raw_string_ostream stream(text);
      module.print(stream, OpPrintingFlags().enableDebugInfo());
      return text;
    };
    context.loadDialect<ColossalDialect, func::FuncDialect>();
    auto file = onnx_import::ModelFile::open(options.modelPath);
    if (!file) {
      ADD_FAILURE() << toString(file.takeError());
      return false;
    }
    onnx_import::Importer whole(&context, options, **file);
    if (failed(whole.orderNodes()))
      return false;
    OwningOpRef<ModuleOp> copied = onnx_import::makeByCopies(&context, options, {}, whole, **file);
    auto imported = onnx_import::makeModule(whole, options);
    EXPECT_TRUE(succeeded(imported));
    if (succeeded(imported))
      whole.resolveLocations();
    if (copied && succeeded(imported)) {
      EXPECT_TRUE(succeeded(verify(*copied)));
      EXPECT_EQ(print(**imported), print(*copied));
    }
    return static_cast<bool>(copied);
  }
  /// Node `name` of layer `layer`: m (the product), r (relu) or y (the sum).
  static onnx::NodeProto &getNode(onnx::GraphProto &graph, const std::string &name, int layer) {
    for (auto &node : *graph.mutable_node())
      if (node.output(0) == name + std::to_string(layer))
        return node;
    throw std::runtime_error("no such node");
  }

  MLIRContext context;
  std::string folder;
};

TEST_F(Shorter, HasFourOfManyLayers) {
  Counts counts = import(writeModel(60));
  EXPECT_EQ(counts.whole, 60);
  EXPECT_EQ(counts.shorter, 4);
  EXPECT_TRUE(counts.isValid);
}

TEST_F(Shorter, IsNotMadeOfFewLayers) {
  Counts counts = import(writeModel(12));
  EXPECT_EQ(counts.whole, 12);
  EXPECT_EQ(counts.shorter, -1);
}

TEST_F(Shorter, IsCopiedWhereLayersAreEqual) {
  EXPECT_TRUE(isCopied(60));
  EXPECT_TRUE(isCopied(12));
  EXPECT_FALSE(isCopied(6)); // half of it would be imported anyway
}

TEST_F(Shorter, IsCopiedWithWhatAllLayersShare) {
  EXPECT_TRUE(isCopied(40, [](onnx::GraphProto &graph) {
    addWeight(graph, "shared", 500);
    for (int i = 1; i <= 40; ++i) {
      getNode(graph, "r", i).set_op_type("MatMul");
      getNode(graph, "r", i).add_input("shared");
    }
  }));
}

TEST_F(Shorter, IsCopiedWhereTheFirstAndTheRestDiffer) {
  EXPECT_TRUE(isCopied(40, [](onnx::GraphProto &graph) {
    getNode(graph, "r", 1).set_op_type("Tanh");
    addNode(graph, "Add", {"y40", "m1"}, "head");
    graph.mutable_node(graph.node_size() - 2)->set_input(0, "head");
  }));
}

TEST_F(Shorter, IsImportedWholeWhereOneLayerDiffers) {
  auto differs = [&](const std::function<void(onnx::GraphProto &)> &change) { return !isCopied(40, change); };
  // A weight is that of another layer, by name or contents, or transposed.
  EXPECT_TRUE(differs([](onnx::GraphProto &graph) { getNode(graph, "m", 20).set_input(1, "w30"); }));
  EXPECT_TRUE(differs([](onnx::GraphProto &graph) {
    *graph.mutable_initializer(19)->mutable_float_data() = graph.initializer(29).float_data();
  }));
  EXPECT_TRUE(differs([](onnx::GraphProto &graph) {
    for (int i = 0; i < 64; ++i)
      graph.mutable_initializer(19)->set_float_data(i, graph.initializer(29).float_data(i % 8 * 8 + i / 8));
  }));
  // A node reads what is further away, or is read from there.
  EXPECT_TRUE(differs([](onnx::GraphProto &graph) { getNode(graph, "y", 20).set_input(0, "y17"); }));
  EXPECT_TRUE(differs([](onnx::GraphProto &graph) { addTensor(*graph.add_output(), "y20"); }));
  EXPECT_TRUE(differs([](onnx::GraphProto &graph) {
    addNode(graph, "Add", {"y40", "y20"}, "head");
    graph.mutable_node(graph.node_size() - 2)->set_input(0, "head");
  }));
  // An attribute.
  EXPECT_TRUE(differs([](onnx::GraphProto &graph) {
    for (int i = 1; i <= 40; ++i) {
      onnx::NodeProto &node = getNode(graph, "r", i);
      node.set_op_type("LeakyRelu");
      onnx::AttributeProto &alpha = *node.add_attribute();
      alpha.set_name("alpha");
      alpha.set_type(onnx::AttributeProto::FLOAT);
      alpha.set_f(i == 20 ? 0.25F : 0.5F);
    }
  }));
}

TEST_F(Shorter, IsCopiedWhereConstantsOfLayersAreEqual) {
  auto addFactors = [](float odd) {
    return [odd](onnx::GraphProto &graph) {
      for (int i = 1; i <= 40; ++i) {
        onnx::TensorProto &factor = *graph.add_initializer();
        factor.set_name("c" + std::to_string(i));
        factor.set_data_type(onnx::TensorProto::FLOAT);
        factor.add_float_data(i == 20 ? odd : 0.5F);
        getNode(graph, "r", i).set_op_type("Mul");
        getNode(graph, "r", i).add_input("c" + std::to_string(i));
      }
    };
  };
  EXPECT_TRUE(isCopied(40, addFactors(0.5F)));
  EXPECT_FALSE(isCopied(40, addFactors(0.25F)));
}

} // namespace
