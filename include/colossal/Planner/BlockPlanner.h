// Layouts of one kind of unit on the tensor axes of a stage: each operation puts each axis on one of its
// factors, or leaves it; what lies otherwise than it is used is moved, forward and, as a gradient, backward.
// Solved through search::Problem, so that 1D tensor parallel, sequence parallel, vocabulary parallel, 2D and
// context parallel are points and not cases.
#ifndef COLOSSAL_PLANNER_BLOCKPLANNER_H
#define COLOSSAL_PLANNER_BLOCKPLANNER_H

#include "colossal/Cost/Pricing.h"
#include "colossal/Cost/StepCost.h"
#include "colossal/FactorGraph/FactorGraph.h"

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

namespace colossal::planner {

using factors::Factor;
using factors::FactorGraph;
using factors::FactorPosition;
using factors::Operation;
using factors::Tensor;
using factors::UnitKind;
using factors::Use;

/// Bytes of an element by what it is for, and the type contractions compute in.
struct TrainingTypes : cost::StateTypes {
  cost::DataType compute = cost::DataType::BF16;
  double activation = 2;
};
/// Numbers of 32 bits that an optimizer keeps of an element of a parameter: 2 of Adam's, whose moments are
/// two. Adafactor's rows and columns count as none. None for what is no optimizer.
std::optional<double> optimizerSlots(const std::string &optimizer);
/// "bf16", "f16": 16-bit compute and parameters, 32-bit gradients, master copy and slots. "f32", "tf32": 32
/// bits throughout. None where one of the two is none of those that are known.
std::optional<TrainingTypes> trainingTypes(const std::string &precision,
                                           const std::string &optimizer = "adamw");

enum class Recompute {
  None,      ///< every tensor that a gradient reads is kept
  Selective, ///< results of memory-bound operations and attention's scores are made again; contractions' are
             ///< kept
  Full,      ///< only what enters the unit is kept, and its forward pass is run again, collectives included
  ByValue    ///< results of the operations that KeptOperations names are kept, and what goes from one segment
             ///< to the next
};
const char *toString(Recompute recompute);
/// By kind of unit and operation: whether its results are kept.
using KeptOperations = std::vector<std::vector<bool>>;

constexpr int kMaxAxes = 3;

/// An axis that units are laid out over, outermost first.
struct TensorAxis {
  int size = 1;
  cost::Group group;
  /// A context axis splits sequences, never parameters (of which a rank may read the rows of its tokens):
  /// with the data axis, it is what ZeRO keeps state over.
  bool isContext = false;
};

/// Where an axis lies on a tensor, the same for every operation and unit that see it.
struct PositionKey {
  int dim = 0;
  /// Of a boundary whose units have a dimension in several sizes (channels of a convolutional network), 0:
  /// the outermost place of that dimension, whatever its size.
  double size = 0, inner = 0;
  friend bool operator==(const PositionKey &a, const PositionKey &b) {
    return a.dim == b.dim && a.size == b.size && a.inner == b.inner;
  }
};
/// Layout of the residual stream between units: per axis a place, or none (whole on each rank).
using Boundary = std::vector<std::optional<PositionKey>>;
/// Where all axes split what goes from unit to unit beside the stream, if there is enough for them: heads, of
/// masks that are computed once for several units (of biases, of positions), as attention reads them. None:
/// it passes whole.
std::optional<PositionKey> findPlaceBesideStream(const factors::FactorGraph &graph);
/// "whole", or for each axis the dimension it splits: "dim1" (of batch, sequence, width that is the
/// sequence).
std::string toString(const Boundary &boundary);

/// Per operation and axis the factor that the axis splits, or -1.
using UnitLayout = std::vector<std::array<std::int8_t, kMaxAxes>>;

/// What a compiled step under recompute has of a unit when its backward pass comes.
struct RemadeUnit {
  enum Fate : std::uint8_t {
    Gone, ///< not read, or only while others are made again
    Kept,
    Again, ///< made again, and there until the backward pass has read it
  };
  std::vector<Fate> fates;        ///< by tensor
  std::vector<bool> isAgain;      ///< by operation: whether it is done again
  std::vector<bool> isInputAgain; ///< by UnitKind::inputs: whether the units before do it again
  std::vector<int>
      segments;           ///< by operation: which of the unit's segments, each of which is made again at once
  bool continues = false; ///< its first segment began in the unit before
  /// Of its segments, that which ends the forward pass, of which nothing is made again; -1: none.
  int last = -1;
  friend bool operator==(const RemadeUnit &a, const RemadeUnit &b) {
    return a.fates == b.fates && a.isAgain == b.isAgain && a.isInputAgain == b.isInputAgain &&
           a.segments == b.segments && a.continues == b.continues && a.last == b.last;
  }
};

struct UnitQuery {
  int kind = 0;
  std::vector<TensorAxis> axes;
  double microbatch = 1;
  Recompute recompute = Recompute::None;
  bool fusedAttention = true, scoresInMemory = false;
  Boundary boundary;
  /// Microbatches in a step: gradients that are partial over tensor axes are reduced once.
  double microbatches = 1;
  /// Seconds that a byte of parameter state costs: above 0 for layouts that keep less.
  double parameterPrice = 0;
  /// Where parameters that other units have, too, lie there, by shared number: operations here take them so,
  /// if they can, as there is one copy.
  std::map<int, Boundary> shared;
  /// Of a compiled step, for its price alone: where it is null, a unit is one segment.
  const RemadeUnit *remade = nullptr;
  /// TrainingTask::copiedBytes, the same in all queries of a planner; null: there are no copies.
  std::function<double(double rows, double columns, double depth)> copiedBytes;
  /// TrainingTask::convolutionBytes, likewise.
  std::function<std::pair<double, double>(double batch, double inputChannels, double outputChannels,
                                          double height, double width)>
      convolutionBytes;
};

using cost::UnitCost;

/// Threads may share a planner if they ask about different axes.
class BlockPlanner {
public:
  /// All must outlive this.
  BlockPlanner(const FactorGraph &graph, const cost::Pricing &pricing, const TrainingTypes &types);
  ~BlockPlanner();

