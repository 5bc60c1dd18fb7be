//===- Importer.h - the walk over an ONNX graph -----------------------------===//
//
// Holds what is known while a model is imported: the file, the values of tensors by scope, the parameters
// made so far. Operators (Operator.h) see it through Node. A scope is a graph, a subgraph (which sees its
// parent's names) or the body of a function (which sees only its inputs).
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_IMPORT_ONNX_IMPORTER_H
#define COLOSSAL_LIB_IMPORT_ONNX_IMPORTER_H

#include "EqualRepetitions.h"
#include "ModelFile.h"
#include "Operator.h"
#include "UnsupportedOperators.h"
#include "colossal/Import/ONNX.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/CachedHashString.h"
#include "llvm/ADT/DenseSet.h"

#include <deque>
#include <set>

namespace colossal::onnx_import {

/// A node's name, or its operator and first output where the model gives none.
std::string getNodeName(const onnx::NodeProto &node);
/// The MLIR type of an ONNX element type; null where it is not supported.
mlir::Type getElementType(mlir::MLIRContext *context, int32_t onnxType);
/// The values of a tensor whose dense bytes (if it has them) are `bytes`. Errors: counts that do not fit,
/// types that are not supported.
llvm::Expected<mlir::DenseElementsAttr> readTensor(mlir::MLIRContext *context,
                                                   const onnx::TensorProto &tensor,
                                                   const std::optional<TensorBytes> &bytes);
/// What stands for a string (NarrowTypes.h): XXH3-64, 0 for the empty one.
int64_t digestText(llvm::StringRef text);
/// Whether a tensor of `type` becomes a parameter, and not a constant. `isInitializer`: it may be a weight.
/// `file`: whose exporter may have said that it is one.
bool becomesParameter(mlir::RankedTensorType type, llvm::StringRef name, bool isInitializer, ModelFile &file);
/// Contents given by the user for an input of `type` (an element type, and a shape where known).
/// Of strings, the texts are added to `texts`.
llvm::Expected<mlir::DenseElementsAttr> readContents(const InputContents &contents, mlir::Type element,
                                                     std::set<std::string> &texts);

struct Scope {
  const Scope *parent = nullptr;
  const OperatorSets *versions = nullptr;
  /// By names that the file, what was inlined of it, or the context holds: nobody copies them.
  llvm::DenseMap<llvm::CachedHashStringRef, mlir::Value> values;
  llvm::DenseMap<llvm::CachedHashStringRef, const onnx::TensorProto *> initializers;
  /// What tells the nodes of this scope apart from those of equal names elsewhere; 0 for the model's graph.
  uint64_t stream = 0;
};

class Importer {
public:
  Importer(mlir::MLIRContext *context, const ImportOptions &options, ModelFile &file);

  /// Orders the nodes that an output depends on; fails where one of them is not supported. Before run().
  mlir::LogicalResult orderNodes();
  /// The same of `whole`, which has ordered them, without most of what repeats itself: what reads a node that
  /// is left out reads the like one of the repetition that stands for them. False: that would leave out less
  /// than remains, and gain little.
  bool orderShorter(const Importer &whole);
  /// Whether at least three times as many nodes are left out as remain.
  bool isMuchShorter() const;
  /// Whether what is left out is equal to what stands for it, so that ops of it can be copies
  /// (Lengthening.h).
  bool canBeLengthened() const { return equal.has_value(); }
  /// From here on diagnostics are about nodes and weights.
  bool areInputsBound() const { return isBound; }
  /// Its ops have locations that stand for nodes of the file: most of them do not outlive what follows, and
  /// making names takes longer than making ops. The importer, and what it was made of, must outlive them.
  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> run();
  /// Gives the ops of what `run` made, or of what became of them, the locations that OnnxNames.h describes.
  void resolveLocations();

  mlir::MLIRContext *context() { return ctx; }
  const ImportOptions &getOptions() const { return options; }
  /// Compile-time value of a tensor, parameters included.
  std::optional<HostTensor> evaluate(mlir::Value value);
  /// Why a value is not known at compile time.
  struct Source {
    llvm::StringRef input;  ///< the model input that it depends on, or ""
    mlir::Type element;     ///< of that input
    std::string computedBy; ///< the node that computes it with weights, products or chance, or "": moved and
                            ///< counted only
  };
  Source findSource(mlir::Value value);
  /// The stream of random values of the node that is imported: a number of its own for each node of the
  /// model, of each call of a function and of each trip of a loop. It depends on the names of what the node
  /// gives and of what it stands in, so other nodes, meshes and layouts do not change it.
  uint64_t getStream() const;

