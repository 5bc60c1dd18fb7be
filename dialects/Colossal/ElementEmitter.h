//===- ElementEmitter.h - code for tensor elements, pulled by index ---------===//
//
// An op describes its results element by element: given the index of a result element, code that computes it
// from operand elements. Who implements this class decides what a load is (memory, the inlined element of a
// fused producer, a constant), whether values are scalars or vectors of consecutive elements, and what a
// reduction loop becomes. Ops know none of the implementations.
//
// Values of elements are scalars, or vectors of `lanes()` elements where some index varies over the lanes;
// they have the tensor's element type, except that integers are spelled signless and narrow types
// (NarrowTypes.h) as i8. Indices are i64.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_COLOSSAL_ELEMENTEMITTER_H
#define COLOSSAL_DIALECTS_COLOSSAL_ELEMENTEMITTER_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace colossal {

/// An index along one dimension for `lanes()` consecutive lanes: lane l stands at base + l * stride, or, if
/// `vector` is set, at vector[l] (vector of LANES i64). A scalar emitter has one lane; then only base counts.
struct Lane {
  mlir::Value base;     ///< i64
  int64_t stride = 0;   ///< 0: all lanes at the same place
  mlir::Value vector;   ///< overrides base and stride
  int64_t multiple = 1; ///< base is known to be a multiple of this

  bool isUniform() const { return !vector && stride == 0; }
};

/// Functions of one float value that hardware lacks or has in many forms.
enum class MathFunction {
  Exp,
  Log,
  Erf,
  Sin,
  Cos,
  Tan,
  Asin,
  Acos,
  Atan,
  Sinh,
  Cosh,
  Tanh,
  Asinh,
  Acosh,
  Atanh,
  Sigmoid,
  Softplus,
  GeluErf,
  GeluTanh,
  Silu,
  Sqrt,
  Rsqrt,
  Floor,
  Ceil,
  RoundEven
};

class ElementEmitter {
public:
  using Thunk = llvm::function_ref<mlir::Value()>;

  virtual ~ElementEmitter() = default;
  virtual mlir::OpBuilder &builder() = 0;
  virtual mlir::Location loc() = 0;
  /// Lanes of a vector value; 1 in a scalar emitter.
  virtual unsigned lanes() const = 0;

  /// The element(s) of `tensor` at `index`, of its element type (booleans as i1). Where `mask` (i1, or vector
  /// of i1) is given and false, nothing is read and the value is `otherwise` (same shape as the result;
  /// absent: zero).
  virtual mlir::Value load(mlir::Value tensor, llvm::ArrayRef<Lane> index, mlir::Value mask = {},
                           mlir::Value otherwise = {}) = 0;
  /// A scalar SSA operand of the op (an index value such as an offset) as it is inside the kernel, i64.
  virtual mlir::Value scalarOperand(mlir::Value value) = 0;

  /// A loop over [0, extent): `init` are the accumulators' first values, `body` gets the counter (i64) and
  /// the accumulators and returns the next ones, of the same types. The order of combination is that of the
  /// counter.
  virtual llvm::SmallVector<mlir::Value>
  reduce(int64_t extent, mlir::ValueRange init,
         llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)> body) = 0;
  /// `condition ? then : otherwise`; a branch where the condition is a scalar. In each arm only the lanes
  /// that take it read memory.
  virtual mlir::Value choose(mlir::Value condition, Thunk then, Thunk otherwise) = 0;

  /// Index arithmetic on lanes; constants fold.
  virtual Lane constant(int64_t value) = 0;
  virtual Lane add(Lane a, Lane b) = 0;
  virtual Lane mul(Lane a, int64_t factor) = 0;
  virtual Lane floorDiv(Lane a, int64_t divisor) = 0; ///< a >= 0
  virtual Lane mod(Lane a, int64_t divisor) = 0;      ///< a >= 0
  /// A uniform lane from an i64 value.
  Lane uniform(mlir::Value index) { return Lane{index, 0, {}, 1}; }
  /// A lane from a loaded integer value (scalar or vector of any integer type, taken as signed).
  virtual Lane fromValue(mlir::Value integer) = 0;
  /// The index as a value of an integer type (scalar if uniform, otherwise vector).
  virtual mlir::Value toValue(Lane lane, mlir::Type integerType) = 0;
  /// lane >= low && lane < high, as i1 or vector of i1.
  virtual mlir::Value inRange(Lane lane, int64_t low, int64_t high) = 0;

  /// Element conversion between tensor element types (unsigned ones as ui8...; i1 is a boolean, true unless
  /// 0). Floats round to nearest even, f64 through f32 to f16 and bf16. Float to integer truncates; what does
  /// not fit is unspecified (types below 32 bits wrap where i32 can hold it), and never traps.
  /// To narrow floats they saturate.
  mlir::Value convert(mlir::Value value, mlir::Type from, mlir::Type to);
  /// A constant of a tensor element type, scalar; integers modulo 2^width.
  mlir::Value scalar(mlir::Type element, double value);
  virtual mlir::Value math(MathFunction function, mlir::Value x) = 0;
  virtual mlir::Value pow(mlir::Value base, mlir::Value exponent) = 0;
  /// NaN in either gives NaN.
  virtual mlir::Value maximum(mlir::Value a, mlir::Value b) = 0;
  virtual mlir::Value minimum(mlir::Value a, mlir::Value b) = 0;
  /// Makes all values vectors if one is.
  virtual void unify(llvm::MutableArrayRef<mlir::Value> values) = 0;

