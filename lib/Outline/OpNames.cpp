//===- OpNames.cpp - what people call ops -----------------------------------===//
#include "colossal/Outline/OpNames.h"

#include "dialects/Colossal/Colossal.h"

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
      std::vector<std::string> names = getNames(op.getLoc());
      name = names.empty() ? op.getName().stripDialect().str() : names.front();
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
