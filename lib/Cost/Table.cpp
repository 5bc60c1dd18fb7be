// Reads and prints comma-separated values.
#include "colossal/Cost/Table.h"

#include "colossal/Output/OutputFile.h"

#include <algorithm>
#include <fstream>
#include <iterator>

namespace colossal::cost {

int Table::column(std::string_view name) const {
  auto found = std::find(columns.begin(), columns.end(), name);
  return found == columns.end() ? -1 : static_cast<int>(found - columns.begin());
}

namespace {

std::string at(int line, const std::string &what) {
  return "line " + std::to_string(line) + ": " + what;
}

std::string checkColumns(const Table &table, int line) {
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].empty())
      return at(line, "column " + std::to_string(i + 1) + " has no name");
    if (std::count(table.columns.begin(), table.columns.end(), table.columns[i]) > 1)
      return at(line, "column '" + table.columns[i] + "' is there twice");
  }
  return "";
}

/// Cells of the record at `position`, which is moved behind it. Quoted cells may hold commas, quotes ("") and
/// ends of lines. False at an open quote.
bool record(std::string_view text, std::size_t &position, int &line, std::vector<std::string> &cells) {
  cells.assign(1, "");
  bool quoted = false;
  while (position < text.size()) {
    char c = text[position++];
    if (quoted) {
      if (c == '\n')
        ++line;
      if (c != '"')
        cells.back() += c;
      else if (position < text.size() && text[position] == '"')
        cells.back() += text[position++];
      else
        quoted = false;
    } else if (c == '"' && cells.back().empty()) {
      quoted = true;
    } else if (c == ',') {
      cells.emplace_back();
    } else if (c == '\n') {
      ++line;
      return true;
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  return !quoted;
}

std::string quoted(const std::string &cell) {
  if (cell.find_first_of(",\"\n") == std::string::npos)
    return cell;
  std::string out = "\"";
  for (char c : cell)
    out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

} // namespace

TableResult parseTable(std::string_view text) {
  TableResult result;
  Table &table = result.table;
  std::size_t position = text.substr(0, 3) == "\xEF\xBB\xBF" ? 3 : 0; // a byte order mark
  int line = 1;
  std::vector<std::string> cells;
  while (position < text.size()) {
    int start = line;
    if (text[position] == '#') {
      std::size_t end = std::min(text.find('\n', position), text.size());
      std::string comment(text.substr(position, end - position));
      if (!comment.empty() && comment.back() == '\r')
        comment.pop_back();
      table.comments.push_back(comment);
      position = std::min(end + 1, text.size());
      ++line;
      continue;
    }
    if (!record(text, position, line, cells)) {
      result.error = at(start, "a quote is not closed");
      return result;
    }
    if (cells.size() == 1 && cells[0].find_first_not_of(" \t") == std::string::npos)
      continue;
    if (table.columns.empty()) {
      for (const std::string &cell : cells) {
        std::size_t first = cell.find_first_not_of(" \t"), last = cell.find_last_not_of(" \t");
        table.columns.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
      }
      result.error = checkColumns(table, start);
      if (!result.error.empty())
        return result;
    } else if (cells.size() != table.columns.size()) {
      result.error = at(start, std::to_string(cells.size()) + " cells, but there are " +
                                   std::to_string(table.columns.size()) + " columns");
      return result;
    } else {
      table.rows.push_back(cells);
      table.lines.push_back(start);
    }
  }
  if (table.columns.empty())
    result.error = "there is no line of column names";
  return result;
}

TableResult readTable(const std::string &path) {
  TableResult result;
  noteInput(path);
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  std::streamoff size = in.is_open() ? static_cast<std::streamoff>(in.tellg()) : -1;
  if (size < 0 || size > (std::streamoff(256) << 20)) {
    result.error = path + (size < 0 ? ": cannot be read" : ": larger than 256 MiB");
    noteUnusableInput();
    return result;
  }
  std::string text(static_cast<std::size_t>(size), '\0');
  in.seekg(0);
  in.read(text.data(), size);
  if (!in) {
    result.error = path + ": cannot be read";
    noteUnusableInput();
    return result;
  }
  result = parseTable(text);
  if (!result.error.empty())
    result.error = path + ": " + result.error;
  return result;
}

std::string printTable(const Table &table) {
  std::string out;
  for (const std::string &comment : table.comments)
    out += comment + "\n";
  auto line = [&](const std::vector<std::string> &cells) {
    for (std::size_t i = 0; i < cells.size(); ++i)
      out += (i ? "," : "") + quoted(cells[i]);
    out += "\n";
  };
  line(table.columns);
  for (const auto &row : table.rows)
    line(row);
  return out;
}

} // namespace colossal::cost
