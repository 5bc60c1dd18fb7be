//===- OpNames.cpp - what people call ops -----------------------------------===//
#include "colossal/Outline/OpNames.h"

#include "dialects/Colossal/Colossal.h"
#include "llvm/ADT/MapVector.h"
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
  std::string before, after;
  StringRef number;
};
} // namespace

/// What the name, an expression that matches nothing else, may share with names that differ by their numbers:
/// with those that differ by any first, then with those that differ by one.
static SmallVector<Shared, 4> getShared(StringRef name) {
  SmallVector<Shared, 4> shared(1);
  for (size_t at = 0; at < name.size();) {
    const bool isNumber = llvm::isDigit(name[at]);
    StringRef part = name.drop_front(at).take_while([&](char c) { return llvm::isDigit(c) == isNumber; });
    shared.front().before += isNumber ? "\\d+" : part;
    if (isNumber)
      shared.push_back({name.take_front(at).str(), name.drop_front(at + part.size()).str(), part});
    at += part.size();
  }
  return shared;
}

std::string outline::joinPins(StringRef pins) {
  /// Lines that differ by what an expression leaves open.
  struct Group {
    Shared shared;
    llvm::SmallMapVector<StringRef, SmallVector<size_t, 4>, 2> linesOf; ///< by layout
  };
  SmallVector<StringRef> lines;
  pins.split(lines, '\n', -1, /*KeepEmpty=*/false);
  llvm::StringMap<Group> groups;
  std::vector<SmallVector<Group *, 4>> groupsOf;
  for (auto [i, line] : llvm::enumerate(lines)) {
    auto [name, layout] = line.rsplit('=');
    SmallVector<Group *, 4> &own = groupsOf.emplace_back();
    for (Shared &shared : getShared(name)) {
      Group &group = groups[shared.before + '\n' + shared.after];
      group.linesOf[layout].push_back(i);
      group.shared = std::move(shared);
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
      if (const bool isAny = group->linesOf.size() == 1; group->linesOf[layout].size() > 1) {
        if (isAny) {
          best = group;
          break;
        }
        if (!group->shared.number.empty() &&
            (!best || group->linesOf[layout].size() > best->linesOf[layout].size()))
          best = group;
      }
    if (!best) {
      joined += (line + "\n").str();
      continue;
    }
    const bool isAny = best->linesOf.size() == 1, hasNumber = !best->shared.number.empty();
    auto write = [&](const std::string &number) {
      joined += best->shared.before + number + best->shared.after + "=" + layout.str() + "\n";
    };
    if (isAny)
      write(hasNumber ? "\\d+" : "");
    std::string numbers;
    for (size_t other : best->linesOf[layout]) {
      isWritten[other] = true;
      if (isAny)
        continue;
      StringRef number = lines[other].drop_front(best->shared.before.size()).take_while(llvm::isDigit);
      numbers += (numbers.empty() ? "(" : "|") + number.str();
      if (numbers.size() > kLongestExpression / 2 || other == best->linesOf[layout].back()) {
        write(numbers + ")");
        numbers.clear();
      }
    }
  }
  return joined;
}
