// What an instruction sees of arguments and counters, over all ranks and iterations.
//
// Every value is affine in symbols, each of which runs from 0 to a width: coordinates of the mesh, counters
// of repeats, and what is not affine (a remainder, a minimum), of which only its range is known. So the
// bounds of what is affine are exact as long as nothing else is in it, whatever the number of ranks and
// iterations; what needs the values themselves is enumerated (forAll).
#ifndef COLOSSAL_RUNTIME_VALIDATE_ENVIRONMENT_H
#define COLOSSAL_RUNTIME_VALIDATE_ENVIRONMENT_H

#include "colossal/Plan/Stages.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace colossal::runtime {

using plan::Code;
using plan::Status;

/// All values from `least` to `greatest`.
struct Range {
  __int128 least = 0, greatest = 0;
};

/// constant + the sum of factors times symbols. Factors are not 0, symbols ascend.
struct Affine {
  __int128 constant = 0;
  std::vector<std::pair<uint32_t, __int128>> terms;

  void add(const Affine &other, __int128 times = 1);
  bool operator==(const Affine &other) const { return constant == other.constant && terms == other.terms; }
};

class Environment {
public:
  Environment() = default;
  /// That of a program on all ranks of a stage: it sees nothing but the coordinates.
  explicit Environment(const plan::StageView &stage);

  /// That of a program on one rank.
  Environment(const plan::StageView &stage, const plan::MeshPosition &position);

  /// How many values the expressions of this place may name.
  unsigned visible() const { return static_cast<unsigned>(values.size()); }
  /// Repeats around this place, along all calls.
  unsigned repeats() const { return repeatCount; }

  /// Goes into the body of a repeat; one of none is as one of a single iteration.
  void enterRepeat(uint64_t count);
  /// Goes into one turn of a repeat, of which nothing else is looked at; not for forAll.
  void enterTurn(uint64_t turn);
  /// Goes into a function that takes `arguments` arguments. Fails where the call gives another number of
  /// them, or where one may leave ±2^46.
  Status enterCall(const plan::Call &call, uint32_t arguments);
  /// What distinguishes this place from others as far as bounds go: equal for equal sequences of repeats and
  /// of calls without arguments.
  std::vector<uint64_t> signature() const;

  /// Fails where the expression's form is wrong or its value may leave 64 bits.
  Status affine(const plan::Expr &expr, Affine &result);
  /// offset + Σ strides[v] · value v; there are no more strides than values.
  Affine address(__int128 offset, const google::protobuf::RepeatedField<int64_t> &strides) const;
  Range range(const Affine &value) const;
  /// Whether `value` takes one of the values of `least` to `greatest`. Exact where few values are possible,
  /// otherwise it may say yes where the answer is no.
  bool mayLieIn(const Affine &value, __int128 least, __int128 greatest) const;
  /// Whether the value is a sum of coordinates and counters, with nothing in it of which only the range is
  /// known.
  bool isExact(const Affine &value) const;
  /// Whether it is a multiple of `divisor` whatever the symbols are.
  static bool isMultiple(const Affine &value, uint64_t divisor);

  /// Checks the form of the expressions and calls `check` with their values at every rank and iteration that
  /// can differ. `spend` is asked first, with the number of evaluations.
  Status forAll(const std::vector<const plan::Expr *> &exprs, const std::function<Status(uint64_t)> &spend,
                const std::function<Status(const std::vector<int64_t> &)> &check) const;

private:
  /// What surrounds an instruction, one level of it: a repeat, or a call with arguments.
  struct Frame {
    uint64_t count = 0;
    const plan::Call *call = nullptr;
  };
  uint32_t addSymbol(uint64_t width, bool known = true);
  /// What is not affine, a symbol of its own: of it only the range is known.
  Affine opaque(const Range &bounds);
  Affine quotient(const Affine &value, __int128 divisor);
  Affine remainder(const Affine &value, __int128 divisor);
  Affine extreme(bool isLeast, const Affine &lhs, const Affine &rhs);
  /// None where the product may leave 64 bits; the operands do not.
  std::optional<Affine> product(const Affine &lhs, const Affine &rhs);
  /// An operation of two values that do not leave 64 bits, which the result may.
  std::optional<Affine> combine(plan::Expr::Op op, const Affine &lhs, const Affine &rhs);
  /// Of an expression whose form is right; none where its value, or one in it, may leave 64 bits.
  std::optional<Affine> evaluate(const plan::Expr &expr);

  std::vector<uint64_t> widths; // of the symbols; the mesh's axes come first
  std::vector<bool> isKnown;    // likewise: whether it is a coordinate or counter
  std::vector<int64_t> fixed;   // coordinates, where they are those of one rank
  std::vector<Affine> values;
  std::vector<Frame> frames; // outermost first
  Affine rank;               // the plan's number of it
  int64_t firstRank = 0, stage = 0;
  unsigned axes = 0, repeatCount = 0;
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_VALIDATE_ENVIRONMENT_H
