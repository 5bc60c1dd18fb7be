//===- GraphBuilder.h - colossal ops with inferred types, folded at once ----===//
//
// Builds ops at one place of a function, infers their result types, and folds what depends on constants only
// while it builds, so that shape arithmetic never becomes ops that outlive their use. Importer and patterns
// build through it. Shapes must fit (whoever calls checks what a model says before); the dialect's verifiers
// check the rest.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_IMPORT_GRAPHBUILDER_H
#define COLOSSAL_LIB_IMPORT_GRAPHBUILDER_H

#include "HostTensor.h"
#include "dialects/Colossal/Colossal.h"
#include "mlir/IR/PatternMatch.h"

namespace colossal {

/// The broadcast of shapes as in NumPy; nullopt where they do not fit.
std::optional<llvm::SmallVector<int64_t>> broadcastShapes(llvm::ArrayRef<int64_t> a,
                                                          llvm::ArrayRef<int64_t> b);

/// A tensor of more elements is not stored (StoredSizes.h): the sum of the bytes of all does not overflow.
inline constexpr int64_t kMostStored = int64_t(1) << 40;
/// Whether a tensor may have that shape while the model is read: no size negative or unknown, and at most
/// kMostElements in all, so that no product of sizes or of bytes overflows.
inline constexpr int64_t kMostElements = int64_t(1) << 56;
bool isPossibleShape(llvm::ArrayRef<int64_t> shape);

class GraphBuilder {
public:
  using Shape = llvm::ArrayRef<int64_t>;
  using Value = mlir::Value;
  using Type = mlir::Type;

  GraphBuilder(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), location(loc) {}
  /// In a rewrite, which must know of every op that goes.
  GraphBuilder(mlir::RewriterBase &rewriter, mlir::Location loc)
      : builder(rewriter), location(loc), rewriter(&rewriter) {}

  mlir::OpBuilder &ops() { return builder; }
  mlir::Location loc() const { return location; }

  static mlir::RankedTensorType typeOf(Value value) {
    return llvm::cast<mlir::RankedTensorType>(value.getType());
  }
  static Shape shapeOf(Value value) { return typeOf(value).getShape(); }
  static int64_t rankOf(Value value) { return typeOf(value).getRank(); }
  static Type elementOf(Value value) { return typeOf(value).getElementType(); }

  // Sources.
  Value constant(mlir::ElementsAttr value);
  Value constant(const HostTensor &value) { return constant(value.toAttr()); }
  /// Rank 0.
  Value scalar(Type element, double value);
  Value splat(Shape shape, Type element, double value);
  /// Rank 1, i64.
  Value integers(llvm::ArrayRef<int64_t> values);
  Value iota(Shape shape, Type element, int64_t axis, double start = 0, double step = 1);

  // Elementwise; operands broadcast and must fit.
  Value elementwise(ElementwiseKind kind, mlir::ValueRange inputs, llvm::ArrayRef<double> params = {});
  Value unary(ElementwiseKind kind, Value a) { return elementwise(kind, {a}); }
  Value add(Value a, Value b) { return elementwise(ElementwiseKind::Add, {a, b}); }
  Value sub(Value a, Value b) { return elementwise(ElementwiseKind::Sub, {a, b}); }
  Value mul(Value a, Value b) { return elementwise(ElementwiseKind::Mul, {a, b}); }
  Value div(Value a, Value b) { return elementwise(ElementwiseKind::Div, {a, b}); }
  Value select(Value condition, Value a, Value b) {
    return elementwise(ElementwiseKind::Select, {condition, a, b});
  }
  /// `params` say how a narrow float is rounded; none: saturated, to nearest (powers of two: up).
  Value cast(Value a, Type element, llvm::ArrayRef<double> params = {});
  Value bitcast(Value a, Type element);

  // Movement.
  Value reshape(Value a, Shape shape);
  Value transpose(Value a, llvm::ArrayRef<int64_t> permutation);
  Value broadcast(Value a, Shape shape);
  Value slice(Value a, Shape starts, Shape sizes, Shape steps = {});
  /// [start, start + size) of one dimension.
  Value sliceDim(Value a, int64_t dim, int64_t start, int64_t size);
  Value concat(mlir::ValueRange parts, int64_t axis);
  Value pad(Value a, Shape low, Shape high, Value value = {}, PadMode mode = PadMode::Constant);
  /// Inserts (removes) dimensions of size 1; `dims` are places in the larger shape, ascending.
  Value unsqueeze(Value a, llvm::ArrayRef<int64_t> dims);
  Value squeeze(Value a, llvm::ArrayRef<int64_t> dims);

  // Reductions.
  Value reduce(ReduceKind kind, Value a, llvm::ArrayRef<int64_t> axes, bool keepdims);
  Value argReduce(Value a, int64_t axis, bool minimum, bool keepdims, bool selectLast);
  Value cumulate(Value a, int64_t axis, bool exclusive, bool reverse, bool product = false);
  std::pair<Value, Value> topk(Value a, int64_t k, int64_t axis, bool largest);

  // Normalization, contraction, attention.
  Value softmax(Value a, int64_t axis, bool log = false, bool guard = false);
  Value normalize(NormalizeKind kind, Value a, Value scale, Value bias, int64_t axis, double epsilon);
  Value contract(Value lhs, Value rhs, llvm::ArrayRef<int64_t> lhsDims, llvm::ArrayRef<int64_t> rhsDims,
                 llvm::ArrayRef<int64_t> resultDims);
  /// Matrix product with NumPy's broadcasting of the leading dimensions; both operands have rank >= 1.
  Value matmul(Value lhs, Value rhs);

  // Indexing.
  Value gather(Value data, Value indices, int64_t axis);
  Value gatherElements(Value data, Value indices, int64_t axis);
  Value gatherND(Value data, Value indices, int64_t batchDims);

  /// The value of `op`'s only result, folded where it can be; `op` is erased then.
  Value finish(mlir::Operation *op);
  /// The first type of a tensor that cannot be and that an op was built with, or null. Such an op is not
  /// folded; whoever lets shapes come from a model asks in the end.
  mlir::RankedTensorType impossibleType() const { return impossible; }

private:
  mlir::OpBuilder &builder;
  mlir::Location location;
  mlir::RewriterBase *rewriter = nullptr;
  mlir::RankedTensorType impossible;
};

/// Results of more elements than this are left to run time even if constant (unless all elements are equal).
inline constexpr int64_t kFoldLimit = 4096;

} // namespace colossal

#endif // COLOSSAL_LIB_IMPORT_GRAPHBUILDER_H
