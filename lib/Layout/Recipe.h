//===- Recipe.h - the layouts of the papers -----------------------------------===//
//
// Narrows the search to one way of tensor or sequence parallelism by name. A recipe says where the mesh axes
// stand in contractions with weights and how weights are stored; what lies between follows by the search,
// which moves as little as it can.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_LAYOUT_RECIPE_H
#define COLOSSAL_LIB_LAYOUT_RECIPE_H

#include "colossal/Outline/Origins.h"
#include "colossal/Partition/Partition.h"

#include "llvm/ADT/SetVector.h"

#include <optional>
#include <string>
#include <vector>

namespace colossal::layout {

/// With X (M x K) the activations, W (K x N) the weights and Y (M x N) the result of a contraction, and S the
/// bytes of a whole tensor: the axes that a recipe takes, how X, W and Y are split in use, what is stored
/// over all of the axes, and what all ranks together send in one contraction.
///
/// - 1d (p, all axes): N over p, then K over p. Stored: W. Sent: 2 (p - 1) S_Y of the second of the two.
/// - sequence (p): as 1d, and between the two contractions rows over p. Stored: W. Sent: as 1d.
/// - ulysses (p): M over p, attention by heads. Sent: all-to-alls around attention.
/// - 2d (r x c): M over r, N over c. Stored: X, W. Sent: (c - 1) S_X + (r - 1) S_W.
/// - 2.5d (d x r x c): M over d and r, N over c. Stored: X; W over r and c. Sent: (c - 1) S_X + d (r - 1)
///   S_W.
/// - 3d (a x b x c): M over a, K over b, N over c. Stored: X, W, Y. Sent: (c - 1) S_X + (a - 1) S_W
///   + (b - 1) S_Y.
///
/// In 3d the next contraction has K over c and N over b, so that nothing moves between. Sources: Shoeybi et
/// al., Megatron-LM, 2019 (1d); Korthikanti et al., 2022 (sequence); Jacobs et al., DeepSpeed-Ulysses, 2023;
/// Xu et al., 2021 (2d); Wang et al., 2021 (2.5d); Bian et al., 2021 (3d). An axis named `data` takes no
/// part: the batch lies on it.
class Recipe {
public:
  enum class Kind { OneD, Sequence, Ulysses, TwoD, TwoHalfD, ThreeD };

  /// None, with `error`, where the name is unknown or the mesh has another number of axes than the recipe.
  static std::optional<Recipe> make(const std::string &name, dist::MeshAttr mesh, std::string &error);
  static llvm::ArrayRef<llvm::StringRef> getNames();

  /// Of the layouts of an op, which a recipe narrows to few, before it does.
  static constexpr size_t kMostCandidates = 100'000;

  /// Takes the marks from the ops of `module` that say which pass of a training step they belong to
  /// (dialects/Dist/Pipeline.h); before all other methods.
  void takeMarks(mlir::ModuleOp module);
  /// Learns what the dimensions of `function` are; before the other methods are asked about its ops.
  void read(mlir::func::FuncOp function, const dist::RefinementAnalysis &refinement);

  /// What the recipe's answer for an op depends on, besides its rule.
  std::vector<int> getKey(mlir::Operation *op) const;
  /// Leaves those of `assignments` that follow the recipe best. Returns whether they follow it.
  bool narrow(mlir::Operation *op, const dist::FactorRule &rule,
              std::vector<dist::Assignment> &assignments) const;
  /// How an input of numbers may be given: as what precedes the first contraction. None: in any way.
  std::optional<std::vector<dist::ShardingAttr>> getLayouts(mlir::BlockArgument argument,
                                                            const dist::RefinementAnalysis &refinement) const;
  /// Does the recipe say where axes stand in `op`, a contraction with weights?
  bool isContraction(mlir::Operation *op) const;
  /// Is `op` of the forward pass, a product of activations, and between two contractions with weights, as an
  /// attention is, so that it is to be split by its features?
  bool splitsHeads(mlir::Operation *op) const;
  /// Is that factor of `op` one of features?
  bool isWidth(mlir::Operation *op, size_t factor) const;
  /// Do contractions with activations take `value` as their weights, as it is or moved about?
  bool isWeight(mlir::Value value) const { return weightValues.contains(value); }
  /// Does `op` read weights, or gradients of weights, as operand `value`? The papers, which store them as
  /// they are read, do not say how they move.
  bool movesWeights(mlir::Operation *op, mlir::Value value) const;
  /// Does `value`, of a program that is no training step, stand beside the stream, as masks and biases of
  /// positions do, so that the papers never move it?
  bool isAside(mlir::Value value) const { return aside.contains(value); }
  /// Is `op` of the forward pass, heavy, and takes weights?
  bool hasWeights(mlir::Operation *op) const;
  /// Does the recipe say how `op`, which has weights, lies?
  bool isPlaced(mlir::Operation *op) const;
  /// The axes that the recipe places; all but those named `data`.
  llvm::ArrayRef<unsigned> getAxes() const { return axes; }
  /// The axes over which the parameters of contractions are stored.
  llvm::SmallVector<unsigned> getStoredAxes() const;
  /// The same of the weights `value`, which make keys or values of fewer heads than there are ranks: each
  /// head's are where the head is used.
  llvm::SmallVector<unsigned> getStoredAxes(mlir::Value value) const;
  /// Whether activations may be brought from one layout to another in this way.
  bool allows(const dist::ReshardPath &path) const;
  /// What the seconds of a collective are multiplied by where ways from one layout to another are compared:
  /// more than 1 for what the paper has another for. Whoever chooses ways must ask, or they differ from those
  /// priced.
  double weigh(dist::MoveKind kind) const;
  llvm::StringRef getName() const;

private:
  /// What a factor is to a transformer: a sample, a place in it, or a feature.
  enum class Role : uint8_t { Unknown, Batch, Sequence, Width };
  /// What a factor is to a contraction of activations (M x K) with weights (K x N).
  enum class Dim : uint8_t { None, M, N, K };
  using Roles = llvm::SmallVector<llvm::SmallVector<Role, 2>, 4>; ///< per dimension and part

