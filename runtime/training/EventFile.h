// Scalars for TensorBoard: a file of events, each framed as TensorFlow's record format has it (length, its
// checksum, bytes, their checksum).
#ifndef COLOSSAL_RUNTIME_TRAINING_EVENTFILE_H
#define COLOSSAL_RUNTIME_TRAINING_EVENTFILE_H

#include "colossal/Plan/Status.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace colossal::runtime {

using plan::Code;
using plan::Status;

/// CRC-32C (Castagnoli), reflected, as in RFC 3720.
uint32_t crc32c(std::string_view bytes);
/// A record around `bytes`.
std::string frameRecord(std::string_view bytes);

class EventFile {
public:
  EventFile() = default;
  EventFile(const EventFile &) = delete;
  EventFile &operator=(const EventFile &) = delete;
  ~EventFile();

  /// Makes the folder, and in it a file of a new name.
  Status open(const std::string &folder);
  bool isOpen() const { return descriptor >= 0; }
  /// Numbers by tag.
  Status add(uint64_t step, const std::map<std::string, double> &scalars);

private:
  Status write(const std::string &event);

  int descriptor = -1;
  std::string path;
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_TRAINING_EVENTFILE_H
