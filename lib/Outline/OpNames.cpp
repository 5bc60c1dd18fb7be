//===- OpNames.cpp - what people call ops -----------------------------------===//
#include "colossal/Outline/OpNames.h"

#include "dialects/Colossal/Colossal.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include <array>
#include <string_view>

using namespace mlir;
using namespace colossal;
using namespace colossal::outline;

static void collectNames(Location location, std::vector<std::string> &names) {
  if (auto name = dyn_cast<NameLoc>(location)) {
    std::string text = name.getName().str();
    if (text != "-" && !text.empty() && !llvm::is_contained(names, text))
      names.push_back(text);
    collectNames(name.getChildLoc(), names);
  } else if (auto fused = dyn_cast<FusedLoc>(location)) {
    for (Location part : fused.getLocations())
      collectNames(part, names);
  } else if (auto call = dyn_cast<CallSiteLoc>(location)) {
    collectNames(call.getCallee(), names);
  }
}

std::vector<std::string> outline::getNames(Location location) {
  std::vector<std::string> names;
  collectNames(location, names);
  return names;
}

static constexpr StringRef kAgain = ".again";

std::string outline::nameAgain(StringRef name) {
  return (name + kAgain).str();
}

static constexpr StringRef kGradient = ".gradient";

std::string outline::nameGradient(StringRef name) {
  return (name + kGradient).str();
}

StringRef outline::nameOfGradient(StringRef name) {
  return name.consume_back(kGradient) ? name : "";
}

bool outline::nameFirstTime(std::vector<std::string> &names) {
  bool isAgain = false;
  for (std::string &name : names) {
    // The number of a name and the program that it is of may stand behind.
    const size_t at = name.rfind(kAgain.str());
    if (at == std::string::npos)
      continue;
    const size_t behind = at + kAgain.size();
    if (behind == name.size() || name[behind] == '#' || name[behind] == '@') {
      name.erase(at, kAgain.size());
      isAgain = true;
    }
  }
  return isAgain;
}

StringRef outline::getFirstName(Location location) {
  if (auto name = dyn_cast<NameLoc>(location)) {
    StringRef text = name.getName().getValue();
    return text != "-" && !text.empty() ? text : getFirstName(name.getChildLoc());
  }
  if (auto fused = dyn_cast<FusedLoc>(location)) {
    for (Location part : fused.getLocations())
      if (StringRef text = getFirstName(part); !text.empty())
        return text;
  } else if (auto call = dyn_cast<CallSiteLoc>(location)) {
    return getFirstName(call.getCallee());
  }
  return "";
}

llvm::DenseMap<Operation *, std::string> outline::getUniqueNames(func::FuncOp function) {
  llvm::DenseMap<Operation *, std::string> unique;
  llvm::StringMap<unsigned> seen;
  for (Operation &op : function.getOps()) {
    if (!isa<dist::ShardingRuleOpInterface>(op))
      continue;
    std::string name;
    if (auto parameter = dyn_cast<ParameterOp>(op)) {
      name = parameter.getName().str();
    } else {
      StringRef first = getFirstName(op.getLoc());
      name = (first.empty() ? op.getName().stripDialect() : first).str();
    }
    if (unsigned count = ++seen[name]; count > 1)
      name += "#" + std::to_string(count);
    unique[&op] = name;
  }
  return unique;
}

// The library's matcher calls itself for each character, and its parser for each parenthesis.
static constexpr size_t kLongestExpression = 1000, kLongestName = 4000;

static constexpr std::string_view kSpecial = "\\^$.|?*+()[]{}";

/// Whether each character is one of kSpecial: every name of a model is looked through.
static constexpr auto kIsSpecial = [] {
  std::array<bool, 256> isSpecial{};
  for (char c : kSpecial)
    isSpecial[static_cast<unsigned char>(c)] = true;
  return isSpecial;
}();
static bool isSpecial(char c) {
  return kIsSpecial[static_cast<unsigned char>(c)];
}

/// The name that an expression without operators stands for.
static std::optional<std::string> readLiteral(StringRef expression) {
  std::string name;
  for (size_t i = 0; i < expression.size(); ++i) {
    if (expression[i] == '\\' && i + 1 < expression.size() && isSpecial(expression[i + 1]))
      ++i;
    else if (isSpecial(expression[i]))
      return std::nullopt;
    name += expression[i];
  }
  return name;
}

