// A file that is read as memory: pages come when they are touched.
#ifndef COLOSSAL_RUNTIME_IO_MAPPEDFILE_H
#define COLOSSAL_RUNTIME_IO_MAPPEDFILE_H

#include "colossal/Plan/Status.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace colossal::runtime {

using plan::Code;
using plan::Status;

class MappedFile {
public:
  MappedFile() = default;
  MappedFile(MappedFile &&other) noexcept { *this = std::move(other); }
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();

  /// NotFound where there is none, Io where it is no regular file or cannot be mapped. An empty file is
  /// mapped to nothing.
  static Status open(const std::string &path, MappedFile &file);

  const std::byte *data() const { return static_cast<const std::byte *>(base); }
  uint64_t size() const { return bytes; }
  const std::string &path() const { return name; }

private:
  void *base = nullptr;
  uint64_t bytes = 0;
  std::string name;
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_IO_MAPPEDFILE_H
