// Algorithms of the vendor's libraries that were timed here once, kept in a file for later processes.
//
// An entry holds for one kind of GPU, one driver and one version of one library, which the file's name says;
// with other ones it is as if there were none.
#ifndef COLOSSAL_RUNTIME_CUDA_ALGORITHMS_H
#define COLOSSAL_RUNTIME_CUDA_ALGORITHMS_H

#include "runtime/cuda/Gpu.h"

#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace colossal::runtime {

class Algorithms {
public:
  /// Numbers that name an algorithm to its library.
  using Words = std::vector<uint64_t>;

  /// Those of the file, which all ranks of the process share: in $COLOSSAL_CACHE, or else in
  /// $XDG_CACHE_HOME/colossal or ~/.cache/colossal. A file that is damaged counts as empty. `library` is its
  /// name and version: "cublaslt-13.0.2".
  static Algorithms &of(const CudaLibrary &driver, const Gpu &gpu, const std::string &library);

  /// What is known for a call, described in words that are equal for equal ones.
  std::optional<Words> find(const std::string &call);
  /// Keeps it, and writes the file: beside the old one and renamed, with what other processes have added.
  /// Where the folder cannot be written, it lives as long as the process.
  void add(const std::string &call, const Words &algorithm, double seconds);

private:
  struct Entry {
    Words algorithm;
    double seconds = 0;
  };
  explicit Algorithms(std::string path) : path(std::move(path)) { read(); }
  void read();
  void write() const;

  const std::string path; // empty: there is no folder for it
  std::mutex mutex;
  std::map<std::string, Entry> entries;
};

/// Whether what nobody has timed is timed at its first call: on hardware, unless COLOSSAL_TUNE=0 says
/// otherwise; under emulation where COLOSSAL_TUNE=1 does.
bool timesAlgorithms(const Gpu &gpu);

/// Seconds that one run takes on the GPU: `enqueue` is called once, and then a few times between two events.
/// The stream is waited for.
template <class Enqueue>
Status timeAlgorithm(const CudaLibrary &driver, cuda::Stream stream, const Enqueue &enqueue,
                     double &seconds) {
  constexpr int timedRuns = 3;
  struct Events {
    const CudaLibrary &driver;
    cuda::Event begin = nullptr, end = nullptr;
    ~Events() {
      for (cuda::Event event : {begin, end})
        if (event)
          (void)driver->cuEventDestroy_v2(event);
    }
  } events{driver};
  COLOSSAL_CUDA_CALL(driver, cuEventCreate, &events.begin, cuda::EventDefault);
  COLOSSAL_CUDA_CALL(driver, cuEventCreate, &events.end, cuda::EventDefault);
  COLOSSAL_RETURN_IF_ERROR(enqueue());
  COLOSSAL_CUDA_CALL(driver, cuEventRecord, events.begin, stream);
  for (int run = 0; run < timedRuns; ++run)
    COLOSSAL_RETURN_IF_ERROR(enqueue());
  COLOSSAL_CUDA_CALL(driver, cuEventRecord, events.end, stream);
  COLOSSAL_CUDA_CALL(driver, cuEventSynchronize, events.end);
  float milliseconds = 0;
  COLOSSAL_CUDA_CALL(driver, cuEventElapsedTime, &milliseconds, events.begin, events.end);
  seconds = static_cast<double>(milliseconds) * 1e-3 / timedRuns;
  return {};
}

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_CUDA_ALGORITHMS_H
