// The CPU's library of routines, prepared at load: convolution by oneDNN, in a plug-in that is opened when a
// plan first needs it.
#ifndef COLOSSAL_RUNTIME_CPU_LIBRARY_H
#define COLOSSAL_RUNTIME_CPU_LIBRARY_H

#include "runtime/device/Device.h"

namespace colossal::runtime {

class CpuRoutine : public Routine {
public:
  /// Runs on the calling thread and the library's; buffers are in the order of Plan.proto's LibraryCall.
  virtual Status run(void *const *buffers) = 0;
};

/// Runs tiles on the library's own threads; the arguments are ThreadPool::run's, with the number of threads.
using ParallelRunner = void (*)(unsigned threads, int64_t tiles,
                                void (*body)(void *, unsigned, int64_t, int64_t), void *context);
/// The library's, so that launches and library calls of a rank share threads instead of competing for cores.
/// Null where the library cannot be opened.
ParallelRunner libraryThreads();

/// Prepares a validated call for a rank with `threads` threads.
Status createCpuRoutine(const plan::LibraryCall &call, unsigned threads, std::unique_ptr<Routine> &routine);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_CPU_LIBRARY_H