  Recipe(Kind kind, dist::MeshAttr mesh) : kind(kind), mesh(mesh) {}
  struct OpInfo {
    std::vector<Role> roles; ///< per factor
    std::vector<Dim> dims;   ///< per factor of a contraction that the recipe speaks of; else empty
    bool isStream = false;   ///< depends on inputs and parameters
    bool isBackward = false; ///< computes a gradient
    /// Weights as the backward pass finds them: stored, and not as the forward pass has gathered them.
    bool isKeptWeight = false;
    /// Computes gradients of weights, of those of what they were made into, or what is updated by them.
    bool isOfWeights = false;
    bool isEntry = false;    ///< a contraction that makes the stream of something else
    bool hasWeights = false; ///< heavy, of what depends on parameters alone and of inputs
    bool isProduct = false;  ///< heavy, of activations with others
    int vocabulary = -1;     ///< of a lookup in a table of parameters, the factor of its rows
    /// Of a lookup in a table that is the weights of a contraction, too: whether that is a second one.
    std::optional<bool> isHeadInner;
    /// Axes, as a mask, that stand on nothing: they divide the group of queries that read what is made here.
    uint32_t idleAxes = 0;
    /// Between the first and the second of two contractions: of what an anchor reads, of what another op
    /// makes.
    bool isInner = false;
  };
  int countViolations(const OpInfo &info, const dist::FactorRule &rule,
                      const dist::Assignment &assignment) const;
  /// Leaves those with the fewest; returns how many these have.
  int keepBest(const OpInfo &info, const dist::FactorRule &rule,
               std::vector<dist::Assignment> &assignments) const;
  /// What the factors of a contraction are, whose weights are operand `weight`.
  static std::vector<Dim> getDims(const dist::FactorRule &rule, int weight);
  /// What the factors of the gradient of a contraction are to the latter.
  std::vector<Dim> getGradientDims(mlir::Operation *op, const dist::FactorRule &rule,
                                   const llvm::DenseMap<mlir::Value, outline::Origin> &origins) const;
  /// Does `op`, of the backward pass, only stand for a value of the forward pass?
  bool isKept(mlir::Operation *op) const;
  /// What an op of the backward pass is, or one that computes again what the forward pass did.
  void readMarked(mlir::Operation *op, const dist::FactorRule &rule,
                  const llvm::DenseMap<mlir::Value, outline::Origin> &origins, OpInfo &info) const;
  /// What stands on the i-th of `axes` in a contraction.
  Dim getDim(size_t i, bool isInner) const;
  int countAnchorViolations(const OpInfo &info, llvm::ArrayRef<int> factorOfAxis, Role place) const;
  /// Contractions come in twos: what reads a residual stream is a first one, what reads that one's result
  /// (through any ops but another contraction) a second one, which gives the stream back. What makes the
  /// stream of something else (patches of an image, narrower embeddings) is none of the two.
  void markInner(mlir::Operation *op, OpInfo &info);
  /// What comes before a contraction that makes the stream of something else lies as that takes it.
  void markBeforeEntry(mlir::Operation *entry);
  /// Finds the lookups in parameters, and which of these are weights, too.
  void findTables(mlir::func::FuncOp function, const dist::RefinementAnalysis &refinement);
  /// Keys and values of fewer heads than there are ranks are made by all ranks that need them, as Megatron-LM
  /// does, so that no rank sends any.
  void markSharedKeys(mlir::func::FuncOp function, const dist::RefinementAnalysis &refinement);
  /// Adds `value` and what it is made of, back to the contractions with weights, to `ops`. False where
  /// something else is met.
  bool findMakers(mlir::Value value, llvm::SetVector<mlir::Operation *> &ops) const;
  /// Whether `op` gives a residual stream: its result, through any ops but contractions, meets what
  /// contractions made of it.
  bool givesStream(mlir::Operation *op) const;

  Kind kind;
  dist::MeshAttr mesh;
  llvm::SmallVector<unsigned> axes, dataAxes;     ///< of more than one rank
  llvm::DenseMap<mlir::Operation *, int> weights; ///< of contractions, the operand that holds them
  llvm::DenseMap<mlir::Operation *, OpInfo> infos;
  /// Of ops of training steps: the op of the forward pass that they compute again, or whose gradient. Those
  /// of a step that are in neither belong to the update.
  llvm::DenseMap<mlir::Operation *, mlir::Operation *> repeated, gradients;
  llvm::DenseSet<mlir::Operation *> forward;
  llvm::DenseSet<mlir::Operation *> marked; ///< functions
  llvm::DenseMap<mlir::Value, Roles> rolesOf;
  llvm::DenseSet<mlir::Value> inner;
  llvm::DenseSet<mlir::Value> weightValues, aside;
  llvm::DenseMap<mlir::Value, uint32_t> idleOfWeights; ///< OpInfo::idleAxes of those who read them
  llvm::DenseSet<mlir::Value>
      activations; ///< come of inputs of numbers, of contractions or of looked-up rows
};

} // namespace colossal::layout

#endif // COLOSSAL_LIB_LAYOUT_RECIPE_H
