// The directory at a .zip archive's end (PKWARE's APPNOTE, sections 4.3 and 4.5.3).
#include "runtime/io/StoredEntries.h"

#include <algorithm>
#include <cstring>

namespace colossal::runtime {

namespace {

/// Little-endian integers at places of an archive; 0 outside, with `inside` cleared.
class Bytes {
public:
  explicit Bytes(std::string_view all) : all(all) {}
  bool inside = true;

  template <class T>
  uint64_t at(uint64_t place) {
    T value = 0;
    if (place > all.size() || sizeof(T) > all.size() - place)
      inside = false;
    else
      std::memcpy(&value, all.data() + place, sizeof value);
    return value;
  }

private:
  std::string_view all;
};

constexpr uint32_t endSignature = 0x06054b50, end64Signature = 0x06064b50, locatorSignature = 0x07064b50,
                   entrySignature = 0x02014b50, localSignature = 0x04034b50;

/// Where the directory begins, and how many entries it has.
bool findDirectory(std::string_view archive, Bytes &bytes, uint64_t &place, uint64_t &count) {
  constexpr uint64_t endSize = 22, longestComment = 0xffff;
  if (archive.size() < endSize)
    return false;
  const uint64_t last = archive.size() - endSize, first = last - std::min(last, longestComment);
  for (uint64_t end = last + 1; end-- > first;) {
    if (bytes.at<uint32_t>(end) != endSignature)
      continue;
    count = bytes.at<uint16_t>(end + 10);
    place = bytes.at<uint32_t>(end + 16);
    if (count != 0xffff && place != 0xffffffff)
      return true;
    if (end < 20 || bytes.at<uint32_t>(end - 20) != locatorSignature)
      return false;
    const uint64_t end64 = bytes.at<uint64_t>(end - 20 + 8);
    if (bytes.at<uint32_t>(end64) != end64Signature)
      return false;
    count = bytes.at<uint64_t>(end64 + 32);
    place = bytes.at<uint64_t>(end64 + 48);
    return bytes.inside;
  }
  return false;
}

} // namespace

bool listStoredEntries(std::string_view archive, std::vector<StoredEntry> &entries) {
  entries.clear();
  Bytes bytes(archive);
  uint64_t place = 0, count = 0;
  if (!findDirectory(archive, bytes, place, count))
    return false;
  for (uint64_t e = 0; e < count; ++e) {
    if (bytes.at<uint32_t>(place) != entrySignature)
      return false;
    const uint64_t flags = bytes.at<uint16_t>(place + 8), method = bytes.at<uint16_t>(place + 10),
                   nameBytes = bytes.at<uint16_t>(place + 28), extraBytes = bytes.at<uint16_t>(place + 30),
                   commentBytes = bytes.at<uint16_t>(place + 32);
    uint64_t packed = bytes.at<uint32_t>(place + 20), size = bytes.at<uint32_t>(place + 24),
             local = bytes.at<uint32_t>(place + 42);
    if (!bytes.inside || method != 0 || (flags & 1) || nameBytes > archive.size() - place - 46)
      return false;
    StoredEntry entry;
    entry.name = archive.substr(place + 46, nameBytes);
    // What does not fit in 32 bits stands in an extra field, in this order.
    for (uint64_t extra = place + 46 + nameBytes, end = extra + extraBytes;
         extra + 4 <= end && bytes.inside;) {
      const uint64_t kind = bytes.at<uint16_t>(extra), length = bytes.at<uint16_t>(extra + 2);
      uint64_t value = extra + 4;
      for (uint64_t *number : {&size, &packed, &local})
        if (kind == 1 && *number == 0xffffffff) {
          *number = bytes.at<uint64_t>(value);
          value += 8;
        }
      extra += 4 + length;
    }
    if (bytes.at<uint32_t>(local) != localSignature)
      return false;
    entry.offset = local + 30 + bytes.at<uint16_t>(local + 26) + bytes.at<uint16_t>(local + 28);
    entry.bytes = size;
    if (!bytes.inside || size != packed || entry.offset > archive.size() ||
        size > archive.size() - entry.offset)
      return false;
    entries.push_back(std::move(entry));
    place += 46 + nameBytes + extraBytes + commentBytes;
  }
  return true;
}

} // namespace colossal::runtime
