// A machine as data: what one device does, and the levels of network over many. Read from JSON
// (docs/CostModel.md has every key), or by the name of a file that is built in. No IR and no backend:
// CostModel.h turns it into seconds.
#ifndef COLOSSAL_COST_MACHINE_H
#define COLOSSAL_COST_MACHINE_H

#include "colossal/Cost/FittedConstants.h"
#include "colossal/Cost/LinkGraph.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace colossal::cost {

/// Element types by the rate they are computed at. Integers narrower than 32 bits use `i8`, others `i32`.
enum class DataType { F64, F32, TF32, BF16, F16, F8, I32, I8 };
/// "f64", "f32", "tf32", "bf16", "f16", "f8", "i32", "i8".
const char *toString(DataType type);

struct Device {
  std::string name;
  /// Peak multiply-and-add rate in FLOP/s (an add and a multiply are two). f32 is always there; a type that
  /// is not runs at the rate of f32.
  std::map<DataType, double> peakFlops;
  /// Capacity in bytes.
  std::int64_t memoryBytes = 0;
  /// Bytes/s between the device's main memory and its processor.
  double memoryBandwidth = 0;
  /// Seconds from one kernel's end to the next one's start when both are queued.
  double launchSeconds = 0;
  /// The parts of the peaks that large contractions, and streaming kernels, reach: in (0, 1].
  double computeEfficiency = 1;
  double memoryEfficiency = 1;
  /// Processors that tiles of a contraction are spread over (streaming multiprocessors, cores); 0: unknown,
  /// work is taken to divide evenly.
  int computeUnits = 0;

  double flops(DataType type) const;
};

/// A level connects `units` units of the level below it; the innermost level's units are devices.
/// Example: 16 nodes of 8 devices are {"nvlink", 8 units} and {"infiniband", 16 units}.
struct Level {
  std::string name;
  int units = 1;
  /// Seconds for a message of no bytes between two units: each step of a collective takes it.
  double latencySeconds = 0;
  /// Seconds that a collective takes apart from its steps: launch, entry and exit. Once a collective.
  double startSeconds = 0;
  /// Bytes/s that one unit sends while it receives as many; the devices inside the unit share it. Where
  /// `links` are given it follows from them, for all units together.
  double bandwidth = 0;
  /// Equal adapters that a unit's bandwidth is made of; a device sends through one of them at a time.
  int adapters = 1;
  /// The links between the units; empty where every unit has `bandwidth` to all others together.
  LinkGraph links;
  /// Bytes/s of all the level's units together, where they share one medium (the memory of a host); 0: no
  /// such limit.
  double sharedBandwidth = 0;
  /// Bytes/s at which a device passes over its own tensor in an all-reduce (reading, adding, copying out) on
  /// top of what it sends; half of the pass falls to reduce-scatter, half to all-gather. 0: hidden behind the
  /// sending.
  double localBandwidth = 0;
  /// Steps of fewer bytes than this on one ring go by a protocol for small messages, whose time per byte is
  /// `smallStepFactor` times the other's. A step carries the tensor's bytes / (units * rings).
  double smallStepBytes = 0;
  double smallStepFactor = 1;
};

/// A number of a machine file that was fitted to measurements, not taken from a data sheet.
struct FittedKey {
  /// Where it stands, as in "levels[0].start_seconds".
  std::string key;
  std::string unit;
  std::string meaning;
  /// What it was fitted to.
  std::string source;
};
/// More in one file are refused: with enough constants anything fits.
constexpr int kMaxFittedConstants = 15;

/// The error of predictions for a machine on one table of measured or simulated rows. It stands in the
/// machine's file, where `colossal-cost calibrate` or test/Benchmark/evidence.py has written it: whoever
/// changes the file's constants makes it anew.
struct Evidence {
  std::string table;
  /// What was predicted: "step", "best_step", "all_reduce", "layer", "stage_memory", "kernel" or "plan".
  std::string question;
  int rows = 0;
  bool measured = true; ///< false: the rows are output of a simulator
  /// True where the machine's constants were fitted to these very rows.
  bool inSample = false;
  double meanPercent = 0;   ///< mean absolute percentage error
  double medianPercent = 0; ///< median of the same
  /// The same of peak memory where the table has it, otherwise 0.
  double memoryMeanPercent = 0, memoryMedianPercent = 0;
  /// Ranges of the rows, by "devices", "hidden", "sequence", "bytes"; what is not there does not matter.
  std::map<std::string, std::pair<double, double>> ranges;
  /// Kinds of the rows, by "recompute", "attention", "framework", "schedule", "zero".
  std::map<std::string, std::vector<std::string>> kinds;
};

