//===- Reduction.cpp - ONNX reductions and scans ----------------------------===//
//
// ReduceX take their axes as attribute, and as input since version 13 (Sum) or 18.
//
//===----------------------------------------------------------------------===//
#include "../Operator.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;

namespace colossal::onnx_import {

namespace {

template <ReduceKind kind>
LogicalResult importReduce(Node &n) {
  if (failed(n.require(1)))
    return failure();
  auto given = n.intsAttrOrInput("axes", 1, SmallVector<int64_t>());
  if (failed(given))
    return failure();
  Value x = n.in(0);
  bool isBool = n.element(0).isInteger(1);
  if (given->empty()) {
    if (n.intAttr("noop_with_empty_axes", 0)) {
      // Nothing is reduced, but what a reduction does to one element remains.
      Value result = x;
      if (kind == ReduceKind::SumSquare)
        result = n.b.mul(x, x);
      else if (kind == ReduceKind::L1 || kind == ReduceKind::L2)
        result = n.b.unary(ElementwiseKind::Abs, x);
      else if (kind == ReduceKind::LogSum)
        result = n.b.unary(ElementwiseKind::Log, x);
      return n.set(result);
    }
    given->assign(llvm::seq<int64_t>(0, n.rank(0)).begin(), llvm::seq<int64_t>(0, n.rank(0)).end());
  }
  auto axes = n.axes(*given, n.rank(0));
  if (failed(axes))
    return failure();
  if (isBool && kind != ReduceKind::Max && kind != ReduceKind::Min)
    return n.error() << "booleans have no such reduction";
  return n.set(n.b.reduce(kind, x, *axes, n.intAttr("keepdims", 1)));
}

template <bool minimum>
LogicalResult importArgReduce(Node &n) {
  if (failed(n.require(1)))
    return failure();
  auto axis = n.axis(n.intAttr("axis", 0), n.rank(0));
  if (failed(axis))
    return failure();
  if (n.shape(0)[*axis] == 0)
    return n.error() << "the dimension is empty";
  return n.set(
      n.b.argReduce(n.in(0), *axis, minimum, n.intAttr("keepdims", 1), n.intAttr("select_last_index", 0)));
}

template <bool product>
LogicalResult importCumulate(Node &n) {
  if (failed(n.require(2)))
    return failure();
  auto given = n.intsInput(1);
  if (failed(given))
    return failure();
  auto axis = n.axis(given->empty() ? 0 : given->front(), n.rank(0));
  if (failed(axis))
    return failure();
  return n.set(n.b.cumulate(n.in(0), *axis, n.intAttr("exclusive", 0), n.intAttr("reverse", 0), product));
}

LogicalResult importTopK(Node &n) {
  if (failed(n.require(1)))
    return failure();
  auto k = n.hasAttr("k") ? FailureOr<SmallVector<int64_t>>(SmallVector<int64_t>{n.intAttr("k", 1)})
                          : n.intsInput(1);
  auto axis = n.axis(n.intAttr("axis", -1), n.rank(0));
  if (failed(k) || failed(axis))
    return failure();
  if (k->size() != 1 || k->front() < 0 || k->front() > n.shape(0)[*axis])
    return n.error() << "k must be one number, at most the size of dimension " << *axis;
  auto [values, indices] = n.b.topk(n.in(0), k->front(), *axis, n.intAttr("largest", 1));
  n.give(0, values);
  return n.set(1, indices);
}

} // namespace

void addReductionOperators(OperatorTable &table) {
  auto add = [&](StringRef name, OperatorFunction function, int64_t first = 1) {
    table.push_back({"", name, first, 0, function});
  };
  add("ReduceSum", importReduce<ReduceKind::Sum>);
  add("ReduceMean", importReduce<ReduceKind::Mean>);
  add("ReduceProd", importReduce<ReduceKind::Prod>);
  add("ReduceMax", importReduce<ReduceKind::Max>);
  add("ReduceMin", importReduce<ReduceKind::Min>);
  add("ReduceSumSquare", importReduce<ReduceKind::SumSquare>);
  add("ReduceL1", importReduce<ReduceKind::L1>);
  add("ReduceL2", importReduce<ReduceKind::L2>);
  add("ReduceLogSum", importReduce<ReduceKind::LogSum>);
  add("ReduceLogSumExp", importReduce<ReduceKind::LogSumExp>);
  add("ArgMax", importArgReduce<false>);
  add("ArgMin", importArgReduce<true>);
  add("CumSum", importCumulate<false>, 11);
  add("CumProd", importCumulate<true>, 26);
  add("TopK", importTopK);
}

} // namespace colossal::onnx_import
