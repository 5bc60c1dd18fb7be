//===- OnnxNames.h - ONNX names in locations --------------------------------===//
//
// Every op that comes from an ONNX model has a Location that holds the names of the nodes it came from and of
// the tensors those nodes gave. Messages, pins and traces speak in these names. Layout of such a location:
//
//   NameLoc("node", NameLoc("tensor", unknown))                    one output
//   NameLoc("node", FusedLoc[NameLoc("a"), NameLoc("b"), ...])      several
//
// An op that stands for several nodes (a recognised pattern) has a FusedLoc of such locations.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_IMPORT_ONNXNAMES_H
#define COLOSSAL_IMPORT_ONNXNAMES_H

#include "mlir/IR/Location.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace colossal {

/// The ONNX names in a location, in order of appearance, without repetition.
struct OnnxNames {
  llvm::SmallVector<llvm::StringRef, 2> nodes;
  llvm::SmallVector<llvm::StringRef, 2> tensors;
};

/// A location for what node `node` gives; `outputs` are the names of its outputs (empty names are left out).
/// Tensors without a node (inputs, initializers) pass an empty `node`.
mlir::Location makeOnnxLocation(mlir::MLIRContext *context, llvm::StringRef node,
                                llvm::ArrayRef<llvm::StringRef> outputs);

/// Reads names back; both lists are empty where `location` holds none.
OnnxNames getOnnxNames(mlir::Location location);

} // namespace colossal

#endif // COLOSSAL_IMPORT_ONNXNAMES_H