/// A path from a device to something slower: host memory, a disk.
struct Link {
  double latencySeconds = 0;
  double bandwidth = 0;
};

/// Cores and memory that ranks share when each is a thread (or some) of one process. `device` is then one
/// core: its peak is what one core alone reaches in large contractions, its memory bandwidth what one core
/// alone gets.
struct Host {
  int cores = 1;
  /// The rate of a core while all compute over that of one alone: clocks, execution units that cores share.
  double parallelEfficiency = 1;
  /// Bytes/s from main memory to all cores together.
  double memoryBandwidth = 0;
  /// Bytes/s that one core reads and writes in streaming kernels (normalization) while data lies in its
  /// cache, and the size of that cache.
  double cacheBandwidth = 0;
  double cacheBytes = 0;
  /// Seconds of one core for one elementwise operation on one element inside a fused kernel.
  double elementSeconds = 0;
  /// Seconds to start the threads of a rank on a kernel and to join them.
  double forkSeconds = 0;
  /// Elements of k that a contraction, or a convolution, loses on each tile of the result.
  double contractionFill = 0;
  double convolutionFill = 0;
  /// Where eight rows of a contraction's operand outgrow the innermost cache, at k of `deepContraction`, each
  /// further multiply takes `deepFactor` times as long.
  double deepContraction = 1536;
  double deepFactor = 1;
  /// Rates of fused attention and of the library's convolutions over that of contractions.
  double attentionEfficiency = 1;
  double convolutionEfficiency = 1;
  /// The part of the shorter of computing and memory traffic that the longer does not hide, in contractions
  /// and in the library's convolutions.
  double exposedMemory = 0;
  double convolutionExposedMemory = 0;
};

struct Machine {
  std::string name;
  std::string description;
  /// What compiles for it: "cpu", or "cuda". Where a file does not say, "cpu" with a `host` and "" without.
  std::string target;
  Device device;
  /// Innermost first. At least one.
  std::vector<Level> levels;
  Link hostLink;
  Link disk;
  /// Set where ranks are threads of one host (the CPU); `levels[0]` is then its shared memory.
  std::optional<Host> host;
  /// What was fitted for this machine.
  FittedConstants fitted;
  /// Numbers of the description itself that were fitted. At most kMaxFittedConstants together with `fitted`.
  std::vector<FittedKey> fittedKeys;
  /// How far its predictions were found to be off.
  std::vector<Evidence> evidence;

  /// Product of the levels' units.
  std::int64_t devices() const;
  /// Of so many ranks, those that share the cores and the memory of one host, which is the innermost level
  /// (while a machine is being measured it has none yet: then all of them); 1 where each rank has a device of
  /// its own.
  std::int64_t ranksOnHost(std::int64_t ranks) const;
  /// Bytes that each of so many ranks has: the device's, or its part of the host's.
  std::int64_t memoryOfRank(std::int64_t ranks) const;
  /// Whether any two of the first `ranks` devices are linked as any other two are, so that it does not matter
  /// which of them work together.
  bool areRanksAlike(std::int64_t ranks) const;
};

struct MachineResult {
  Machine machine;
  /// Empty on success; otherwise names the place, as in "levels[1].bandwidth: must be above 0, is -3".
  std::string error;
};

/// Unknown keys are errors.
MachineResult parseMachine(std::string_view json);
/// A file if `nameOrPath` names one (it contains '/' or ends in ".json"), else a built-in machine, by its
/// name or by a beginning that no other has. The error of an unknown name lists the known ones, of a
/// beginning those that have it.
MachineResult loadMachine(const std::string &nameOrPath);
/// The built-in machine "cpu": ranks on cores of some server, whatever this host is.
Machine genericMachine();
/// The names of the built-in machines, sorted.
std::vector<std::string> machineNames();
std::string printMachine(const Machine &machine);

} // namespace colossal::cost

#endif // COLOSSAL_COST_MACHINE_H
