// Gaps in names.
#include "colossal/Plan/Names.h"

#include <algorithm>
#include <charconv>

namespace colossal::plan {

namespace {

template <class Number>
bool parse(const std::string &text, size_t begin, size_t end, Number &number) {
  const char *first = text.data() + begin, *last = text.data() + end;
  const auto [stopped, error] = std::from_chars(first, last, number);
  return begin < end && error == std::errc() && stopped == last;
}

/// Appends the number that text[begin, end) is and `more`; false where it is none.
bool addNumber(const std::string &text, size_t begin, size_t end, int64_t more, std::string &filled) {
  int64_t number, sum;
  if (!parse(text, begin, end, number) || __builtin_add_overflow(number, more, &sum))
    return false;
  filled += std::to_string(sum);
  return true;
}

/// What stands for text[open, close], which begins and ends with braces; false where that is no gap.
bool fill(const std::string &text, size_t open, size_t close,
          const google::protobuf::RepeatedPtrField<std::string> &names, std::string &filled) {
  const size_t sign = std::min(text.find_first_of("+-", open), close);
  uint32_t index;
  if (!parse(text, open + 1, sign, index) || index >= static_cast<uint32_t>(names.size()))
    return false;
  const std::string &name = names.Get(static_cast<int>(index));
  if (sign == close) {
    filled += name;
    return true;
  }
  int64_t more;
  if (!parse(text, sign + (text[sign] == '+' ? 1 : 0), close, more))
    return false;
  if (name.size() < 2 || name.front() != '{' || name.back() != '}')
    return addNumber(name, 0, name.size(), more, filled);
  std::string list;
  for (size_t begin = 1; begin < name.size();) {
    const size_t end = std::min(name.find(',', begin), name.size() - 1);
    list += list.empty() ? '{' : ',';
    if (!addNumber(name, begin, end, more, list))
      return false;
    begin = end + 1;
  }
  filled += list + '}';
  return true;
}

} // namespace

std::string fillNames(const std::string &text, const google::protobuf::RepeatedPtrField<std::string> &names) {
  std::string filled;
  for (size_t at = 0; at < text.size();) {
    const size_t open = std::min(text.find('{', at), text.size());
    filled.append(text, at, open - at);
    if (open == text.size())
      break;
    const size_t close = text.find('}', open);
    if (close != std::string::npos && fill(text, open, close, names, filled)) {
      at = close + 1;
    } else {
      filled += '{';
      at = open + 1;
    }
  }
  return filled;
}

} // namespace colossal::plan
