//===- Sequence.cpp - ONNX sequences, known at compile time ------------------===//
//
// A sequence is the list of its elements: an unrealized cast of them to a tuple, which stands in no op's way
// and is gone when the model is read. What makes a sequence and what takes it apart meet here, so nothing of
// it is left to run time; its length and the places that are read must be known.
//
//===----------------------------------------------------------------------===//
#include "../Importer.h"
#include "../Operator.h"

using namespace mlir;

namespace colossal::onnx_import {

namespace {

constexpr int64_t kMostElements = 1 << 16;

LogicalResult setSequence(Node &n, ArrayRef<Value> elements, size_t output = 0) {
  if (llvm::any_of(elements, isSequence))
    return n.error() << "sequences of sequences are not supported";
  OpBuilder &ops = n.b.ops();
  auto type = TupleType::get(ops.getContext(), ValueRange(elements).getTypes());
  return n.set(output, UnrealizedConversionCastOp::create(ops, n.b.loc(), type, elements).getResult(0));
}

FailureOr<SmallVector<Value>> getSequence(Node &n) {
  if (failed(n.require(1)))
    return failure();
  auto made = n.in(0).getDefiningOp<UnrealizedConversionCastOp>();
  if (!isSequence(n.in(0)) || !made)
    return n.error() << "input 0 ('" << n.proto.input(0) << "') is no sequence";
  return llvm::to_vector(made.getInputs());
}

/// The place that input `i` names among `count`, counted from the end where negative.
FailureOr<int64_t> getPosition(Node &n, size_t i, int64_t count) {
  auto given = n.intsInput(i);
  if (failed(given))
    return failure();
  if (given->size() != 1)
    return n.error() << "one position is expected";
  int64_t at = given->front();
  if (at < -count || at >= count)
    return n.error() << "position " << at << " is outside a sequence of " << count;
  return at < 0 ? at + count : at;
}

LogicalResult importSequenceConstruct(Node &n) {
  if (failed(n.require(n.inputCount())))
    return failure();
  SmallVector<Value> elements;
  for (size_t i = 0; i < n.inputCount(); ++i)
    elements.push_back(n.in(i));
  return setSequence(n, elements);
}

LogicalResult importSequenceEmpty(Node &n) {
  return setSequence(n, {});
}

/// Parts of the sizes that are given, or of one size with a smaller last; without either single places, whose
/// dimension goes with keepdims 0.
LogicalResult importSplitToSequence(Node &n) {
  if (failed(n.require(1)))
    return failure();
  if (isSequence(n.in(0)) || (n.in(1) && isSequence(n.in(1))))
    return n.error() << "a tensor is expected, not a sequence";
  auto axis = n.axis(n.intAttr("axis", 0), n.rank(0));
  if (failed(axis))
    return failure();
  int64_t size = n.shape(0)[*axis];
  SmallVector<int64_t> sizes;
  bool each = !n.in(1), isScalar = each || n.rank(1) == 0;
  if (!each) {
    auto given = n.intsInput(1);
    if (failed(given))
      return failure();
    sizes = *given;
  }
  if (isScalar) {
    int64_t chunk = each ? 1 : sizes.front();
    sizes.clear();
    if (chunk < 1 || size / chunk >= kMostElements)
      return n.error() << "parts of " << chunk << " do not divide dimension " << *axis << " of size " << size
                       << " into at most " << kMostElements;
    for (int64_t start = 0; start < size; start += chunk)
      sizes.push_back(std::min(chunk, size - start));
  }
  SmallVector<Value> parts;
  int64_t start = 0;
  for (int64_t part : sizes) {
    if (part < 0 || part > size - start)
      break;
    Value slice = n.b.sliceDim(n.in(0), *axis, start, part);
    parts.push_back(each && !n.intAttr("keepdims", 1) ? n.b.squeeze(slice, {*axis}) : slice);
    start += part;
  }
  if (start != size || parts.size() != sizes.size())
    return n.error() << "the parts do not add up to dimension " << *axis << " of size " << size;
  return setSequence(n, parts);
}

LogicalResult importSequenceAt(Node &n) {
  auto elements = getSequence(n);
  if (failed(elements))
    return failure();
  auto at = getPosition(n, 1, elements->size());
  if (failed(at))
    return failure();
  return n.set((*elements)[*at]);
}

LogicalResult importSequenceInsert(Node &n) {
  auto elements = getSequence(n);
  if (failed(elements) || failed(n.require(2)))
    return failure();
  size_t at = elements->size();
  if (int64_t(at) >= kMostElements)
    return n.error() << "a sequence of more than " << kMostElements << " elements is not possible";
  if (n.in(2)) { // before that place, which may be the end
    auto given = n.intsInput(2);
    if (failed(given))
      return failure();
    if (given->size() != 1 || given->front() != int64_t(at)) {
      auto position = getPosition(n, 2, elements->size());
      if (failed(position))
        return failure();
      at = *position;
    }
  }
  elements->insert(elements->begin() + at, n.in(1));
  return setSequence(n, *elements);
}

LogicalResult importSequenceErase(Node &n) {
  auto elements = getSequence(n);
  if (failed(elements))
    return failure();
  if (elements->empty())
    return n.error() << "the sequence is empty";
  FailureOr<int64_t> at = n.in(1) ? getPosition(n, 1, elements->size()) : int64_t(elements->size()) - 1;
  if (failed(at))
    return failure();
  elements->erase(elements->begin() + *at);
  return setSequence(n, *elements);
}

LogicalResult importSequenceLength(Node &n) {
  auto elements = getSequence(n);
  if (failed(elements))
    return failure();
  return n.set(n.b.scalar(n.b.ops().getI64Type(), double(elements->size())));
}

LogicalResult importConcatFromSequence(Node &n) {
  auto elements = getSequence(n);
  if (failed(elements))
    return failure();
  if (elements->empty())
    return n.error() << "the sequence is empty";
  bool isNew = n.intAttr("new_axis", 0);
  int64_t rank = GraphBuilder::rankOf(elements->front());
  auto axis = n.axis(n.intAttr("axis", 0), rank + isNew);
  if (failed(axis))
    return failure();
  for (Value &element : *elements) {
    auto type = GraphBuilder::typeOf(element), first = GraphBuilder::typeOf(elements->front());
    bool fits = type.getRank() == rank && type.getElementType() == first.getElementType();
    for (int64_t d = 0; fits && d < rank; ++d)
      fits = type.getDimSize(d) == first.getDimSize(d) || (!isNew && d == *axis);
    if (!fits)
      return n.error() << "elements of types " << first << " and " << type << " are not joined";
  }
  if (isNew)
    for (Value &element : *elements)
      element = n.b.unsqueeze(element, {*axis});
  return n.set(n.b.concat(*elements, *axis));
}

/// The body once for each element.
LogicalResult importSequenceMap(Node &n) {
  auto elements = getSequence(n);
  const auto *body = n.attr("body");
  if (failed(elements) || failed(n.require(n.inputCount())))
    return failure();
  if (!body || !body->has_g() || body->g().input_size() != int(n.inputCount()) ||
      body->g().output_size() < int(n.outputCount()))
    return n.error() << "a body whose inputs and outputs fit is expected";
  std::vector<SmallVector<Value>> results(n.outputCount());
  for (auto [k, element] : llvm::enumerate(*elements)) {
    SmallVector<Value> inputs = {element};
    for (size_t i = 1; i < n.inputCount(); ++i) {
      auto other = n.in(i).getDefiningOp<UnrealizedConversionCastOp>();
      if (!isSequence(n.in(i))) {
        inputs.push_back(n.in(i));
      } else if (other && other.getInputs().size() == elements->size()) {
        inputs.push_back(other.getInputs()[k]);
      } else {
        return n.error() << "its sequences differ in length";
      }
    }
    auto outputs = n.importer.importSubgraph(body->g(), inputs);
    if (failed(outputs))
      return failure();
    for (size_t i = 0; i < results.size(); ++i)
      results[i].push_back((*outputs)[i]);
  }
  for (size_t i = 0; i < results.size(); ++i)
    if (failed(setSequence(n, results[i], i)))
      return failure();
  return success();
}

} // namespace

void addSequenceOperators(OperatorTable &table) {
  auto add = [&](StringRef name, OperatorFunction function, int64_t first = 11) {
    table.push_back({"", name, first, 0, function, /*takesSequences=*/true});
  };
  add("SequenceConstruct", importSequenceConstruct);
  add("SequenceEmpty", importSequenceEmpty);
  add("SplitToSequence", importSplitToSequence);
  add("SequenceAt", importSequenceAt);
  add("SequenceInsert", importSequenceInsert);
  add("SequenceErase", importSequenceErase);
  add("SequenceLength", importSequenceLength);
  add("ConcatFromSequence", importConcatFromSequence);
  add("SequenceMap", importSequenceMap, 17);
}

} // namespace colossal::onnx_import
