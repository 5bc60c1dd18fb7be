//===- EqualRepetitions.h - repetitions that are imported once --------------===//
//
// What RepeatedNodes.h finds is alike. Here it is proven equal: that nothing which an import looks at differs
// between repetitions but the names of tensors and the contents of weights. Such repetitions become equal
// ops.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_IMPORT_ONNX_EQUALREPETITIONS_H
#define COLOSSAL_LIB_IMPORT_ONNX_EQUALREPETITIONS_H

#include "RepeatedNodes.h"
#include "mlir/IR/MLIRContext.h"

#include <optional>
#include <vector>

namespace colossal::onnx_import {

/// initializers[r][slot]: what repetition r reads where others read their initializers[...][slot]. That of
/// the first repetition is empty: it may read what it likes.
using RepeatedInitializers = std::vector<llvm::SmallVector<const onnx::TensorProto *>>;

/// The initializers of the repetitions at `repeated` of `order`, if these are equal:
///  1. nodes of one place have equal operators, attributes and values of attributes, no subgraphs, and are no
///     calls of functions;
///  2. what a node reads comes from the same place of its own repetition, from the same place of the one
///     before, or is the same tensor for all, or an initializer that only this repetition reads, of the same
///     type and, where it becomes no parameter, of the same contents;
///  3. what stands behind reads of the last repetition only, and no other gives an output of the model.
/// The first repetition keeps to 1 only. O(nodes).
std::optional<RepeatedInitializers> matchRepetitions(mlir::MLIRContext *context, ModelFile &file,
                                                     llvm::ArrayRef<int> order, const Givers &givers,
                                                     const RepeatedNodes &repeated);

} // namespace colossal::onnx_import

#endif // COLOSSAL_LIB_IMPORT_ONNX_EQUALREPETITIONS_H
