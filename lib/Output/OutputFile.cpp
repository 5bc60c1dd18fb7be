//===- OutputFile.cpp - results that are there whole or not at all ----------===//
#include "colossal/Output/OutputFile.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace fs = std::filesystem;

namespace colossal {

/// Is there something at `path` that a file must not take the place of?
static bool isSpecial(const std::string &path) {
  std::error_code unknown;
  return fs::exists(path, unknown) && !fs::is_regular_file(path, unknown);
}

/// Where the file grows; two processes that write the same one do not meet there.
static std::string getTemporary(const std::string &path) {
  return path + ".partial" + std::to_string(::getpid());
}

bool writeOutput(const std::string &path, const std::string &text) {
  const bool inPlace = isSpecial(path);
  const std::string target = inPlace ? path : getTemporary(path);
  std::ofstream out(target, std::ios::binary);
  out << text;
  out.close();
  if (out.good() && (inPlace || std::rename(target.c_str(), path.c_str()) == 0))
    return true;
  if (!inPlace)
    std::remove(target.c_str());
  return false;
}

bool canWriteOutput(const std::string &path) {
  std::error_code unknown;
  if (isSpecial(path)) // opening a pipe would wait for its reader
    return !fs::is_directory(path, unknown);
  const std::string target = getTemporary(path);
  bool isOpen = std::ofstream(target, std::ios::binary).is_open();
  if (isOpen)
    std::remove(target.c_str());
  return isOpen;
}

} // namespace colossal
