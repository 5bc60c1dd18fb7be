//===- UnsupportedOperators.h - what of a model is not supported ------------===//
//
// Walks the nodes of a model before any of them is imported, those of functions and of subgraphs included, so
// that all operators that are not supported come in one message. The importer (Importer.h) uses the same
// notions of a node's function, version and readers.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_IMPORT_ONNX_UNSUPPORTEDOPERATORS_H
#define COLOSSAL_LIB_IMPORT_ONNX_UNSUPPORTEDOPERATORS_H

#include "ModelFile.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/CachedHashString.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringSet.h"
#include <map>

namespace colossal::onnx_import {

/// Version by domain; "" is ONNX's own.
using OperatorSets = std::map<std::string, int64_t>;
/// Nodes that are imported at most, those of functions and loops counted as often as they are unrolled:
/// functions that call one another twice multiply beyond any memory.
inline constexpr int64_t kMostNodes = int64_t(1) << 21;
using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

OperatorSets getOperatorSets(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto> &imports);
/// 0 where the domain is not imported.
int64_t getVersion(const OperatorSets &versions, const std::string &domain);
/// The function of `model` that `node` calls, or null.
const onnx::FunctionProto *findFunction(const onnx::ModelProto &model, const onnx::NodeProto &node);
/// Names that a node reads, those that its subgraphs capture included.
void collectReads(const onnx::NodeProto &node, llvm::StringSet<> &reads);
/// Which node gives what.
struct Givers {
  llvm::DenseMap<llvm::CachedHashStringRef, int> nodeOf; ///< the first, by name
  bool isUnique = true;                                  ///< no name is given twice
};
/// The nodes that the tensors in `wanted` depend on, in an order in which each stands behind those whose
/// outputs it, or its subgraphs, read: the given order, where that is such a one. Some tools append nodes
/// where they come to mind; around a cycle no order helps, and the reader says what it lacks.
/// `givers`: of all nodes.
llvm::SmallVector<int> orderNodes(const Nodes &nodes, const llvm::StringSet<> &wanted,
                                  Givers *givers = nullptr);

class UnsupportedOperators {
public:
  /// Collects from the `needed` nodes of the model's graph.
  void collect(const onnx::ModelProto &model, const OperatorSets &versions, llvm::ArrayRef<int> needed);
  /// Whether any of them is needed whatever branch an If takes.
  bool isCertain() const { return certain; }
  /// One error for all: domain, operator, version, number of nodes, the first node.
  mlir::InFlightDiagnostic emit(mlir::Location loc) const;

private:
  struct Walk;
  struct Entry {
    int64_t count = 0, inBranches = 0; ///< nodes, and those of them in a branch of an If
    std::string firstNode;
  };
  std::map<std::tuple<std::string, std::string, int64_t>, Entry> entries;
  bool certain = false;
};

} // namespace colossal::onnx_import

#endif // COLOSSAL_LIB_IMPORT_ONNX_UNSUPPORTEDOPERATORS_H
