// One row of a table while it is read: cells by column name, with checks and defaults. Inside lib/Cost only.
#ifndef COLOSSAL_COST_ROWREADER_H
#define COLOSSAL_COST_ROWREADER_H

#include "colossal/Cost/Configuration.h"
#include "colossal/Cost/PublishedModels.h"

#include "Synonyms.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <sstream>
#include <string>

namespace colossal::cost {

inline std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

inline bool contains(const std::string &text, const char *part) {
  return text.find(part) != std::string::npos;
}

inline std::string shortNumber(double x) {
  std::ostringstream out;
  out.precision(9);
  out << x;
  return out.str();
}

/// One row: cells by column name, with checks and defaults. A cell is the row's own, or what a synonym says
/// in its place.
class RowReader {
public:
  RowReader(ConfigurationReader &reader, std::size_t row) : reader(reader), row(row) {
    for (const Synonym &synonym : synonyms()) {
      if (reader.table.column(synonym.column) < 0)
        continue;
      for (const auto &[column, value] : synonym.defaults)
        defaults.emplace(column, value);
      const std::string *said = own(synonym.column);
      if (!said || !synonym.rewrite)
        continue;
      std::string wrong;
      for (const auto &[column, value] : synonym.rewrite(*said, wrong))
        bySynonym.emplace(column, std::pair{value, synonym.column});
      if (!wrong.empty())
        fail(synonym.column, wrong + ", is '" + *said + "'");
    }
  }

  std::string error;

  const std::string *cell(const char *column) const {
    if (const std::string *text = own(column))
      return text;
    auto found = bySynonym.find(column);
    return found == bySynonym.end() ? nullptr : &found->second.first;
  }
  bool has(const char *column) const { return cell(column) != nullptr; }
  std::string text(const char *column) const {
    const std::string *found = cell(column);
    return found ? *found : "";
  }
  /// What the table's columns say that a missing cell means; null: nothing beyond the usual.
  const std::string *defaultOf(const char *column) const {
    auto found = defaults.find(column);
    return found == defaults.end() ? nullptr : &found->second;
  }
  /// The cell, or what a missing one means, which is written down.
  std::string textOr(const char *column) {
    if (has(column) || !defaultOf(column))
      return text(column);
    assume(column, *defaultOf(column));
    return *defaultOf(column);
  }
  void fail(const char *column, const std::string &what) {
    auto found = bySynonym.find(column);
    if (!own(column) && found != bySynonym.end())
      column = found->second.second;
    if (error.empty())
      error = "line " + std::to_string(reader.table.lines[row]) + ": column '" + column + "': " + what;
  }
  void assume(const char *column, const std::string &value) { reader.assumed.emplace(column, value); }

  /// The cell's number, if there is one.
  std::optional<double> number(const char *column, double low, double high, bool whole = true) {
    const std::string *found = cell(column);
    if (!found)
      return std::nullopt;
    char *end = nullptr;
    double value = std::strtod(found->c_str(), &end);
    while (*end == ' ' || *end == '\t')
      ++end;
    if (end != found->c_str() + found->size() || end == found->c_str()) {
      fail(column, "'" + std::string(found->c_str()) + "' is not a number"); // up to a NUL
      return std::nullopt;
    }
    if (!(value >= low && value <= high) || (whole && value != std::floor(value))) {
      fail(column, std::string("must be ") + (whole ? "a whole number " : "") + "from " + shortNumber(low) +
                       " to " + shortNumber(high) + ", is " + *found);
      return std::nullopt;
    }
    return value;
  }
  double numberOr(const char *column, double fallback, double low, double high, bool whole = true) {
    if (auto value = number(column, low, high, whole))
      return *value;
    if (const std::string *known = defaultOf(column))
      fallback = std::strtod(known->c_str(), nullptr);
    if (!has(column))
      assume(column, shortNumber(fallback));
    return fallback;
  }
  int count(const char *column, int fallback) {
    return static_cast<int>(numberOr(column, fallback, 1, 1 << 24));
  }
  bool flag(const char *column, bool fallback) { return numberOr(column, fallback ? 1 : 0, 0, 1) != 0; }

  bool isConvolutional() const;
  std::optional<double> parametersOfAlike() const;
  void network(Configuration &out, std::optional<double> parametersB);
  void stateOfNetwork(TrainingLayout &layout);
  void model(ModelDimensions &model, Suite suite, std::optional<double> parametersB = std::nullopt);
  void layout(const ModelDimensions &model, TrainingLayout &layout);
  void state(TrainingLayout &layout);
  void recompute(Recompute &value, Recompute fallback);
  void framework(Configuration &out);
  void precision(TrainingLayout &layout, DataType fallback);
  void schedule(const ModelDimensions &model, TrainingLayout &layout);
  void planned(Configuration &out);

private:
  const std::string *own(const char *column) const {
    int index = reader.table.column(column);
    if (index < 0)
      return nullptr;
    const std::string &text = reader.table.rows[row][index];
    return text.find_first_not_of(" \t") == std::string::npos ? nullptr : &text;
  }
  void splitModelParallelRanks(const ModelDimensions &model, TrainingLayout &layout);
  void batches(TrainingLayout &layout);
  /// Product of the ranks' numbers, at most 2^24; otherwise the row is refused and all are set to 1.
  int product(TrainingLayout &layout) {
    double all = static_cast<double>(layout.tensor) * layout.context * layout.pipeline * layout.data;
    if (all > 1 << 24) {
      fail("tp", "more than 2^24 devices");
      layout.tensor = layout.context = layout.pipeline = layout.data = 1;
    }
    return layout.devices();
  }

  ConfigurationReader &reader;
  std::size_t row;
  std::map<std::string, std::pair<std::string, const char *>> bySynonym; ///< by synonyms, and by which
  std::map<std::string, std::string> defaults;
};

} // namespace colossal::cost

#endif // COLOSSAL_COST_ROWREADER_H
