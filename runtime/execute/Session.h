// A plan, loaded and ready to run: the ranks of this process, their threads, and what enters and leaves them.
//
// Opening checks the file, validates the plan, allocates every arena, loads code and weights. A run scatters
// the inputs to the ranks, executes the program and leaves the outputs in the ranks, from where `outputs`
// collects them. With the local communicator one process holds all ranks; with mpi it holds its own.
#ifndef COLOSSAL_RUNTIME_EXECUTE_SESSION_H
#define COLOSSAL_RUNTIME_EXECUTE_SESSION_H

#include "runtime/execute/Rank.h"
#include "runtime/io/Tensor.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace colossal::runtime {

struct SessionOptions {
  std::string communicator; ///< "local", "mpi", "nccl"; empty: as the plan's device and the launcher want
  unsigned threads = 0;     ///< per rank; 0: the cores that this process may use, shared among its ranks
  std::string weights;      ///< where weight files lie now; empty: where the plan says
  std::optional<uint64_t> randomWeights;
  Deadline deadline; ///< without any progress, before a run is given up
  bool checkOwner = true;
  bool trace = false;
  bool eager = false;   ///< nothing is replayed that a device could record
  bool ordered = false; ///< reductions are taken in the order of the ranks, whatever the communicator
};

/// Memory of one rank by arena, planned and in use now; and what lies beside the arenas.
struct RankMemory {
  uint32_t rank = 0;
  struct Row {
    std::string kind;
    uint64_t planned = 0, measured = 0;
  };
  std::vector<Row> rows;
};

/// The device of one rank.
struct RankDevice {
  uint32_t rank = 0;
  std::string name;
  bool emulated = false;
  uint64_t emulatedInstructions = 0; ///< by all devices of the rank's process
};

/// What one rank sent in a run along some axes, in one kind of transfer.
struct RankTraffic {
  uint32_t rank = 0;
  int stage = -1; ///< its stage, or its coordinate along the mesh's axis `stage`; -1 where there are neither
  std::string axes, kind;
  uint64_t sent = 0;    ///< as its communicator counted
  uint64_t planned = 0; ///< by the closed formulas of docs/PlanFormat.md
};

/// Gives the elements of an input that lies nowhere as a whole. Ranks ask for those that they hold, each in
/// its own thread.
class InputSource {
public:
  virtual ~InputSource() = default;
  /// Puts elements [first, first + count) of the dense, row-major tensor at `elements`, in the type of the
  /// program's input.
  virtual Status read(uint64_t first, uint64_t count, std::byte *elements) const = 0;
  /// Where an element comes from, for messages: "sample 7 of labels.npy".
  virtual std::string origin(uint64_t element) const { return "element " + std::to_string(element); }
};
/// An input with a source: its global shape, and where its elements come from.
struct SourcedInput {
  plan::DataType type = plan::F32;
  std::vector<uint64_t> shape;
  std::shared_ptr<const InputSource> source;
};
using SourcedInputs = std::map<std::string, SourcedInput>;

class Session {
public:
  /// After a failure with ranks in other processes `session` is set nevertheless, and good for one thing:
  /// report the failure, then call terminateOthers.
  static Status open(const std::string &path, const SessionOptions &options,
                     std::unique_ptr<Session> &session);
  ~Session();

  const plan::Plan &plan() const;
  uint32_t ranks() const;
  unsigned threads() const;
  /// What the caller should be told about the way it was opened; empty if nothing.
  const std::string &warning() const;
  /// Whether this process holds rank 0, which reports and gathers.
  bool root() const;
  /// Whether it holds all ranks, so that nothing need be said to other processes.
  bool holdsAllRanks() const;
  /// The plan's file and those of its weights, where they lie now: no output may take their place.
  std::vector<std::string> files() const;
  /// The option by which parameters have begun with other values than those of the plan's files: "--weights",
  /// where it names such values, or "--random-weights"; empty: none.
  std::string otherWeights() const;

  /// The program whose inputs have the names and shapes of `inputs`. Fixed inputs may be given and must then
  /// be equal. Where none fits, the message lists what each program takes. Converts types that the file
  /// formats lack.
  Status select(Tensors &inputs, int &program) const;
  /// The program of that name; NotFound, with the names that there are. No program is found that loads, saves
  /// or restores.
  Status find(const std::string &name, int &program) const;
  /// Whether the inputs that a program takes are among those given, with their types and shapes; others may
  /// be given too. Converts types that the file formats lack.
  Status accept(int program, Tensors &inputs, const SourcedInputs &sourced) const;
  /// Runs a program `times` times; a rank begins with the next run when it has ended one, so that stages of a
  /// pipeline work on several. `seconds` (optional) is the time from all ranks' start of the first to all
  /// ranks' end of the last, without scattering the first one's inputs. `interval` (optional; at the root) is
  /// the time from one run to the next once all ranks work: that of the slowest rank from the end of its
  /// first run to the end of its last, by run; `seconds` where there is one run. `sourced` has the inputs
  /// that `inputs` lacks.
  Status run(int program, const Tensors &inputs, double *seconds = nullptr, unsigned times = 1,
             const SourcedInputs &sourced = {}, double *interval = nullptr);
  /// Collects the outputs of the last run at the root; elsewhere `outputs` stays empty. bf16 comes as f32.
  /// `only`: those of these names; empty: all.
  Status outputs(int program, Tensors &outputs, const std::vector<std::string> &only = {});

  /// Whether runs from now on are recorded. What was recorded before is forgotten.
  void record(bool on);

  /// May be called from a signal handler or another thread: ends the run in progress.
  void interrupt();

  /// Of all ranks, at the root; every process must call these.
  Status memory(std::vector<RankMemory> &report);
  Status traffic(int program, std::vector<RankTraffic> &report);
  Status devices(std::vector<RankDevice> &report);
  /// What was recorded of runs; at the root of all ranks.
  Status timeline(Timeline &timeline);
  uint64_t arenaBytes() const;      ///< of the rank that has most, as planned
  uint64_t collectiveBytes() const; ///< sent by this process's first rank since load
  /// Runs `job` for every rank of this process, on its thread, between runs; watched as a run is.
  Status onEachRank(const std::function<Status(Rank &)> &job);
  /// Of all ranks of the plan.
  const std::vector<plan::StageView> &stages() const;
  /// Ends the ranks of other processes too, after an error here. Does not return if there are any.
  void terminateOthers(int exitCode);

private:
  struct Core;
  explicit Session(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core;
};

/// "name: f32[2,3]" for each input of a program, one a line; not for those called as in `without`, which are
/// not the user's to give.
std::string describeInputs(const plan::Program &program, const std::set<std::string> &without = {});

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_EXECUTE_SESSION_H
