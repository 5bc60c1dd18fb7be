// Which use of device memory is ordered after which: vector clocks over ranges of addresses.
//
// Each stream counts what is enqueued on it, and knows of each other stream up to which count it waits for
// it. Two uses of a byte, one of them a write, are in order if the later one knows of the earlier. What the
// calls order counts, not when the work happened to run.
#ifndef COLOSSAL_EMULATION_DRIVER_ORDER_H
#define COLOSSAL_EMULATION_DRIVER_ORDER_H

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace colossal::cuda {

/// Bytes [begin, end) of device memory.
struct Access {
  std::uint64_t begin = 0, end = 0;
  bool write = false;
};
using Accesses = std::vector<Access>;

/// By actor: how much of its work is known to be before.
class Clock {
public:
  std::uint32_t of(unsigned actor) const { return actor < counts.size() ? counts[actor] : 0; }
  void set(unsigned actor, std::uint32_t count) {
    if (actor >= counts.size())
      counts.resize(actor + 1);
    counts[actor] = count;
  }
  void merge(const Clock &other) {
    for (unsigned actor = 0; actor < other.counts.size(); ++actor)
      if (other.counts[actor] > of(actor))
        set(actor, other.counts[actor]);
  }

private:
  std::vector<std::uint32_t> counts;
};

class Order {
public:
  /// Notes that `actor` made the accesses as its work number clock.of(actor), `what` in words. Returns what
  /// is wrong, or an empty text. Not for several threads at once.
  std::string touch(const Accesses &accesses, unsigned actor, const Clock &clock, const std::string &what);
  /// Forgets what was done with [begin, end): it is other memory from now on.
  void forget(std::uint64_t begin, std::uint64_t end);

private:
  struct Use {
    unsigned actor = 0;
    std::uint32_t count = 0; ///< 0: none
    std::shared_ptr<const std::string> what;
  };
  struct Segment {
    std::uint64_t end = 0;
    Use write;
    std::vector<Use> reads; ///< since the write, one of each actor
  };
  using Segments = std::map<std::uint64_t, Segment>; // by begin; they do not overlap
  /// Makes `at` a border between segments.
  void split(std::uint64_t at);

  Segments segments;
};

} // namespace colossal::cuda

#endif
