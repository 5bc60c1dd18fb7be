// What the reader makes of IR: kinds of unit, sizes that grow with the batch, and numbers that lead back.
#include "colossal/FactorGraph/Reader.h"
#include "colossal/Partition/Refinement.h"
#include "dialects/Colossal/Colossal.h"
#include "dialects/Dist/Dist.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

namespace colossal::factors {
namespace {

struct FactorGraphReader : testing::Test {
  FactorGraphReader() { context.loadDialect<ColossalDialect, dist::DistDialect, mlir::func::FuncDialect>(); }
  mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &text) {
    return mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  }
  static mlir::func::FuncOp function(mlir::ModuleOp module) {
    return *module.getOps<mlir::func::FuncOp>().begin();
  }
  std::optional<Reading> read(const std::function<std::string(int)> &text,
                              const std::set<std::string> &frozen = {},
                              const std::optional<LossOutput> &loss = {}) {
    few = parse(text(2));
    many = parse(text(3));
    EXPECT_TRUE(few && many);
    return few && many ? readFactorGraph(function(*few), 2, function(*many), 3, frozen, loss) : std::nullopt;
  }
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> few, many;
};

/// An embedding, `layers` of two products round an activation that are added to their input, and a head. With
/// `shared`, a value that the first layer computes and all layers add.
std::string model(int batch, int layers, bool shared) {
  const std::string rows = std::to_string(batch) + "x8x";
  std::string text = "func.func @main(%a: tensor<" + rows + "16xf32>) -> tensor<" + rows + "32xf32> {\n";
  auto parameter = [&](const std::string &name, const std::string &shape, int elements) {
    text += "%" + name + " = colossal.parameter \"" + name +
            "\" {file = \"\", offset = 0 : i64, bytes = " + std::to_string(4 * elements) +
            " : i64} : tensor<" + shape + "xf32>\n";
  };
  auto contract = [&](const std::string &to, const std::string &from, const std::string &weight, int in,
                      int out) {
    parameter(weight, std::to_string(in) + "x" + std::to_string(out), in * out);
    text += "%" + to + " = colossal.contract %" + from + " [0, 1, 2], %" + weight +
            " [2, 3] -> [0, 1, 3] : (tensor<" + rows + std::to_string(in) + "xf32>, tensor<" +
            std::to_string(in) + "x" + std::to_string(out) + "xf32>) -> tensor<" + rows +
            std::to_string(out) + "xf32> loc(\"" + to + "\")\n";
  };
  auto add = [&](const std::string &to, const std::string &a, const std::string &b) {
    const std::string type = "tensor<" + rows + "16xf32>";
    text += "%" + to + " = colossal.elementwise add(%" + a + ", %" + b + ") : (" + type + ", " + type +
            ") -> " + type + " loc(\"" + to + "\")\n";
  };
  contract("x0", "a", "we", 16, 16);
  for (int l = 0; l < layers; ++l) {
    const std::string n = std::to_string(l);
    contract("u" + n, "x" + n, "wu" + n, 16, 64);
    text += "%r" + n + " = colossal.elementwise relu(%u" + n + ") : (tensor<" + rows + "64xf32>) -> tensor<" +
            rows + "64xf32> loc(\"r" + n + "\")\n";
    if (shared && l == 0) {
      parameter("p", "16", 16);
      const std::string type = "tensor<" + rows + "16xf32>";
      text += "%s = colossal.elementwise add(%a, %p) : (" + type + ", tensor<16xf32>) -> " + type +
              " loc(\"s\")\n";
    }
    contract("d" + n, "r" + n, "wd" + n, 64, 16);
    std::string sum = "d" + n;
    if (shared) {
      add("t" + n, "d" + n, "s");
      sum = "t" + n;
    }
    add("x" + std::to_string(l + 1), "x" + n, sum);
  }
  contract("y", "x" + std::to_string(layers), "wy", 16, 32);
  return text + "return %y : tensor<" + rows + "32xf32>\n}\n";
}

TEST_F(FactorGraphReader, BlocksAreOneKindAndNumbersLeadBack) {
  std::optional<Reading> reading = read([](int batch) { return model(batch, 5, false); });
  ASSERT_TRUE(reading);
  const FactorGraph &graph = reading->graph;
  ASSERT_EQ(graph.units, (std::vector<int>{0, 1, 1, 1, 1, 1, 2}));
  EXPECT_EQ(graph.kinds[1].name, "block");
  ASSERT_EQ(graph.ids.size(), graph.units.size());
  for (int l = 0; l < 5; ++l) {
    // up, relu, down, add: each instance's own.
    ASSERT_EQ(graph.ids[l + 1].size(), 4u);
    mlir::Operation *down = reading->operations[graph.ids[l + 1][2]];
    EXPECT_EQ(mlir::cast<mlir::NameLoc>(down->getLoc()).getName(), "d" + std::to_string(l));
  }
  // The input comes in at the beginning.
  ASSERT_EQ(graph.inputs.size(), 1u);
  EXPECT_EQ(graph.inputs.front().bytes, 8 * 16 * 4);
  EXPECT_EQ(graph.inputs.front().units, (std::vector<int>{0}));
  // The head got a loss, which stands for no operation.
  EXPECT_EQ(graph.kinds[2].operations.back().name, "loss");
  EXPECT_EQ(graph.ids.back().back(), -1);
  EXPECT_GE(graph.ids.back().front(), 0);
}

/// Products one behind the other, each followed by an activation, that make rows of these widths of one
/// of 16.
std::string chain(int batch, const std::vector<int> &widths) {
  auto rows = [&](int width) {
    return "tensor<" + std::to_string(batch) + "x" + std::to_string(width) + "xf32>";
  };
  std::string text = "func.func @main(%a0: " + rows(16) + ") -> " + rows(widths.back()) + " {\n";
  int in = 16;
  for (std::size_t l = 0; l < widths.size(); ++l) {
    const int out = widths[l];
    const std::string n = std::to_string(l), next = std::to_string(l + 1);
    const std::string weight = "tensor<" + std::to_string(in) + "x" + std::to_string(out) + "xf32>";
    text += "%w" + n + " = colossal.parameter \"w" + n +
            "\" {file = \"\", offset = 0 : i64, bytes = " + std::to_string(4 * in * out) +
            " : i64} : " + weight + "\n%c" + n + " = colossal.contract %a" + n + " [0, 1], %w" + n +
            " [1, 2] -> [0, 2] : (" + rows(in) + ", " + weight + ") -> " + rows(out) + " loc(\"c" + n +
            "\")\n%a" + next + " = colossal.elementwise relu(%c" + n + ") : (" + rows(out) + ") -> " +
            rows(out) + " loc(\"a" + next + "\")\n";
    in = out;
  }
  return text + "return %a" + std::to_string(widths.size()) + " : " + rows(in) + "\n}\n";
}

TEST_F(FactorGraphReader, WhatRepeatsNowhereIsCutWhereItHandsOnOneValue) {
  std::optional<Reading> reading = read([](int batch) { return chain(batch, {24, 32, 40, 48, 56, 64, 72}); });
  ASSERT_TRUE(reading);
  const FactorGraph &graph = reading->graph;
  // Of two products each, with the activation behind; the last, with which one would be left over, of three.
  EXPECT_EQ(graph.units, (std::vector<int>{0, 1, 2}));
  for (int unit = 0; unit < 3; ++unit) {
    const UnitKind &kind = graph.kinds[unit];
    EXPECT_EQ(kind.operations.front().name, "c" + std::to_string(2 * unit));
    EXPECT_EQ(kind.inputs.size(), unit > 0 ? 1u : 0u);
    EXPECT_EQ(kind.outputs.size(), unit < 2 ? 1u : 0u);
  }
  // What is given back on the way stays with all behind it, as a loss may be of it.
  reading = read([](int batch) {
    std::string text = chain(batch, {24, 32, 40, 48, 56, 64, 72});
    const std::string given = "tensor<" + std::to_string(batch) + "x40xf32>";
    text.replace(text.find(") -> ") + 5, 0, "(" + given + ", ").insert(text.find(" {\n"), ")");
    return text.replace(text.find("return %a7 : "), 13, "return %a3, %a7 : " + given + ", ");
  });
  ASSERT_TRUE(reading);
  EXPECT_EQ(reading->graph.units, (std::vector<int>{0, 1}));
  // Three products are one unit: two would leave one over.
  reading = read([](int batch) { return chain(batch, {24, 32, 40}); });
  ASSERT_TRUE(reading);
  EXPECT_EQ(reading->graph.units, (std::vector<int>{0}));
}

TEST_F(FactorGraphReader, WhatIsFrozenHasNoGradient) {
  // Nothing is trained up to the second layer's first product.
  std::optional<Reading> reading =
      read([](int batch) { return model(batch, 5, false); }, {"we", "wu0", "wd0", "wu1", "wd3"});
  ASSERT_TRUE(reading);
  const FactorGraph &graph = reading->graph;
  EXPECT_EQ(graph.units, (std::vector<int>{0, 1, 2, 3, 4, 3, 5}));
  EXPECT_EQ(graph.parameters(), 6 * 16 * 64 + 16 * 32);
  auto operand = [&](int kind, int op, int number) -> const Use & {
    return graph.kinds[kind].operations[op].operands[number];
  };
  auto tensor = [&](int kind, int op, int number) -> const Tensor & {
    return graph.kinds[kind].tensors[operand(kind, op, number).tensor];
  };
  enum { Up, Relu, Down, Add };
  EXPECT_EQ(tensor(1, Up, 1).frozen, 16 * 64);
  EXPECT_EQ(tensor(1, Up, 1).stored, 0);
  for (int op : {Up, Relu, Down, Add})
    for (const Use &use : graph.kinds[1].operations[op].operands) {
      EXPECT_EQ(use.gradientFlops, 0) << op;
      EXPECT_FALSE(use.saved) << op;
    }
  EXPECT_TRUE(graph.kinds[1].tensors[graph.kinds[1].outputs[0]].isConstant);
  // The second layer's last product is trained: what it reads is kept, and has no gradient.
  EXPECT_FALSE(operand(2, Up, 0).saved);
  EXPECT_TRUE(operand(2, Down, 0).saved);
  EXPECT_EQ(operand(2, Down, 0).gradientFlops, 0);
  EXPECT_GT(operand(2, Down, 1).gradientFlops, 0);
  EXPECT_FALSE(graph.kinds[2].tensors[graph.kinds[2].outputs[0]].isConstant);
  // A frozen weight behind has a gradient go through it, which reads it, but not what it is multiplied by.
  EXPECT_FALSE(operand(4, Down, 0).saved);
  EXPECT_TRUE(operand(4, Down, 1).saved);
  EXPECT_GT(operand(4, Down, 0).gradientFlops, 0);
  EXPECT_EQ(operand(4, Down, 1).gradientFlops, 0);
}

TEST_F(FactorGraphReader, WhatDoesNotLeadToTheLossHasNoGradient) {
  // The last layer's result is given back as well, by a second output, and the loss is of that.
  auto both = [](int batch) {
    std::string text = model(batch, 3, false);
    const std::string rows = "tensor<" + std::to_string(batch) + "x8x", logits = rows + "32xf32>",
                      both = logits + ", " + rows + "16xf32>";
    text.replace(text.find("-> " + logits), 3 + logits.size(), "-> (" + both + ")");
    const size_t end = text.find("return ");
    return text.substr(0, end) + "return %y, %x3 : " + both + "\n}\n";
  };
  auto headOf = [&](const LossOutput &loss) {
    std::optional<Reading> reading = read(both, {}, loss);
    return reading ? reading->graph.kinds.back() : UnitKind();
  };
  const UnitKind ofLogits = headOf({0, true}), ofLast = headOf({1, false});
  ASSERT_EQ(ofLogits.operations.size(), 2u); // the product, and the loss
  EXPECT_TRUE(ofLogits.operations[0].operands[0].saved);
  EXPECT_EQ(ofLogits.results.size(), 2u);
  ASSERT_EQ(ofLast.operations.size(), 1u);
  for (const Use &use : ofLast.operations[0].operands) {
    EXPECT_EQ(use.gradientFlops, 0);
    EXPECT_FALSE(use.saved);
  }
  EXPECT_GT(ofLogits.parameters(), 0);
  EXPECT_EQ(ofLast.parameters(), 0);
  EXPECT_EQ(ofLast.frozen(), 16 * 32);
  ASSERT_EQ(ofLast.results.size(), 2u);
  EXPECT_EQ(ofLast.results[0], ofLast.operations[0].operands[0].tensor) << "what the loss is of comes first";
}

TEST_F(FactorGraphReader, AProgramIsOneUnitAsItStands) {
  few = parse(model(2, 2, true));
  ASSERT_TRUE(few);
  dist::RefinementAnalysis rules(function(*few));
  std::map<std::string, int> parameters;
  Reading reading = readProgram(function(*few), rules, [](mlir::Operation *) { return false; }, parameters);
  EXPECT_EQ(validate(reading.graph), "");
  ASSERT_EQ(reading.graph.kinds.size(), 1u);
  const UnitKind &kind = reading.graph.kinds[0];
  EXPECT_EQ(parameters.size(), 7u);
  ASSERT_EQ(kind.inputs.size(), 1u);
  ASSERT_EQ(kind.outputs.size(), 1u);
  EXPECT_EQ(kind.tensors[kind.inputs[0]].elements, 2 * 8 * 16);
  ASSERT_EQ(kind.operations.size(), 13u);
  for (std::size_t i = 0; i < kind.operations.size(); ++i) {
    mlir::Operation *op = reading.operations[reading.graph.ids[0][i]];
    EXPECT_EQ(mlir::cast<mlir::NameLoc>(op->getLoc()).getName(), kind.operations[i].name);
    EXPECT_EQ(kind.operations[i].heavy, kind.operations[i].kind == Operation::Contraction);
  }
  const Operation &up = kind.operations[1];
  EXPECT_EQ(up.name, "u0");
  EXPECT_DOUBLE_EQ(up.flops, 2 * 2 * 8 * 16 * 64);
  const Tensor &weight = kind.tensors[up.operands[1].tensor];
  EXPECT_EQ(weight.kind, Tensor::Parameter);
  EXPECT_EQ(weight.shared, parameters["wu0"]);
  EXPECT_TRUE(mlir::isa<ParameterOp>(reading.operations[weight.id]));
  const Tensor &stream = kind.tensors[up.operands[0].tensor];
  EXPECT_EQ(stream.begin, 0);
  EXPECT_EQ(stream.end, 7) << "it is added behind both products";
  // A second program has the same parameters.
  many = parse(model(3, 2, true));
  dist::RefinementAnalysis others(function(*many));
  readProgram(function(*many), others, [](mlir::Operation *) { return false; }, parameters);
  EXPECT_EQ(parameters.size(), 7u);
}

TEST_F(FactorGraphReader, SizesAreOfOneSequence) {
  std::optional<Reading> reading = read([](int batch) { return model(batch, 3, false); });
  ASSERT_TRUE(reading);
  const UnitKind &block = reading->graph.kinds[1];
  const Operation &up = block.operations[0];
  EXPECT_EQ(up.kind, Operation::Contraction);
  EXPECT_DOUBLE_EQ(up.flops, 2 * 8 * 16 * 64);
  double growing = 1, fixed = 1;
  for (const Factor &factor : up.factors)
    (factor.perSequence ? growing : fixed) *= factor.size;
  EXPECT_DOUBLE_EQ(growing, 1);
  EXPECT_DOUBLE_EQ(fixed, 8 * 16 * 64);
  ASSERT_EQ(block.inputs.size(), 1u);
  const Tensor &x = block.tensors[block.inputs[0]];
  EXPECT_TRUE(x.perSequence);
  EXPECT_DOUBLE_EQ(x.elements, 8 * 16);
  EXPECT_EQ(x.end, 4) << "it is added behind both products";
  const Tensor &weight = block.tensors[up.operands[1].tensor];
  EXPECT_EQ(weight.kind, Tensor::Parameter);
  EXPECT_FALSE(weight.perSequence);
  EXPECT_EQ(weight.end, 1);
  EXPECT_DOUBLE_EQ(reading->graph.parameters(), 16 * 16 + 3 * 2 * 16 * 64 + 16 * 32);
}

TEST_F(FactorGraphReader, WhatLayersShareComesBeforeThem) {
  std::optional<Reading> reading = read([](int batch) { return model(batch, 4, true); });
  ASSERT_TRUE(reading);
  // The last layer hands on one value, and the others two: it goes with the head.
  const FactorGraph &graph = reading->graph;
  ASSERT_EQ(graph.units, (std::vector<int>{0, 1, 1, 1, 2}));
  EXPECT_EQ(graph.kinds[0].operations.size(), 2u);
  EXPECT_EQ(graph.kinds[1].operations.size(), 5u);
  EXPECT_EQ(graph.kinds[1].inputs.size(), 2u);
  EXPECT_EQ(graph.kinds[1].outputs.size(), 2u);
  EXPECT_EQ(graph.kinds[2].inputs.size(), 2u);
}

TEST_F(FactorGraphReader, TablesAreReadThroughWhatIsComputedOfThem) {
  // Rows and columns of tables meet a parameter, and a part of the batch to what comes in.
  std::optional<Reading> reading = read([](int batch) {
    const std::string b = std::to_string(batch), rows = "tensor<" + b + "x2x4xf32>";
    const std::string part = "tensor<" + b + "x2x1xf32>";
    std::string each = "[[1.0], [2.0]]", all = each;
    for (int i = 1; i < batch; ++i)
      all += ", " + each;
    return "func.func @main(%a: " + rows + ") -> tensor<" + b +
           "x2x8xf32> {\n"
           "%c = colossal.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32> : tensor<2x1xf32>\n"
           "%e = colossal.constant dense<[" +
           all + "]> : " + part + " : " + part +
           "\n"
           "%p = colossal.parameter \"p\" {file = \"\", offset = 0 : i64, bytes = 16 : i64} : tensor<4xf32>\n"
           "%w = colossal.parameter \"w\" {file = \"\", offset = 16 : i64, bytes = 128 : i64} : "
           "tensor<4x8xf32>\n"
           "%d = colossal.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32> : tensor<4xf32>\n"
           "%r = colossal.elementwise add(%p, %c) : (tensor<4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>\n"
           "%q = colossal.elementwise mul(%r, %d) : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>\n"
           "%x = colossal.elementwise mul(%a, %q) : (" +
           rows + ", tensor<2x4xf32>) -> " + rows + "\n%z = colossal.elementwise add(%x, %e) : (" + rows +
           ", tensor<" + b + "x2x1xf32>) -> " + rows +
           "\n%y = colossal.contract %z [0, 1, 2], %w [2, 3] -> [0, 1, 3] : (" + rows +
           ", tensor<4x8xf32>) -> tensor<" + b + "x2x8xf32>\nreturn %y : tensor<" + b + "x2x8xf32>\n}\n";
  });
  ASSERT_TRUE(reading);
  const FactorGraph &graph = reading->graph;
  EXPECT_EQ(validate(graph), "");
  ASSERT_EQ(graph.tables.size(), 3u);
  EXPECT_DOUBLE_EQ(graph.tables[0].bytes, 2 * 4);
  EXPECT_DOUBLE_EQ(graph.tables[0].bytesPerSequence, 0);
  EXPECT_DOUBLE_EQ(graph.tables[1].bytes, 4 * 4);
  EXPECT_DOUBLE_EQ(graph.tables[2].bytes, 0);
  EXPECT_DOUBLE_EQ(graph.tables[2].bytesPerSequence, 2 * 4);
  for (const Table &table : graph.tables)
    EXPECT_EQ(table.uses.size(), 1u);
  const std::vector<TableUse> &uses = graph.kinds[graph.units[0]].tables;
  ASSERT_EQ(uses.size(), 3u);
  // What the parameter is multiplied by last comes first.
  EXPECT_EQ(graph.tables[1].uses, (std::vector<std::pair<int, int>>{{0, 0}}));
  EXPECT_EQ(uses[0].operation, 0);
  EXPECT_EQ(uses[0].operand, 1);
  EXPECT_EQ(uses[0].dims, std::vector<int>{1});
  EXPECT_EQ(uses[1].operation, 0);
  EXPECT_EQ(uses[1].dims, std::vector<int>{0});
  EXPECT_EQ(uses[2].operation, 1);
  EXPECT_EQ(uses[2].dims, (std::vector<int>{0, 1}));
}

TEST_F(FactorGraphReader, WhatMixesSequencesIsRefused) {
  std::string told;
  mlir::ScopedDiagnosticHandler handler(&context,
                                        [&](mlir::Diagnostic &diagnostic) { told += diagnostic.str(); });
  // 8 places for two sequences and 10 for three.
  EXPECT_FALSE(read([](int batch) {
    const std::string rows = std::to_string(4 + 2 * batch);
    return "func.func @main(%a: tensor<" + rows + "x16xf32>) -> tensor<" + rows +
           "x32xf32> {\n"
           "%w = colossal.parameter \"w\" {file = \"\", offset = 0 : i64, bytes = 2048 : i64} : "
           "tensor<16x32xf32>\n"
           "%y = colossal.contract %a [0, 1], %w [1, 2] -> [0, 2] : (tensor<" +
           rows + "x16xf32>, tensor<16x32xf32>) -> tensor<" + rows + "x32xf32>\nreturn %y : tensor<" + rows +
           "x32xf32>\n}\n";
  }));
  EXPECT_NE(told.find("not in proportion"), std::string::npos) << told;
}

} // namespace
} // namespace colossal::factors
