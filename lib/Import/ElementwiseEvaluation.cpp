//===- ElementwiseEvaluation.cpp - elementwise ops on host tensors ----------===//
//
// Integers are evaluated as int64, or uint64 where the type is unsigned; floats as double, rounded to their
// type.
//
//===----------------------------------------------------------------------===//
#include "ElementwiseEvaluation.h"

#include <cmath>

using namespace mlir;

namespace colossal {

using Kind = ElementwiseKind;

// NaN if either is; 0 is above -0.
static double getMaximum(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? a + b : a == b ? (std::signbit(a) ? b : a) : std::max(a, b);
}
static double getMinimum(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? a + b : a == b ? (std::signbit(a) ? a : b) : std::min(a, b);
}

static std::optional<double> evaluateFloat(Kind kind, double a, double b, double c) {
  switch (kind) {
  case Kind::Abs: return std::fabs(a);
  case Kind::Neg: return -a;
  case Kind::Reciprocal: return 1.0 / a;
  case Kind::Sqrt: return std::sqrt(a);
  case Kind::Exp: return std::exp(a);
  case Kind::Log: return std::log(a);
  case Kind::Sin: return std::sin(a);
  case Kind::Cos: return std::cos(a);
  case Kind::Tanh: return std::tanh(a);
  case Kind::Ceil: return std::ceil(a);
  case Kind::Floor: return std::floor(a);
  case Kind::Round: return std::nearbyint(a);
  case Kind::Sign: return a > 0 ? 1.0 : a < 0 ? -1.0 : a == 0 ? 0.0 : a; // also of -0
  case Kind::Relu: return getMaximum(a, 0);
  case Kind::Sigmoid: return 1.0 / (1.0 + std::exp(-a));
  case Kind::Add: return a + b;
  case Kind::Sub: return a - b;
  case Kind::Mul: return a * b;
  case Kind::Div: return a / b;
  case Kind::Pow: return std::pow(a, b);
  case Kind::Fmod: return std::fmod(a, b);
  case Kind::Max: return getMaximum(a, b);
  case Kind::Min: return getMinimum(a, b);
  case Kind::Clip: return getMinimum(getMaximum(a, b), c);
  default: return std::nullopt;
  }
}

static std::optional<int64_t> power(int64_t base, int64_t exponent) {
  if (exponent < 0)
    return std::nullopt;
  uint64_t result = 1, factor = base;
  for (; exponent; exponent >>= 1, factor *= factor)
    if (exponent & 1)
      result *= factor;
  return int64_t(result);
}

static std::optional<int64_t> evaluateInteger(Kind kind, int64_t a, int64_t b, int64_t c, bool isUnsigned) {
  uint64_t ua = a, ub = b;
  bool overflow = !isUnsigned && b == -1; // INT64_MIN / -1
  switch (kind) {
  case Kind::Abs: return isUnsigned || a >= 0 ? a : int64_t(0 - ua);
  case Kind::Neg: return int64_t(0 - ua);
  case Kind::Sign: return isUnsigned ? ua != 0 : (a > 0) - (a < 0);
  case Kind::Relu: return !isUnsigned && a < 0 ? 0 : a;
  case Kind::Add: return int64_t(ua + ub);
  case Kind::Sub: return int64_t(ua - ub);
  case Kind::Mul: return int64_t(ua * ub);
  case Kind::Div:
    if (b == 0)
      return std::nullopt;
    return isUnsigned ? int64_t(ua / ub) : overflow ? int64_t(0 - ua) : a / b;
  case Kind::Fmod:
  case Kind::Mod: {
    if (b == 0)
      return std::nullopt;
    if (isUnsigned)
      return int64_t(ua % ub);
    int64_t rest = overflow ? 0 : a % b;
    return kind == Kind::Mod && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
  case Kind::Pow: return power(a, b);
  case Kind::Max: return isUnsigned ? int64_t(std::max(ua, ub)) : std::max(a, b);
  case Kind::Min: return isUnsigned ? int64_t(std::min(ua, ub)) : std::min(a, b);
  case Kind::Clip:
    return isUnsigned ? int64_t(std::min(std::max(ua, ub), uint64_t(c))) : std::min(std::max(a, b), c);
  case Kind::And:
  case Kind::BitAnd: return a & b;
  case Kind::Or:
  case Kind::BitOr: return a | b;
  case Kind::Xor:
  case Kind::BitXor: return a ^ b;
  case Kind::Not: return !a;
  case Kind::BitNot: return ~a;
  case Kind::ShiftLeft: return ub < 64 ? int64_t(ua << ub) : 0;
  case Kind::ShiftRight:
    if (!isUnsigned) // which bits come in depends on the width
      return std::nullopt;
    return ub < 64 ? int64_t(ua >> ub) : 0;
  default: return std::nullopt;
  }
}

template <typename T>
static std::optional<bool> compare(Kind kind, T a, T b) {
  switch (kind) {
  case Kind::Equal: return a == b;
  case Kind::Less: return a < b;
  case Kind::LessOrEqual: return a <= b;
  case Kind::Greater: return a > b;
  case Kind::GreaterOrEqual: return a >= b;
  default: return std::nullopt;
  }
}

namespace {

/// One element of every operand at a time.
class Evaluator {
public:
  Evaluator(ElementwiseOp op, ArrayRef<HostTensor> operands, HostTensor &result)
      : kind(op.getKind()), params(op.getParams()), operands(operands), result(result) {
    auto integer = dyn_cast<IntegerType>(operands[0].type.getElementType());
    isUnsigned = integer && integer.isUnsigned();
  }

  bool evaluate(int64_t flat, ArrayRef<int64_t> at) {
    if (kind == Kind::Select)
      return copy(flat, operands[0].getInt(at[0]) ? 1 : 2, at);
    if (kind == Kind::Cast)
      return convert(flat, at[0]);
    bool isFloat = operands[0].isFloat();
    if (kind == Kind::IsNaN || kind == Kind::IsInf) {
      double value = operands[0].getFloat(at[0]);
      bool is = std::isnan(value);
      if (kind == Kind::IsInf) {
        bool negative = !params || (*params)[0] != 0, positive = !params || (*params)[1] != 0;
        is = std::isinf(value) && (value < 0 ? negative : positive);
      }
      result.ints[flat] = is;
      return true;
    }
    if (kind >= Kind::Equal && kind <= Kind::GreaterOrEqual) {
      auto is = isFloat ? compare(kind, operands[0].getFloat(at[0]), operands[1].getFloat(at[1]))
                : isUnsigned
                    ? compare(kind, uint64_t(operands[0].getInt(at[0])), uint64_t(operands[1].getInt(at[1])))
                    : compare(kind, operands[0].getInt(at[0]), operands[1].getInt(at[1]));
      result.ints[flat] = *is;
      return true;
    }
    size_t count = operands.size();
    if (isFloat) {
      auto value =
          evaluateFloat(kind, operands[0].getFloat(at[0]), count > 1 ? operands[1].getFloat(at[1]) : 0,
                        count > 2 ? operands[2].getFloat(at[2]) : 0);
      if (value)
        result.setFloat(flat, *value);
      return value.has_value();
    }
    if (count > 1 && operands[1].isFloat()) // pow with a float exponent
      return false;
    auto value = evaluateInteger(kind, operands[0].getInt(at[0]), count > 1 ? operands[1].getInt(at[1]) : 0,
                                 count > 2 ? operands[2].getInt(at[2]) : 0, isUnsigned);
    if (value)
      result.setInt(flat, *value);
    return value.has_value();
  }

private:
  bool copy(int64_t flat, unsigned operand, ArrayRef<int64_t> at) {
    const HostTensor &from = operands[operand];
    if (result.isFloat())
      result.floats[flat] = from.getFloat(at[operand]);
    else
      result.ints[flat] = from.getInt(at[operand]);
    return true;
  }

  bool convert(int64_t flat, int64_t at) {
    const HostTensor &from = operands[0];
    if (result.isFloat()) {
      result.setFloat(flat, from.getFloat(at));
      return true;
    }
    if (result.type.getElementType().isInteger(1)) {
      result.ints[flat] = from.isFloat() ? from.getFloat(at) != 0 : from.getInt(at) != 0;
      return true;
    }
    if (from.isFloat()) {
      double value = from.getFloat(at);
      if (!(std::fabs(value) < 9.2e18)) // as the conversion of the machine would have it: not known here
        return false;
      result.setInt(flat, int64_t(value));
      return true;
    }
    result.setInt(flat, from.getInt(at));
    return true;
  }

  Kind kind;
  std::optional<ArrayRef<double>> params;
  ArrayRef<HostTensor> operands;
  HostTensor &result;
  bool isUnsigned = false;
};

} // namespace

std::optional<std::vector<HostTensor>> evaluateElementwise(ElementwiseOp op, ArrayRef<HostTensor> operands,
                                                           RankedTensorType type, bool splat) {
  HostTensor result(type, splat);
  Evaluator evaluator(op, operands, result);
  SmallVector<int64_t> at(operands.size(), 0);
  int64_t count = splat ? 1 : type.getNumElements(), rank = type.getRank();
  SmallVector<int64_t> index(rank, 0);
  for (int64_t flat = 0; flat < count; ++flat) {
    if (!splat) {
      for (auto [i, operand] : llvm::enumerate(operands)) {
        int64_t skip = rank - operand.type.getRank();
        at[i] = 0;
        for (int64_t d = 0; d < operand.type.getRank(); ++d) {
          int64_t size = operand.type.getDimSize(d);
          at[i] = at[i] * size + (size == 1 ? 0 : index[d + skip]);
        }
      }
    }
    if (!evaluator.evaluate(flat, at))
      return std::nullopt;
    for (int64_t d = rank - 1; d >= 0 && ++index[d] == type.getDimSize(d); --d)
      index[d] = 0;
  }
  std::vector<HostTensor> results;
  results.push_back(std::move(result));
  return results;
}

} // namespace colossal
