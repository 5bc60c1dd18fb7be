// A training step from its units: what the units of a model take on one rank goes in, whoever found it out
// (lib/Planner from a model's graph and layouts, Training.cpp from dimensions), and the step's time and
// memory come out. The one place where passes, transfers, reductions, the update and what ZeRO moves become a
// step.
#ifndef COLOSSAL_COST_STEPCOST_H
#define COLOSSAL_COST_STEPCOST_H

#include "colossal/Cost/ExchangeQueue.h"
#include "colossal/Cost/Operations.h"
#include "colossal/Cost/PipelineSchedule.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace colossal::cost {

/// Bytes of what is computed before the first microbatch and kept to the end of the last.
struct ComputedBytes {
  double once = 0, perMicrobatch = 0;
  double sums = 0;  ///< what several microbatches add up of its gradient
  double again = 0; ///< of the first two, what one microbatch computes again where its backward pass reads it
  double of(int microbatches) const {
    return once + perMicrobatch * microbatches + (microbatches > 1 ? sums : -again);
  }
};

/// What sums up gradients over the tensor and context axes that split an operation, but not its parameter, in
/// a step.
struct GradientReduction {
  double seconds = 0, bytes = 0; ///< bytes: that a rank sends
  /// Of them, over context axes alone: with ZeRO a program moves these with what the data ranks share.
  double contextBytes = 0;
  double elsewhere = 0; ///< bytes of gradients of which another rank has the sum, where each has a part of it
  double spread = 0;    ///< and of those that ranks have alike, of which each updates its part

  void add(double amount, const GradientReduction &other) {
    seconds += amount * other.seconds;
    bytes += amount * other.bytes;
    contextBytes += amount * other.contextBytes;
    elsewhere += amount * other.elsewhere;
    spread += amount * other.spread;
  }
};

/// Bytes of a unit's backward pass in a step of one microbatch, with the gradients that stay whole while
/// ranks scatter them.
struct HeldBytes {
  static constexpr double kNone = -std::numeric_limits<double>::infinity();
  double most = kNone;
  double turn = kNone; ///< with each parameter's gradient while it is made
  double once = kNone; ///< with gradients as they come, less all of them
};

