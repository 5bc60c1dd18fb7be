// How far a prediction can be trusted: the error that was found on rows like it, as the machine's own file
// states it. A machine without evidence has no error to quote.
#ifndef COLOSSAL_COST_EVIDENCE_H
#define COLOSSAL_COST_EVIDENCE_H

#include "colossal/Cost/Configuration.h"

#include <cstdint>
#include <string>

namespace colossal::cost {

/// The entry of `machine` whose rows are most like `row`: the fewest kinds and ranges that the row lies
/// outside of, and of equal ones the first. Null if the machine has none for the row's question.
const Evidence *evidenceFor(const Configuration &row, const Machine &machine);

/// "mean error 6.1 %, median 3.2 % on 26 measured rows of vtrain_a100_multi", with "in-sample" in front where
/// the machine was fitted to those rows, and "extrapolated: " where the row lies outside of them. `memory`
/// adds the error of peak memory, where the machine has one.
std::string describe(const Evidence *evidence, const Configuration &row, const Machine &machine,
                     bool memory = false);

/// The same for the time of a compiled plan on `ranks` threads of this host: of whole plans if the machine
/// has such evidence, otherwise of the kernels of its calibration.
std::string describePlanEvidence(const Machine &machine, std::int64_t ranks);

} // namespace colossal::cost

#endif // COLOSSAL_COST_EVIDENCE_H
