//===- RowEmitter.h - code for ops over whole rows --------------------------===//
//
// Reductions, softmaxes and normalizations need statistics of a row before any of its results. A kernel that
// goes row by row lets each such op compute them once a row: through this class, which hides the loops over
// the row, their vectors, and who computes which part of them.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_COLOSSAL_ROWEMITTER_H
#define COLOSSAL_DIALECTS_COLOSSAL_ROWEMITTER_H

#include "dialects/Colossal/ElementEmitter.h"

#include <cstdint>
#include <functional>
#include <optional>

namespace colossal {

enum class ReduceKind : uint32_t;

class RowEmitter {
public:
  using Term = llvm::function_ref<Element(llvm::ArrayRef<Lane>)>;
  /// Code for an element of a result, which is emitted later, wherever an element of this row is read.
  using Code = std::function<mlir::Value(llvm::ArrayRef<Lane>)>;

  virtual ~RowEmitter() = default;
  virtual ElementEmitter &elements() = 0;
  /// Elements of a row.
  virtual int64_t rowSize() const = 0;
  /// The combination of `term` over the row's elements, in arithmetic of `type`.
  virtual Element fold(ReduceKind kind, mlir::Type type, Term term) = 0;
  /// exp(x) for x that is not positive: what is subtracted from its maximum.
  virtual Element expNonPositive(Element x) = 0;

  /// The value of `result`, of a shape without the dimensions of the row or with 1 there.
  virtual void bindStatistic(mlir::Value result, Element value) = 0;
  /// Code for the elements of `result`, of the operand's shape.
  virtual void bindElements(mlir::Value result, Code code) = 0;

  /// Whether the kernel has room for the elements of `result` in this row.
  virtual bool hasRoom(mlir::Value result) const = 0;
  /// Stores what is as good as the element of `result` at the index that a fold is at; `hasRoom` holds.
  virtual void keep(Element element, mlir::Value result, llvm::ArrayRef<Lane> index) = 0;
  /// What was kept there; none where nothing was.
  virtual std::optional<Element> kept(mlir::Value result, llvm::ArrayRef<Lane> index) = 0;

  /// The element of `tensor` at `index`, as `type`.
  Element element(mlir::Value tensor, mlir::Type type, llvm::ArrayRef<Lane> index) {
    return Element(elements(), elements().load(tensor, index), elementTypeOf(tensor)).to(type);
  }
};

} // namespace colossal

#endif // COLOSSAL_DIALECTS_COLOSSAL_ROWEMITTER_H