/// What one unit takes, on one rank, for one microbatch.
struct UnitCost {
  double forward = 0, backward = 0, weightGradient = 0; ///< s; backward has the recompute
  double collective = 0;                                ///< of them, communication that nothing hides
  double forwardCollective = 0;                         ///< of that, in the forward pass
  GradientReduction reduction;
  std::map<int, GradientReduction> sharedReduction; ///< of it, by shared number
  double savedBytes = 0;                            ///< from the forward to the backward pass
  /// Of them, what is never there where weights' gradients are made with the others: logits, but for some
  /// rows of them.
  double partedBytes = 0;
  /// Of them, what the unit takes in, and what it hands on: where two units keep the same, it lies there
  /// once.
  double inputSavedBytes = 0, outputSavedBytes = 0;
  double weightSavedBytes = 0; ///< of them, kept until the weights' gradients are done
  double weightKeptBytes = 0;  ///< those, and the gradients that the weights' are made of
  double transientBytes = 0;   ///< on top while the backward pass runs
  /// The same with a microbatch's part of each parameter's gradient, until it is added up.
  double turnTransientBytes = 0;
  /// Where ranks scatter gradients: before the unit has begun an exchange, after the first, and so on; the
  /// same where the narrow copies that products have read are gone; and of what it leaves under way, what
  /// lies there while units before it have begun none, one, ...
  std::array<HeldBytes, kExchangesUnderWay + 1> held, heldNarrow;
  std::array<double, kExchangesUnderWay> leftBytes{};
  double heldScatteredBytes = 0; ///< once a gradient is made, which ranks then scatter, with those before it
  double exchangedTransientBytes = 0;     ///< the same where ranks exchange that part while the next is made
  double exchangedHalfTransientBytes = 0; ///< and where each of two ranks gets its half of it beside
  double scatteredTransientBytes = 0;     ///< with such a part once it is made, which ranks then scatter
  /// The same with what the unit has made of gradients, less all of them.
  double onceScatteredTransientBytes = 0;
  /// Of a parameter whose gradient is made before the product that reads it: what there is beside both, and
  /// its elements.
  double lateTransientBytes = 0, lateElements = 0;
  /// Of the loss's product, where the input's gradient is made first: what there is until its parameters' is
  /// made, and elements of these, whose narrow copies nothing reads from then on.
  double headTransientBytes = 0, headElements = 0;
  /// The same with the gradients of its parameters as they come, less all of them, in a step of one
  /// microbatch.
  double onceTransientBytes = 0;
  double weightTransientBytes = 0; ///< the same where the weights' gradients are a pass of their own
  double fixedTransientBytes = 0;  ///< the same where nothing takes the place of what was saved and is read
  double fixedWeightTransientBytes = 0; ///< both
  /// Of what the backward pass makes again: of the unit's last segment, which a unit behind may continue;
  /// whether its first continues that of the unit before, and whether it has no other; and of what it takes
  /// in, which a stage that receives it keeps.
  double againBytes = 0, againInputBytes = 0;
  bool continuesSegment = false, isInOneSegment = false;
  /// By how much the backward pass takes less than its most from where its first segment is made again; or up
  /// to there.
  double continuedLess = 0, continuedMore = 0;
  double sourceBytes = 0; ///< of `savedBytes`, read for what a unit behind makes again, and gone with that
  double againParameters = 0; ///< elements that operations made again read, for the backward pass as well
  double againTables = 0;     ///< beside them, of tables in which these look up rows, which it does not read
  double maskBytes = 0;       ///< computed from the model's inputs, once for all units that read it
  ComputedBytes computed;     ///< of parameters alone, and read by passes
  /// By how much the backward pass of the only microbatch takes more on top of that for what it computes
  /// again (below 0: less, where that was read before its peak), without and with parts of gradients on their
  /// way.
  double againComputed = 0, againComputedInTurns = 0;
  double takenApart = 0; ///< parts of weights, made of these once for all microbatches where they are whole
  std::map<int, ComputedBytes> sharedComputed; ///< the same of what several units read, by shared number
  double parameters = 0;                       ///< elements stored on a rank
  double largest = 0;                          ///< of the largest parameter
  double convolved = 0;                        ///< of `parameters`, those of convolutions
  double narrowed = 0;                         ///< of them, read by products, which may take a narrow copy
  /// Of `narrowed`, tables in which rows are looked up alone: the backward pass reads no copy of theirs.
  double narrowedTables = 0;
  double elsewhere = 0;         ///< of `narrowed`, those of which other ranks keep the master
  bool narrowsAgain = false;    ///< the backward pass makes these copies again, as it does values
  double slots = 0;             ///< elements of each of the optimizer's slots: all axes share them
  double unread = 0;            ///< of them, read by no pass (positions behind the longest sequence)
  double readAgain = 0;         ///< of them, read by the backward pass (a table that is looked up in is not)
  double narrowedAgain = 0;     ///< of those, by products, and such as stay as they are
  double frozen = 0;            ///< elements of parameters beside them, which stay as they are
  double idleFrozen = 0;        ///< of these, those that a step does not read
  std::map<int, double> shared; ///< of `parameters`, by shared number
  std::map<int, double> sharedSlots, sharedNarrowed, sharedFrozen; ///< of `slots`, of `narrowed`, of `frozen`
  std::map<int, double> sharedElsewhere, sharedReadAgain, sharedNarrowedAgain; ///< of those
  std::set<int> sharedByProducts; ///< shared numbers of what products read, whose backward pass does, too
  double outputBytes = 0;         ///< that a rank hands to the next stage
  double forwardBytes = 0; ///< the most that a forward pass has at once, but for what the model gives back
  std::vector<double> tableParts; ///< a rank's part of each table that the unit reads
  double resultShare = 1;         ///< a rank's part of the first thing that the model gives back
  double resultBytes = 0;         ///< of a rank's part of what the model gives back
  std::map<std::string, double> bytesByCollective;   ///< moved by a rank, forward and backward
  std::map<std::string, double> secondsByCollective; ///< the same; their sum is `collective`

