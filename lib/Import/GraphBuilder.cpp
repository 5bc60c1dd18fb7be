//===- GraphBuilder.cpp - colossal ops with inferred types, folded at once --===//
//
// Type inference per family of ops, and eager folding.
//
//===----------------------------------------------------------------------===//
#include "GraphBuilder.h"

using namespace mlir;

namespace colossal {

std::optional<SmallVector<int64_t>> broadcastShapes(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  if (a.size() < b.size())
    std::swap(a, b);
  SmallVector<int64_t> shape(a);
  size_t skip = a.size() - b.size();
  for (size_t d = 0; d < b.size(); ++d) {
    int64_t &size = shape[d + skip];
    if (size == 1)
      size = b[d];
    else if (b[d] != 1 && b[d] != size)
      return std::nullopt;
  }
  return shape;
}

bool isPossibleShape(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape) {
    if (size < 0 || (size && count > kMostElements / size))
      return false;
    count *= std::max<int64_t>(size, 1);
  }
  return true;
}

Value GraphBuilder::finish(Operation *op) {
  if (auto type = typeOf(op->getResult(0)); !isPossibleShape(type.getShape())) {
    impossible = impossible ? impossible : type;
    return op->getResult(0);
  }
  auto erase = [&] { rewriter ? rewriter->eraseOp(op) : op->erase(); };
  std::vector<HostTensor> operands;
  // A range stays an op unless it has one element: what needs its values evaluates it on demand.
  bool constant = !isa<IotaOp>(op) || typeOf(op->getResult(0)).getNumElements() == 1;
  for (Value operand : op->getOperands()) {
    auto source = operand.getDefiningOp<ConstantOp>();
    std::optional<HostTensor> value;
    if (constant && source)
      value = HostTensor::fromAttr(source.getValue());
    constant &= value.has_value();
    if (!constant)
      break;
    operands.push_back(std::move(*value));
  }
  if (constant) {
    if (auto results = evaluateOp(op, operands, kFoldLimit)) {
      erase();
      return this->constant(results->front());
    }
  }
  SmallVector<Value> folded;
  if (succeeded(builder.tryFold(op, folded)) && !folded.empty()) {
    erase();
    return folded.front();
  }
  return op->getResult(0);
}

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

Value GraphBuilder::constant(ElementsAttr value) {
  return ConstantOp::create(builder, location, value.getType(), value);
}

Value GraphBuilder::splat(Shape shape, Type element, double value) {
  if (!isPossibleShape(shape))
    return broadcast(scalar(element, value), shape); // which says so
  HostTensor tensor(RankedTensorType::get(shape, element),
                    RankedTensorType::get(shape, element).getNumElements() > 0);
  if (tensor.floats.size())
    tensor.setFloat(0, value);
  else if (tensor.ints.size())
    tensor.setInt(0, int64_t(value));
  return constant(tensor);
}

Value GraphBuilder::scalar(Type element, double value) {
  return splat({}, element, value);
}

Value GraphBuilder::integers(ArrayRef<int64_t> values) {
  return constant(
      DenseElementsAttr::get(RankedTensorType::get({int64_t(values.size())}, builder.getI64Type()), values));
}

