// Where the inputs of training steps come from: files that are mapped, and constants. A rank touches the
// samples, and of these the part, that it holds.
#ifndef COLOSSAL_RUNTIME_TRAINING_DATA_H
#define COLOSSAL_RUNTIME_TRAINING_DATA_H

#include "runtime/execute/Session.h"
#include "runtime/training/SampleOrder.h"

#include <atomic>

namespace colossal::runtime {

/// One array of samples.
class DataArray {
public:
  virtual ~DataArray() = default;
  plan::DataType type = plan::F32; ///< of the file's elements
  std::vector<uint64_t> shape;     ///< the first dimension is samples
  std::string origin;              ///< for messages: "tokens.npy"
  /// No samples, but one value everywhere.
  virtual bool isConstant() const { return false; }
  /// The file's elements [first, first + count), in native byte order.
  virtual void read(uint64_t first, uint64_t count, std::byte *elements) const = 0;
};

/// Inputs of a step that no user gives: the step values, and what takes another input's data.
std::set<std::string> getMadeInputs(const plan::Training &training);

/// What `--data` and `--evaluate-data` say, which stand before the messages of this and of DataSet:
/// NAME=FILE.npy, NAME=FILE.npz (the array of that name, or the only one), NAME=FILE.bin:TYPE,
/// NAME=fill:VALUE, or FILE.npz, whose arrays are the inputs of their names. Adds to `arrays`; `files` gets
/// the paths. `shapes`: of the program's inputs, for what has no shape of its own: a stream is cut into
/// samples of their size, the rest left over.
Status openData(const std::string &argument, const plan::Program &program, const plan::Training &training,
                std::map<std::string, std::shared_ptr<DataArray>> &arrays, std::vector<std::string> &files);

/// The data of a program: all its inputs but the step values.
class DataSet {
public:
  /// Checks that there is data for every input of `program` that `training` lists, and for no other; that
  /// types can be taken without changing a value, shapes are the inputs', all have equally many samples, and
  /// a batch at least.
  Status configure(const plan::Program &program, const plan::Training &training,
                   std::map<std::string, std::shared_ptr<DataArray>> arrays, std::optional<uint64_t> shuffle);

  /// Samples there are; 0 where all data is constant.
  uint64_t samples() const { return order.count; }
  /// Elements of a sample of the input that holds sequences of integers; 1 where none does.
  uint64_t tokensInSample() const { return tokens; }
  /// Sources that give the batch that begins with the run's sample `first()`.
  const SourcedInputs &inputs() const { return sourced; }
  /// The number of the run's first sample in the next step; see SampleOrder.
  uint64_t first() const { return begin.load(std::memory_order_relaxed); }
  void setFirst(uint64_t number) { begin.store(number, std::memory_order_relaxed); }

private:
  class Source;

  SampleOrder order;
  std::atomic<uint64_t> begin{0};
  uint64_t tokens = 1;
  SourcedInputs sourced;
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_TRAINING_DATA_H
