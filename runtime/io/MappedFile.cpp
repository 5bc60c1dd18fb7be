// Files as memory.
#include "runtime/io/MappedFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace colossal::runtime {

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(base, other.base);
  std::swap(bytes, other.bytes);
  std::swap(name, other.name);
  return *this;
}

MappedFile::~MappedFile() {
  if (base)
    ::munmap(base, bytes);
}

Status MappedFile::open(const std::string &path, MappedFile &file) {
  file = MappedFile();
  file.name = path;
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    return {errno == ENOENT ? Code::NotFound : Code::Io, "cannot open " + path + ": " + std::strerror(errno)};
  struct stat info;
  Status status;
  if (::fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    status = {Code::Io, path + " is not a regular file"};
  } else if (info.st_size > 0) {
    void *mapped = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (mapped == MAP_FAILED) {
      status = {Code::Io, "cannot map " + path + ": " + std::strerror(errno)};
    } else {
      file.base = mapped;
      file.bytes = static_cast<uint64_t>(info.st_size);
    }
  }
  ::close(descriptor);
  return status;
}

} // namespace colossal::runtime
