// Sizes that a user is told to give.
#ifndef COLOSSAL_COST_BYTESIZE_H
#define COLOSSAL_COST_BYTESIZE_H

#include <cstdint>
#include <string>

namespace colossal::cost {

/// A size as `--memory` takes it, such as "5.72GiB", and the bytes that it is read as.
struct ByteSize {
  std::string text;
  std::uint64_t bytes = 0;
};

/// The least size of three digits that is no less than `bytes`: what is said to be enough must be enough
/// after it was rounded and typed. roundUpBytes(5.712 * 2^30) is "5.72GiB". `bytes`: 0 to 2^60.
ByteSize roundUpBytes(double bytes);

/// What sizes of about `bytes` are told in: GiB, or MiB where that would be less than one.
struct ByteUnit {
  double bytes = 1;
  const char *name = "B";
  double of(double size) const { return size / bytes; }
};
ByteUnit findByteUnit(double bytes);

} // namespace colossal::cost

#endif // COLOSSAL_COST_BYTESIZE_H
