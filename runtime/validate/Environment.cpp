// Affine arithmetic over symbols, intervals for the rest, and enumeration along a chain of calls.
#include "runtime/validate/Environment.h"

#include <algorithm>

namespace colossal::runtime {

namespace {

// Arguments are places and numbers of layers; with this bound no product of a few of them leaves 128 bits.
constexpr __int128 maxArgument = __int128(1) << 46;
// Values that mayLieIn walks.
constexpr uint64_t maxEnumerated = 1 << 16;

__int128 floorDivide(__int128 value, __int128 divisor) {
  return value / divisor - (value % divisor < 0);
}

bool fits(const Range &range) {
  return range.least >= INT64_MIN && range.greatest <= INT64_MAX;
}

Range multiply(const Range &a, const Range &b) {
  const __int128 corners[] = {a.least * b.least, a.least * b.greatest, a.greatest * b.least,
                              a.greatest * b.greatest};
  return {*std::min_element(std::begin(corners), std::end(corners)),
          *std::max_element(std::begin(corners), std::end(corners))};
}

} // namespace

void Affine::add(const Affine &other, __int128 times) {
  if (times == 0)
    return;
  constant += other.constant * times;
  if (other.terms.empty())
    return;
  std::vector<std::pair<uint32_t, __int128>> sum;
  auto mine = terms.begin();
  for (const auto &[symbol, factor] : other.terms) {
    for (; mine != terms.end() && mine->first < symbol; ++mine)
      sum.push_back(*mine);
    __int128 total = factor * times;
    if (mine != terms.end() && mine->first == symbol)
      total += mine++->second;
    if (total != 0)
      sum.push_back({symbol, total});
  }
  sum.insert(sum.end(), mine, terms.end());
  terms = std::move(sum);
}

Environment::Environment(const plan::StageView &own)
    : firstRank(static_cast<int64_t>(own.firstRank)), stage(own.index),
      axes(static_cast<unsigned>(own.mesh->axes_size())) {
  rank.constant = firstRank;
  for (const plan::MeshAxis &axis : own.mesh->axes()) {
    for (auto &[symbol, stride] : rank.terms)
      stride *= axis.size();
    const uint32_t symbol = addSymbol(axis.size() - 1);
    if (axis.size() > 1)
      rank.terms.push_back({symbol, 1});
  }
}

Environment::Environment(const plan::StageView &own, const plan::MeshPosition &position) : Environment(own) {
  fixed = position.coordinates;
  rank.constant = position.rank;
  rank.terms.clear();
}

uint32_t Environment::addSymbol(uint64_t width, bool known) {
  widths.push_back(width);
  isKnown.push_back(known);
  return static_cast<uint32_t>(widths.size() - 1);
}

void Environment::enterRepeat(uint64_t count) {
  count = std::max<uint64_t>(1, count);
  frames.push_back({count, nullptr});
  Affine counter;
  if (count > 1)
    counter.terms = {{addSymbol(count - 1), 1}};
  values.push_back(std::move(counter));
  ++repeatCount;
}

void Environment::enterTurn(uint64_t turn) {
  Affine counter;
  counter.constant = turn;
  values.push_back(std::move(counter));
  ++repeatCount;
}

bool Environment::isExact(const Affine &value) const {
  return std::all_of(value.terms.begin(), value.terms.end(),
                     [&](const auto &term) { return isKnown[term.first]; });
}

Status Environment::enterCall(const plan::Call &call, uint32_t arguments) {
  if (static_cast<uint32_t>(call.arguments_size()) != arguments)
    return {Code::InvalidPlan, "the function takes " + std::to_string(arguments) +
                                   " arguments, and is given " + std::to_string(call.arguments_size())};
  if (arguments == 0)
    return {};
  std::vector<Affine> given(arguments);
  for (uint32_t a = 0; a < arguments; ++a) {
    COLOSSAL_RETURN_IF_ERROR(affine(call.arguments(static_cast<int>(a)), given[a]));
    const Range bounds = range(given[a]);
    if (bounds.least < -maxArgument || bounds.greatest > maxArgument)
      return {Code::InvalidPlan, "argument " + std::to_string(a) + " is out of range"};
  }
  values = std::move(given);
  frames.push_back({0, &call});
  return {};
}

std::vector<uint64_t> Environment::signature() const {
  std::vector<uint64_t> all;
  for (const Frame &frame : frames) {
    all.push_back(frame.count);
    if (frame.call)
      all.push_back(reinterpret_cast<uint64_t>(frame.call));
  }
  return all;
}

Range Environment::range(const Affine &value) const {
  Range bounds = {value.constant, value.constant};
  for (const auto &[symbol, factor] : value.terms)
    (factor < 0 ? bounds.least : bounds.greatest) += factor * widths[symbol];
  return bounds;
}

Affine Environment::opaque(const Range &bounds) {
  Affine unknown;
  unknown.constant = bounds.least;
  if (bounds.greatest > bounds.least)
    unknown.terms = {{addSymbol(static_cast<uint64_t>(bounds.greatest - bounds.least), false), 1}};
  return unknown;
}

std::optional<Affine> Environment::product(const Affine &lhs, const Affine &rhs) {
  const Range bounds = multiply(range(lhs), range(rhs));
  if (!fits(bounds))
    return std::nullopt;
  Affine value;
  if (rhs.terms.empty())
    value.add(lhs, rhs.constant);
  else if (lhs.terms.empty())
    value.add(rhs, lhs.constant);
  else
    value = opaque(bounds);
  return value;
}

Affine Environment::quotient(const Affine &value, __int128 divisor) {
  const Range bounds = range(value);
  return opaque({floorDivide(bounds.least, divisor), floorDivide(bounds.greatest, divisor)});
}

Affine Environment::remainder(const Affine &value, __int128 divisor) {
  const Range bounds = range(value);
  const __int128 block = floorDivide(bounds.least, divisor);
  if (block != floorDivide(bounds.greatest, divisor))
    return opaque({0, divisor - 1});
  Affine rest = value;
  rest.constant -= block * divisor;
  return rest;
}

Affine Environment::extreme(bool isLeast, const Affine &lhs, const Affine &rhs) {
  const Range left = range(lhs), right = range(rhs);
  if (left.greatest <= right.least)
    return isLeast ? lhs : rhs;
  if (right.greatest <= left.least)
    return isLeast ? rhs : lhs;
  return isLeast ? opaque({std::min(left.least, right.least), std::min(left.greatest, right.greatest)})
                 : opaque({std::max(left.least, right.least), std::max(left.greatest, right.greatest)});
}

std::optional<Affine> Environment::combine(plan::Expr::Op op, const Affine &lhs, const Affine &rhs) {
  switch (op) {
  case plan::Expr::ADD:
  case plan::Expr::SUB: {
    Affine sum = lhs;
    sum.add(rhs, op == plan::Expr::ADD ? 1 : -1);
    return sum;
  }
  case plan::Expr::MUL: return product(lhs, rhs);
  case plan::Expr::FLOOR_DIV:
  case plan::Expr::MOD:
    if (rhs.constant <= 0) // refused by checkExpr before
      return std::nullopt;
    return op == plan::Expr::FLOOR_DIV ? quotient(lhs, rhs.constant) : remainder(lhs, rhs.constant);
  case plan::Expr::MIN: return extreme(true, lhs, rhs);
  case plan::Expr::MAX: return extreme(false, lhs, rhs);
  default: return Affine();
  }
}

std::optional<Affine> Environment::evaluate(const plan::Expr &expr) {
  Affine value;
  switch (expr.kind_case()) {
  case plan::Expr::kConstant: value.constant = expr.constant(); return value;
  case plan::Expr::kCoordinate:
    if (!fixed.empty())
      value.constant = fixed[expr.coordinate()];
    else if (widths[expr.coordinate()] > 0)
      value.terms = {{expr.coordinate(), 1}};
    return value;
  case plan::Expr::kCounter: return values[expr.counter()];
  case plan::Expr::kOwn:
    if (expr.own() == plan::Expr::RANK)
      return rank;
    value.constant = stage;
    return value;
  default: break;
  }
  const std::optional<Affine> lhs = evaluate(expr.binary().lhs());
  const std::optional<Affine> rhs = lhs ? evaluate(expr.binary().rhs()) : std::nullopt;
  if (!rhs)
    return std::nullopt;
  std::optional<Affine> result = combine(expr.binary().op(), *lhs, *rhs);
  if (!result || !fits(range(*result)))
    return std::nullopt;
  return result;
}

Status Environment::affine(const plan::Expr &expr, Affine &result) {
  COLOSSAL_RETURN_IF_ERROR(plan::checkExpr(expr, axes, visible()));
  std::optional<Affine> value = evaluate(expr);
  if (!value)
    return {Code::InvalidPlan, "expression: its value may overflow 64 bits"};
  result = *std::move(value);
  return {};
}

Affine Environment::address(__int128 offset, const google::protobuf::RepeatedField<int64_t> &strides) const {
  Affine sum;
  sum.constant = offset;
  for (int v = 0; v < strides.size(); ++v)
    sum.add(values[static_cast<size_t>(v)], strides.Get(v));
  return sum;
}

bool Environment::mayLieIn(const Affine &value, __int128 least, __int128 greatest) const {
  const Range bounds = range(value);
  if (bounds.greatest < least || greatest < bounds.least)
    return false;
  uint64_t total = 1;
  for (const auto &[symbol, factor] : value.terms)
    total = widths[symbol] >= maxEnumerated ? maxEnumerated + 1
                                            : std::min(total * (widths[symbol] + 1), maxEnumerated + 1);
  if (total > maxEnumerated)
    return true;
  for (uint64_t point = 0; point < total; ++point) {
    __int128 at = value.constant;
    uint64_t rest = point;
    for (const auto &[symbol, factor] : value.terms) {
      at += factor * (rest % (widths[symbol] + 1));
      rest /= widths[symbol] + 1;
    }
    if (least <= at && at <= greatest)
      return true;
  }
  return false;
}

bool Environment::isMultiple(const Affine &value, uint64_t divisor) {
  bool multiple = value.constant % static_cast<__int128>(divisor) == 0;
  for (const auto &[symbol, factor] : value.terms)
    multiple = multiple && factor % static_cast<__int128>(divisor) == 0;
  return multiple;
}

Status Environment::forAll(const std::vector<const plan::Expr *> &exprs,
                           const std::function<Status(uint64_t)> &spend,
                           const std::function<Status(const std::vector<int64_t> &)> &check) const {
  std::vector<bool> usedAxes(axes), needed(values.size());
  for (const plan::Expr *expr : exprs) {
    COLOSSAL_RETURN_IF_ERROR(plan::checkExpr(*expr, axes, visible()));
    plan::markCoordinates(*expr, usedAxes);
    plan::markValues(*expr, needed);
  }
  // How many values each place along the chain sees, and from the innermost outwards what is needed there.
  std::vector<size_t> seen = {0};
  for (const Frame &frame : frames)
    seen.push_back(frame.call ? static_cast<size_t>(frame.call->arguments_size()) : seen.back() + 1);
  std::vector<uint64_t> sizes(frames.size(), 1); // of the counters that matter; 1 elsewhere
  uint64_t evaluations = exprs.size();
  for (size_t f = frames.size(); f-- > 0;) {
    if (!frames[f].call) {
      if (needed.back())
        sizes[f] = frames[f].count;
      needed.pop_back();
      continue;
    }
    std::vector<bool> outer(seen[f]);
    for (size_t a = 0; a < needed.size(); ++a)
      if (needed[a]) {
        plan::markCoordinates(frames[f].call->arguments(static_cast<int>(a)), usedAxes);
        plan::markValues(frames[f].call->arguments(static_cast<int>(a)), outer);
      }
    evaluations += needed.size();
    needed = std::move(outer);
  }
  __int128 points = 1;
  for (unsigned axis = 0; axis < axes; ++axis)
    points = std::min<__int128>(points * (usedAxes[axis] ? widths[axis] + 1 : 1), INT64_MAX);
  for (uint64_t size : sizes)
    points = std::min<__int128>(points * size, INT64_MAX);
  COLOSSAL_RETURN_IF_ERROR(spend(static_cast<uint64_t>(std::min<__int128>(points * evaluations, INT64_MAX))));

  plan::MeshPosition position = {std::vector<int64_t>(axes), firstRank, stage};
  std::vector<int64_t> visibleValues, arguments, results(exprs.size());
  for (__int128 point = 0; point < points; ++point) {
    __int128 rest = point;
    for (unsigned axis = axes; axis-- > 0;)
      if (usedAxes[axis]) {
        position.coordinates[axis] = static_cast<int64_t>(rest % (widths[axis] + 1));
        rest /= widths[axis] + 1;
      }
    position.rank = 0;
    for (unsigned axis = 0; axis < axes; ++axis)
      position.rank = position.rank * static_cast<int64_t>(widths[axis] + 1) + position.coordinates[axis];
    position.rank += firstRank;
    visibleValues.clear();
    for (size_t f = 0; f < frames.size(); ++f) {
      if (!frames[f].call) {
        visibleValues.push_back(static_cast<int64_t>(rest % sizes[f]));
        rest /= sizes[f];
        continue;
      }
      arguments.resize(static_cast<size_t>(frames[f].call->arguments_size()));
      for (size_t a = 0; a < arguments.size(); ++a)
        COLOSSAL_RETURN_IF_ERROR(plan::evaluateExpr(frames[f].call->arguments(static_cast<int>(a)), position,
                                                    visibleValues.data(), arguments[a]));
      visibleValues.swap(arguments);
    }
    for (size_t i = 0; i < exprs.size(); ++i)
      COLOSSAL_RETURN_IF_ERROR(plan::evaluateExpr(*exprs[i], position, visibleValues.data(), results[i]));
    COLOSSAL_RETURN_IF_ERROR(check(results));
  }
  return {};
}

} // namespace colossal::runtime
