//===- Operator.cpp - nodes and the operator table --------------------------===//
//
// Access to a node's inputs, attributes and outputs, with the checks that every operator needs.
//
//===----------------------------------------------------------------------===//
#include "Operator.h"

#include "Importer.h"
#include "colossal/Import/ONNX.h"

using namespace mlir;

namespace colossal::onnx_import {

/// Elements of an input that decides shapes; a constant of one value may have any number.
static constexpr int64_t kMostRead = int64_t(1) << 24;

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

const OperatorTable &getOperatorTable() {
  static const OperatorTable table = [] {
    OperatorTable rows;
    addAttentionOperators(rows);
    addContractionOperators(rows);
    addControlOperators(rows);
    addConvolutionOperators(rows);
    addElementwiseOperators(rows);
    addFeatureOperators(rows);
    addFusedOperators(rows);
    addGridSamplingOperators(rows);
    addIndexingOperators(rows);
    addLinearAttentionOperators(rows);
    addLossOperators(rows);
    addMovementOperators(rows);
    addNormalizationOperators(rows);
    addPoolingOperators(rows);
    addQuantizationOperators(rows);
    addRecurrentOperators(rows);
    addReductionOperators(rows);
    addResamplingOperators(rows);
    addSequenceOperators(rows);
    addShapeOperators(rows);
    addSignalOperators(rows);
    addSourceOperators(rows);
    addTrainingOperators(rows);
    llvm::stable_sort(rows, [](const OperatorRow &a, const OperatorRow &b) {
      return std::tie(a.domain, a.name, a.first) < std::tie(b.domain, b.name, b.first);
    });
    return rows;
  }();
  return table;
}

/// The rows of each operator's name, as they stand in the table.
static const llvm::StringMap<SmallVector<const OperatorRow *, 2>> &getRowsOfNames() {
  static const auto rows = [] {
    llvm::StringMap<SmallVector<const OperatorRow *, 2>> rows;
    for (const OperatorRow &row : getOperatorTable())
      rows[row.name].push_back(&row);
    return rows;
  }();
  return rows;
}

const OperatorRow *findOperator(StringRef domain, StringRef name, int64_t version) {
  if (domain == "ai.onnx")
    domain = "";
  auto rows = getRowsOfNames().find(name);
  if (rows == getRowsOfNames().end())
    return nullptr;
  for (const OperatorRow *row : rows->second)
    if (row->domain == domain && row->first <= version && (row->last == 0 || version <= row->last))
      return row;
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

Node::Node(Importer &importer, const onnx::NodeProto &proto, int64_t version, GraphBuilder &builder,
           ArrayRef<Value> inputs)
    : importer(importer), proto(proto), version(version), b(builder), outputs(proto.output_size()),
      inputs(inputs) {}

InFlightDiagnostic Node::error() {
  return emitError(importer.resolve(b.loc()))
         << "node '" << getNodeName(proto) << "' (" << proto.op_type() << ", version " << version << "): ";
}

LogicalResult Node::require(size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (!in(i))
      return error() << "input " << i << " is missing";
  return success();
}

const onnx::AttributeProto *Node::attr(StringRef name) const {
  for (const auto &attribute : proto.attribute())
    if (attribute.name() == name)
      return &attribute;
  return nullptr;
}

int64_t Node::intAttr(StringRef name, int64_t otherwise) const {
  const auto *found = attr(name);
  return found && found->has_i() ? found->i() : otherwise;
}

double Node::floatAttr(StringRef name, double otherwise) const {
  const auto *found = attr(name);
  return found && found->has_f() ? found->f() : otherwise;
}

StringRef Node::stringAttr(StringRef name, StringRef otherwise) const {
  const auto *found = attr(name);
  return found && found->has_s() ? StringRef(found->s()) : otherwise;
}

SmallVector<int64_t> Node::intsAttr(StringRef name) const {
  const auto *found = attr(name);
  return found ? SmallVector<int64_t>(found->ints().begin(), found->ints().end()) : SmallVector<int64_t>();
}

SmallVector<double> Node::floatsAttr(StringRef name) const {
  const auto *found = attr(name);
  return found ? SmallVector<double>(found->floats().begin(), found->floats().end()) : SmallVector<double>();
}

void Node::explainUnknown(InFlightDiagnostic &error, Value value, bool isCounted) {
  Importer::Source source = importer.findSource(value);
  if (source.input.empty() && source.computedBy.empty())
    return; // a constant, and too large
  bool isOwn = source.computedBy.empty();
  // Of a tensor of reals somebody counts what a run brings; nobody knows it before.
  if (isOwn && !(isCounted && isa<FloatType>(source.element))) {
    error << "; it depends on '" << source.input << "': bind that with --value";
    return;
  }
  error << "; it depends on the data of a run (";
  if (!source.computedBy.empty())
    error << "'" << source.computedBy << "' computes it" << (source.input.empty() ? "" : " from ");
  if (!source.input.empty())
    error << "'" << source.input << "'";
  error << "), and sizes that depend on data are not compiled: export the model in a form whose sizes are "
           "fixed, "
           "such as masks in place of selected elements, or all experts on all tokens";
}

FailureOr<HostTensor> Node::constantInput(size_t i, bool isCounted) {
  if (!in(i))
    return error() << "input " << i << " is missing";
  if (auto value = importer.evaluate(in(i))) {
    if (value->count() > kMostRead)
      return error() << "input " << i << " ('" << proto.input(i) << "') has " << value->count()
                     << " elements, and at most " << kMostRead << " are read at compile time";
    return *value;
  }
  InFlightDiagnostic diagnostic = error() << "input " << i << " ('" << proto.input(i) << "') decides "
                                          << (isCounted ? "the size of the result" : "shapes or places")
                                          << " and must be known at compile time";
  explainUnknown(diagnostic, in(i), isCounted);
  return diagnostic;
}

uint64_t Node::getStream() const {
  return importer.getStream();
}

FailureOr<SmallVector<int64_t>> Node::intsInput(size_t i) {
  auto value = constantInput(i);
  if (failed(value))
    return failure();
  SmallVector<int64_t> result;
  for (int64_t k = 0; k < value->count(); ++k)
    result.push_back(value->getInt(k));
  return result;
}

FailureOr<SmallVector<double>> Node::floatsInput(size_t i) {
  auto value = constantInput(i);
  if (failed(value))
    return failure();
  SmallVector<double> result;
  for (int64_t k = 0; k < value->count(); ++k)
    result.push_back(value->getFloat(k));
  return result;
}

FailureOr<SmallVector<int64_t>> Node::intsAttrOrInput(StringRef name, size_t i,
                                                      std::optional<SmallVector<int64_t>> otherwise) {
  if (hasAttr(name))
    return intsAttr(name);
  if (in(i))
    return intsInput(i);
  if (otherwise)
    return *otherwise;
  return error() << "'" << name << "' is missing";
}

FailureOr<int64_t> Node::axis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    return error() << "axis " << axis << " is outside a tensor of rank " << rank;
  return axis < 0 ? axis + rank : axis;
}

FailureOr<SmallVector<int64_t>> Node::axes(ArrayRef<int64_t> axes, int64_t rank) {
  SmallVector<int64_t> result;
  for (int64_t one : axes) {
    auto at = axis(one, rank);
    if (failed(at))
      return failure();
    if (!llvm::is_contained(result, *at))
      result.push_back(*at);
  }
  llvm::sort(result);
  return result;
}

LogicalResult Node::checkBroadcast(ValueRange operands) {
  SmallVector<int64_t> shape;
  for (Value operand : operands) {
    auto joined = broadcastShapes(shape, GraphBuilder::shapeOf(operand));
    if (!joined) {
      auto diagnostic = error() << "operands do not broadcast:";
      for (Value each : operands)
        diagnostic << " " << each.getType();
      return diagnostic;
    }
    shape = *joined;
  }
  return success();
}

FailureOr<Value> Node::elementwise(ElementwiseKind kind, ValueRange operands, ArrayRef<double> params) {
  if (failed(checkBroadcast(operands)))
    return failure();
  return b.elementwise(kind, operands, params);
}

LogicalResult Node::set(FailureOr<Value> value) {
  return succeeded(value) ? set(0, *value) : failure();
}

void Node::give(size_t i, Value value) {
  if (i < outputs.size())
    outputs[i] = value;
}

} // namespace colossal::onnx_import

std::vector<colossal::SupportedOperator> colossal::listOperators() {
  std::vector<SupportedOperator> operators;
  for (const auto &row : onnx_import::getOperatorTable())
    operators.push_back({row.domain.str(), row.name.str(), row.first, row.last});
  return operators;
}
