//===- Operator.h - what an ONNX operator's importer sees -------------------===//
//
// One row per operator, one function per row. The function reads the node's inputs and attributes through
// Node, builds colossal ops, and sets the node's outputs. Families of operators stand in Operators/*.cpp;
// docs/AddingAnOnnxOperator.md walks through one.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_IMPORT_ONNX_OPERATOR_H
#define COLOSSAL_LIB_IMPORT_ONNX_OPERATOR_H

#include "../GraphBuilder.h"
#include "mlir/IR/Diagnostics.h"
#include "onnx-ml.pb.h"
#include <vector>

namespace colossal::onnx_import {

class Importer;

/// Whether a value is a sequence of tensors and not one tensor.
inline bool isSequence(mlir::Value value) {
  return llvm::isa<mlir::TupleType>(value.getType());
}

/// One node while it is imported.
class Node {
public:
  Node(Importer &importer, const onnx::NodeProto &proto, int64_t version, GraphBuilder &builder,
       llvm::ArrayRef<mlir::Value> inputs);

  Importer &importer;
  const onnx::NodeProto &proto;
  /// Version of the operator set that the node's domain has in the model.
  const int64_t version;
  GraphBuilder &b;

  // Inputs. An absent optional input is null.
  size_t inputCount() const { return inputs.size(); }
  mlir::Value in(size_t i) const { return i < inputs.size() ? inputs[i] : mlir::Value(); }
  llvm::ArrayRef<int64_t> shape(size_t i) const { return GraphBuilder::shapeOf(inputs[i]); }
  int64_t rank(size_t i) const { return GraphBuilder::rankOf(inputs[i]); }
  mlir::Type element(size_t i) const { return GraphBuilder::elementOf(inputs[i]); }
  /// Fails with a message unless inputs [0, count) are there.
  mlir::LogicalResult require(size_t count);

  // Attributes.
  const onnx::AttributeProto *attr(llvm::StringRef name) const;
  bool hasAttr(llvm::StringRef name) const { return attr(name) != nullptr; }
  int64_t intAttr(llvm::StringRef name, int64_t otherwise) const;
  double floatAttr(llvm::StringRef name, double otherwise) const;
  llvm::StringRef stringAttr(llvm::StringRef name, llvm::StringRef otherwise) const;
  llvm::SmallVector<int64_t> intsAttr(llvm::StringRef name) const;
  llvm::SmallVector<double> floatsAttr(llvm::StringRef name) const;

  // Inputs that shape the computation: their values must be known now. The errors name input and node, and
  // say whether an input of the model decides, which can be bound, or its data, for which nothing is
  // compiled.
  mlir::FailureOr<HostTensor> constantInput(size_t i) { return constantInput(i, false); }
  /// The same of an input whose elements are told apart by value, so that the size of the result depends on
  /// them.
  mlir::FailureOr<HostTensor> countedInput(size_t i) { return constantInput(i, true); }
  mlir::FailureOr<llvm::SmallVector<int64_t>> intsInput(size_t i);
  mlir::FailureOr<llvm::SmallVector<double>> floatsInput(size_t i);
  /// Integers that an older version has as attribute `name` and a newer as input `i`; `otherwise` if neither
  /// is there.
  mlir::FailureOr<llvm::SmallVector<int64_t>>
  intsAttrOrInput(llvm::StringRef name, size_t i, std::optional<llvm::SmallVector<int64_t>> otherwise);

  // Checks of what the model says.
  /// `axis` counted from the front; fails unless -rank <= axis < rank.
  mlir::FailureOr<int64_t> axis(int64_t axis, int64_t rank);
  /// All of them, sorted and unique.
  mlir::FailureOr<llvm::SmallVector<int64_t>> axes(llvm::ArrayRef<int64_t> axes, int64_t rank);
  /// An elementwise op whose operands may not fit.
  mlir::FailureOr<mlir::Value> elementwise(ElementwiseKind kind, mlir::ValueRange operands,
                                           llvm::ArrayRef<double> params = {});
  mlir::LogicalResult checkBroadcast(mlir::ValueRange operands);
  /// Starts an error message that names the node.
  mlir::InFlightDiagnostic error();
  /// Ends an error: what in the model decides `value`, which is not known, and what can be done.
  void explainUnknown(mlir::InFlightDiagnostic &error, mlir::Value value, bool isCounted);
  /// The stream of random values of a node that names none (Importer::getStream).
  uint64_t getStream() const;

  // Outputs.
  size_t outputCount() const { return proto.output_size(); }
  bool wants(size_t i) const { return i < outputCount() && !proto.output(i).empty(); }
  /// Sets output `i`, if the node has it. A null value says that this output is not supported.
  void give(size_t i, mlir::Value value);
  /// The same, as an operator's last step.
  mlir::LogicalResult set(size_t i, mlir::Value value) { return give(i, value), mlir::success(); }
  mlir::LogicalResult set(mlir::Value value) { return set(0, value); }
  mlir::LogicalResult set(mlir::FailureOr<mlir::Value> value);
  llvm::SmallVector<mlir::Value> outputs;

private:
  mlir::FailureOr<HostTensor> constantInput(size_t i, bool isCounted);

  llvm::ArrayRef<mlir::Value> inputs;
};

using OperatorFunction = mlir::LogicalResult (*)(Node &);

/// One ONNX operator, for versions [first, last] of its domain's operator set (last 0: still current).
struct OperatorRow {
  llvm::StringRef domain, name;
  int64_t first, last;
  OperatorFunction function;
  /// Inputs and outputs may be sequences, which Operators/Sequence.cpp makes; others see tensors only.
  bool takesSequences = false;
};
using OperatorTable = std::vector<OperatorRow>;

void addAttentionOperators(OperatorTable &);
void addContractionOperators(OperatorTable &);
void addControlOperators(OperatorTable &);
void addConvolutionOperators(OperatorTable &);
void addElementwiseOperators(OperatorTable &);
void addFeatureOperators(OperatorTable &);
void addFusedOperators(OperatorTable &);
void addGridSamplingOperators(OperatorTable &);
void addIndexingOperators(OperatorTable &);
void addLinearAttentionOperators(OperatorTable &);
void addLossOperators(OperatorTable &);
void addMovementOperators(OperatorTable &);
void addNormalizationOperators(OperatorTable &);
void addPoolingOperators(OperatorTable &);
void addQuantizationOperators(OperatorTable &);
void addRecurrentOperators(OperatorTable &);
void addReductionOperators(OperatorTable &);
void addResamplingOperators(OperatorTable &);
void addSequenceOperators(OperatorTable &);
void addShapeOperators(OperatorTable &);
void addSignalOperators(OperatorTable &);
void addSourceOperators(OperatorTable &);
void addTrainingOperators(OperatorTable &);

/// The row of an operator, or null. The domain `ai.onnx` is that of the empty name.
const OperatorRow *findOperator(llvm::StringRef domain, llvm::StringRef name, int64_t version);
const OperatorTable &getOperatorTable();

} // namespace colossal::onnx_import

#endif // COLOSSAL_LIB_IMPORT_ONNX_OPERATOR_H
