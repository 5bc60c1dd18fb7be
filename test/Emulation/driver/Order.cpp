#include "Order.h"

#include <algorithm>

namespace colossal::cuda {

void Order::split(std::uint64_t at) {
  auto after = segments.upper_bound(at);
  if (after == segments.begin())
    return;
  auto &[begin, segment] = *std::prev(after);
  if (begin == at || segment.end <= at)
    return;
  Segment rest = segment;
  segment.end = at;
  segments.emplace(at, std::move(rest));
}

void Order::forget(std::uint64_t begin, std::uint64_t end) {
  split(begin);
  split(end);
  segments.erase(segments.lower_bound(begin), segments.lower_bound(end));
}

std::string Order::touch(const Accesses &accesses, unsigned actor, const Clock &clock,
                         const std::string &what) {
  auto name = std::make_shared<const std::string>(what);
  const Use own{actor, clock.of(actor), name};
  std::string problem;
  auto check = [&](const Use &earlier, std::uint64_t at, bool wrote, bool write) {
    if (earlier.count == 0 || clock.of(earlier.actor) >= earlier.count || !problem.empty())
      return;
    char address[32];
    std::snprintf(address, sizeof address, "0x%llx", static_cast<unsigned long long>(at));
    problem = what + (write ? " writes " : " reads ") + address + ", which " + *earlier.what +
              (wrote ? " writes" : " reads") + ", and nothing orders the two";
  };
  for (const Access &access : accesses) {
    if (access.begin >= access.end)
      continue;
    split(access.begin);
    split(access.end);
    // Segments in the range, and new ones in the gaps between them.
    std::uint64_t at = access.begin;
    auto next = segments.lower_bound(access.begin);
    while (at < access.end) {
      if (next == segments.end() || next->first > at) {
        const std::uint64_t end = next == segments.end() ? access.end : std::min(access.end, next->first);
        next = segments.emplace(at, Segment{end, {}, {}}).first;
      }
      Segment &segment = next->second;
      check(segment.write, at, true, access.write);
      if (access.write) {
        for (const Use &read : segment.reads)
          check(read, at, false, true);
        segment.reads.clear();
        segment.write = own;
      } else {
        auto known = std::find_if(segment.reads.begin(), segment.reads.end(),
                                  [&](const Use &read) { return read.actor == actor; });
        if (known == segment.reads.end())
          segment.reads.push_back(own);
        else
          *known = own;
      }
      at = segment.end;
      ++next;
    }
    if (!access.write)
      continue;
    // One segment for all that was written: what is used as a whole is kept as a whole.
    auto first = segments.lower_bound(access.begin);
    first->second.end = access.end;
    segments.erase(std::next(first), segments.lower_bound(access.end));
  }
  return problem;
}

} // namespace colossal::cuda
