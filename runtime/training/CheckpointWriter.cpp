// Each process writes the files of its own ranks; the first waits for all of them, writes the manifest and
// gives the checkpoint its name. What processes tell each other lies in the folder, which all must see, so
// that no step waits.
#include "runtime/training/Checkpoint.h"
#include "runtime/training/CheckpointFolder.h"

#include "colossal/Plan/OutputFile.h"

#include <nlohmann/json.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <unistd.h>

namespace colossal::runtime {

namespace {

using nlohmann::json;

/// Between looks at what other processes have written; and how many there are when the run has failed: 5 s.
constexpr std::chrono::milliseconds betweenLooks(5);
constexpr int lastWaits = 1000;

std::string fileName(uint32_t rank) {
  char name[48];
  std::snprintf(name, sizeof name, "rank-%05u.safetensors", rank);
  return name;
}

std::string partName(const plan::State &state, size_t part) {
  return part == 0 ? state.name() : state.name() + "@" + std::to_string(part);
}

std::vector<uint64_t> shapeOf(const plan::Binding &binding) {
  return {binding.shape().begin(), binding.shape().end()};
}

std::string digestOf(XXH3_state_t &hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&hash));
  std::string text;
  for (unsigned char byte : canonical.digest) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  return text;
}

bool isWhole(const StateBox &box) {
  for (const StateBox::Dim &dim : box.dims)
    if (dim.start != 0 || dim.valid != dim.global)
      return false;
  return true;
}

/// Writes the file of one rank. What the manifest says of it goes into `about`.
Status writeRank(const std::string &folder, uint32_t rank, const plan::Plan &plan,
                 const google::protobuf::RepeatedPtrField<plan::Binding> &bindings,
                 std::vector<StatePart> parts, json &about) {
  std::vector<SafetensorsTensor> tensors;
  json held = json::array();
  std::map<uint32_t, size_t> counts;
  for (const StatePart &part : parts) {
    const plan::Binding &binding = bindings.Get(static_cast<int>(part.state));
    const std::string name = partName(plan.states(static_cast<int>(part.state)), counts[part.state]++);
    std::vector<uint64_t> shape;
    json dims = json::array();
    for (const StateBox::Dim &dim : part.box.dims) {
      shape.push_back(dim.valid);
      dims.push_back({dim.global, dim.start, dim.valid});
    }
    held.push_back({{"state", part.state}, {"tensor", name}, {"box", dims}});
    tensors.push_back({name, binding.type(), isWhole(part.box) ? shapeOf(binding) : shape});
  }
  const std::string name = fileName(rank), path = folder + "/" + name;
  std::string header = safetensorsHeader(tensors, {{"format", "pt"}});
  XXH3_state_t hash;
  XXH3_INITSTATE(&hash);
  XXH3_128bits_reset(&hash);
  uint64_t bytes = 0;
  COLOSSAL_RETURN_IF_ERROR(plan::replaceFile(path, [&](int descriptor) -> Status {
    const auto put = [&](const std::string &text) {
      XXH3_128bits_update(&hash, text.data(), text.size());
      bytes += text.size();
      return plan::writeAll(descriptor, text.data(), text.size(), path);
    };
    COLOSSAL_RETURN_IF_ERROR(put(header));
    for (StatePart &part : parts) {
      COLOSSAL_RETURN_IF_ERROR(put(part.bytes));
      std::string().swap(part.bytes);
    }
    return {};
  }));
  about = {{"rank", rank}, {"name", name}, {"bytes", bytes}, {"xxh3_128", digestOf(hash)}, {"parts", held}};
  return {};
}

/// Where the model's file lies, as far as the plan knows.
std::string modelOf(const Session &session) {
  const plan::Plan &plan = session.plan();
  const std::string planPath = session.files()[0];
  const std::string folder = planPath.substr(0, planPath.find_last_of('/') + 1);
  std::error_code error;
  for (const std::string &path : {folder + plan.training().model(), plan.training().model(),
                                  plan.report().model_path(), folder + plan.report().model_path()})
    if (std::filesystem::is_regular_file(path, error))
      if (auto whole = std::filesystem::canonical(path, error); !error)
        return whole.string();
  return plan.training().model().empty() ? plan.report().model_path() : plan.training().model();
}

Status readText(const std::string &path, std::string &text) {
  MappedFile file;
  COLOSSAL_RETURN_IF_ERROR(MappedFile::open(path, file));
  text.assign(reinterpret_cast<const char *>(file.data()), file.size());
  return {};
}

