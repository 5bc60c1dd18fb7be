// Columns of published tables in the terms of the others. Inside lib/Cost only.
#ifndef COLOSSAL_COST_SYNONYMS_H
#define COLOSSAL_COST_SYNONYMS_H

#include <string>
#include <utility>
#include <vector>

namespace colossal::cost {

using Cells = std::vector<std::pair<const char *, std::string>>; ///< column and what stands there

/// A column that says in words of its own what other columns say. Each is read by itself, whatever else the
/// table holds.
struct Synonym {
  const char *column;
  /// What a missing cell of another column means in a table that has this one.
  Cells defaults;
  /// What a value says, as cells of other columns; nullptr: nothing. Fills `error` with what the value must
  /// be.
  Cells (*rewrite)(const std::string &value, std::string &error) = nullptr;
};

const std::vector<Synonym> &synonyms();

} // namespace colossal::cost

#endif // COLOSSAL_COST_SYNONYMS_H