Value GraphBuilder::iota(Shape shape, Type element, int64_t axis, double start, double step) {
  return finish(IotaOp::create(builder, location, RankedTensorType::get(shape, element), Value(),
                               uint64_t(axis), APFloat(start), APFloat(step)));
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

Value GraphBuilder::elementwise(ElementwiseKind kind, ValueRange inputs, ArrayRef<double> params) {
  SmallVector<int64_t> shape(shapeOf(inputs.front()));
  for (Value input : inputs.drop_front())
    if (auto joined = broadcastShapes(shape, shapeOf(input)))
      shape = *joined;
  Type element = elementOf(inputs[kind == ElementwiseKind::Select ? 1 : 0]);
  if ((kind >= ElementwiseKind::Equal && kind <= ElementwiseKind::GreaterOrEqual) ||
      kind == ElementwiseKind::IsNaN || kind == ElementwiseKind::IsInf)
    element = builder.getI1Type();
  auto attr = params.empty() ? DenseF64ArrayAttr() : builder.getDenseF64ArrayAttr(params);
  return finish(
      ElementwiseOp::create(builder, location, RankedTensorType::get(shape, element), kind, inputs, attr));
}

Value GraphBuilder::cast(Value a, Type element, ArrayRef<double> params) {
  if (elementOf(a) == element)
    return a;
  return finish(ElementwiseOp::create(
      builder, location, RankedTensorType::get(shapeOf(a), element), ElementwiseKind::Cast, ValueRange{a},
      params.empty() ? DenseF64ArrayAttr() : builder.getDenseF64ArrayAttr(params)));
}

Value GraphBuilder::bitcast(Value a, Type element) {
  if (elementOf(a) == element)
    return a;
  return finish(ElementwiseOp::create(builder, location, RankedTensorType::get(shapeOf(a), element),
                                      ElementwiseKind::Bitcast, ValueRange{a}, DenseF64ArrayAttr()));
}

//===----------------------------------------------------------------------===//
// Movement
//===----------------------------------------------------------------------===//

Value GraphBuilder::reshape(Value a, Shape shape) {
  if (shapeOf(a) == shape)
    return a;
  return finish(ReshapeOp::create(builder, location, RankedTensorType::get(shape, elementOf(a)), a));
}

Value GraphBuilder::transpose(Value a, ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> shape;
  for (int64_t d : permutation)
    shape.push_back(shapeOf(a)[d]);
  return finish(
      TransposeOp::create(builder, location, RankedTensorType::get(shape, elementOf(a)), a, permutation));
}

Value GraphBuilder::broadcast(Value a, Shape shape) {
  if (shapeOf(a) == shape)
    return a;
  return finish(BroadcastOp::create(builder, location, RankedTensorType::get(shape, elementOf(a)), a));
}

Value GraphBuilder::slice(Value a, Shape starts, Shape sizes, Shape steps) {
  SmallVector<int64_t> ones(starts.size(), 1);
  if (steps.empty())
    steps = ones;
  return finish(
      SliceOp::create(builder, location, RankedTensorType::get(sizes, elementOf(a)), a, starts, steps));
}

Value GraphBuilder::sliceDim(Value a, int64_t dim, int64_t start, int64_t size) {
  SmallVector<int64_t> starts(rankOf(a), 0), sizes(shapeOf(a));
  starts[dim] = start;
  sizes[dim] = size;
  return slice(a, starts, sizes);
}

Value GraphBuilder::concat(ValueRange parts, int64_t axis) {
  if (parts.size() == 1)
    return parts.front();
  SmallVector<int64_t> shape(shapeOf(parts.front()));
  for (Value part : parts.drop_front())
    shape[axis] += shapeOf(part)[axis];
  return finish(ConcatOp::create(builder, location, RankedTensorType::get(shape, elementOf(parts.front())),
                                 parts, uint64_t(axis)));
}

Value GraphBuilder::pad(Value a, Shape low, Shape high, Value value, PadMode mode) {
  SmallVector<int64_t> shape(shapeOf(a));
  for (size_t d = 0; d < shape.size(); ++d)
    shape[d] += low[d] + high[d];
  return finish(
      PadOp::create(builder, location, RankedTensorType::get(shape, elementOf(a)), a, value, low, mode));
}

Value GraphBuilder::unsqueeze(Value a, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> shape;
  size_t next = 0;
  for (int64_t d = 0, rank = rankOf(a) + dims.size(); d < rank; ++d)
    shape.push_back(llvm::is_contained(dims, d) ? 1 : shapeOf(a)[next++]);
  return reshape(a, shape);
}

Value GraphBuilder::squeeze(Value a, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> shape;
  for (int64_t d = 0; d < rankOf(a); ++d)
    if (!llvm::is_contained(dims, d))
      shape.push_back(shapeOf(a)[d]);
  return reshape(a, shape);
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

static SmallVector<int64_t> reducedShape(ArrayRef<int64_t> shape, ArrayRef<int64_t> axes, bool keepdims) {
  SmallVector<int64_t> result;
  for (auto [d, size] : llvm::enumerate(shape)) {
    if (!llvm::is_contained(axes, int64_t(d)))
      result.push_back(size);
    else if (keepdims)
      result.push_back(1);
  }
  return result;
}

Value GraphBuilder::reduce(ReduceKind kind, Value a, ArrayRef<int64_t> axes, bool keepdims) {
  SmallVector<int64_t> sorted(axes);
  llvm::sort(sorted);
  auto type = RankedTensorType::get(reducedShape(shapeOf(a), sorted, keepdims), elementOf(a));
  return finish(ReduceOp::create(builder, location, type, kind, a, sorted, keepdims, IntegerAttr()));
}

Value GraphBuilder::argReduce(Value a, int64_t axis, bool minimum, bool keepdims, bool selectLast) {
  auto type = RankedTensorType::get(reducedShape(shapeOf(a), axis, keepdims), builder.getI64Type());
  return finish(
      ArgReduceOp::create(builder, location, type, a, uint64_t(axis), minimum, keepdims, selectLast));
}

Value GraphBuilder::cumulate(Value a, int64_t axis, bool exclusive, bool reverse, bool product) {
  return finish(
      CumulateOp::create(builder, location, a.getType(), a, uint64_t(axis), exclusive, reverse, product));
}

std::pair<Value, Value> GraphBuilder::topk(Value a, int64_t k, int64_t axis, bool largest) {
  SmallVector<int64_t> shape(shapeOf(a));
  shape[axis] = k;
  auto op = TopKOp::create(builder, location, RankedTensorType::get(shape, elementOf(a)),
                           RankedTensorType::get(shape, builder.getI64Type()), a, uint64_t(axis), largest);
  return {op.getValues(), op.getIndices()};
}

//===----------------------------------------------------------------------===//
// Normalization and contraction
//===----------------------------------------------------------------------===//

Value GraphBuilder::softmax(Value a, int64_t axis, bool log, bool guard) {
  return finish(SoftmaxOp::create(builder, location, a.getType(), a, uint64_t(axis), log, guard));
}

Value GraphBuilder::normalize(NormalizeKind kind, Value a, Value scale, Value bias, int64_t axis,
                              double epsilon) {
  return finish(NormalizeOp::create(builder, location, a.getType(), kind, a, scale, bias, uint64_t(axis),
                                    APFloat(epsilon)));
}

Value GraphBuilder::contract(Value lhs, Value rhs, ArrayRef<int64_t> lhsDims, ArrayRef<int64_t> rhsDims,
                             ArrayRef<int64_t> resultDims) {
  SmallVector<int64_t> shape;
  for (int64_t label : resultDims) {
    auto *at = llvm::find(lhsDims, label);
    shape.push_back(at != lhsDims.end() ? shapeOf(lhs)[at - lhsDims.begin()]
                                        : shapeOf(rhs)[llvm::find(rhsDims, label) - rhsDims.begin()]);
  }
  auto type = RankedTensorType::get(shape, elementOf(lhs));
  return finish(ContractOp::create(builder, location, type, lhs, rhs, lhsDims, rhsDims, resultDims));
}

Value GraphBuilder::matmul(Value lhs, Value rhs) {
  int64_t next = 0;
  int64_t m = next++, k = next++, n = next++;
  SmallVector<int64_t> lhsDims, rhsDims, resultDims, lhsShape, rhsShape;
  int64_t lhsBatch = std::max<int64_t>(rankOf(lhs) - 2, 0), rhsBatch = std::max<int64_t>(rankOf(rhs) - 2, 0);
  int64_t batch = std::max(lhsBatch, rhsBatch);
  for (int64_t d = 0; d < batch; ++d) {
    int64_t inLhs = d - (batch - lhsBatch), inRhs = d - (batch - rhsBatch);
    int64_t lhsSize = inLhs >= 0 ? shapeOf(lhs)[inLhs] : 1, rhsSize = inRhs >= 0 ? shapeOf(rhs)[inRhs] : 1;
    int64_t label = next++;
    // A dimension of size 1 against a larger one is dropped: the label then belongs to the other operand
    // alone.
    bool keepLhs = inLhs >= 0 && (lhsSize != 1 || rhsSize == 1);
    bool keepRhs = inRhs >= 0 && (rhsSize != 1 || lhsSize == 1);
    if (keepLhs) {
      lhsDims.push_back(label);
      lhsShape.push_back(lhsSize);
    }
    if (keepRhs) {
      rhsDims.push_back(label);
      rhsShape.push_back(rhsSize);
    }
    resultDims.push_back(label);
  }
  bool lhsVector = rankOf(lhs) == 1, rhsVector = rankOf(rhs) == 1;
  if (!lhsVector) {
    lhsDims.push_back(m);
    lhsShape.push_back(shapeOf(lhs)[rankOf(lhs) - 2]);
    resultDims.push_back(m);
  }
  lhsDims.push_back(k);
  lhsShape.push_back(shapeOf(lhs).back());
  rhsDims.push_back(k);
  rhsShape.push_back(shapeOf(rhs)[rhsVector ? 0 : rankOf(rhs) - 2]);
  if (!rhsVector) {
    rhsDims.push_back(n);
    rhsShape.push_back(shapeOf(rhs).back());
    resultDims.push_back(n);
  }
  rhs = reshape(rhs, rhsShape);
  return contract(reshape(lhs, lhsShape), rhs, lhsDims, rhsDims, resultDims);
}

//===----------------------------------------------------------------------===//
// Indexing
//===----------------------------------------------------------------------===//

Value GraphBuilder::gather(Value data, Value indices, int64_t axis) {
  SmallVector<int64_t> shape(shapeOf(data).take_front(axis));
  llvm::append_range(shape, shapeOf(indices));
  llvm::append_range(shape, shapeOf(data).drop_front(axis + 1));
  return finish(GatherOp::create(builder, location, RankedTensorType::get(shape, elementOf(data)), data,
                                 indices, Value(), uint64_t(axis), IntegerAttr()));
}

Value GraphBuilder::gatherElements(Value data, Value indices, int64_t axis) {
  return finish(GatherElementsOp::create(builder, location,
                                         RankedTensorType::get(shapeOf(indices), elementOf(data)), data,
                                         indices, uint64_t(axis)));
}

Value GraphBuilder::gatherND(Value data, Value indices, int64_t batchDims) {
  SmallVector<int64_t> shape(shapeOf(indices).drop_back());
  llvm::append_range(shape, shapeOf(data).drop_front(batchDims + shapeOf(indices).back()));
  return finish(GatherNDOp::create(builder, location, RankedTensorType::get(shape, elementOf(data)), data,
                                   indices, uint64_t(batchDims)));
}

} // namespace colossal
