// Sizes that a user is told to give.
#include "colossal/Cost/ByteSize.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace colossal::cost {

ByteUnit findByteUnit(double bytes) {
  constexpr double kMib = 1 << 20, kGib = 1 << 30;
  return bytes >= kGib ? ByteUnit{kGib, "GiB"} : ByteUnit{kMib, "MiB"};
}

ByteSize roundUpBytes(double bytes) {
  static const char *const kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  constexpr int kLargest = 4; // what --memory knows
  double unit = 1;
  int name = 0;
  for (; bytes / unit >= 1000 && name < kLargest; ++name)
    unit *= 1024;
  double value = std::max(0.0, bytes / unit);
  int decimals = name == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  double steps = std::pow(10.0, decimals);
  for (double step = std::ceil(value * steps);; ++step) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", decimals, step / steps);
    auto read = static_cast<std::uint64_t>(std::strtod(text, nullptr) * unit);
    if (static_cast<double>(read) >= bytes)
      return {std::string(text) + kUnits[name], read};
  }
}

} // namespace colossal::cost
