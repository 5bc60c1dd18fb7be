//===- ONNX.h - from an ONNX file to the colossal dialect -------------------===//
//
// The import phase. Dimensions are bound, shape arithmetic is folded, functions are inlined, and decomposed
// patterns are recognised, so that what comes out is one function of static tensors. Weights stay in their
// files: parameters name the bytes. All errors are diagnostics of the context.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_IMPORT_ONNX_H
#define COLOSSAL_IMPORT_ONNX_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringMap.h"
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace colossal {

/// Argument and result attribute of the imported function: the name of the model's input or output.
inline constexpr llvm::StringLiteral kOnnxNameAttr = "colossal.name";
/// Argument and result attribute of the imported function: least and greatest value that elements may have,
/// which the runtime checks (an argument before a run, a result after it). A result that has it is not the
/// model's.
inline constexpr llvm::StringLiteral kRangeAttr = "colossal.range";
/// With kRangeAttr: the name of what takes the elements as indices.
inline constexpr llvm::StringLiteral kRangeUserAttr = "colossal.range_user";
/// Attribute of the imported function: dictionary from the inputs bound at compile time to their contents.
inline constexpr llvm::StringLiteral kBoundInputsAttr = "colossal.bound_inputs";
/// Attribute of the imported function: dictionary from the model's symbolic dimensions to their values.
inline constexpr llvm::StringLiteral kBoundDimsAttr = "colossal.bound_dims";

/// Contents of a model input, fixed at compile time. Exactly one of the three is given.
struct InputContents {
  /// A number, `true`, `false`, or nested lists of them: `3`, `[1, 2]`, `[[0.5], [1.5]]`. Takes the input's
  /// type.
  std::string literal;
  /// A file: `.npy`, or a serialized TensorProto (`.pb`).
  std::string file;
  /// A serialized onnx.TensorProto.
  std::string tensorProto;
};

struct ImportOptions {
  std::string modelPath;
  /// Values of symbolic dimensions.
  std::map<std::string, int64_t> dims;
  /// The size of dimensions that nothing binds, with a warning for each; without it they are an error.
  std::optional<int64_t> assumedSize;
  /// Shapes of inputs, by name; they bind the symbolic dimensions that the model names there.
  std::map<std::string, std::vector<int64_t>> shapes;
  std::map<std::string, InputContents> values;
  /// Recognise decomposed LayerNorm, RMSNorm, GELU, SiLU, attention and rotary embedding.
  bool recognisePatterns = true;
  /// Import a model whose files of external data are not there: its parameters have places, but no contents.
  /// For plans that are never run. Initializers at one place of such a file are one parameter.
  bool allowMissingWeights = false;
  /// Refuse indices that are outside what they index, and mark those that only a run can know (kRangeAttr).
  bool checkIndices = false;
  /// The model is to be trained: batch normalizations that take the statistics of the batch stay one op each
  /// (BatchNormalizeOp), of which the step and the evaluation are made.
  bool isTrained = false;
  /// With `isTrained`: whether batch normalizations take these statistics; none: as their nodes say.
  std::optional<bool> takesBatchStatistics;
  /// With `isTrained`: those that take them are the ops that compute them, as searches read a step that is
  /// not built yet.
  bool computesBatchStatistics = false;
  /// Initializers of such names are parameters of their own, whatever others hold the same; none: no name is.
  std::function<bool(llvm::StringRef name)> isApart;
  std::string functionName = "main";
};

/// What a caller may have of an import besides the model.
struct ImportHooks {
  /// Gets the file as it was read: to free its thousands of messages takes time, and the caller knows when
  /// there is some.
  std::shared_ptr<void> *source = nullptr;
  /// Of a model that repeats the same nodes again and again: called, before the whole is imported, with the
  /// model as it would be with four of the repetitions. These are found by a rough look, so it need not be
  /// what it seems to be, and where it cannot be imported nobody hears of that. Diagnostics are dropped.
  std::function<void(mlir::OwningOpRef<mlir::ModuleOp>)> shorter;
};

/// Imports the model. Fails, with diagnostics, where a file cannot be read, a dimension is not bound, an
/// operator is not supported (one message for all of them), or a shape depends on what is only known at run
/// time.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importOnnx(mlir::MLIRContext *context, const ImportOptions &options, const ImportHooks &hooks = {});

/// One dimension of a model input: a size, or a name to be bound. A dimension that the model leaves open
/// without a name (or with one that names nothing: '?', '-1', 'None') is one of its own, and has a name made
/// of input and position: 'x.0'.
struct InputDim {
  int64_t size = -1;    ///< -1: open
  std::string name;     ///< of an open dimension
  bool isNamed = false; ///< by the model
};
struct ModelInput {
  std::string name;
  std::string type; ///< element type as MLIR writes it, or ONNX's name of a type that is not supported
  bool hasShape = false;
  std::vector<InputDim> shape;
};
/// The inputs that a user gives (initializers are not listed).
mlir::FailureOr<std::vector<ModelInput>> listInputs(mlir::MLIRContext *context, const std::string &modelPath);

/// Some exporters lose the names of dimensions and number them ('s33'). Where a model has only such names, or
/// none, 'batch' in `dims` means the first dimension of the inputs and 'seq' the second, and is replaced by
/// the names that these have; names that `dims` has anyway stay. Returns what was taken for what, for the
/// user to know; empty where nothing was.
std::string bindByPosition(const std::vector<ModelInput> &inputs, std::map<std::string, int64_t> &dims);

/// One supported operator; versions are those of the domain's operator set. `last` is 0 where it is still
/// current.
struct SupportedOperator {
  std::string domain, name;
  int64_t first = 1, last = 0;
};
/// Sorted by domain, name and version.
std::vector<SupportedOperator> listOperators();

} // namespace colossal

#endif // COLOSSAL_IMPORT_ONNX_H
