//===- AlikeOps.h - ops that differ by their operands only ------------------===//
//
// Keys of maps that hold one op for all that are alike, as those of a model's layers are. Nothing is written
// down for a look-up: what makes two ops alike is compared where it stands.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_COLOSSAL_ALIKEOPS_H
#define COLOSSAL_DIALECTS_COLOSSAL_ALIKEOPS_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMapInfo.h"
#include "llvm/ADT/Hashing.h"

namespace colossal {

/// For DenseMap: ops by name, attributes, and types of operands and results. Operands, locations and regions
/// have no say. A key has to stay alive, and as it is, as long as the map.
struct AlikeInfo {
  static mlir::Operation *getEmptyKey() { return llvm::DenseMapInfo<mlir::Operation *>::getEmptyKey(); }
  static mlir::Operation *getTombstoneKey() {
    return llvm::DenseMapInfo<mlir::Operation *>::getTombstoneKey();
  }
  static unsigned getHashValue(mlir::Operation *op) { return hash(op, true); }
  static bool isEqual(mlir::Operation *a, mlir::Operation *b) { return areAlike(a, b, true); }

  static unsigned hash(mlir::Operation *op, bool withProperties) {
    llvm::hash_code hash =
        llvm::hash_combine(op->getName(), op->getDiscardableAttrDictionary(), op->getNumOperands());
    if (withProperties)
      hash = llvm::hash_combine(hash, op->hashProperties());
    for (mlir::Type type : op->getOperandTypes())
      hash = llvm::hash_combine(hash, type);
    for (mlir::Type type : op->getResultTypes())
      hash = llvm::hash_combine(hash, type);
    return hash;
  }
  static bool areAlike(mlir::Operation *a, mlir::Operation *b, bool withProperties) {
    if (a == b)
      return true;
    for (mlir::Operation *key : {a, b})
      if (key == getEmptyKey() || key == getTombstoneKey())
        return false;
    return a->getName() == b->getName() &&
           a->getDiscardableAttrDictionary() == b->getDiscardableAttrDictionary() &&
           (!withProperties ||
            a->getName().compareOpProperties(a->getPropertiesStorage(), b->getPropertiesStorage())) &&
           a->getOperandTypes() == b->getOperandTypes() && a->getResultTypes() == b->getResultTypes();
  }
};

} // namespace colossal

#endif // COLOSSAL_DIALECTS_COLOSSAL_ALIKEOPS_H
