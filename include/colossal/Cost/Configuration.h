// What a row of a table asks: a training step of some model in some layout, a collective, one layer, or the
// memory of the first stage. Columns are known by name; docs/CostModel.md lists them.
#ifndef COLOSSAL_COST_CONFIGURATION_H
#define COLOSSAL_COST_CONFIGURATION_H

#include "colossal/Cost/PlanGrid.h"
#include "colossal/Cost/Table.h"
#include "colossal/Cost/Training.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace colossal::cost {

enum class Question {
  Nothing,    ///< nothing that describes a model, a layout or a collective; `note` says why
  Step,       ///< a training step
  BestStep,   ///< of the best plan under `choices`
  AllReduce,  ///< of size_B bytes over n_gpus
  Layer,      ///< one layer's forward and backward pass
  StageMemory ///< parameters and activations of the first stage, by kind of recompute
};

struct Configuration {
  Question question = Question::Nothing;
  ModelDimensions model;
  /// In place of `model`, where the row describes a convolutional network.
  std::optional<ResidualNetwork> network;
  TrainingLayout layout;
  /// What the planner that the row names may use.
  PlanChoices choices;
  /// Whose costs the step has.
  std::string framework = "eager";
  /// Why there is no prediction.
  std::string note;
  /// Of the collective.
  double bytes = 0;
  /// Devices of the row: tp * cp * dp * pp, or of the collective.
  int devices = 1;
  /// "a100", "v100", ...: the kind of device that the row names; empty: the table's machine.
  std::string device;
  /// StageMemory: rows in percent of the baseline rather than in GiB.
  bool percent = false;
  /// "line 7: column 'tp': ..." if the row is refused.
  std::string error;
};

class ConfigurationReader {
public:
  /// `error()` names the columns that are not known.
  explicit ConfigurationReader(const Table &table);
  const std::string &error() const { return problem; }
  /// False if no column describes anything: all rows ask Question::Nothing.
  bool describesAnything() const { return described; }
  /// True if a column holds measured memory.
  bool asksForMemory() const;

  Configuration read(std::size_t row);
  /// What was assumed for missing columns and empty cells so far, as "recompute" -> "full".
  const std::map<std::string, std::string> &defaults() const { return assumed; }

private:
  friend class RowReader;
  const Table &table;
  bool described = false;
  std::string problem;
  std::map<std::string, std::string> assumed;
};

/// Names of all known columns, and what they mean.
struct ColumnInfo {
  const char *name;
  const char *meaning;
  bool measured; ///< carried through, never read
};
const std::vector<ColumnInfo> &knownColumns();

} // namespace colossal::cost

#endif // COLOSSAL_COST_CONFIGURATION_H
