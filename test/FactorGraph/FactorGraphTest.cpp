// Lives and validation of a graph that is written here.
#include "colossal/FactorGraph/FactorGraph.h"

#include <gtest/gtest.h>

namespace colossal::factors {
namespace {

Use use(int tensor) {
  Use one;
  one.tensor = tensor;
  return one;
}

Operation operation(const std::string &name, Operation::Kind kind, std::vector<int> operands, int result) {
  Operation op;
  op.name = name;
  op.kind = kind;
  for (int tensor : operands)
    op.operands.push_back(use(tensor));
  op.results = {use(result)};
  return op;
}

/// x comes in; seen = view(x), made = seen w, out = made + x goes out; loose is read by nobody.
UnitKind block() {
  UnitKind kind;
  kind.name = "block";
  for (const char *name : {"x", "w", "seen", "made", "out", "loose"}) {
    Tensor tensor;
    tensor.name = name;
    tensor.elements = 8;
    kind.tensors.push_back(tensor);
  }
  kind.operations = {
      operation("view", Operation::View, {0}, 2), operation("product", Operation::Contraction, {2, 1}, 3),
      operation("side", Operation::Streaming, {3}, 5), operation("add", Operation::Streaming, {3, 0}, 4)};
  kind.inputs = {0};
  kind.outputs = {4};
  findLives(kind);
  return kind;
}

TEST(FactorGraph, TensorsLiveFromTheirMakerToTheirLastReader) {
  UnitKind kind = block();
  auto life = [&](int tensor) { return std::pair(kind.tensors[tensor].begin, kind.tensors[tensor].end); };
  EXPECT_EQ(life(0), std::pair(0, 4));
  EXPECT_EQ(life(1), std::pair(0, 2));
  EXPECT_EQ(life(2), std::pair(0, 2));
  EXPECT_EQ(life(3), std::pair(1, 4));
  EXPECT_EQ(life(4), std::pair(3, 4));
  EXPECT_EQ(life(5), std::pair(2, 3)) << "what nobody reads is there while it is made";
  // What a view shows lies in its operand, through any number of views.
  kind.operations[3].operands[1] = use(2);
  kind.outputs = {2};
  findLives(kind);
  EXPECT_EQ(life(2), std::pair(0, 4));
  EXPECT_EQ(life(0), std::pair(0, 4));
}

TEST(FactorGraph, WhatAllTurnsReadLivesToTheEnd) {
  UnitKind kind = block();
  kind.operations[1].repeated = kind.operations[2].repeated = true;
  findLives(kind);
  auto end = [&](int tensor) { return kind.tensors[tensor].end; };
  EXPECT_EQ(end(1), 4) << "read by a product that each turn does";
  EXPECT_EQ(end(2), 4);
  EXPECT_EQ(end(5), 3) << "made in the loop, so anew in each turn";
}

TEST(FactorGraph, ValidationNamesWhatIsWrong) {
  FactorGraph graph;
  EXPECT_EQ(validate(graph), "units: there are none");
  graph.kinds = {block()};
  graph.units = {0, 0};
  EXPECT_EQ(validate(graph), "");
  graph.ids = {{0, 1, 2, 3}};
  EXPECT_EQ(validate(graph), "ids: there must be those of every unit");
  graph.ids = {{0, 1, 2, 3}, {4, 5}};
  EXPECT_EQ(validate(graph), "ids[1]: must have one number for each operation");
  graph.ids[1] = {4, 5, 6, -1};
  EXPECT_EQ(validate(graph), "");
  graph.kinds[0].tensors[0].end = 2;
  EXPECT_EQ(validate(graph), "kinds[0] (block): tensor 'x' is not there when 'add' uses it");
  graph.kinds[0] = block();
  graph.kinds[0].operations[1].operands[0] = use(9);
  EXPECT_EQ(validate(graph), "kinds[0] (block): operation 'product' names a tensor that is not there");
  graph.kinds[0] = block();
  graph.kinds[0].tables = {{1, 0, {0}}};
  graph.tables = {{8, 0, {{0, 0}, {1, 0}}}};
  EXPECT_EQ(validate(graph), "");
  graph.tables[0].uses[1] = {1, 1};
  EXPECT_EQ(validate(graph), "tables: one is read where no unit does");
  graph.tables.clear();
  graph.kinds[0].tables[0].operand = 9;
  EXPECT_EQ(validate(graph), "kinds[0] (block): a table is read by an operand that is not there");
  graph.kinds[0] = block();
  graph.kinds[0].outputs.clear();
  EXPECT_EQ(validate(graph), "units[1]: takes 1 tensors, the unit before gives 0");
}

} // namespace
} // namespace colossal::factors
