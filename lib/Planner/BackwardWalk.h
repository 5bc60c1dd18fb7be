// What the backward pass of one unit has in memory, operation by operation, as a compiled step does it: which
// gradients are there, over what they are written, and what of the forward pass was read for the last time.
// No IR, and no layouts: sizes are those of a rank.
#ifndef COLOSSAL_PLANNER_BACKWARDWALK_H
#define COLOSSAL_PLANNER_BACKWARDWALK_H

#include "colossal/Cost/StepCost.h"

#include <array>
#include <cstddef>
#include <limits>
#include <vector>

namespace colossal::planner {

/// An operation as its gradient takes memory.
struct WalkedOp {
  enum Kind {
    View,        ///< gradients of operands lie where those of results do, or are parts of them
    Linear,      ///< gradients of operands are those of results, or sums over them
    Pointwise,   ///< one kernel, which writes gradients over what it reads for the last time
    Scaling,     ///< the same with trained parameters, whose gradients are sums over products that are stored
    Contraction, ///< a product for each gradient
    Attention,   ///< makes its scores again
    Loss         ///< its gradient is written over what it reads
  };
  Kind kind = Linear;
  std::vector<int> operands, results; ///< tensors with a gradient
  /// Of a contraction, bytes of its result's gradient as it takes it, which ranks may bring together for it,
  /// and of its operands' as it makes them, which are then summed up or scattered; 0: as they lie.
  double taken = 0;
  std::vector<double> made = {};
  double exchanged = 0;                      ///< of `made`, what ranks then bring to where it lies
  double copied = 0;                         ///< bytes of a copy that its parameter's gradient is made from
  double besideInput = 0, besideWeights = 0; ///< that the gradients of a convolution have while they are made
  /// Of parts that the input's gradient is put together of, by the kernel that goes on with it.
  double inputParts = 0;
  bool copiesGradient = false;   ///< it is one of its result's gradient, not of what it read
  double parameterGradients = 0; ///< bytes that the gradients of its parameters take from now on
  double waiting = 0; ///< of these, those which ranks do not exchange before another unit has added its part
  double unsent = 0;  ///< the same of one microbatch of several
  int exchanges = 0;  ///< that bring these to where they are updated
  double scores = 0;  ///< of an attention: bytes of all that it makes again at a time
  bool isInParts = false; ///< it does that for some queries at a time
  int mask = -1;          ///< an attention's trained mask: a tensor, also among `operands`
  bool isNarrow = false;  ///< it is computed in a wider type than its operands have
  bool sumsRows = false;  ///< it has a bias along a dimension that is not the last
  /// Of a loss in parts: bytes that earlier parts have made of its product's parameters' gradients.
  double earlier = 0;
  int segment = -1;   ///< of those in which the forward pass is made again
  double brought = 0; ///< bytes of copies that ranks bring together for it
};

/// A value of the forward pass that the backward pass reads.
struct WalkedValue {
  std::size_t reader = 0; ///< the operation that reads it last, which is the first in the forward pass
  double bytes = 0;
  int segment = -1; ///< in which it is made again; -1: it is kept
  int from = -1;    ///< the operation that reads it first, for which alone it is made again; -1: with its
                    ///< segment
  int tensor = -1;  ///< that it is, or is a view of; -1: it is not told
};

struct BackwardWalk {
  std::vector<double> bytes; ///< by tensor, of its gradient
  std::vector<WalkedOp> ops; ///< in the order of the forward pass
  std::vector<WalkedValue> values;
  std::vector<int> outputs; ///< whose gradients are there from the beginning
  double loss = 0;          ///< bytes that are there until the first kernel has run
  double narrow = 0; ///< bytes of a parameter's copy that products read, in those of its gradient; 0: none

  struct Peak {
    double beside = 0; ///< the most bytes on top of all values that are kept
    /// The same from where the first segment begins, which may be that of a unit before.
    double continued = -std::numeric_limits<double>::infinity();
    double before = -std::numeric_limits<double>::infinity(); ///< and up to there
    double turn = 0; ///< the same with a microbatch's part of each parameter's gradient until it is added up
    double exchanged = 0;     ///< the same where ranks exchange that part while the next is made
    double exchangedHalf = 0; ///< and where each of two ranks gets its half of it beside
    /// Where a parameter's gradient is made before the product of the result's gradient with it: the most
    /// together, beside both, and of the gradient.
    double late = 0, lateGradients = 0;
    /// Where the first product's parameters get their gradients, and not by parts: the most until then, and
    /// the gradients.
    double head = 0, headGradients = 0;
    /// As cost::UnitCost has them.
    std::array<cost::HeldBytes, cost::kExchangesUnderWay + 1> held, heldNarrow;
    std::array<double, cost::kExchangesUnderWay> left{};
    double scatteredHeld = 0; ///< as `scattered`, with those before it, and without the narrow copies
    double scattered = 0;     ///< with a parameter's gradient once it is made, which ranks then scatter
    /// The same with the parameters' gradients that are made, less all of them.
    double scatteredOnce = -std::numeric_limits<double>::infinity();
    double once = -std::numeric_limits<double>::infinity(); ///< the same with the parameters' gradients, less
                                                            ///< all of them
  };
  /// O(operations and values).
  Peak find() const;
};

} // namespace colossal::planner

#endif // COLOSSAL_PLANNER_BACKWARDWALK_H
