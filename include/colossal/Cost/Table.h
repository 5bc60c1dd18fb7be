// A table of comma-separated values: comment lines that start with '#', a line of column names, then rows.
// Cells may be quoted.
#ifndef COLOSSAL_COST_TABLE_H
#define COLOSSAL_COST_TABLE_H

#include <string>
#include <string_view>
#include <vector>

namespace colossal::cost {

struct Table {
  std::vector<std::string> comments; ///< whole lines
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows; ///< as many cells as columns
  std::vector<int> lines;                     ///< line of the file on which each row starts, from 1

  /// The column's index, or -1.
  int column(std::string_view name) const;
};

struct TableResult {
  Table table;
  /// Empty on success; otherwise "line 7: 11 cells, but there are 12 columns".
  std::string error;
};

/// Blanks around column names are dropped. Refuses unequal rows, empty and repeated column names, open quotes
/// and tables without a row of names.
TableResult parseTable(std::string_view text);
/// parseTable of a file, errors prefixed with its name. At most 256 MiB.
TableResult readTable(const std::string &path);
std::string printTable(const Table &table);

} // namespace colossal::cost

#endif // COLOSSAL_COST_TABLE_H