std::string manifestOf(const plan::Plan &plan,
                       const google::protobuf::RepeatedPtrField<plan::Binding> &bindings, uint64_t step,
                       const std::string &notes, const std::string &model,
                       const std::map<uint32_t, json> &ranks) {
  nlohmann::ordered_json manifest = {{"format", "colossal-checkpoint"},
                                     {"version", 1},
                                     {"step", step},
                                     {"optimizer", plan.training().optimizer()},
                                     {"loss", plan.training().loss()},
                                     {"model", model},
                                     {"notes", notes}};
  json files = json::array();
  std::vector<json> parts(static_cast<size_t>(plan.states_size()), json::array());
  for (const auto &[rank, about] : ranks) {
    for (const json &part : about.at("parts"))
      parts[part.at("state").get<size_t>()].push_back(
          {{"file", files.size()}, {"tensor", part.at("tensor")}, {"box", part.at("box")}});
    files.push_back(
        {{"name", about.at("name")}, {"bytes", about.at("bytes")}, {"xxh3_128", about.at("xxh3_128")}});
  }
  manifest["files"] = files;
  nlohmann::ordered_json states = nlohmann::ordered_json::array();
  for (int i = 0; i < plan.states_size(); ++i) {
    const plan::State &state = plan.states(i);
    constexpr const char *kinds[] = {"?", "parameter", "slot", "statistic"};
    nlohmann::ordered_json row = {{"name", state.name()},
                                  {"kind", kinds[state.kind()]},
                                  {"type", plan::dataTypeName(bindings.Get(i).type())},
                                  {"shape", shapeOf(bindings.Get(i))},
                                  {"parameter", state.parameter()}};
    if (!state.slot().empty())
      row["slot"] = state.slot();
    if (state.tied_size() > 0)
      row["tied"] = std::vector<std::string>(state.tied().begin(), state.tied().end());
    if (state.transposed_size() > 0)
      row["transposed"] = std::vector<std::string>(state.transposed().begin(), state.transposed().end());
    row["parts"] = parts[static_cast<size_t>(i)];
    states.push_back(std::move(row));
  }
  manifest["states"] = std::move(states);
  return manifest.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

} // namespace

CheckpointWriter::CheckpointWriter(Session &session, std::string folder, uint64_t keep)
    : session(session), folder(std::move(folder)), keep(keep) {}

CheckpointWriter::~CheckpointWriter() {
  leaving = true;
  if (!writer.joinable())
    return;
  writer.join();
  // Whoever leaves first ends all: not before the first process has made one of what all have written.
  const std::string growing = folder + "/" + growingName(writing);
  for (int wait = 0; !session.root() && outcome.ok() && wait < lastWaits; ++wait) {
    if (::access(growing.c_str(), F_OK) != 0)
      return;
    std::this_thread::sleep_for(betweenLooks);
  }
}

Status CheckpointWriter::prepare() {
  Status status;
  if (session.root()) {
    status = makeFolder(folder);
    if (status.ok())
      status = clearLeftovers(folder);
    if (status.ok() && ::access(folder.c_str(), W_OK) != 0)
      status = {Code::Io, "cannot write into folder " + folder + ": " + std::strerror(errno)};
  }
  return status;
}

Status CheckpointWriter::replaceLater(uint64_t step, uint64_t &newest) {
  newest = 0;
  replacesLater = true;
  if (!session.root())
    return {};
  std::map<uint64_t, std::string> found;
  COLOSSAL_RETURN_IF_ERROR(listCheckpoints(folder, found));
  if (!found.empty() && found.rbegin()->first > step)
    newest = found.rbegin()->first;
  return {};
}

Status CheckpointWriter::save(uint64_t step, const std::string &notes) {
  COLOSSAL_RETURN_IF_ERROR(finish());
  RankParts given, taken;
  COLOSSAL_RETURN_IF_ERROR(takeStates(session, given, taken));
  const std::string growing = folder + "/" + growingName(step);
  if (session.root()) {
    removeCheckpoint(growing);
    COLOSSAL_RETURN_IF_ERROR(makeFolder(growing));
  }
  COLOSSAL_RETURN_IF_ERROR(session.onEachRank([&](Rank &rank) -> Status {
    COLOSSAL_RETURN_IF_ERROR(rank.control().barrier());
    return ::access(growing.c_str(), F_OK) == 0
               ? Status()
               : Status(Code::Io, "there is no folder " + growing +
                                      ", which rank 0 has made: all processes must see the same files there");
  }));
  ended = false;
  writing = step;
  writer = std::thread([this, step, notes, given = std::move(given), taken = std::move(taken)]() mutable {
    write(step, notes, given, std::move(taken));
  });
  return {};
}

