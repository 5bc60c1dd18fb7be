// Pipeline schedules by discrete event simulation: when each stage runs which pass of which microbatch, how
// long the step takes, and how much memory each stage holds. Knows seconds and bytes only; Training.h
// supplies them.
#ifndef COLOSSAL_COST_PIPELINESCHEDULE_H
#define COLOSSAL_COST_PIPELINESCHEDULE_H

#include <string>
#include <string_view>
#include <vector>

namespace colossal::cost {

enum class Schedule {
  GPipe,        ///< all forward passes, then all backward passes (Huang et al., 2019)
  OneFOneB,     ///< one forward, one backward after a warm-up (Narayanan et al., 2019)
  Interleaved,  ///< the same over several chunks a stage (Narayanan et al., 2021)
  ZeroBubbleH1, ///< weight gradients apart, memory of 1F1B (Qi et al., 2023, section 2.1)
  ZeroBubbleH2, ///< the same with up to 2p - 1 microbatches in flight (section 2.1)
  ZeroBubble1p, ///< list scheduling under the memory of p microbatches (section 3)
  ZeroBubble2p, ///< under the memory of 2p microbatches
  ZeroBubbleV   ///< two chunks a stage in the form of a V, memory of 1F1B (Qi et al., 2024)
};
/// "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-1p", "zb-2p", "zb-v".
const char *toString(Schedule schedule);
/// Those names, and "1F1B", "1F1B-I", "Interleaved1F1B", in any case. False if there is no such schedule.
bool parseSchedule(std::string_view name, Schedule &schedule);
std::string scheduleNames();
/// Whether the backward pass is cut into input and weight gradients.
bool splitsBackward(Schedule schedule);

/// One chunk of the model on one stage, for one microbatch.
struct ChunkWork {
  double forward = 0;             ///< s
  double backward = 0;            ///< s, gradients of the inputs, recompute included
  double weightGradient = 0;      ///< s
  double activationBytes = 0;     ///< kept from the forward pass to the end of the backward pass
  double weightGradientBytes = 0; ///< part of them that is kept until the weight gradients are done
  double transientBytes = 0;      ///< on top while the backward pass runs (recomputed activations)
  /// What a program keeps of a microbatch from its forward pass on, and from the backward pass to the
  /// gradients of weights; negative: `activationBytes` and `weightGradientBytes`. For the memory that is
  /// told, not for the limits by which schedules choose.
  double keptForward = -1, keptBackward = -1;

  /// `activationBytes` and `weightGradientBytes` where how much a stage may hold counts microbatches, of
  /// which half a one is left for the weights' gradients.
  static constexpr double kMicrobatch = 1, kOfWeights = 0.5;
};

struct PipelineProblem {
  Schedule schedule = Schedule::OneFOneB;
  int stages = 1;
  int microbatches = 1;
  /// Chunks a stage: at least 2 for Interleaved, 2 for ZeroBubbleV, else 1.
  int chunks = 1;
  /// stages * chunks entries in the model's order. Chunk c of stage s is entry c * stages + s; in a V, the
  /// second chunk of stage s is entry 2 * stages - 1 - s.
  std::vector<ChunkWork> work;
  /// Seconds to hand activations or their gradients to the neighbouring stage.
  double transferSeconds = 0;
  /// The same where it differs: entry s between the stages s and s + 1 (the last one back to the first). May
  /// be empty.
  std::vector<double> hopSeconds;
  /// The sending stage waits until they are handed over.
  bool transferBlocks = false;
  /// Also where all forward passes come first (GPipe, and Interleaved of few microbatches), the last stage
  /// takes each microbatch back at once: nobody waits longer for that, and of its last chunk it keeps one.
  bool lastTurnsBack = false;
  /// There are no backward passes; of a schedule that does not cut them.
  bool forwardOnly = false;
  /// Stages that share processors: entry b - 1 is how many times as long as `work` all work takes while b
  /// stages do some. Empty: each has its own. For schedules that do not cut the backward pass.
  std::vector<double> slowdown;
};

struct PipelineEvent {
  enum Pass { Forward, Backward, WeightGradient } pass;
  int stage, chunk, microbatch;
  double start, end;
};

struct PipelineResult {
  /// From the first pass to the last, on the stage that ends last.
  double seconds = 0;
  /// From one step to the next. Zero-bubble schedules let each stage start the next step when it is done with
  /// this one (Qi et al., 2023, section 4): the longest span of a stage. Otherwise all stages wait for each
  /// other: `seconds`.
  double steadySeconds = 0;
  /// When each stage ends its last backward pass: its gradients are complete.
  std::vector<double> stageEnd;
  /// Activations at their peak, by stage, in bytes.
  std::vector<double> peakBytes;
  /// Most microbatch-chunks held by each stage.
  std::vector<int> peakInFlight;
  /// 1 - the busiest stage's work / steadySeconds.
  double bubble = 0;
  /// In order of each stage; filled only if asked for.
  std::vector<PipelineEvent> timeline;
  /// What is wrong with the problem; the rest is empty then.
  std::string error;
};

/// O(stages * chunks * microbatches).
PipelineResult simulate(const PipelineProblem &problem, bool withTimeline = false);

} // namespace colossal::cost

#endif // COLOSSAL_COST_PIPELINESCHEDULE_H
