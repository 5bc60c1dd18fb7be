// Waiting for an atomic word to change: spin for a while, then sleep in the kernel (futex). The one primitive
// under barriers, thread pools and queues.
#ifndef COLOSSAL_RUNTIME_EXECUTE_WAIT_H
#define COLOSSAL_RUNTIME_EXECUTE_WAIT_H

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace colossal::runtime {

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// A word that threads wait on. `changed` wakes nobody if nobody sleeps, so signalling is cheap while waiters
/// spin.
class WaitWord {
public:
  uint32_t load() const { return word.load(std::memory_order_acquire); }
  void store(uint32_t value) {
    word.store(value, std::memory_order_seq_cst);
    wake();
  }
  void increment() {
    word.fetch_add(1, std::memory_order_seq_cst);
    wake();
  }
  /// Wakes sleepers at zero only: what is counted down is waited for as a whole.
  void subtract(uint32_t amount) {
    if (word.fetch_sub(amount, std::memory_order_seq_cst) == amount)
      wake();
  }
  /// Spins `spins` times, then sleeps at most `sleepMilliseconds`, until the word is no longer `seen`.
  /// Returns whether it changed. Who has slept in vain and waits on need not spin again: see Patience.
  bool waitWhile(uint32_t seen, unsigned spins, unsigned sleepMilliseconds) {
    for (unsigned i = 0; i < spins; ++i) {
      if (load() != seen)
        return true;
      relax();
    }
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    if (word.load(std::memory_order_seq_cst) == seen) {
      timespec span = {static_cast<time_t>(sleepMilliseconds / 1000),
                       static_cast<long>(sleepMilliseconds % 1000) * 1000000};
      ::syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAIT_PRIVATE, seen, &span, nullptr, 0);
    }
    sleepers.fetch_sub(1, std::memory_order_relaxed);
    return load() != seen;
  }

private:
  void wake() {
    if (sleepers.load(std::memory_order_seq_cst) != 0)
      ::syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr,
                0);
  }
  std::atomic<uint32_t> word{0};
  std::atomic<uint32_t> sleepers{0};
};

/// How often one who waits in turns looks again before he sleeps: `spins` times while what he waits for may
/// come at once, no more when he has slept in vain. A thread that waits long for another rank thus takes
/// nothing from those that compute on the same cores.
class Patience {
public:
  explicit Patience(unsigned spins) : spins(spins) {}
  /// One turn of waiting on `word`, as WaitWord::waitWhile.
  bool waitWhile(WaitWord &word, uint32_t seen, unsigned sleepMilliseconds) {
    const bool changed = word.waitWhile(seen, spins, sleepMilliseconds);
    if (!changed)
      spins = 0;
    return changed;
  }

private:
  unsigned spins;
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_EXECUTE_WAIT_H
