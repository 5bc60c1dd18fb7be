// The file: {"algorithms": {"f32 1 x [32,768] ...": {"algorithm": [numbers], "seconds": 1e-5}}}.
#include "runtime/cuda/Algorithms.h"

#include <nlohmann/json.hpp>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <unistd.h>

namespace colossal::runtime {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

/// Empty where nothing says.
fs::path cacheFolder() {
  if (std::string own = variable("COLOSSAL_CACHE"); !own.empty())
    return own;
  if (std::string shared = variable("XDG_CACHE_HOME"); !shared.empty())
    return fs::path(shared) / "colossal";
  if (std::string home = variable("HOME"); !home.empty())
    return fs::path(home) / ".cache" / "colossal";
  return {};
}

} // namespace

Algorithms &Algorithms::of(const CudaLibrary &driver, const Gpu &gpu, const std::string &library) {
  std::string name = library + "-cuda-" + driver.version() + "-" + gpu.architecture() + "-" + gpu.name;
  for (char &c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-' && c != '_')
      c = '-';
  const fs::path folder = cacheFolder();
  const std::string path = folder.empty() ? "" : (folder / (name + ".json")).string();
  static std::mutex mutex;
  static std::map<std::pair<std::string, std::string>, std::unique_ptr<Algorithms>> all;
  std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Algorithms> &known = all[{name, path}];
  if (!known)
    known.reset(new Algorithms(path));
  return *known;
}

void Algorithms::read() {
  if (path.empty())
    return;
  std::ifstream file(path);
  const json content = json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!content.is_object() || !content.contains("algorithms") || !content["algorithms"].is_object())
    return;
  for (const auto &[call, entry] : content["algorithms"].items()) {
    if (!entry.is_object() || !entry.contains("algorithm") || !entry["algorithm"].is_array())
      continue;
    Entry made;
    bool good = true;
    for (const json &word : entry["algorithm"])
      if (word.is_number_unsigned())
        made.algorithm.push_back(word.get<uint64_t>());
      else
        good = false;
    if (entry.contains("seconds") && entry["seconds"].is_number())
      made.seconds = entry["seconds"].get<double>();
    if (good)
      entries.try_emplace(call, made); // what was timed here stays
  }
}

std::optional<Algorithms::Words> Algorithms::find(const std::string &call) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = entries.find(call);
  return found == entries.end() ? std::nullopt : std::optional(found->second.algorithm);
}

void Algorithms::add(const std::string &call, const Words &algorithm, double seconds) {
  std::lock_guard<std::mutex> lock(mutex);
  entries[call] = {algorithm, seconds};
  read();
  write();
}

void Algorithms::write() const {
  if (path.empty())
    return;
  json all = json::object();
  for (const auto &[call, entry] : entries)
    all[call] = {{"algorithm", entry.algorithm}, {"seconds", entry.seconds}};
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  const std::string beside = path + "." + std::to_string(::getpid()) + ".tmp";
  {
    std::ofstream file(beside);
    file << json{{"algorithms", all}}.dump(1) << '\n';
    if (!file.flush()) {
      fs::remove(beside, error);
      return;
    }
  }
  fs::rename(beside, path, error);
  if (error)
    fs::remove(beside, error);
}

bool timesAlgorithms(const Gpu &gpu) {
  const std::string wanted = variable("COLOSSAL_TUNE");
  return wanted.empty() ? !gpu.emulated : wanted[0] != '0';
}

} // namespace colossal::runtime
