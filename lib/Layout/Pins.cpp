//===- Pins.cpp - layouts that the user fixes -------------------------------===//
#include "Pins.h"

#include "Names.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::layout;

ShardingAttr Pin::getSharding(MLIRContext *context, ArrayRef<int64_t> shape) const {
  if (form == Form::Replicated)
    return isOfShape(shape) ? ShardingAttr::getReplicated(context, shape) : ShardingAttr();
  if (form != Form::Dims || dims.size() != shape.size() || !isOfShape(shape))
    return {};
  SmallVector<DimShardingAttr> attrs;
  for (auto [parts, size] : llvm::zip_equal(dims, shape)) {
    int64_t known = 1;
    unsigned open = 0;
    for (const Part &part : parts) {
      if (__builtin_mul_overflow(known, part.size < 0 ? 1 : part.size, &known))
        return {};
      open += part.size < 0;
    }
    if (open > 1 || known == 0 || size % known != 0 || (open == 0 && known != size))
      return {};
    SmallVector<std::pair<int64_t, ArrayRef<unsigned>>> factors;
    for (const Part &part : parts)
      factors.push_back({part.size < 0 ? size / known : part.size, part.axes});
    attrs.push_back(makeDimSharding(context, factors));
  }
  return ShardingAttr::get(context, attrs, {}, ReductionKind::Sum);
}

bool Pin::keepsSums() const {
  return llvm::any_of(factors,
                      [](const auto &factor) { return StringRef(factor.first).starts_with("partial"); });
}

std::optional<Assignment> Pin::getAssignment(const RefinedRule &refined) const {
  Assignment assignment(refined.rule.factors.size());
  if (form == Form::Replicated)
    return assignment;
  if (form != Form::Factors)
    return std::nullopt;
  std::vector<std::string> names = getFactorNames(refined);
  for (const auto &[factor, axes] : factors) {
    // A factor that is seen as a product goes by its own name too: then its outermost part is meant.
    auto found = llvm::find(names, factor);
    if (found == names.end())
      found = llvm::find(names, factor + ".0");
    // And what is seen as one by that of its outermost part.
    if (StringRef whole = factor; found == names.end() && whole.consume_back(".0"))
      found = llvm::find(names, whole);
    if (found == names.end())
      return std::nullopt;
    unsigned index = found - names.begin();
    if (refined.rule.factors[index].kind == FactorKind::Whole)
      return std::nullopt;
    if (shape && refined.rule.factors[index].size == 1) // of many ops that it speaks of, some broadcast
      continue;
    assignment[index].assign(axes.begin(), axes.end());
  }
  return assignment;
}

namespace {
/// Reads LAYOUT.
class LayoutParser {
public:
  LayoutParser(StringRef text, MeshAttr mesh) : rest(text), mesh(mesh) {}
  bool parse(Pin &pin);
  std::string error;

private:
  StringRef rest;
  MeshAttr mesh;
  uint32_t seen = 0;

  bool fail(const Twine &message) {
    error = message.str();
    return false;
  }
  StringRef takeName() {
    return take([](char c) { return isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; });
  }
  StringRef take(llvm::function_ref<bool(char)> isPart) {
    StringRef taken = rest.take_while(isPart);
    rest = rest.drop_front(taken.size());
    return taken;
  }
  bool parseAxes(SmallVectorImpl<unsigned> &axes);
  bool parseDim(std::vector<Pin::Part> &parts);
  bool parseShape(std::vector<int64_t> &shape);
};
} // namespace

bool LayoutParser::parseAxes(SmallVectorImpl<unsigned> &axes) {
  do {
    StringRef name = takeName();
    int64_t axis = mesh.findAxis(name);
    if (axis < 0) {
      std::string known;
      for (MeshAxisAttr each : mesh.getAxes())
        known += (known.empty() ? "" : ", ") + each.getName().str();
      return fail("'" + name + "' is no axis of the mesh (" + known + ")");
    }
    if (seen >> axis & 1)
      return fail("axis '" + name + "' stands twice");
    seen |= 1u << axis;
    axes.push_back(axis);
  } while (rest.consume_front("+"));
  return true;
}

