// The one flag that ends all ranks of a process: the first failure is kept, and every wait in the runtime
// looks here.
#ifndef COLOSSAL_RUNTIME_EXECUTE_ABORT_H
#define COLOSSAL_RUNTIME_EXECUTE_ABORT_H

#include "colossal/Plan/Status.h"

#include <atomic>
#include <chrono>
#include <mutex>

namespace colossal::runtime {

using plan::Code;
using plan::Status;

class Abort {
public:
  bool raised() const { return flag.load(std::memory_order_acquire); }
  /// Keeps `status` if it is the first; later ones are consequences. A queue that fails does not know whose
  /// it is: its rank may raise the same error again, with the rank and the instruction.
  void raise(Status status) {
    std::lock_guard<std::mutex> lock(mutex);
    if (flag.load(std::memory_order_relaxed)) {
      if (first.rank() < 0 && first.message() == status.message())
        first = std::move(status);
      return;
    }
    first = std::move(status);
    flag.store(true, std::memory_order_release);
  }
  Status status() const {
    std::lock_guard<std::mutex> lock(mutex);
    return first;
  }
  /// Longest that one wait for another rank may last.
  std::atomic<std::chrono::milliseconds> timeout{std::chrono::milliseconds(600000)};

private:
  std::atomic<bool> flag{false};
  mutable std::mutex mutex;
  Status first;
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_EXECUTE_ABORT_H
