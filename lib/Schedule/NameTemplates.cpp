//===- NameTemplates.cpp - names of several places as one text --------------===//
#include "NameTemplates.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace colossal::schedule;
using llvm::StringRef;

/// The number that a text is, where it is written as numbers are printed.
static std::optional<int64_t> getNumber(StringRef text) {
  int64_t number = 0;
  if (text.empty() || text.size() > 15 || (text.size() > 1 && text.front() == '0') ||
      !llvm::all_of(text, llvm::isDigit) || text.getAsInteger(10, number))
    return std::nullopt;
  return number;
}

/// Runs of digits and what stands between them, alternating.
static llvm::SmallVector<StringRef, 16> split(StringRef name) {
  llvm::SmallVector<StringRef, 16> parts;
  for (size_t begin = 0, end = 0; begin < name.size(); begin = end) {
    const bool isNumber = llvm::isDigit(name[begin]);
    while (end < name.size() && llvm::isDigit(name[end]) == isNumber)
      ++end;
    parts.push_back(name.slice(begin, end));
  }
  return parts;
}

std::string NameTemplates::addGap(Column column) {
  auto [known, isNew] = gaps.try_emplace(column);
  if (!isNew)
    return known->second;
  std::vector<int64_t> differences;
  std::optional<int64_t> first = getNumber(column.front());
  for (StringRef text : column)
    if (std::optional<int64_t> number = first ? getNumber(text) : std::nullopt)
      differences.push_back(*number - *first);
  if (differences.size() == places) {
    auto [like, isFirst] = numbers.try_emplace(differences, columns.size(), *first);
    if (!isFirst) {
      const int64_t more = *first - like->second.second;
      return known->second = "{" + std::to_string(like->second.first) + (more < 0 ? "-" : "+") +
                             std::to_string(std::abs(more)) + "}";
    }
  }
  known->second = "{" + std::to_string(columns.size()) + "}";
  columns.push_back(std::move(column));
  return known->second;
}

/// A byte inside of a character of UTF-8.
static bool isInside(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

std::string NameTemplates::addMiddle(llvm::ArrayRef<StringRef> names) {
  StringRef before = names.front(), after = names.front();
  auto shorten = [](size_t &length, size_t most, auto isEqual) {
    length = std::min(length, most);
    for (size_t i = 0; i < length; ++i)
      if (!isEqual(i)) {
        length = i;
        return;
      }
  };
  size_t head = before.size();
  for (StringRef name : names)
    shorten(head, name.size(), [&](size_t i) { return name[i] == before[i]; });
  while (head > 0 &&
         llvm::any_of(names, [&](StringRef name) { return head < name.size() && isInside(name[head]); }))
    --head;
  size_t tail = after.size() - head;
  for (StringRef name : names)
    shorten(tail, name.size() - head,
            [&](size_t i) { return name[name.size() - 1 - i] == after[after.size() - 1 - i]; });
  while (tail > 0 && isInside(after[after.size() - tail]))
    --tail;
  Column column;
  for (StringRef name : names)
    column.push_back(name.substr(head, name.size() - head - tail));
  return before.take_front(head).str() + addGap(std::move(column)) + after.take_back(tail).str();
}

std::string NameTemplates::add(llvm::ArrayRef<StringRef> names) {
  // What looks like a gap is no text between gaps.
  const bool hasBraces = llvm::any_of(names, [](StringRef name) { return name.contains('{'); });
  if (!hasBraces && llvm::all_equal(names))
    return names.front().str();
  std::vector<llvm::SmallVector<StringRef, 16>> parts;
  parts.reserve(names.size());
  for (StringRef name : names)
    parts.push_back(split(name));
  const bool isAlike = !hasBraces && llvm::all_of(parts, [&](const auto &of) {
    if (of.size() != parts.front().size())
      return false;
    for (auto [mine, first] : llvm::zip_equal(of, parts.front()))
      if (llvm::isDigit(mine.front()) != llvm::isDigit(first.front()) ||
          (!llvm::isDigit(mine.front()) && mine != first))
        return false;
    return true;
  });
  if (!isAlike)
    return hasBraces ? addGap(Column(names.begin(), names.end())) : addMiddle(names);
  std::string text;
  for (size_t i = 0; i < parts.front().size(); ++i) {
    if (llvm::all_of(parts, [&](const auto &of) { return of[i] == parts.front()[i]; })) {
      text += parts.front()[i];
      continue;
    }
    Column column;
    column.reserve(parts.size());
    for (const auto &of : parts)
      column.push_back(of[i]);
    text += addGap(std::move(column));
  }
  return text;
}

std::vector<std::string> NameTemplates::getNames(size_t place) const {
  std::vector<std::string> names;
  for (const Column &column : columns)
    names.push_back(column[place].str());
  return names;
}
