// Files and standard output that are written to the last byte, or complained of.
#include "colossal/Plan/OutputFile.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <sys/stat.h>
#include <unistd.h>

namespace colossal::plan {

namespace {

Status failure(const std::string &what, const std::string &path) {
  Code code = errno == ENOENT ? Code::NotFound : Code::Io;
  return {code, what + " " + path + ": " + std::strerror(errno)};
}

std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos)
    return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// Is there something at `path` that a file must not take the place of? What stands in /dev and /proc is the
/// system's, also where it leads to a file.
bool isSpecial(const std::string &path) {
  struct stat found;
  if (path.compare(0, 5, "/dev/") == 0 || path.compare(0, 6, "/proc/") == 0)
    return true;
  return ::stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode);
}

/// The file that grows beside `path`; two processes that write the same one do not meet there.
int openBeside(const std::string &path, std::string &temporary) {
  temporary = path + ".partial" + std::to_string(::getpid());
  constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  int descriptor = ::open(temporary.c_str(), flags, 0666);
  // A process that was killed may have had this one's number.
  if (descriptor < 0 && errno == EEXIST && ::unlink(temporary.c_str()) == 0)
    descriptor = ::open(temporary.c_str(), flags, 0666);
  return descriptor;
}

Status writeInPlace(const std::string &path, std::string_view text) {
  // Opened anew, a file behind it would be written from its beginning.
  if (isStandardOutput(path)) {
    COLOSSAL_RETURN_IF_ERROR(finishStandardOutput());
    return writeAll(STDOUT_FILENO, text.data(), text.size(), path);
  }
  int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0)
    return failure("cannot write", path);
  Status status = writeAll(descriptor, text.data(), text.size(), path);
  if (::close(descriptor) != 0 && status.ok())
    status = failure("cannot write", path);
  return status;
}

} // namespace

bool isStandardOutput(const std::string &path) {
  return path == "/dev/stdout" || path == "/dev/fd/1" || path == "/proc/self/fd/1";
}

bool isSameFile(const std::string &a, const std::string &b) {
  struct stat first, second;
  return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

Status checkOutput(const std::string &path, const std::vector<std::string> &inputs) {
  for (const std::string &input : inputs)
    if (!isSpecial(path) && isSameFile(path, input))
      return {Code::InvalidArgument, "cannot write " + path + ": it is " +
                                         (path == input ? "" : "the file " + input + ", which is ") +
                                         "read here and would be lost; give another name"};
  struct stat found;
  if (::stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode))
    return {Code::InvalidArgument, "cannot write " + path + ": it is a folder; give the name of a file"};
  if (isSpecial(path)) // opening a pipe would wait for its reader
    return {};
  std::string temporary;
  int descriptor = openBeside(path, temporary);
  if (descriptor < 0)
    return failure("cannot write", path);
  ::close(descriptor);
  ::unlink(temporary.c_str());
  return {};
}

Status writeAll(int descriptor, const void *data, size_t size, const std::string &path) {
  const char *bytes = static_cast<const char *>(data);
  while (size > 0) {
    ssize_t done = ::write(descriptor, bytes, std::min<size_t>(size, 1u << 30));
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0)
      return failure("cannot write", path);
    bytes += done;
    size -= static_cast<size_t>(done);
  }
  return {};
}

Status replaceFile(const std::string &path, const std::function<Status(int descriptor)> &write) {
  if (isSpecial(path))
    return {Code::Io, "cannot write " + path + ": it is not a regular file"};
  std::string temporary;
  int descriptor = openBeside(path, temporary);
  if (descriptor < 0)
    return failure("cannot write", path);
  Status status = write(descriptor);
  if (status.ok() && ::fsync(descriptor) != 0)
    status = failure("cannot write", path);
  if (::close(descriptor) != 0 && status.ok())
    status = failure("cannot write", path);
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0)
    status = failure("cannot write", path);
  if (!status.ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  // The name itself must survive a crash too.
  int folder = ::open(folderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    (void)::fsync(folder);
    ::close(folder);
  }
  return {};
}

Status writeFile(const std::string &path, std::string_view text) {
  if (isSpecial(path))
    return writeInPlace(path, text);
  return replaceFile(path,
                     [&](int descriptor) { return writeAll(descriptor, text.data(), text.size(), path); });
}

Status finishStandardOutput() {
  errno = 0;
  std::cout.flush();
  bool failed = std::fflush(stdout) != 0;
  int why = errno;
  failed |= std::ferror(stdout) != 0 || !std::cout.good();
  if (!failed)
    return {};
  return {Code::Io, "cannot write standard output" + (why ? ": " + std::string(std::strerror(why)) : "")};
}

} // namespace colossal::plan
