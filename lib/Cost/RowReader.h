// One row of a table while it is read: cells by column name, with checks and defaults. Inside lib/Cost only.
#ifndef COLOSSAL_COST_ROWREADER_H
#define COLOSSAL_COST_ROWREADER_H

#include "colossal/Cost/Configuration.h"
#include "colossal/Cost/PublishedModels.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
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

/// One row: cells by column name, with checks and defaults.
class RowReader {
public:
  RowReader(ConfigurationReader &reader, std::size_t row) : reader(reader), row(row) {}

  std::string error;

  const std::string *cell(const char *column) const {
    int index = reader.table.column(column);
    if (index < 0)
      return nullptr;
    const std::string &text = reader.table.rows[row][index];
    return text.find_first_not_of(" \t") == std::string::npos ? nullptr : &text;
  }
  bool has(const char *column) const { return cell(column) != nullptr; }
  std::string text(const char *column) const {
    const std::string *found = cell(column);
    return found ? *found : "";
  }
  void fail(const char *column, const std::string &what) {
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
  void torchTitan(TrainingLayout &layout);
  void sc21(const ModelDimensions &model, TrainingLayout &layout);
  void recompute(Recompute &value, Recompute fallback);
  void framework(Configuration &out);
  void precision(TrainingLayout &layout, DataType fallback);
  void schedule(TrainingLayout &layout);
  void layer(Configuration &out);
  void planned(Configuration &out);

private:
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
};

} // namespace colossal::cost

#endif // COLOSSAL_COST_ROWREADER_H
