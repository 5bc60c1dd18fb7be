// What a session tells of its ranks: memory, devices, what they sent, and when each did what.
#include "runtime/execute/SessionCore.h"

#include "colossal/Plan/Traffic.h"

#include <nlohmann/json.hpp>

namespace colossal::runtime {

static const char *lifeName(plan::Arena::Life life) {
  constexpr const char *names[] = {"?", "weights", "state", "activations", "io", "workspace"};
  return names[life];
}

Status Session::memory(std::vector<RankMemory> &report) {
  using nlohmann::json;
  std::vector<std::string> texts;
  for (const std::unique_ptr<Rank> &rank : core->ranks) {
    json rows = json::array();
    const auto &arenas = *rank->ownStage().arenas;
    for (int arena = 0; arena < arenas.size(); ++arena)
      rows.push_back({std::string(lifeName(arenas.Get(arena).life())) + " (" + arenas.Get(arena).name() + ")",
                      arenas.Get(arena).bytes(), rank->memory().residentBytes(static_cast<uint32_t>(arena))});
    auto also = [&](const char *kind, uint64_t bytes) {
      if (bytes)
        rows.push_back({kind, bytes, bytes});
    };
    also("tile scratch", rank->deviceInfo().scratchBytes());
    also("library", rank->libraryBytes());
    // A communicator that stages holds what the plan states; plans of before state nothing.
    if (const uint64_t staging = rank->stagingBytes())
      rows.push_back(
          {"staging",
           std::max<uint64_t>(staging, plan().staging_bytes() + plan::waitingBytes(rank->ownStage())),
           staging});
    texts.push_back(rows.dump());
  }
  COLOSSAL_RETURN_IF_ERROR(core->gather(texts));
  report.clear();
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    RankMemory memory;
    memory.rank = static_cast<uint32_t>(rank);
    for (const json &row : json::parse(texts[rank]))
      memory.rows.push_back({row[0], row[1], row[2]});
    report.push_back(std::move(memory));
  }
  return {};
}

Status Session::devices(std::vector<RankDevice> &report) {
  using nlohmann::json;
  std::vector<std::string> texts;
  for (const std::unique_ptr<Rank> &rank : core->ranks) {
    const DeviceDescription device = rank->deviceInfo().describe();
    texts.push_back(json{device.name, device.emulated, device.emulatedInstructions}.dump(
        -1, ' ', false, json::error_handler_t::replace));
  }
  COLOSSAL_RETURN_IF_ERROR(core->gather(texts));
  report.clear();
  for (uint32_t rank = 0; rank < texts.size(); ++rank) {
    const json row = json::parse(texts[rank]);
    report.push_back({rank, row[0], row[1], row[2]});
  }
  return {};
}

Status Session::traffic(int program, std::vector<RankTraffic> &report) {
  using nlohmann::json;
  std::vector<std::string> texts;
  for (const std::unique_ptr<Rank> &rank : core->ranks) {
    json rows = json::array();
    for (const auto &[key, bytes] : rank->lastTraffic())
      rows.push_back(json::array({key.first, key.second, bytes}));
    texts.push_back(rows.dump(-1, ' ', false, json::error_handler_t::replace));
  }
  COLOSSAL_RETURN_IF_ERROR(core->gather(texts));
  report.clear();
  const uint64_t shortAllReduce = core->ranks[0]->shortAllReduce();
  for (uint32_t rank = 0; rank < texts.size(); ++rank) {
    plan::Traffic planned;
    COLOSSAL_RETURN_IF_ERROR(
        plan::programTraffic(plan(), plan().programs(program), rank, planned, shortAllReduce));
    std::map<std::pair<std::string, std::string>, RankTraffic> rows;
    for (const auto &[key, bytes] : planned)
      rows[key].planned = bytes;
    for (const json &row : json::parse(texts[rank]))
      rows[{row[0].get<std::string>(), row[1].get<std::string>()}].sent = row[2].get<uint64_t>();
    const plan::StageView &own = plan::stageOf(core->shared.stages, rank);
    int stage = own.text ? static_cast<int>(own.index) : -1;
    const std::vector<int64_t> coordinates = own.positionOf(rank).coordinates;
    for (size_t axis = 0; axis < coordinates.size() && !own.text; ++axis)
      if (own.mesh->axes(static_cast<int>(axis)).name() == "stage")
        stage = static_cast<int>(coordinates[axis]);
    for (auto &[key, row] : rows)
      if (row.sent || row.planned)
        report.push_back({rank, stage, key.first, key.second, row.sent, row.planned});
  }
  return {};
}

void Session::record(bool on) {
  core->shared.trace = on;
  for (const std::unique_ptr<Rank> &rank : core->ranks)
    rank->forgetTrace();
}

Status Session::timeline(Timeline &timeline) {
  std::vector<std::string> recorded;
  for (const std::unique_ptr<Rank> &rank : core->ranks)
    recorded.push_back(rank->traceBytes());
  COLOSSAL_RETURN_IF_ERROR(core->gather(recorded));
  return Timeline::unpack(plan(), recorded, timeline);
}

} // namespace colossal::runtime