  /// Layouts of the boundary worth trying on these axes: every place of the residual stream that the inputs
  /// and outputs of all kinds have in common and that the axis divides, and whole.
  std::vector<Boundary> boundaries(const std::vector<TensorAxis> &axes) const;

  /// The layout of least forward, recompute and backward seconds for the query; none if the boundary cannot
  /// be met. Found layouts are kept.
  std::optional<UnitLayout> solve(const UnitQuery &query);
  /// Where the shared parameters of contractions lie in a layout, as UnitQuery::shared.
  std::map<int, Boundary> findShared(const UnitQuery &query, const UnitLayout &layout) const;
  /// Prices a layout. `error` names what is wrong with it: a factor that may not be split, a boundary that is
  /// not met.
  UnitCost price(const UnitQuery &query, const UnitLayout &layout, std::string &error) const;

  /// No layout on any number of devices takes fewer device-seconds for one sequence of this kind, forward and
  /// backward.
  double leastDeviceSeconds(int kind) const;
  /// What an operation's forward pass takes one device for one sequence.
  double forwardSeconds(int kind, int operation);

  /// "n:axis0 k:axis1" for every contraction and attention of the layout, by operation.
  std::vector<std::pair<std::string, std::string>> describe(const UnitQuery &query,
                                                            const UnitLayout &layout) const;
  /// The layout that `text` (as describe writes it) means; `error` names what it cannot mean. Operations that
  /// are not named follow by the solver.
  std::optional<UnitLayout> parse(const UnitQuery &query, const std::map<std::string, std::string> &text,
                                  std::string &error);
  std::size_t solved() const;

private:
  struct Layouts;
  std::unique_ptr<Layouts> layouts;
};

} // namespace colossal::planner

#endif // COLOSSAL_PLANNER_BLOCKPLANNER_H
