// Checkpoints: the states of a training plan as a folder of safetensors, on any mesh.
//
// A folder holds the checkpoints of a run, each a folder `step-N` of its own: a safetensors file of each rank
// that gives parts, and manifest.json, which names every state with its global shape, type, boxes and where
// each lies, and every file with its digest (docs/Training.md has the format). A checkpoint grows under
// another name and is renamed when every byte of it is on the disk, so that at any moment what is called
// `step-N` is whole.
#ifndef COLOSSAL_RUNTIME_TRAINING_CHECKPOINT_H
#define COLOSSAL_RUNTIME_TRAINING_CHECKPOINT_H

#include "runtime/io/Safetensors.h"
#include "runtime/training/States.h"

#include <atomic>
#include <thread>

namespace colossal::runtime {

/// One checkpoint, opened for reading.
class Checkpoint : public StateReader {
public:
  /// A state as it was saved.
  struct Saved {
    plan::State description;
    plan::DataType type = plan::F32;
    std::vector<uint64_t> shape;
    struct Part {
      StateBox box;
      const SafetensorsFile *file;
      uint64_t offset; ///< in the file
    };
    std::vector<Part> parts;
  };

  /// `folder`: one checkpoint, or the folder of a run, of which the last one is taken. Every file must have
  /// the size and the digest that the manifest states, and the parts of a state hold each element once. Where
  /// that is not so, Io; the message names the newest one before it that is whole.
  static Status open(const std::string &folder, std::unique_ptr<Checkpoint> &checkpoint);

  /// The folder of this one.
  const std::string &path() const { return folder; }
  uint64_t step() const { return atStep; }
  const std::string &optimizer() const { return trainedBy; }
  const std::string &loss() const { return trainedFor; }
  /// The model's file, as far as it is known.
  const std::string &model() const { return modelPath; }
  /// What whoever saved wanted to be told.
  const std::string &notes() const { return text; }
  const std::vector<Saved> &states() const { return saved; }
  /// The paths of its files, all of which are read.
  std::vector<std::string> paths() const;

  /// Why these are not the states of a plan; all differences in kind, the first few of each by name.
  Status compare(const plan::Plan &plan) const;
  /// Before `read`: in which order the reader numbers states. Those of `plan`, which `compare` accepted.
  void numberAs(const plan::Plan &plan);
  Status read(uint32_t state, uint64_t first, uint64_t count, std::byte *elements) const override;
  /// Elements of states()[index].
  Status readSaved(size_t index, uint64_t first, uint64_t count, std::byte *elements) const;

private:
  static Status openOne(const std::string &folder, std::unique_ptr<Checkpoint> &checkpoint);
  /// The newest whole checkpoint of the run's folder before one of them; empty: there is none.
  static std::string findWholeBefore(const std::string &damaged);
  Status readManifest();

  std::string folder, trainedBy, trainedFor, modelPath, text;
  uint64_t atStep = 0;
  std::vector<Saved> saved;
  std::vector<size_t> order; ///< by number
  std::vector<std::unique_ptr<SafetensorsFile>> files;
};

/// Writes the checkpoints of a run. Every process of the run has one and makes the same calls.
class CheckpointWriter {
public:
  /// `keep`: how many checkpoints stay; 0: all.
  CheckpointWriter(Session &session, std::string folder, uint64_t keep);
  /// Waits for what is being written, and a few seconds for the parts of other processes.
  ~CheckpointWriter();

  /// Makes the folder if it is not there, and clears away what a process that was killed left behind.
  Status prepare();
  /// Of what is in the folder, the checkpoints after `step` are of an earlier run that this one, which begins
  /// there, does not go on from. They are removed when the first of this run is whole, so that its own are
  /// the newest from then on. `newest` gets the last of them; 0: there are none.
  Status replaceLater(uint64_t step, uint64_t &newest);
  /// Takes the states, and writes them while the caller goes on. Waits for the checkpoint before, whose
  /// failure it returns.
  Status save(uint64_t step, const std::string &notes);
  /// The failure of the checkpoint that is being written, if it is known by now.
  Status look() const;
  /// Waits until the checkpoint is whole.
  Status finish();
  /// The last that is whole, as this process knows; 0: none.
  uint64_t lastStep() const { return last; }

private:
  void write(uint64_t step, const std::string &notes, const RankParts &given, RankParts taken);
  Status writeAll(uint64_t step, const std::string &notes, const RankParts &given, RankParts taken);
  Status publish(uint64_t step);
  void prune(uint64_t written) const;

  Session &session;
  const std::string folder;
  const uint64_t keep;
  bool replacesLater = false;
  std::thread writer;
  std::atomic<bool> ended{true};
  std::atomic<bool> leaving{false}; ///< waits for other processes a few seconds only
  uint64_t writing = 0;             ///< the step of what `writer` writes
  std::atomic<uint64_t> last{0};
  Status outcome; ///< read when `ended`
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_TRAINING_CHECKPOINT_H
