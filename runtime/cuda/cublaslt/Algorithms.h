// Algorithms of cuBLASLt that were timed here once, kept in a file for later processes.
//
// An entry holds for one kind of GPU, one driver and one version of the library, which the file's name says;
// with other ones it is as if there were none.
#ifndef COLOSSAL_RUNTIME_CUDA_CUBLASLT_ALGORITHMS_H
#define COLOSSAL_RUNTIME_CUDA_CUBLASLT_ALGORITHMS_H

#include "runtime/cuda/Gpu.h"
#include "runtime/cuda/cublaslt/Library.h"

#include <map>
#include <mutex>
#include <optional>

namespace colossal::runtime {

class Algorithms {
public:
  /// Those of the file, which all ranks of the process share: in $COLOSSAL_CACHE, or else in
  /// $XDG_CACHE_HOME/colossal or ~/.cache/colossal. A file that is damaged counts as empty.
  static Algorithms &of(const CudaLibrary &driver, const Gpu &gpu, const CublasLtLibrary &library);

  /// What is known for a contraction, described in words that are equal for equal ones.
  std::optional<cublaslt::Algorithm> find(const std::string &contraction);
  /// Keeps it, and writes the file: beside the old one and renamed, with what other processes have added.
  /// Where the folder cannot be written, it lives as long as the process.
  void add(const std::string &contraction, const cublaslt::Algorithm &algorithm, double seconds);

private:
  struct Entry {
    cublaslt::Algorithm algorithm = {};
    double seconds = 0;
  };
  explicit Algorithms(std::string path) : path(std::move(path)) { read(); }
  void read();
  void write() const;

  const std::string path; // empty: there is no folder for it
  std::mutex mutex;
  std::map<std::string, Entry> entries;
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_CUDA_CUBLASLT_ALGORITHMS_H
