// Machine descriptions as JSON: read, every value checked and the place of the first mistake named, and
// printed.
#include "colossal/Cost/CheckedJson.h"
#include "colossal/Cost/Machine.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

namespace colossal::cost {

using nlohmann::json;

namespace {

constexpr std::pair<DataType, const char *> kTypes[] = {
    {DataType::F64, "f64"}, {DataType::F32, "f32"}, {DataType::TF32, "tf32"}, {DataType::BF16, "bf16"},
    {DataType::F16, "f16"}, {DataType::F8, "f8"},   {DataType::I32, "i32"},   {DataType::I8, "i8"}};

/// Walks an object and names the place of the first thing that is wrong.
class Checker {
public:
  std::string error;

  bool fail(const std::string &place, const std::string &what) {
    if (error.empty())
      error = (place.empty() ? "machine" : place) + ": " + what;
    return false;
  }
  bool object(const json &value, const std::string &place, std::initializer_list<const char *> keys) {
    if (!value.is_object())
      return fail(place, "must be an object");
    for (const auto &item : value.items())
      if (std::find_if(keys.begin(), keys.end(), [&](const char *k) { return item.key() == k; }) ==
          keys.end())
        return fail(place, "unknown key '" + item.key() + "'");
    return true;
  }
  const json *member(const json &value, const std::string &place, const char *key) {
    auto found = value.find(key);
    if (found == value.end()) {
      fail(place, std::string("'") + key + "' is missing");
      return nullptr;
    }
    return &*found;
  }
  double number(const json &value, const std::string &place, const char *key, double low, bool open,
                double high) {
    const json *entry = member(value, place, key);
    std::string where = place.empty() ? key : place + "." + key;
    if (!entry)
      return 0;
    if (!entry->is_number()) {
      fail(where, "must be a number");
      return 0;
    }
    double x = entry->get<double>();
    if (!(open ? x > low : x >= low) || !(x <= high)) {
      std::ostringstream text;
      text << "must be " << (open ? "above " : "at least ") << low << " and at most " << high << ", is " << x;
      fail(where, text.str());
      return low; // a cast of anything larger to a whole number would be undefined
    }
    return x;
  }
  std::string string(const json &value, const std::string &place, const char *key) {
    const json *entry = member(value, place, key);
    if (!entry)
      return "";
    if (!entry->is_string()) {
      fail(place.empty() ? key : place + "." + key, "must be a string");
      return "";
    }
    return entry->get<std::string>();
  }
};

constexpr double kHuge = 1e21;
/// Rings are searched for in graphs of at most so many units.
constexpr int kMaxGraphUnits = 64;

void readDevice(Checker &check, const json &value, Device &device) {
  const std::string place = "device";
  if (!check.object(value, place,
                    {"name", "peak_flops", "memory_bytes", "memory_bandwidth", "launch_seconds",
                     "compute_efficiency", "memory_efficiency", "compute_units"}))
    return;
  device.name = check.string(value, place, "name");
  if (const json *peaks = check.member(value, place, "peak_flops")) {
    if (!peaks->is_object()) {
      check.fail("device.peak_flops", "must be an object");
      return;
    }
    for (const auto &item : peaks->items()) {
      auto type =
          std::find_if(std::begin(kTypes), std::end(kTypes), [&](auto &t) { return item.key() == t.second; });
      if (type == std::end(kTypes))
        check.fail("device.peak_flops", "unknown type '" + item.key() + "'");
      else
        device.peakFlops[type->first] =
            check.number(*peaks, "device.peak_flops", type->second, 0, true, kHuge);
    }
    if (!device.peakFlops.count(DataType::F32))
      check.fail("device.peak_flops", "'f32' is missing");
  }
  device.memoryBytes = static_cast<std::int64_t>(check.number(value, place, "memory_bytes", 0, true, 1e18));
  device.memoryBandwidth = check.number(value, place, "memory_bandwidth", 0, true, kHuge);
  device.launchSeconds = check.number(value, place, "launch_seconds", 0, false, 1);
  device.computeEfficiency = check.number(value, place, "compute_efficiency", 0, true, 1);
  device.memoryEfficiency = check.number(value, place, "memory_efficiency", 0, true, 1);
  if (value.contains("compute_units"))
    device.computeUnits = static_cast<int>(check.number(value, place, "compute_units", 1, false, 1 << 20));
}

int readWhole(Checker &check, const json &value, const std::string &where, double low, double high) {
  if (!value.is_number_integer() || value.get<double>() < low || value.get<double>() > high) {
    std::ostringstream text;
    text << "must be a whole number from " << low << " to " << high;
    check.fail(where, text.str());
    return static_cast<int>(low);
  }
  return value.get<int>();
}

void readLinks(Checker &check, const json &value, const std::string &place, int units, LinkGraph &graph) {
  if (!check.object(value, place, {"bandwidth", "switches", "forward_factor", "pairs"}))
    return;
  if (units > kMaxGraphUnits) {
    check.fail(place,
               "is for at most " + std::to_string(kMaxGraphUnits) + " units; give 'bandwidth' instead");
    return;
  }
  graph.bandwidth = check.number(value, place, "bandwidth", 0, true, kHuge);
  if (value.contains("switches"))
    graph.switches = readWhole(check, value["switches"], place + ".switches", 0, kMaxGraphUnits);
  if (value.contains("forward_factor"))
    graph.forwardFactor = check.number(value, place, "forward_factor", 1, false, 1000);
  const json *pairs = check.member(value, place, "pairs");
  if (!pairs)
    return;
  if (!pairs->is_array() || pairs->empty() || pairs->size() > kMaxGraphUnits * kMaxGraphUnits) {
    check.fail(place + ".pairs", "must be an array of [from, to, links]");
    return;
  }
  for (std::size_t e = 0; e < pairs->size(); ++e) {
    const json &pair = (*pairs)[e];
    std::string where = place + ".pairs[" + std::to_string(e) + "]";
    if (!pair.is_array() || pair.size() != 3) {
      check.fail(where, "must be [from, to, links]");
      return;
    }
    graph.edges.push_back({readWhole(check, pair[0], where + "[0]", 0, 2 * kMaxGraphUnits),
                           readWhole(check, pair[1], where + "[1]", 0, 2 * kMaxGraphUnits),
                           readWhole(check, pair[2], where + "[2]", 1, 1000)});
  }
  if (!check.error.empty())
    return;
  std::string wrong = checkGraph(graph, units, place);
  if (!wrong.empty())
    check.error = wrong;
}

void readLevels(Checker &check, const json &value, std::vector<Level> &levels) {
  if (!value.is_array() || value.empty()) {
    check.fail("levels", "must be an array of at least one level");
    return;
  }
  for (std::size_t k = 0; k < value.size(); ++k) {
    std::string place = "levels[" + std::to_string(k) + "]";
    if (!check.object(value[k], place,
                      {"name", "units", "latency_seconds", "start_seconds", "bandwidth", "adapters", "links",
                       "shared_bandwidth", "local_bandwidth", "small_step_bytes", "small_step_factor"}))
      return;
    Level &level = levels.emplace_back();
    level.name = check.string(value[k], place, "name");
    double units = check.number(value[k], place, "units", 1, false, 1 << 24);
    if (units != std::floor(units))
      check.fail(place + ".units", "must be a whole number");
    level.units = static_cast<int>(units);
    level.latencySeconds = check.number(value[k], place, "latency_seconds", 0, false, 10);
    auto optional = [&](const char *key, double &into, double low, bool open, double high) {
      if (value[k].contains(key))
        into = check.number(value[k], place, key, low, open, high);
    };
    if (value[k].contains("links")) {
      if (value[k].contains("bandwidth"))
        check.fail(place, "has both 'links' and 'bandwidth'; the second follows from the first");
      readLinks(check, value[k]["links"], place + ".links", level.units, level.links);
      if (!check.error.empty())
        return;
      std::vector<int> all(level.units);
      std::iota(all.begin(), all.end(), 0);
      level.bandwidth = measureGraph(level.links, level.units, all).ring;
    } else {
      level.bandwidth = check.number(value[k], place, "bandwidth", 0, true, kHuge);
    }
    double adapters = 1;
    optional("adapters", adapters, 1, false, 1 << 16);
    if (adapters != std::floor(adapters))
      check.fail(place + ".adapters", "must be a whole number");
    if (value[k].contains("adapters") && value[k].contains("links"))
      check.fail(place, "has both 'links' and 'adapters'");
    level.adapters = static_cast<int>(adapters);
    optional("start_seconds", level.startSeconds, 0, false, 10);
    optional("shared_bandwidth", level.sharedBandwidth, 0, true, kHuge);
    optional("local_bandwidth", level.localBandwidth, 0, true, kHuge);
    optional("small_step_bytes", level.smallStepBytes, 0, false, kHuge);
    optional("small_step_factor", level.smallStepFactor, 0, true, 1000);
  }
}

void readLink(Checker &check, const json &value, const char *key, Link &link) {
  if (!value.contains(key))
    return;
  if (!check.object(value[key], key, {"latency_seconds", "bandwidth"}))
    return;
  link.latencySeconds = check.number(value[key], key, "latency_seconds", 0, false, 10);
  link.bandwidth = check.number(value[key], key, "bandwidth", 0, true, kHuge);
}

/// The numbers of Host by their keys, in the order of printing.
struct HostKey {
  const char *key;
  double Host::*field;
  bool mayBeZero;
  double high;
};
constexpr HostKey kHostKeys[] = {{"parallel_efficiency", &Host::parallelEfficiency, false, 2},
                                 {"memory_bandwidth", &Host::memoryBandwidth, false, kHuge},
                                 {"cache_bandwidth", &Host::cacheBandwidth, false, kHuge},
                                 {"cache_bytes", &Host::cacheBytes, true, kHuge},
                                 {"element_seconds", &Host::elementSeconds, true, 1},
                                 {"fork_seconds", &Host::forkSeconds, true, 1},
                                 {"contraction_fill", &Host::contractionFill, true, 1e5},
                                 {"deep_contraction", &Host::deepContraction, false, 1e9},
                                 {"deep_factor", &Host::deepFactor, false, 100},
                                 {"convolution_fill", &Host::convolutionFill, true, 1e5},
                                 {"attention_efficiency", &Host::attentionEfficiency, false, 10},
                                 {"convolution_efficiency", &Host::convolutionEfficiency, false, 10},
                                 {"exposed_memory", &Host::exposedMemory, true, 1},
                                 {"convolution_exposed_memory", &Host::convolutionExposedMemory, true, 1}};

void readHost(Checker &check, const json &value, Host &host) {
  if (!value.is_object()) {
    check.fail("host", "must be an object");
    return;
  }
  for (const auto &item : value.items())
    if (item.key() != "cores" && std::none_of(std::begin(kHostKeys), std::end(kHostKeys),
                                              [&](const HostKey &known) { return item.key() == known.key; }))
      check.fail("host", "unknown key '" + item.key() + "'");
  if (const json *cores = check.member(value, "host", "cores"))
    host.cores = readWhole(check, *cores, "host.cores", 1, 1 << 16);
  for (const HostKey &known : kHostKeys)
    host.*known.field = check.number(value, "host", known.key, 0, !known.mayBeZero, known.high);
}

/// The value at a key such as "levels[0].links.bandwidth"; null where there is none.
const json *find(const json &value, const std::string &key) {
  const json *at = &value;
  for (std::size_t begin = 0; begin < key.size();) {
    std::size_t end = key.find_first_of(".[", begin);
    std::string part = key.substr(begin, end - begin);
    if (!part.empty()) {
      if (part.back() == ']' && at->is_array()) {
        std::size_t index = 0;
        for (char c : part.substr(0, part.size() - 1))
          index = c >= '0' && c <= '9' && index < 1000000 ? index * 10 + static_cast<std::size_t>(c - '0')
                                                          : 1000001;
        if (part.size() < 2 || index >= at->size())
          return nullptr;
        at = &(*at)[index];
      } else if (at->is_object() && at->contains(part)) {
        at = &(*at)[part];
      } else {
        return nullptr;
      }
    }
    if (end == std::string::npos)
      break;
    begin = end + 1;
  }
  return at;
}

/// {"NAME": {"value": ..., "unit": "...", "meaning": "..."}}: names, units and ranges are those of
/// `fittedConstants`. A name with a '.' is a key of the file instead, whose value stands there.
void readFitted(Checker &check, const json &file, Machine &machine) {
  const json &value = file["fitted"];
  if (!value.is_object() || value.size() > kMaxFittedConstants) {
    check.fail("fitted",
               "must be an object of at most " + std::to_string(kMaxFittedConstants) + " constants");
    return;
  }
  for (const auto &item : value.items()) {
    std::string place = "fitted." + item.key();
    if (item.key().find('.') != std::string::npos) {
      if (!check.object(item.value(), place, {"unit", "meaning", "source"}))
        return;
      const json *named = find(file, item.key());
      if (!named || !named->is_number())
        check.fail(place, "is no number of this file");
      machine.fittedKeys.push_back({item.key(), check.string(item.value(), place, "unit"),
                                    check.string(item.value(), place, "meaning"),
                                    check.string(item.value(), place, "source")});
      continue;
    }
    const auto &known = fittedConstants();
    auto info = std::find_if(known.begin(), known.end(), [&](const auto &i) { return item.key() == i.name; });
    if (info == known.end()) {
      check.fail("fitted", "unknown constant '" + item.key() + "'");
      return;
    }
    if (!check.object(item.value(), place, {"value", "unit", "meaning"}))
      return;
    double x = check.number(item.value(), place, "value", info->low, false, info->high);
    std::string unit = check.string(item.value(), place, "unit");
    if (check.error.empty() && unit != info->unit)
      check.fail(place + ".unit", std::string("must be '") + info->unit + "', is '" + unit + "'");
    check.string(item.value(), place, "meaning");
    machine.fitted.set(info->name, x);
  }
}

constexpr const char *kQuestions[] = {"step",         "best_step", "all_reduce", "layer",
                                      "stage_memory", "kernel",    "plan"};
constexpr const char *kRanges[] = {"devices", "hidden", "sequence", "bytes"};
constexpr const char *kKinds[] = {"network", "recompute", "attention", "framework", "schedule", "zero"};

void readEvidence(Checker &check, const json &value, std::vector<Evidence> &list) {
  if (!value.is_array()) {
    check.fail("evidence", "must be an array");
    return;
  }
  for (std::size_t e = 0; e < value.size(); ++e) {
    std::string place = "evidence[" + std::to_string(e) + "]";
    const json &entry = value[e];
    if (!check.object(entry, place,
                      {"table", "question", "rows", "measured", "in_sample", "mean_percent", "median_percent",
                       "memory_mean_percent", "memory_median_percent", "ranges", "kinds"}))
      return;
    Evidence &out = list.emplace_back();
    out.table = check.string(entry, place, "table");
    out.question = check.string(entry, place, "question");
    if (std::find(std::begin(kQuestions), std::end(kQuestions), out.question) == std::end(kQuestions))
      check.fail(place + ".question", "unknown: '" + out.question + "'");
    out.rows = static_cast<int>(check.number(entry, place, "rows", 1, false, 1e9));
    auto flag = [&](const char *key, bool &into) {
      if (!entry.contains(key))
        return;
      if (!entry[key].is_boolean())
        check.fail(place + "." + key, "must be true or false");
      else
        into = entry[key].get<bool>();
    };
    flag("measured", out.measured);
    flag("in_sample", out.inSample);
    out.meanPercent = check.number(entry, place, "mean_percent", 0, false, 1e9);
    out.medianPercent = check.number(entry, place, "median_percent", 0, false, 1e9);
    if (entry.contains("memory_mean_percent")) {
      out.memoryMeanPercent = check.number(entry, place, "memory_mean_percent", 0, false, 1e9);
      out.memoryMedianPercent = check.number(entry, place, "memory_median_percent", 0, false, 1e9);
    }
    for (const char *name : kRanges) {
      if (!entry.contains("ranges") || !entry["ranges"].is_object() || !entry["ranges"].contains(name))
        continue;
      const json &range = entry["ranges"][name];
      if (!range.is_array() || range.size() != 2 || !range[0].is_number() || !range[1].is_number())
        check.fail(place + ".ranges." + name, "must be [least, greatest]");
      else
        out.ranges[name] = {range[0].get<double>(), range[1].get<double>()};
    }
    for (const char *name : kKinds) {
      if (!entry.contains("kinds") || !entry["kinds"].is_object() || !entry["kinds"].contains(name))
        continue;
      const json &kinds = entry["kinds"][name];
      if (!kinds.is_array() ||
          !std::all_of(kinds.begin(), kinds.end(), [](const json &kind) { return kind.is_string(); }))
        check.fail(place + ".kinds." + name, "must be an array of strings");
      else
        out.kinds[name] = kinds.get<std::vector<std::string>>();
    }
    for (auto [key, begin, end] : {std::tuple{"ranges", std::begin(kRanges), std::end(kRanges)},
                                   std::tuple{"kinds", std::begin(kKinds), std::end(kKinds)}}) {
      if (!entry.contains(key))
        continue;
      if (!entry[key].is_object()) {
        check.fail(place + "." + key, "must be an object");
        continue;
      }
      for (const auto &item : entry[key].items())
        if (std::none_of(begin, end, [&](const char *known) { return item.key() == known; }))
          check.fail(place + "." + key, "unknown key '" + item.key() + "'");
    }
  }
}

} // namespace

const char *toString(DataType type) {
  for (auto &[known, name] : kTypes)
    if (known == type)
      return name;
  return "";
}

MachineResult parseMachine(std::string_view text) {
  MachineResult result;
  json value = json::parse(text.begin(), text.end(), nullptr, false);
  Checker check;
  if (JsonFlaw flaw = findJsonFlaw(text); !flaw.what.empty()) {
    check.fail(flaw.place, flaw.what);
  } else if (check.object(value, "",
                          {"name", "description", "target", "device", "levels", "host_link", "disk", "host",
                           "fitted", "evidence"})) {
    result.machine.name = check.string(value, "", "name");
    if (value.contains("description"))
      result.machine.description = check.string(value, "", "description");
    if (value.contains("target")) {
      result.machine.target = check.string(value, "", "target");
      if (result.machine.target != "cpu" && result.machine.target != "cuda")
        check.fail("target", "must be 'cpu' or 'cuda', is '" + result.machine.target + "'");
    } else if (value.contains("host")) {
      result.machine.target = "cpu";
    }
    if (const json *device = check.member(value, "", "device"))
      readDevice(check, *device, result.machine.device);
    if (const json *levels = check.member(value, "", "levels"))
      readLevels(check, *levels, result.machine.levels);
    readLink(check, value, "host_link", result.machine.hostLink);
    readLink(check, value, "disk", result.machine.disk);
    if (value.contains("host"))
      readHost(check, value["host"], result.machine.host.emplace());
    if (value.contains("fitted"))
      readFitted(check, value, result.machine);
    if (value.contains("evidence"))
      readEvidence(check, value["evidence"], result.machine.evidence);
    double devices = 1;
    for (const Level &level : result.machine.levels)
      devices *= level.units;
    if (devices > 1e9)
      check.fail("levels", "more than 10^9 devices");
  }
  result.error = check.error;
  return result;
}

std::string printMachine(const Machine &machine) {
  json device{{"name", machine.device.name},
              {"memory_bytes", machine.device.memoryBytes},
              {"memory_bandwidth", machine.device.memoryBandwidth},
              {"launch_seconds", machine.device.launchSeconds},
              {"compute_efficiency", machine.device.computeEfficiency},
              {"memory_efficiency", machine.device.memoryEfficiency}};
  for (const auto &[type, flops] : machine.device.peakFlops)
    device["peak_flops"][toString(type)] = flops;
  if (machine.device.computeUnits > 0)
    device["compute_units"] = machine.device.computeUnits;
  json out{{"name", machine.name}, {"description", machine.description}, {"device", device}};
  if (!machine.target.empty())
    out["target"] = machine.target;
  for (const Level &level : machine.levels) {
    json entry{{"name", level.name}, {"units", level.units}, {"latency_seconds", level.latencySeconds}};
    if (level.links.empty()) {
      entry["bandwidth"] = level.bandwidth;
    } else {
      json &links = entry["links"] = {{"bandwidth", level.links.bandwidth}, {"pairs", json::array()}};
      if (level.links.switches > 0)
        links["switches"] = level.links.switches;
      if (level.links.forwardFactor > 1)
        links["forward_factor"] = level.links.forwardFactor;
      for (const GraphEdge &edge : level.links.edges)
        links["pairs"].push_back({edge.from, edge.to, edge.count});
    }
    auto optional = [&](const char *key, double x, double absent) {
      if (x != absent)
        entry[key] = x;
    };
    optional("adapters", level.adapters, 1);
    optional("start_seconds", level.startSeconds, 0);
    optional("shared_bandwidth", level.sharedBandwidth, 0);
    optional("local_bandwidth", level.localBandwidth, 0);
    optional("small_step_bytes", level.smallStepBytes, 0);
    optional("small_step_factor", level.smallStepFactor, 1);
    out["levels"].push_back(entry);
  }
  auto link = [&](const char *key, const Link &l) {
    if (l.bandwidth > 0)
      out[key] = {{"latency_seconds", l.latencySeconds}, {"bandwidth", l.bandwidth}};
  };
  link("host_link", machine.hostLink);
  link("disk", machine.disk);
  if (machine.host) {
    json &host = out["host"] = {{"cores", machine.host->cores}};
    for (const HostKey &known : kHostKeys)
      host[known.key] = (*machine.host).*known.field;
  }
  for (const FittedConstantInfo &info : fittedConstants())
    if (auto found = machine.fitted.stated().find(info.name); found != machine.fitted.stated().end())
      out["fitted"][info.name] = {{"value", found->second}, {"unit", info.unit}, {"meaning", info.meaning}};
  for (const FittedKey &key : machine.fittedKeys)
    out["fitted"][key.key] = {{"unit", key.unit}, {"meaning", key.meaning}, {"source", key.source}};
  for (const Evidence &evidence : machine.evidence) {
    json entry{{"table", evidence.table},
               {"question", evidence.question},
               {"rows", evidence.rows},
               {"measured", evidence.measured},
               {"in_sample", evidence.inSample},
               {"mean_percent", evidence.meanPercent},
               {"median_percent", evidence.medianPercent}};
    if (evidence.memoryMeanPercent > 0) {
      entry["memory_mean_percent"] = evidence.memoryMeanPercent;
      entry["memory_median_percent"] = evidence.memoryMedianPercent;
    }
    for (const auto &[name, range] : evidence.ranges)
      entry["ranges"][name] = {range.first, range.second};
    for (const auto &[name, kinds] : evidence.kinds)
      entry["kinds"][name] = kinds;
    out["evidence"].push_back(entry);
  }
  return out.dump(2) + "\n";
}

} // namespace colossal::cost
