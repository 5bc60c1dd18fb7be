//===- Report.h - what the search chose, in words ---------------------------===//
#ifndef COLOSSAL_LIB_LAYOUT_REPORT_H
#define COLOSSAL_LIB_LAYOUT_REPORT_H

#include "Model.h"

#include "colossal/Layout/Layout.h"
#include "colossal/Search/Solver.h"

namespace colossal::layout {

/// Fills `report` for the chosen candidates, and tells of each op where it `explains`. Transfers are counted
/// as the partitioner makes them: one for all uses of a value in one layout.
void describe(Model &model, const search::Solution &solution, LayoutReport &report, bool explains = true);

/// Where the memory goes in the chosen candidates at their peak: "weights 40.0 MiB, activations 3.2 MiB, ...;
/// largest: ...".
std::string describeMemory(const Model &model, const search::Assignment &chosen);

/// "1.5 MiB".
std::string printBytes(double bytes);

} // namespace colossal::layout

#endif // COLOSSAL_LIB_LAYOUT_REPORT_H
