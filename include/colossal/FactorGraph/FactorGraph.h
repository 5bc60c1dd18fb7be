// A model as searches see it: a sequence of units, each of a kind that is described once, with operations
// whose dimensions are factors that mesh axes may lie on, and tensors that live from the operation that makes
// them to the last that reads them. To the joint search units are the embedding, blocks and the head, for any
// batch; to the layout search a program is one unit, as it stands. No IR: Reader.h fills it from a module,
// tests by hand. Operations of the IR that it was read from have a number, so what a search finds leads back
// to them.
#ifndef COLOSSAL_FACTORGRAPH_FACTORGRAPH_H
#define COLOSSAL_FACTORGRAPH_FACTORGRAPH_H

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace colossal::factors {

/// Of a factor that an operand's dimension of `operandSize` elements is read by in windows (convolution,
/// pooling): element i reads `size` of them from i * stride on.
struct Window {
  double operandSize = 0, stride = 1, size = 1;
};

/// A factor of an operation's index space. Its size for a microbatch of b sequences is `size`, times b where
/// `perSequence`.
struct Factor {
  enum Kind {
    Parallel,  ///< each rank computes its part of every result
    Reduction, ///< no result has it: results are sums over the ranks that split it
    Whole,     ///< must not be split
    Joined,    ///< no result has it, and results are whole: the operation joins what its parts found
    Carried    ///< no tensor has it: over the ranks that split it operands are outstanding sums, and so are
               ///< results
  };
  double size = 1;
  bool perSequence = false;
  Kind kind = Parallel;
  /// "m", "n", "k", "heads", "vocabulary", ...
  std::string role;
  bool indexed = false; ///< a rank needs to know where its part begins (causal masks, lookups)
  bool staged = false;  ///< where it is split, the operation exchanges small statistics between two stages
  std::optional<Window> window;
};

/// Where a factor stands in a tensor: the dimension, and how many elements of that dimension lie inside it
/// (one sequence's). Two operations mean the same shard where dimension, size and `inner` agree.
struct FactorPosition {
  int factor = 0;
  int dim = 0;
  double inner = 1;
};

/// A tensor as an operand or result.
struct Use {
  int tensor = 0;
  std::vector<FactorPosition> places;
  /// Operands: operations of the gradient, for one sequence; 0 where there is none.
  double gradientFlops = 0;
  /// Whether a gradient reads the value.
  bool saved = false;
  /// Whether it passes through main memory at this operation (not inside a fused chain).
  bool moved = true;
};

struct Operation {
  enum Kind {
    Contraction,
    Attention, ///< operands query, key, value first
    Streaming, ///< bound by memory
    View       ///< moves nothing: the result lies in the operand's memory
  };
  std::string name;
  Kind kind = Streaming;
  std::vector<Factor> factors;
  std::vector<Use> operands, results;
  double flops = 0; ///< forward, for one sequence
  bool causal = false;
  bool light = false;    ///< a Streaming operation fused into the one before it: no kernel of its own
  bool heavy = false;    ///< computes more than it moves, so that its own work counts
  bool adds = false;     ///< adds its operands: the gradient of each is that of the result
  bool idle = false;     ///< a step does not do it: the loss does not depend on it
  bool repeated = false; ///< each turn of a loop over microbatches does a part of it
};

struct Tensor {
  enum Kind {
    Activation, ///< made here, or by an earlier unit, from inputs and parameters
    Parameter,
    Given ///< from inputs or parameters alone, without a gradient: masks, positions, tokens
  };
  std::string name;
  Kind kind = Activation;
  double elements = 0; ///< for one sequence where perSequence
  bool perSequence = true;
  bool isFixed = false; ///< known when a program is loaded: no input and no trained parameter is in it
  bool isFloat = true;  ///< takes the bytes of the training type; else `bytes`
  double bytes = 8; ///< of an element as the model has it; passes have floats in the precision of a search
  /// Parameters: elements that are stored and trained, which a view may show in part; 0: not trained.
  double stored = 0;
  /// Parameters: elements that are stored and stay as they are.
  double frozen = 0;
  /// Nothing that is trained is in it: the backward pass does not come here.
  bool isConstant = false;
  /// Parameters: of `elements`, those that are computed of one or several, once for all microbatches (the
  /// biases of windows, of a table), and not read where these lie.
  double computed = 0;
  /// Parameters: the same number in several units means one stored tensor (tied embeddings); -1: its own.
  int shared = -1;
  int sharedFrozen = -1; ///< the same of what is frozen in it, as statistics of several normalizations are
  /// Of a parameter: its number in what the graph was read from; -1: none.
  int id = -1;
  /// The operations [begin, end) of its unit during which it is there, as `findLives` tells.
  int begin = 0, end = 0;
};

/// Where an operation of a unit reads a table of a program, or something that is computed of one element by
/// element.
struct TableUse {
  int operation = 0, operand = 0;
  std::vector<int> dims; ///< of the operand, in which the table has its elements
};

/// What is computed when a program is loaded, of constants and of what is not trained, and stays there.
struct Table {
  double bytes = 0, bytesPerSequence = 0;
  std::vector<std::pair<int, int>> uses; ///< unit, and place among its kind's `tables`
};

/// A kind of unit. Operations in order; tensors that come in and go out are the residual stream, or several.
struct UnitKind {
  std::string name; ///< "embedding", "block", "head"
  std::vector<Tensor> tensors;
  std::vector<Operation> operations;
  std::vector<int> inputs, outputs; ///< tensors of the boundary, in the order of the neighbouring unit's
  std::vector<int> results;         ///< tensors that the model gives back
  std::vector<TableUse> tables;     ///< of its operations, in their order

  /// Trained elements; those with a `shared` number count here, too.
  double parameters() const;
  double frozen() const; ///< elements of parameters that stay as they are, likewise
  /// Forward operations for one sequence, contractions and attention only.
  double contractionFlops() const;
};

/// Fills in the lives of a kind's tensors: from the operation that makes one, or the first, to behind the
/// last that uses it, or the end. What a view shows is the memory of its operand, which lives as long; what
/// all turns of a loop read lives to the end.
void findLives(UnitKind &kind);

/// An input of the model that has a batch.
struct GivenInput {
  unsigned number = 0;    ///< of all inputs
  double bytes = 0;       ///< of one sequence
  bool isInteger = false; ///< as tokens are
  std::vector<int> units; ///< that read it, or what is computed of it outside of units, in order
  bool isForLoss = false;
};

struct FactorGraph {
  std::string name;
  std::vector<UnitKind> kinds;
  /// Kind of each unit, in order of execution.
  std::vector<int> units;
  /// By unit, the number of each of its operations in what the graph was read from, in the order there, which
  /// units need not keep; -1 for one that stands for none there (a loss that was added). Empty where it was
  /// read from nothing.
  std::vector<std::vector<int>> ids;
  /// Tokens of one sequence; 0 where units pass on something else, such as images.
  double sequence = 0;
  std::vector<GivenInput> inputs;
  double lossBytes = 0; ///< of what the loss takes in beside them, for one sequence: lies as the first result
  std::vector<Table> tables;  ///< one that has no uses is whole on all ranks
  std::string batchDimension; ///< how the batch was found, for reports

  /// Trained elements; shared ones once.
  double parameters() const;
  /// 6 operations a parameter and token are the usual estimate; this counts what the contractions do, forward
  /// and backward.
  double stepFlops(double sequences) const;
};

/// What searches rely on: indices in range, positive sizes, lives that cover the uses, boundaries that fit, a
/// number for each operation or none. Empty, or what is wrong with the place named.
std::string validate(const FactorGraph &graph);

} // namespace colossal::factors

#endif // COLOSSAL_FACTORGRAPH_FACTORGRAPH_H
