// How far a prediction can be trusted: the error that was found on published rows like it. Neighbour:
// docs/CostModel.md says how these numbers are made (test/Benchmark/cost_reference.py).
#pragma once

#include "colossal/Cost/Configuration.h"

#include <string>

namespace colossal::cost {

/// The error of the model on one published table.
struct Evidence {
  const char *table;
  int rows;
  bool measured;        ///< false: the rows are output of a simulator
  double meanPercent;   ///< mean absolute percentage error
  double medianPercent; ///< median of the same
  /// Ranges of the table's rows.
  const char *device;
  double devicesLow, devicesHigh;
  double hiddenLow, hiddenHigh;
  double sequenceLow, sequenceHigh;
  /// Of the peak memory where the table has it, otherwise 0.
  double memoryMeanPercent = 0, memoryMedianPercent = 0;
};

/// The table whose rows are most like the question; null if there is none at all for its kind.
const Evidence *evidenceFor(const Configuration &row, const Machine &machine);
/// "mean error 6.1 %, median 3.2 % on 26 measured rows of vtrain_a100_multi", with "extrapolated: " in front
/// where the row or the machine lies outside the range of that table.
std::string describe(const Evidence *evidence, const Configuration &row, const Machine &machine,
                     bool memory = false);

/// The same where the machine is one of the table's kind.
std::string describe(const Evidence *evidence, const Configuration &row);

} // namespace colossal::cost