protected:
  /// `convert` and `scalar` of the types that are computed with.
  virtual mlir::Value convertNumber(mlir::Value value, mlir::Type from, mlir::Type to) = 0;
  virtual mlir::Value scalarNumber(mlir::Type element, double value) = 0;
};

/// A value with the operators of its tensor element type: what makes emission code read like the formula.
/// Scalars meet vectors freely. Integer division by zero gives 0 and never traps.
class Element {
public:
  Element(ElementEmitter &emitter, mlir::Value value, mlir::Type type)
      : emitter(&emitter), value(value), type(type) {}

  Element operator+(Element o) const;
  Element operator-(Element o) const;
  Element operator*(Element o) const;
  Element operator/(Element o) const; ///< truncates for integers
  Element remainder(Element o) const; ///< sign of the dividend
  Element modulo(Element o) const;    ///< sign of the divisor
  Element max(Element o) const;
  Element min(Element o) const;
  Element operator<(Element o) const; ///< i1, false for NaN
  Element operator<=(Element o) const;
  Element operator==(Element o) const;
  Element operator!=(Element o) const; ///< true for NaN
  Element operator!() const;
  Element operator&(Element o) const;
  Element operator|(Element o) const;
  Element operator^(Element o) const;
  Element operator-() const { return like(0) - *this; }
  Element abs() const;
  Element to(mlir::Type element) const;
  Element apply(MathFunction function) const;
  /// A constant of the same type.
  Element like(double constant) const { return {*emitter, emitter->scalar(type, constant), type}; }
  /// this (i1) ? a : b
  Element select(Element a, Element b) const;

  mlir::Value get() const { return value; }
  mlir::Type elementType() const { return type; }
  bool isFloat() const { return llvm::isa<mlir::FloatType>(type); }
  bool isUnsigned() const { return type.isUnsignedInteger() || type.isInteger(1); }

private:
  std::pair<mlir::Value, mlir::Value> with(const Element &o) const;

  ElementEmitter *emitter;
  mlir::Value value;
  mlir::Type type;
};

/// The type in which arithmetic on elements of `type` is done: f32 for f16, bf16 and narrow floats, i8 or ui8
/// for narrow integers, otherwise itself.
mlir::Type computeType(mlir::Type type);
/// Element type of a ranked tensor value.
mlir::Type elementTypeOf(mlir::Value tensor);
llvm::ArrayRef<int64_t> shapeOf(mlir::Value tensor);
/// The index of the operand element that broadcasting (right-aligned, size 1 stretches) reads for a result
/// index.
llvm::SmallVector<Lane> broadcastIndex(ElementEmitter &emitter, llvm::ArrayRef<Lane> index,
                                       mlir::Value operand);
/// Row-major linear index, and back.
Lane linearize(ElementEmitter &emitter, llvm::ArrayRef<Lane> index, llvm::ArrayRef<int64_t> shape);
llvm::SmallVector<Lane> delinearize(ElementEmitter &emitter, Lane linear, llvm::ArrayRef<int64_t> shape);
/// The index into shape `to` of the element that stands at `index` of shape `from`, both with the same
/// elements in row-major order. Works on runs of dimensions with equal products, so that dimensions that
/// correspond pass unchanged.
llvm::SmallVector<Lane> reshapeIndex(ElementEmitter &emitter, llvm::ArrayRef<Lane> index,
                                     llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to);

} // namespace colossal

#endif // COLOSSAL_DIALECTS_COLOSSAL_ELEMENTEMITTER_H