void CheckpointWriter::write(uint64_t step, const std::string &notes, const RankParts &given,
                             RankParts taken) {
  try {
    outcome = writeAll(step, notes, given, std::move(taken));
  } catch (const std::exception &error) {
    outcome = {Code::Internal, error.what()};
  }
  if (outcome.ok()) {
    last = step;
  } else {
    outcome = {outcome.code(),
               "the checkpoint of step " + std::to_string(step) + " cannot be written: " + outcome.message()};
    if (session.root())
      removeCheckpoint(folder + "/" + growingName(step));
  }
  ended = true;
}

Status CheckpointWriter::writeAll(uint64_t step, const std::string &notes, const RankParts &given,
                                  RankParts taken) {
  const plan::Plan &plan = session.plan();
  const google::protobuf::RepeatedPtrField<plan::Binding> *bindings = nullptr;
  for (const plan::Program &program : plan.programs())
    if (program.role() == plan::Program::SAVE)
      bindings = &program.outputs();
  const std::string growing = folder + "/" + growingName(step);
  std::map<uint32_t, json> ranks;
  // Ranks of one process write at the same time.
  std::vector<std::thread> threads;
  std::vector<Status> statuses(taken.size());
  std::vector<json> abouts(taken.size());
  size_t index = 0;
  for (auto &[rank, parts] : taken) {
    threads.emplace_back([&, index, rank = rank, parts = std::move(parts)]() mutable {
      statuses[index] = writeRank(growing, rank, plan, *bindings, std::move(parts), abouts[index]);
    });
    ++index;
  }
  for (std::thread &thread : threads)
    thread.join();
  for (const Status &status : statuses)
    COLOSSAL_RETURN_IF_ERROR(status);
  for (json &about : abouts) {
    const auto rank = about.at("rank").get<uint32_t>();
    ranks[rank] = std::move(about);
  }
  const auto aboutPath = [&](uint32_t rank) { return growing + "/" + fileName(rank) + ".json"; };
  if (!session.root()) {
    for (const auto &[rank, about] : ranks)
      COLOSSAL_RETURN_IF_ERROR(plan::writeFile(aboutPath(rank), about.dump()));
    return {};
  }
  for (const auto &[rank, parts] : given) {
    if (ranks.count(rank))
      continue;
    std::string text;
    for (int wait = 0; !readText(aboutPath(rank), text).ok(); wait += leaving ? 1 : 0) {
      // A process that fails ends all; what the others are writing is still worth a moment.
      if (wait == lastWaits)
        return {Code::Interrupted, "rank " + std::to_string(rank) + " has not written its part"};
      std::this_thread::sleep_for(betweenLooks);
    }
    ranks[rank] = json::parse(text);
    ::unlink(aboutPath(rank).c_str());
  }
  COLOSSAL_RETURN_IF_ERROR(plan::writeFile(
      growing + "/" + manifestName, manifestOf(plan, *bindings, step, notes, modelOf(session), ranks)));
  return publish(step);
}

Status CheckpointWriter::publish(uint64_t step) {
  COLOSSAL_RETURN_IF_ERROR(syncFolder(folder + "/" + growingName(step)));
  COLOSSAL_RETURN_IF_ERROR(publishCheckpoint(folder, step));
  prune(step);
  return {};
}

void CheckpointWriter::prune(uint64_t written) const {
  std::map<uint64_t, std::string> found;
  if ((keep == 0 && !replacesLater) || !listCheckpoints(folder, found).ok())
    return;
  // Later ones are of a run that this one does not go on from; the last goes first, as it is the newest.
  while (!found.empty() && found.rbegin()->first > written) {
    if (replacesLater)
      removeCheckpoint(found.rbegin()->second);
    found.erase(std::prev(found.end()));
  }
  if (keep == 0)
    return;
  while (found.size() > keep) {
    removeCheckpoint(found.begin()->second);
    found.erase(found.begin());
  }
}

Status CheckpointWriter::look() const {
  return ended ? outcome : Status();
}

Status CheckpointWriter::finish() {
  if (writer.joinable())
    writer.join();
  return std::exchange(outcome, Status());
}

} // namespace colossal::runtime