  /// Bytes from the forward to the backward pass, of which weights' gradients may be one of their own.
  double saved(bool splitsBackward) const { return savedBytes - (splitsBackward ? 0 : partedBytes); }
  /// Of these, what the unit `before` it in the same chunk has saved as well.
  double savedWith(const UnitCost &before) const {
    return std::min(inputSavedBytes, before.outputSavedBytes);
  }
};

/// Bytes of a parameter by what they are for.
struct StateTypes {
  double parameter = 2, gradient = 4, optimizer = 12;
  double narrow = 0;   ///< of a copy that products read, beside the parameter
  double reduced = 2;  ///< of a gradient while it is reduced over ranks
  double gathered = 2; ///< of a parameter that ranks bring together

  /// Of a parameter that stays as it is: it is narrowed when it is loaded.
  double frozen() const { return narrow > 0 ? narrow : parameter; }
  /// Of a parameter that products read, as ranks bring it together; and how much less that is than of others.
  double read() const { return narrow > 0 ? narrow : gathered; }
  double narrowGathered() const { return gathered - read(); }
};

/// How ranks and a framework share a step. Ranks are numbered tensor first, then context, data, pipeline.
struct StepShape {
  int pipeline = 1, data = 1, context = 1, tensor = 1;
  int microbatches = 1;
  Schedule schedule = Schedule::OneFOneB;
  int chunks = 1; ///< of a stage
  /// 0: all state on every rank; 1: the optimizer's over the data and context ranks; 2: gradients too,
  /// scattered in every microbatch; 3: parameters too, gathered at each use.
  int zero = 0;
  /// Gradients are reduced beside the last backward pass, as they come.
  bool overlapGradients = true;
  /// Context ranks hold the same parameters, and their gradients are reduced with the data ranks'. Otherwise
  /// the units' `stepReduction` has them.
  bool reducesOverContext = false;
  /// With ZeRO 3 and a pipeline, parameters are gathered once a step and stay whole between microbatches.
  bool keepsGathered = false;
  /// As compiled programs do it: in a pipeline they move once a step what ZeRO 2 and 3 scatter and gather of
  /// several microbatches, so that gradients, and parameters, are whole between; the backward pass gathers
  /// what it reads of the last unit, too; and units' transient bytes come on top of what units before have
  /// kept, since those behind are done by then.
  bool asCompiled = false;
  /// A microbatch's part of a weight's gradient, if ranks do not exchange it, takes no memory of its own.
  bool addsInPlace = false;
  /// A stage goes on while it hands over; otherwise, where backward passes are whole, it waits and launches.
  bool transfersBeside = false;
  double transferLaunch = 0; ///< s
  /// Stages wait for each other at the end of a step. Otherwise steps of schedules that split backward passes
  /// follow each other as they come (PipelineResult::steadySeconds).
  bool commonEnd = true;

  /// Whether passes are done once, so that what one of them alone reads comes and goes with it.
  bool isOnce() const { return microbatches == 1 && chunks == 1; }
  int ranks() const { return pipeline * data * context * tensor; }
  /// Whether a rank has no more than its part of a gradient that is made: a program scatters those of one
  /// microbatch as they come, also where the optimizer's state alone is split.
  bool scattersGradients() const { return zero >= 2 || (zero == 1 && asCompiled && microbatches == 1); }
  /// Whether it scatters them as they are made.
  bool scattersInTurns() const { return scattersGradients() && !movesStateOnce(); }
  /// Whether what it keeps of gradients lies as the optimizer's slots do, of which tensor ranks have parts
  /// also where they have the same parameter.
  bool scattersAsSlots() const {
    return asCompiled && (microbatches == 1 ? pipeline == 1 : scattersInTurns() && data * context > 1);
  }
  /// Whether what ZeRO 2 and 3 scatter and gather is moved once for all microbatches of a step.
  bool movesStateOnce() const { return asCompiled && pipeline > 1; }
  /// Whether passes of several microbatches stand one behind the other in a program, with copies of what they
  /// hand on.
  bool isUnrolled() const { return asCompiled && pipeline > 1 && microbatches > 1; }
  /// Whether a chunk's passes do nothing and the passes of another do all: in a V, the last stage's two
  /// chunks follow one another with no message between them. A program computes things where they are needed,
  /// which is forward the second chunk, and backward the first; the two forward passes follow one another.
  bool isMergedIntoNext(std::size_t chunk) const;
  int stageOf(int chunk) const; ///< by the chunk's place in the model's order
};

