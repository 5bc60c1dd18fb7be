// What the tool has written down.
#ifndef COLOSSAL_EMULATION_NVTX_RECORD_H
#define COLOSSAL_EMULATION_NVTX_RECORD_H

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace colossal::nvtx {

/// Names the tool to the loaders of this process, once, and begins a record.
inline std::string beginRecord(const std::string &path) {
  std::ofstream(path).close();
  ::setenv("NVTX_INJECTION64_PATH", COLOSSAL_EMULATED_NVTX_TOOL, 1);
  ::setenv("COLOSSAL_EMULATED_NVTX_RECORD", path.c_str(), 1);
  return path;
}

/// The lines without the number of the thread.
inline std::vector<std::string> readRecord(const std::string &path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    lines.push_back(line.substr(line.find(' ') + 1));
  return lines;
}

} // namespace colossal::nvtx

#endif // COLOSSAL_EMULATION_NVTX_RECORD_H
