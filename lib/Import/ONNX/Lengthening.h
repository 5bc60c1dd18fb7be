//===- Lengthening.h - from the ops of few repetitions to all ---------------===//
//
// A model of many equal layers is imported with four of them (RepeatedNodes.h), normalized, and its patterns
// recognised; the others are copies of one. Which ops are its, the locations say. That the copies are what an
// import would have made is seen where it can be: the second, third and last of the four must be equal ops
// that read one another alike, as must their locations, and no contents of weights may have had a say. What
// fails here costs time only: the model is imported whole.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_IMPORT_ONNX_LENGTHENING_H
#define COLOSSAL_LIB_IMPORT_ONNX_LENGTHENING_H

#include "Importer.h"

#include <array>

namespace colossal::onnx_import {

/// Ops of the nodes that `importer` has ordered, as they are once patterns are recognised. Their locations
/// are not resolved.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> makeModule(Importer &importer,
                                                              const ImportOptions &options);

/// Of a model that repeats itself again and again, imports a shorter one, for `hooks`, and copies what
/// repeats, where it does so exactly. Null where that is not the model, which is to be imported as it is.
mlir::OwningOpRef<mlir::ModuleOp> makeByCopies(mlir::MLIRContext *context, const ImportOptions &options,
                                               const ImportHooks &hooks, const Importer &whole,
                                               ModelFile &file);

class Lengthening {
public:
  /// Of the module that `shorter` made and that was simplified since; `whole`: which nodes there are.
  Lengthening(Importer &shorter, const Importer &whole);

  /// Finds the ops of the repetitions, whose locations must still stand for nodes. False: they are not equal.
  bool match();
  /// Adds what was left out, with locations as Importer::resolveLocations makes them, which ran since. False:
  /// a weight is equal to another one, and the module is of no use.
  bool apply();

private:
  static constexpr size_t kFirst = 0, kBefore = 1, kLike = 2, kLast = 3; ///< repetitions that were imported
  /// The place of a node: its repetition, and where in that.
  struct Place {
    size_t repetition, node;
  };
  /// An op of a repetition, by its place among them.
  struct Known {
    size_t repetition, index;
    bool isParameter;
  };
  using Ops = llvm::SmallVector<mlir::Operation *>;

  bool findOps();
  bool findParameters();
  /// Whether what stands in repetition `r` is what stands in the one before.
  bool areAlike(size_t r);
  bool areAlike(mlir::Value before, mlir::Value value, size_t r);
  bool areAlike(mlir::Location before, mlir::Location location);
  /// The first and last repetition count, and so do what stands before (-1) and behind (4) them.
  std::optional<int> getRank(mlir::Location location);
  /// The location, in repetition `r` of the whole, of what has `location` in the one that is copied and
  /// `before` in the one before that.
  mlir::Location relocate(mlir::Location before, mlir::Location location, size_t r);
  mlir::Location getNodeLocation(size_t repetition, size_t node);

  Importer &shorter;
  const Importer &whole;
  const RepeatedNodes &repeated;
  const Nodes &nodes;
  llvm::DenseMap<const onnx::NodeProto *, Place> placeOf;
  llvm::DenseMap<const onnx::NodeProto *, int> rankOf;   ///< of other nodes
  llvm::DenseMap<mlir::Location, Place> initializerOf;   ///< repetition and slot
  std::array<Ops, RepeatedNodes::kKept> ops, parameters; ///< parameters of the first are not looked for
  std::array<llvm::SmallVector<size_t>, RepeatedNodes::kKept> slots; ///< of `parameters`
  llvm::DenseMap<mlir::Operation *, Known> known;
  llvm::SmallVector<std::pair<mlir::Location, mlir::Location>> locations; ///< before, and of what is copied
};

} // namespace colossal::onnx_import

#endif // COLOSSAL_LIB_IMPORT_ONNX_LENGTHENING_H