/// A model's units in their order, and which of them each chunk has.
struct UnitOrder {
  const std::vector<UnitCost> &kinds;
  const std::vector<int> &units; ///< kind of each
  const std::vector<int> &parts; ///< how many of `units` each chunk has
  /// How often each of `units` is done, which need not be a whole number where stages are cut inside one;
  /// null: once.
  const std::vector<double> *amounts = nullptr;
  double amount(std::size_t unit) const { return amounts ? (*amounts)[unit] : 1; }
};

/// Bytes of one rank of a stage, by kind, at the peak.
struct StageMemory {
  double parameters = 0, gradients = 0, optimizer = 0, activations = 0, transient = 0;
  double io =
      0; ///< of all samples of a step: inputs, and what an evaluation gives back beyond the activations
  double total() const { return parameters + gradients + optimizer + activations + transient + io; }
};

/// What a rank of one stage moves in a step for one purpose.
struct Communication {
  std::string name; ///< "all-gather of parameters, data ranks"
  double bytes = 0; ///< that it sends
  double seconds = 0;
  /// s that the step is longer for it; the others pass beside kernels.
  double exposed = 0;
};

/// What all units of a stage hold and reduce together.
struct StageState {
  double parameters = 0, largest = 0; ///< elements: all, and of the largest unit
  double largestParameter = 0;        ///< elements
  double unread = 0;                  ///< of all, those that no pass reads
  double narrowed = 0;                ///< of all, those that products read
  double elsewhere = 0;               ///< of all, those of which other ranks have the master
  double again = 0;                   ///< of parameters that several units share, for each but one
  double received = 0;                ///< of those whose gradients another stage sends here, to be added up
  double sent = 0;                    ///< of the largest whose gradient another stage adds up
  double slots = 0;                   ///< of each of the optimizer's
  double frozen = 0;                  ///< elements of parameters beside them that stay as they are
  double idleFrozen = 0;              ///< of these, those that a step does not read
  double computed = 0;                ///< bytes of what is computed of parameters alone
  /// Elements whose gradients are there at the peak, where they are made while what was saved goes: in a step
  /// of one microbatch. Of those that lie as slots, elements of these. Below 0: all.
  double made = -1;
  std::map<int, double> shared;
  GradientReduction reduction;
  double transient = 0;
  double messages = 0; ///< bytes that are on their way while passes are done
  friend bool operator==(const StageState &a, const StageState &b) {
    return a.parameters == b.parameters && a.largest == b.largest &&
           a.largestParameter == b.largestParameter && a.narrowed == b.narrowed &&
           a.elsewhere == b.elsewhere && a.frozen == b.frozen && a.reduction.seconds == b.reduction.seconds &&
           a.transient == b.transient && a.messages == b.messages && a.shared == b.shared;
  }
};

/// A step's time and memory.
struct StepPrice {
  double seconds = 0;
  /// Where they go, on the stage that ends last.
  double pipeline = 0, reduction = 0, optimizer = 0;
  double bubble = 0; ///< part of the pipeline's time in which the busiest stage waits
  int lastStage = 0;
  double straggler = 1; ///< factor of the step for nodes that wait for the slowest
  std::vector<StageMemory> memory;
  double peakBytes = 0; ///< the largest total
  int peakStage = 0;
};

class StepCost {
public:
  StepCost(const CostModel &machine, const StateTypes &types);