  /// The value of tensor `name`, made from its initializer at first use; null where there is none.
  /// `name` must outlive the scope.
  mlir::FailureOr<mlir::Value> lookup(Scope &scope, llvm::StringRef name);
  /// Makes a constant or a parameter from `tensor`. `isInitializer`: it may be a weight.
  mlir::FailureOr<mlir::Value> importTensor(const onnx::TensorProto &tensor, llvm::StringRef name,
                                            bool isInitializer);
  mlir::Value constantStrings(const std::vector<std::string> &strings, llvm::ArrayRef<int64_t> shape);
  /// Imports the nodes of a subgraph of `node`'s graph with `inputs` for its inputs; gives its outputs.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> importSubgraph(const onnx::GraphProto &graph,
                                                                 llvm::ArrayRef<mlir::Value> inputs);
  /// The location of a node that `location`, given to its ops by this importer, stands for.
  mlir::Location resolve(mlir::Location location);
  mlir::Location resolve(const onnx::NodeProto &node);

private:
  friend class Lengthening;

  mlir::LogicalResult bindInputs();
  mlir::LogicalResult importNodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes,
                                  Scope &scope, llvm::ArrayRef<int> needed);
  mlir::LogicalResult importNode(const onnx::NodeProto &node, Scope &scope);
  mlir::LogicalResult importCall(const onnx::NodeProto &node, const onnx::FunctionProto &function,
                                 Scope &scope);
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> importOutputs(const onnx::GraphProto &graph, Scope &scope,
                                                                llvm::StringRef owner);
  mlir::Value importParameter(const onnx::TensorProto &tensor, llvm::StringRef name,
                              mlir::RankedTensorType type, const std::optional<TensorBytes> &bytes,
                              mlir::ElementsAttr data);
  /// Notes what the exporter says of `name`, one of the parameter's.
  void noteModuleRole(ParameterOp parameter, llvm::StringRef name);
  mlir::Value findSamePlace(llvm::StringRef name, mlir::RankedTensorType type, const TensorBytes &bytes);
  mlir::Value findEqual(llvm::StringRef name, mlir::RankedTensorType type, llvm::ArrayRef<uint8_t> bytes);
  struct KnownParameter;
  /// The parameter that tensor `name` is, too: of equal, or transposed-equal, contents, and which of them;
  /// null where there is none.
  std::pair<KnownParameter *, bool> findKnown(llvm::StringRef name, mlir::RankedTensorType type,
                                              llvm::ArrayRef<uint8_t> bytes);
  /// Where the contents of a further parameter lie; none where they have no place of their own in a file, or
  /// are those of another parameter.
  std::optional<TensorBytes> addParameter(const onnx::TensorProto &tensor, mlir::RankedTensorType type);
  mlir::Location locationOf(llvm::StringRef tensor);
  /// Stands for the node, which stays where it is, until locations are resolved.
  mlir::Location locationOf(const onnx::NodeProto &node);
  /// Of what was made, most of all of the arithmetic of shapes.
  void dropUnused();
  mlir::LogicalResult verifyModule(mlir::ModuleOp module);
  mlir::Location modelLocation();

  mlir::MLIRContext *ctx;
  const ImportOptions &options;
  ModelFile &file;
  OperatorSets versions;
  Givers givers;                 ///< of the model's graph
  llvm::SmallVector<int> needed; ///< nodes of the model's graph that an output depends on, as they are walked
  RepeatedNodes repeated;        ///< of which most are left out
  std::optional<RepeatedInitializers> equal;
  bool isBound = false;
  /// Of tensors whose nodes are left out, those that are read instead.
  llvm::DenseMap<llvm::CachedHashStringRef, llvm::StringRef> standIns;
  mlir::OpBuilder builder;
  mlir::func::FuncOp function;
  Scope *current = nullptr;
  struct {
    const onnx::NodeProto *node = nullptr; ///< that is imported
    uint64_t scope = 0;                    ///< Scope::stream of where it stands
    uint64_t scopes = 0;                   ///< made for its subgraphs
  } stream;
  unsigned depth = 0;
  int64_t imported = 0;                                                    // nodes
  std::deque<google::protobuf::RepeatedPtrField<onnx::NodeProto>> inlined; ///< nodes of functions, per call
  std::map<std::string, int64_t> dims;
  mlir::Operation *lastSource = nullptr; ///< constants and parameters stand at the function's top, in order

  struct KnownParameter {
    ParameterOp op;
    llvm::StringRef name;
    mlir::RankedTensorType type;
    llvm::ArrayRef<uint8_t> bytes;
  };
  llvm::DenseMap<uint64_t, std::vector<KnownParameter>> parametersByHash;
  llvm::DenseMap<mlir::Attribute, ConstantOp> constantOf; ///< by value, of the model's own constants
  std::map<std::pair<std::string, int64_t>, ParameterOp> parametersByPlace; ///< of files that are not there
  llvm::DenseMap<mlir::Operation *, const onnx::TensorProto *> tensorOf;
  llvm::DenseSet<const onnx::TensorProto *> evaluated; ///< parameters whose contents something depends on
  std::set<std::string> texts;                         ///< of the model's strings

  UnsupportedOperators unsupported;
};

} // namespace colossal::onnx_import

#endif // COLOSSAL_LIB_IMPORT_ONNX_IMPORTER_H