bool LayoutParser::parseDim(std::vector<Pin::Part> &parts) {
  do {
    Pin::Part &part = parts.emplace_back();
    if (rest.consume_front("-"))
      continue;
    if (!rest.empty() && isdigit(static_cast<unsigned char>(rest.front()))) {
      if (rest.consumeInteger(10, part.size) || part.size < 1)
        return fail("a factor's size must be a positive number");
      if (!rest.consume_front(":"))
        continue;
    }
    if (!parseAxes(part.axes))
      return false;
  } while (rest.consume_front("*"));
  return true;
}

/// SIZE,SIZE,...] or ]; - for any size
bool LayoutParser::parseShape(std::vector<int64_t> &shape) {
  if (rest.consume_front("]"))
    return true;
  do {
    if (rest.consume_front("-"))
      shape.push_back(-1);
    else if (rest.consumeInteger(10, shape.emplace_back()) || shape.back() < 0)
      return fail("a dimension's size must be a number, or - for any");
  } while (rest.consume_front(","));
  return rest.consume_front("]") || fail("expected ',' or ']' at '" + rest + "'");
}

bool LayoutParser::parse(Pin &pin) {
  if (rest.consume_front("replicated")) {
    pin.form = Pin::Form::Replicated;
    if (rest.consume_front("[") && !parseShape(pin.shape.emplace()))
      return false;
    return rest.empty() || fail("unexpected '" + rest + "' at the end");
  }
  if (rest == "forward") {
    pin.form = Pin::Form::Forward;
    return true;
  }
  if (rest.consume_front("[")) {
    pin.form = Pin::Form::Dims;
    if (rest.consume_front("]"))
      return rest.empty() || fail("unexpected '" + rest + "' at the end");
    do {
      if (!parseDim(pin.dims.emplace_back()))
        return false;
    } while (rest.consume_front(","));
    if (!rest.consume_front("]"))
      return fail("expected ',' or ']' at '" + rest + "'");
    if (rest.consume_front("[") && !parseShape(pin.shape.emplace()))
      return false;
  } else {
    pin.form = Pin::Form::Factors;
    do {
      const StringRef at = rest;
      StringRef factor = takeName();
      if (factor.empty() || !rest.consume_front(":"))
        return fail("expected FACTOR:AXES, [DIMS], replicated or forward at '" + at + "'");
      pin.factors.push_back({factor.str(), {}});
      if (!parseAxes(pin.factors.back().second))
        return false;
    } while (rest.consume_front(","));
    if (rest.consume_front("[") && !parseShape(pin.shape.emplace()))
      return false;
  }
  return rest.empty() || fail("unexpected '" + rest + "' at the end");
}

void Pins::add(Pin pin) {
  const auto number = static_cast<unsigned>(pins.size());
  if (const std::optional<std::string> &name = pin.name.getLiteral())
    byName[*name].push_back(number);
  else
    expressions.push_back(number);
  pins.push_back(std::move(pin));
}

SmallVector<const Pin *, 4> Pins::find(ArrayRef<std::string> names) const {
  SmallVector<unsigned, 4> numbers;
  for (const std::string &name : names)
    if (auto known = byName.find(name); known != byName.end())
      llvm::append_range(numbers, known->second);
  for (unsigned number : expressions)
    if (pins[number].matches(names))
      numbers.push_back(number);
  llvm::sort(numbers);
  numbers.erase(llvm::unique(numbers), numbers.end());
  SmallVector<const Pin *, 4> found;
  for (unsigned number : numbers)
    found.push_back(&pins[number]);
  return found;
}

std::optional<Pin> layout::parsePin(const std::string &text, MeshAttr mesh, std::string &error) {
  size_t equals = text.rfind('=');
  if (equals == std::string::npos) {
    error = "pin '" + text + "' is not of the form REGEX=LAYOUT";
    return std::nullopt;
  }
  Pin pin;
  pin.text = text;
  pin.isOptional = text.front() == '?';
  std::optional<outline::NamePattern> name =
      outline::NamePattern::parse(text.substr(pin.isOptional, equals - pin.isOptional), error);
  if (!name) {
    error = "pin '" + (equals > 1000 ? text.substr(0, 40) + "..." : text) + "': " + error;
    return std::nullopt;
  }
  pin.name = std::move(*name);
  LayoutParser parser(StringRef(text).drop_front(equals + 1), mesh);
  if (!parser.parse(pin)) {
    error = "pin '" + text + "': " + parser.error;
    return std::nullopt;
  }
  return pin;
}
