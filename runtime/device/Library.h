// Routines of a device's library, prepared at load: convolution today. On the CPU they are oneDNN's, in a
// plug-in that is opened when a plan first needs it.
#ifndef COLOSSAL_RUNTIME_DEVICE_LIBRARY_H
#define COLOSSAL_RUNTIME_DEVICE_LIBRARY_H

#include "colossal/Plan/Plan.pb.h"
#include "runtime/device/Device.h"

namespace colossal::runtime {

/// A call with its descriptor resolved; `run` gives it the buffers in the order of Plan.proto's LibraryCall.
class LibraryRoutine {
public:
  virtual ~LibraryRoutine() = default;
  virtual Status run(void *const *buffers) = 0;
  /// Bytes that the routine holds beside its buffers, for the account of memory.
  virtual uint64_t privateBytes() const { return 0; }
};

/// Runs tiles on the library's own threads; the arguments are ThreadPool::run's, with the number of threads.
using ParallelRunner = void (*)(unsigned threads, int64_t tiles,
                                void (*body)(void *, unsigned, int64_t, int64_t), void *context);
/// The library's, so that launches and library calls of a rank share threads instead of competing for cores.
/// Null where the library cannot be opened.
ParallelRunner libraryThreads();

/// Prepares a validated call for a rank with `threads` threads.
Status createLibraryRoutine(const plan::LibraryCall &call, unsigned threads,
                            std::unique_ptr<LibraryRoutine> &routine);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_DEVICE_LIBRARY_H
