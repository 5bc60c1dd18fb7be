// The wire format of Protocol Buffers, field by field: for messages that are copied byte by byte but for a
// few fields, whatever else their schema has.
#ifndef COLOSSAL_RUNTIME_IO_WIREFIELDS_H
#define COLOSSAL_RUNTIME_IO_WIREFIELDS_H

#include <cstdint>
#include <string>
#include <string_view>

namespace colossal::runtime::wire {

/// A field of a message; its texts are parts of the message that it was read from.
struct Field {
  uint32_t number = 0;
  unsigned type = 0;        ///< of the wire
  uint64_t varint = 0;      ///< wire type 0
  std::string_view payload; ///< wire type 2
  std::string_view raw;     ///< with its tag

  /// Whether it is a message, a text, bytes or packed numbers.
  bool isLengthDelimited() const { return type == 2; }
};

/// Takes a number off `rest`; false: it is damaged.
bool readVarint(std::string_view &rest, uint64_t &value);
/// Takes the next field off `rest`; false: it is damaged, or a group.
bool readField(std::string_view &rest, Field &field);

/// Appends a field of wire type 2.
void putField(uint32_t number, std::string_view payload, std::string &to);
/// Appends a field of wire type 0.
void putNumber(uint32_t number, uint64_t value, std::string &to);

} // namespace colossal::runtime::wire

#endif // COLOSSAL_RUNTIME_IO_WIREFIELDS_H