  std::vector<StageState> stages(const StepShape &shape, const UnitOrder &order) const;
  /// The stages' passes and transfers, for a simulation. What ZeRO moves is counted as far as nothing hides
  /// it: parameters that are kept over ranks are gathered while units before compute, gradients that are
  /// scattered beside the backward pass; so what an embedding, which computes little, brings together passes
  /// beside the layers of its chunk. The backward pass gathers what it reads, but not for the model's last
  /// unit, whose backward pass follows its forward pass at once. Collectives of the units themselves, with
  /// which both share links, do not hide them; and kernels and collectives share the device, so part of the
  /// shorter of the two
  /// (`overlap_contention`) comes on top of the longer.
  PipelineProblem problem(const StepShape &shape, const UnitOrder &order) const;
  /// Bytes of a stage by kind, without activations.
  StageMemory state(const StepShape &shape, const StageState &stage) const;
  /// Seconds of gradients' reductions after the last backward pass, of which `beside` seconds (that pass) can
  /// hide some, though never the part `exposed_gradient` that comes last; `told` gets them by name.
  double reduction(const StepShape &shape, const std::vector<StageState> &stages, int stage, double beside,
                   std::vector<Communication> *told = nullptr) const;
  /// Seconds of the optimizer.
  double update(const StepShape &shape, const StageState &stage) const;
  /// Adds the collectives inside the passes of `units` (kinds), which nothing hides, and what ZeRO moves
  /// beside them. `endsModel`: the last of them is the model's last.
  void tellUnits(const StepShape &shape, const std::vector<UnitCost> &kinds, const std::vector<int> &units,
                 bool endsModel, std::vector<Communication> &told) const;
  /// Factor of a step for the nodes that it waits for: `straggler` for each doubling of their number.
  double straggler(int ranks) const;
  /// The step, once its passes are put into time.
  StepPrice price(const StepShape &shape, const PipelineProblem &problem, const PipelineResult &schedule,
                  const std::vector<StageState> &stages) const;

  /// Bytes that are gathered for the backward pass of a unit.
  double gatheredAgainBytes(const StepShape &shape, const UnitCost &unit, bool isModelsLast) const;
  /// Bytes of a unit's parameters as its forward pass gathers them.
  double gatheredBytes(const UnitCost &unit) const;

  const CostModel &machine;
  const StateTypes types;

private:
  double exchangedTransient(const StepShape &shape, const UnitCost &cost) const;
  HeldBytes heldBytes(const StepShape &shape, const UnitCost &cost, const UnitCost *behind,
                      const HeldBytes &alone) const;
  double scatteredTransient(const StepShape &shape, const UnitCost &cost, double whole, double without) const;
  /// Raises `stage.transient` to what the backward pass of chunk `c` takes, whose units end before `unit`.
  void addTransient(const StepShape &shape, const UnitOrder &order, std::size_t c, std::size_t unit,
                    StageState &stage) const;
  double addTransient(const StepShape &shape, const UnitOrder &order, std::size_t c, std::size_t unit,
                      StageState &stage, bool holds) const;
  struct Beside;
  /// By how much kernels of `compute` seconds take longer for what is moved beside them in `moved`.
  double lengthening(double compute, double moved) const;
  Group dataGroup(const StepShape &shape) const {
    return {shape.data * shape.context, shape.tensor, shape.ranks()};
  }
  /// Seconds to bring `parameters` together, or to scatter their gradients; 0 without ranks to share them.
  double exchangeSeconds(const StepShape &shape, Collective kind, double parameters) const;
  double gatherSeconds(const StepShape &shape, double bytes) const;
  double scatterSeconds(const StepShape &shape, double parameters) const;
  void fillHops(const StepShape &shape, const std::vector<double> &handed, PipelineProblem &problem) const;

  OperationCost operations;
  double contention, exposed, shardedBandwidth, stragglerFactor;
};

/// What a device of a stage needs to hand `bytes` to the next one (the last to the first): stages lie devices
/// / stages apart. Inside a node its links are used; of a node with several stages only the last one's
/// devices send to another.
double hopSeconds(const CostModel &machine, double bytes, int stage, int stages, int devices);

} // namespace colossal::cost

#endif // COLOSSAL_COST_STEPCOST_H
