//===- OpNames.cpp - what people call ops -----------------------------------===//
#include "colossal/Outline/OpNames.h"

#include "dialects/Colossal/Colossal.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

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

static constexpr StringLiteral kSpecial = "\\^$.|?*+()[]{}";

/// The name that an expression without operators stands for.
static std::optional<std::string> getLiteral(StringRef expression) {
  std::string name;
  for (size_t i = 0; i < expression.size(); ++i) {
    if (expression[i] == '\\' && i + 1 < expression.size() && kSpecial.contains(expression[i + 1]))
      ++i;
    else if (kSpecial.contains(expression[i]))
      return std::nullopt;
    name += expression[i];
  }
  return name;
}

std::optional<NamePattern> NamePattern::parse(const std::string &text, std::string &error) {
  NamePattern pattern;
  pattern.literal = getLiteral(text);
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
    error = "'" + text + "' is no regular expression";
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

std::string outline::escapeName(StringRef name) {
  if (name.find_first_of(kSpecial) == StringRef::npos)
    return name.str();
  std::string escaped;
  for (char c : name) {
    if (kSpecial.contains(c))
      escaped += '\\';
    escaped += c;
  }
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

/// What the name, an expression that matches nothing else, may share with names that differ by their numbers:
/// with those that differ by any first, whose text lies in `open`, then with those that differ by one.
static SmallVector<Shared, 4> getShared(StringRef name, std::string &open) {
  SmallVector<Shared, 4> shared(1);
  open.clear();
  for (size_t at = 0; at < name.size();) {
    const bool isNumber = llvm::isDigit(name[at]);
    size_t end = at + 1;
    while (end < name.size() && llvm::isDigit(name[end]) == isNumber)
      ++end;
    if (isNumber) {
      open += "\\d+";
      shared.push_back({name.take_front(at), name.drop_front(end), name.slice(at, end)});
    } else {
      open += name.slice(at, end);
    }
    at = end;
  }
  shared.front().before = open;
  return shared;
}

std::string outline::joinPins(StringRef pins) {
  using Group = PinGroup;
  SmallVector<StringRef> lines;
  pins.split(lines, '\n', -1, /*KeepEmpty=*/false);
  llvm::StringMap<Group> groups;
  std::vector<SmallVector<Group *, 4>> groupsOf;
  groupsOf.reserve(lines.size());
  std::string open, key;
  for (auto [i, line] : llvm::enumerate(lines)) {
    auto [name, layout] = line.rsplit('=');
    SmallVector<Group *, 4> &own = groupsOf.emplace_back();
    for (const Shared &shared : getShared(name, open)) {
      key.assign(shared.before.data(), shared.before.size());
      key += '\n';
      key += shared.after;
      auto [known, isNew] = groups.try_emplace(key);
      Group &group = known->second;
      if (isNew) { // the key outlives the line's text
        group.shared.before = known->first().take_front(shared.before.size());
        group.shared.after = known->first().drop_front(shared.before.size() + 1);
      }
      group.getLines(layout).push_back(i);
      group.shared.number = shared.number;
      own.push_back(&group);
    }
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