std::optional<NamePattern> NamePattern::parse(const std::string &text, std::string &error) {
  NamePattern pattern;
  pattern.literal = readLiteral(text);
  if (pattern.literal)
    return pattern;
  if (text.size() > kLongestExpression) {
    error = "its expression has " + std::to_string(text.size()) + " characters, and at most " +
            std::to_string(kLongestExpression) + " are possible where it is not one name";
    return std::nullopt;
  }
  try {
    pattern.expression = std::regex(text, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error &) {
    error = "'" + text + "' is no regular expression; what a name has of " + std::string(kSpecial) +
            " is written with a \\ before it";
    return std::nullopt;
  }
  return pattern;
}

bool NamePattern::matches(ArrayRef<std::string> names) const {
  return llvm::any_of(names, [&](const std::string &candidate) {
    return literal ? candidate == *literal
                   : candidate.size() <= kLongestName && std::regex_match(candidate, expression);
  });
}

void outline::appendEscaped(StringRef name, std::string &text) {
  for (size_t begin = 0; begin < name.size();) {
    size_t end = begin + 1; // up to the next special one
    while (end < name.size() && !isSpecial(name[end]))
      ++end;
    if (isSpecial(name[begin]))
      text += '\\';
    text.append(name.data() + begin, end - begin);
    begin = end;
  }
}

std::string outline::escapeName(StringRef name) {
  std::string escaped;
  appendEscaped(name, escaped);
  return escaped;
}

namespace {
/// An expression that a name may share with others: `before`, a number, `after`; or, without a number,
/// `before` alone.
struct Shared {
  StringRef before, after, number;
};
/// Lines that differ by what an expression leaves open.
struct PinGroup {
  Shared shared;
  SmallVector<std::pair<StringRef, SmallVector<size_t, 2>>, 1> linesOf; ///< by layout

  SmallVector<size_t, 2> &getLines(StringRef layout) {
    for (auto &[known, lines] : linesOf)
      if (known == layout)
        return lines;
    return linesOf.emplace_back(layout, SmallVector<size_t, 2>()).second;
  }
};
} // namespace

/// Calls `handle` with the begin and end of each number in the name.
static void forEachNumber(StringRef name, llvm::function_ref<void(size_t, size_t)> handle) {
  for (size_t at = 0; at < name.size(); ++at)
    if (llvm::isDigit(name[at])) {
      size_t end = at + 1;
      while (end < name.size() && llvm::isDigit(name[end]))
        ++end;
      handle(at, end);
      at = end;
    }
}

/// Makes `open` what the name, an expression that matches nothing else, may share with names that differ by
/// any of their numbers.
static void setOpen(StringRef name, std::string &open) {
  open.clear();
  size_t last = 0;
  forEachNumber(name, [&](size_t begin, size_t end) {
    open += name.slice(last, begin);
    open += "\\d+";
    last = end;
  });
  open += name.drop_front(last);
}

/// What the name may share with names that differ by one number.
static SmallVector<Shared, 4> getShared(StringRef name) {
  SmallVector<Shared, 4> shared;
  forEachNumber(name, [&](size_t begin, size_t end) {
    shared.push_back({name.take_front(begin), name.drop_front(end), name.slice(begin, end)});
  });
  return shared;
}

std::string outline::joinPins(StringRef pins) {
  using Group = PinGroup;
  SmallVector<StringRef> lines;
  pins.split(lines, '\n', -1, /*KeepEmpty=*/false);
  llvm::StringMap<Group> groups;
  std::vector<SmallVector<Group *, 1>> groupsOf(lines.size());
  std::string open, key;
  auto join = [&](const Shared &shared, StringRef layout, size_t line) {
    key.assign(shared.before.data(), shared.before.size());
    key += shared.number.empty() ? '\t' : '\n'; // "x" is no name that differs from "x1" by a number
    key += shared.after;
    auto [known, isNew] = groups.try_emplace(key);
    Group &group = known->second;
    if (isNew) { // the key outlives the line's text
      group.shared.before = known->first().take_front(shared.before.size());
      group.shared.after = known->first().drop_front(shared.before.size() + 1);
    }
    group.getLines(layout).push_back(line);
    group.shared.number = shared.number;
    groupsOf[line].push_back(&group);
  };
  for (auto [i, line] : llvm::enumerate(lines)) {
    auto [name, layout] = line.rsplit('=');
    setOpen(name, open);
    join({open, {}, {}}, layout, i);
  }
  // Names that differ by one number differ by any: where all of those have one layout, or are one, there is
  // no more to ask.
  for (auto [i, line] : llvm::enumerate(lines))
    if (groupsOf[i].front()->linesOf.size() > 1) {
      auto [name, layout] = line.rsplit('=');
      for (const Shared &shared : getShared(name))
        join(shared, layout, i);
    }
  std::string joined;
  std::vector<bool> isWritten(lines.size());
  for (auto [i, line] : llvm::enumerate(lines)) {
    if (isWritten[i])
      continue;
    StringRef layout = line.rsplit('=').second;
    // Any number, where all names that the expression matches have this layout; or else these numbers.
    Group *best = nullptr;
    for (Group *group : groupsOf[i])
      if (const bool isAny = group->linesOf.size() == 1; group->getLines(layout).size() > 1) {
        if (isAny) {
          best = group;
          break;
        }
        if (!group->shared.number.empty() &&
            (!best || group->getLines(layout).size() > best->getLines(layout).size()))
          best = group;
      }
    if (!best) {
      joined += (line + "\n").str();
      continue;
    }
    const bool isAny = best->linesOf.size() == 1, hasNumber = !best->shared.number.empty();
    auto write = [&](const std::string &number) {
      joined += (best->shared.before + number + best->shared.after + "=" + layout + "\n").str();
    };
    if (isAny)
      write(hasNumber ? "\\d+" : "");
    std::string numbers;
    for (size_t other : best->getLines(layout)) {
      isWritten[other] = true;
      if (isAny)
        continue;
      StringRef number = lines[other].drop_front(best->shared.before.size()).take_while(llvm::isDigit);
      numbers += (numbers.empty() ? "(" : "|") + number.str();
      if (numbers.size() > kLongestExpression / 2 || other == best->getLines(layout).back()) {
        write(numbers + ")");
        numbers.clear();
      }
    }
  }
  return joined;
}
