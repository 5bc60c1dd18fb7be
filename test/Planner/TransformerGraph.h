// A GPT as a factor graph, written by hand: what its reader makes of an imported model, for tests
// without the compiler.
#ifndef COLOSSAL_TEST_PLANNER_TRANSFORMERGRAPH_H
#define COLOSSAL_TEST_PLANNER_TRANSFORMERGRAPH_H

#include "colossal/Planner/BlockPlanner.h"

namespace colossal::planner {

struct TransformerSizes {
  int layers = 4;
  double hidden = 64, heads = 4, sequence = 32, vocabulary = 512;
  bool tied = true;
};
FactorGraph makeTransformer(const TransformerSizes &sizes);

} // namespace colossal::planner

#endif // COLOSSAL_TEST_PLANNER_TRANSFORMERGRAPH_H
