// step-N: whole. step-N.replaced: whole, and on its way out. .step-N.growing, .*.removed: rubbish when nobody
// writes.
#include "runtime/training/CheckpointFolder.h"

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace colossal::runtime {

namespace {

namespace fs = std::filesystem;

constexpr const char *prefix = "step-", *replaced = ".replaced", *growing = ".growing", *removed = ".removed";

Status failure(const std::string &what, const std::string &path) {
  return {errno == ENOENT ? Code::NotFound : Code::Io, what + " " + path + ": " + std::strerror(errno)};
}

bool endsWith(const std::string &text, const std::string &end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

/// The step of a whole checkpoint's name; false where it is none.
bool stepOf(std::string name, uint64_t &step, bool &isReplaced) {
  isReplaced = endsWith(name, replaced);
  if (isReplaced)
    name.resize(name.size() - std::strlen(replaced));
  const size_t skip = std::strlen(prefix);
  if (name.compare(0, skip, prefix) != 0 || name.size() == skip)
    return false;
  const auto [end, error] = std::from_chars(name.data() + skip, name.data() + name.size(), step);
  return error == std::errc() && end == name.data() + name.size();
}

} // namespace

std::string checkpointName(uint64_t step) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%08llu", static_cast<unsigned long long>(step));
  return std::string(prefix) + digits;
}

std::string growingName(uint64_t step) {
  return "." + checkpointName(step) + growing;
}

Status listCheckpoints(const std::string &folder, std::map<uint64_t, std::string> &found) {
  found.clear();
  std::error_code error;
  std::map<uint64_t, bool> isOld;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    uint64_t step = 0;
    bool old = false;
    const std::string name = entry->path().filename().string();
    if (!stepOf(name, step, old) || ::access((folder + "/" + name + "/" + manifestName).c_str(), F_OK) != 0)
      continue;
    if (found.count(step) && old)
      continue;
    found[step] = folder + "/" + name;
  }
  if (error)
    return {error == std::errc::no_such_file_or_directory ? Code::NotFound : Code::Io,
            "cannot read folder " + folder + ": " + error.message()};
  return {};
}

std::string runFolder(const std::string &path) {
  if (::access((path + "/" + manifestName).c_str(), F_OK) != 0)
    return path;
  std::string above = (fs::path(path) / "..").lexically_normal().string();
  if (above.size() > 1 && above.back() == '/')
    above.pop_back();
  return above;
}

Status publishCheckpoint(const std::string &folder, uint64_t step) {
  const std::string from = folder + "/" + growingName(step), to = folder + "/" + checkpointName(step),
                    aside = to + replaced;
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0)
    return syncFolder(folder);
  const bool isThere = errno == EEXIST || ::access(to.c_str(), F_OK) == 0;
  if (!isThere) { // a file system without such moves
    if (::rename(from.c_str(), to.c_str()) != 0)
      return failure("cannot rename to", to);
    return syncFolder(folder);
  }
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
    COLOSSAL_RETURN_IF_ERROR(syncFolder(folder));
    removeCheckpoint(from);
    return {};
  }
  if (::access(aside.c_str(), F_OK) == 0)
    removeCheckpoint(aside);
  if (::rename(to.c_str(), aside.c_str()) != 0)
    return failure("cannot rename", to);
  COLOSSAL_RETURN_IF_ERROR(syncFolder(folder));
  if (::rename(from.c_str(), to.c_str()) != 0)
    return failure("cannot rename to", to);
  COLOSSAL_RETURN_IF_ERROR(syncFolder(folder));
  removeCheckpoint(aside);
  return {};
}

void removeCheckpoint(const std::string &path) {
  const size_t slash = path.rfind('/');
  std::string name = path.substr(slash + 1);
  while (!name.empty() && name[0] == '.')
    name.erase(0, 1);
  const std::string away = path.substr(0, slash) + "/." + name + removed;
  std::error_code ignored;
  fs::remove_all(away, ignored);
  if (::rename(path.c_str(), away.c_str()) == 0)
    fs::remove_all(away, ignored);
}

Status clearLeftovers(const std::string &folder) {
  std::error_code error, ignored;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool ours = name.compare(0, 1 + std::strlen(prefix), std::string(".") + prefix) == 0;
    if (ours && (endsWith(name, growing) || endsWith(name, removed)))
      fs::remove_all(entry->path(), ignored);
  }
  return error ? Status(Code::Io, "cannot read folder " + folder + ": " + error.message()) : Status();
}

Status makeFolder(const std::string &path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error || !fs::is_directory(path, error))
    return {Code::Io,
            "cannot make folder " + path + ": " + (error ? error.message() : "a file has that name")};
  return {};
}

Status syncFolder(const std::string &path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    return failure("cannot open folder", path);
  const bool synced = ::fsync(descriptor) == 0 || errno == EINVAL; // not every file system can
  Status status = synced ? Status() : failure("cannot write folder", path);
  ::close(descriptor);
  return status;
}

} // namespace colossal::runtime
