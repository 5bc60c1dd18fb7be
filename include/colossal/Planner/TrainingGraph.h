// A model as the joint search sees it: a sequence of units (embedding, blocks, head), each of a kind that is
// described once, with operations whose dimensions are factors that mesh axes may lie on. No IR: lib/Layout
// fills it from a module (TrainingBlocks.h there), tests by hand.
#ifndef COLOSSAL_PLANNER_TRAININGGRAPH_H
#define COLOSSAL_PLANNER_TRAININGGRAPH_H

#include "colossal/Cost/Machine.h"

#include <map>
#include <string>
#include <vector>

namespace colossal::planner {

/// A factor of an operation's index space. Its size for a microbatch of b sequences is `size`, times b where
/// `perSequence`.
struct Factor {
  enum Kind { Parallel, Reduction, Whole };
  double size = 1;
  bool perSequence = false;
  Kind kind = Parallel;
  /// "m", "n", "k", "heads", "vocabulary", ...
  std::string role;
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
  bool light = false; ///< a Streaming operation fused into the one before it: no kernel of its own
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
  bool isFloat = true; ///< takes the bytes of the training type; else `bytes`
  double bytes = 8;    ///< of an element that is not a float
  /// Parameters: elements that are stored and trained, which a view may show in part; 0: not trained.
  double stored = 0;
  /// Parameters: the same number in several units means one stored tensor (tied embeddings); -1: its own.
  int shared = -1;
};

/// A kind of unit. Operations in order; tensors that come in and go out are the residual stream, or several.
struct UnitKind {
  std::string name; ///< "embedding", "block", "head"
  std::vector<Tensor> tensors;
  std::vector<Operation> operations;
  std::vector<int> inputs, outputs; ///< tensors of the boundary, in the order of the neighbouring unit's

  /// Trained elements; those with a `shared` number count here, too.
  double parameters() const;
  /// Forward operations for one sequence, contractions and attention only.
  double contractionFlops() const;
};

struct TrainingGraph {
  std::string name;
  std::vector<UnitKind> kinds;
  /// Kind of each unit, in order of execution.
  std::vector<int> units;
  /// Tokens of one sequence ; 0 where units pass on something else, such as images.
  double sequence = 0;
  std::string batchDimension; ///< how the batch was found, for reports

  /// Trained elements; shared ones once.
  double parameters() const;
  /// 6 operations a parameter and token are the usual estimate; this counts what the contractions do, forward
  /// and backward.
  double stepFlops(double sequences) const;
};

/// What the joint search relies on: indices in range, factors of equal places of equal size, positive sizes,
/// boundaries that fit. Empty, or what is wrong with the place named.
std::string validate(const TrainingGraph &graph);

} // namespace colossal::planner

#endif // COLOSSAL_PLANNER_TRAININGGRAPH_H
