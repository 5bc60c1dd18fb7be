// Comparison and tables.
#include "Report.h"

#include "colossal/Plan/DataType.h"
#include "runtime/device/Registry.h"
#include "runtime/execute/Session.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace colossal::runtime {

std::vector<OutputError> compareOutputs(const Tensors &got, const Tensors &want, double rtol, double atol) {
  std::vector<OutputError> errors;
  for (const auto &[name, expected] : want) {
    OutputError error;
    error.name = name;
    auto found = got.find(name);
    if (found == got.end()) {
      error.problem = "the plan has no such output";
    } else if (found->second.shape != expected.shape) {
      error.problem = "it is " + describeType(found->second) + ", expected was " + describeType(expected);
    } else if (found->second.texts != expected.texts) {
      error.problem = "its strings are others than expected";
    } else {
      std::vector<double> a = toDoubles(found->second), b = toDoubles(expected);
      double largest = 0;
      for (size_t e = 0; e < b.size(); ++e) {
        if (std::isfinite(b[e]))
          largest = std::max(largest, std::abs(b[e]));
        bool same = a[e] == b[e] || (std::isnan(a[e]) && std::isnan(b[e]));
        double difference = same ? 0 : std::abs(a[e] - b[e]);
        if (std::isnan(difference))
          difference = INFINITY;
        error.absolute = std::max(error.absolute, difference);
      }
      error.relative = error.absolute == 0 ? 0 : error.absolute / largest;
      error.pass = error.absolute <= atol + rtol * largest;
    }
    errors.push_back(std::move(error));
  }
  return errors;
}

std::string memoryText(const MemoryReport &report) {
  std::string text = "rank  kind                                  planned bytes   measured bytes\n";
  uint64_t allPlanned = 0, allMeasured = 0, planned = 0, measured = 0;
  auto line = [&](uint32_t rank, const std::string &kind, uint64_t plannedBytes, uint64_t measuredBytes) {
    char row[256];
    std::snprintf(row, sizeof row, "%4u  %-36s %14llu %16llu\n", rank, kind.substr(0, 36).c_str(),
                  static_cast<unsigned long long>(plannedBytes),
                  static_cast<unsigned long long>(measuredBytes));
    text += row;
  };
  for (size_t i = 0; i < report.rows.size(); ++i) {
    const colossal_memory_row &row = report.rows[i];
    line(row.rank, row.kind, row.planned, row.measured);
    planned += row.planned, measured += row.measured;
    if (i + 1 < report.rows.size() && report.rows[i + 1].rank == row.rank)
      continue;
    line(row.rank, "total", planned, measured);
    allPlanned += planned, allMeasured += measured;
    planned = measured = 0;
  }
  text += "all ranks: planned " + std::to_string(allPlanned) + ", measured " + std::to_string(allMeasured) +
          " bytes\n";
  text += "this process: " + std::to_string(report.processPeakAnonymous) +
          " bytes of anonymous memory above its start, at most, in load and runs\n";
  return text;
}

nlohmann::json memoryJson(const MemoryReport &report) {
  nlohmann::json ranks = nlohmann::json::array();
  for (const colossal_memory_row &row : report.rows) {
    if (ranks.empty() || ranks.back()["rank"] != row.rank)
      ranks.push_back({{"rank", row.rank}, {"kinds", nlohmann::json::array()}});
    ranks.back()["kinds"].push_back(
        {{"kind", row.kind}, {"planned", row.planned}, {"measured", row.measured}});
  }
  return {{"ranks", ranks}, {"process_peak_anonymous_bytes", report.processPeakAnonymous}};
}

nlohmann::json devicesJson(const std::vector<colossal_device_row> &rows) {
  nlohmann::json devices = nlohmann::json::array();
  for (const colossal_device_row &row : rows) {
    devices.push_back({{"rank", row.rank}, {"device", row.device}, {"emulated", row.emulated != 0}});
    if (row.emulated)
      devices.back()["ptx_instructions"] = row.emulated_instructions;
  }
  return devices;
}

/// Of each kind that this program has.
static std::vector<std::pair<std::string, Inventory>> inventories() {
  std::vector<std::pair<std::string, Inventory>> all;
  for (const std::string &kind : deviceKinds()) {
    std::unique_ptr<Driver> driver;
    if (openDriver(kind, driver).ok())
      all.emplace_back(kind, driver->inventory());
  }
  return all;
}

constexpr const char *emulationNote = "executed by emulation; unseen on hardware";

std::string inventoryText() {
  std::string text;
  for (const auto &[kind, inventory] : inventories()) {
    text += kind + ":\n";
    for (const auto &[name, version] : inventory.versions)
      text += "  " + name + ": " + version + "\n";
    for (const std::string &found : inventory.found)
      text += "  " + found + "\n";
    for (const std::string &missing : inventory.missing)
      text += "  missing: " + missing + "\n";
    if (inventory.emulated)
      text += std::string("  ") + emulationNote + "\n";
  }
  return text;
}

nlohmann::json inventoryJson() {
  nlohmann::json kinds = nlohmann::json::array();
  for (const auto &[kind, inventory] : inventories()) {
    nlohmann::json versions = nlohmann::json::object();
    for (const auto &[name, version] : inventory.versions)
      versions[name] = version;
    kinds.push_back({{"kind", kind},
                     {"versions", versions},
                     {"found", inventory.found},
                     {"missing", inventory.missing},
                     {"emulated", inventory.emulated}});
    if (inventory.emulated)
      kinds.back()["note"] = emulationNote;
  }
  return {{"devices", kinds}};
}

std::string bindingsText(const plan::Plan &plan) {
  std::string text;
  for (const plan::Program &program : plan.programs()) {
    if (program.role() != plan::Program::INFER && program.role() != plan::Program::STEP)
      continue;
    text += "program '" + program.name() + "' takes\n" + describeInputs(program) + "and gives\n";
    for (const plan::Binding &binding : program.outputs())
      text += "  " + binding.name() + ": " +
              describeType(binding.type(), {binding.shape().begin(), binding.shape().end()}) + "\n";
  }
  return text;
}

template <class Bindings>
static nlohmann::json describe(const Bindings &bindings) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto &binding : bindings)
    list.push_back({{"name", binding.name()},
                    {"type", plan::dataTypeName(binding.type())},
                    {"shape", std::vector<uint64_t>(binding.shape().begin(), binding.shape().end())}});
  return list;
}

nlohmann::json bindingsJson(const plan::Plan &plan) {
  nlohmann::json programs = nlohmann::json::array();
  for (const plan::Program &program : plan.programs())
    if (program.role() == plan::Program::INFER || program.role() == plan::Program::STEP)
      programs.push_back({{"name", program.name()},
                          {"inputs", describe(program.inputs())},
                          {"fixed_inputs", describe(program.fixed_inputs())},
                          {"outputs", describe(program.outputs())}});
  return {{"programs", programs}};
}

Status planJson(const plan::Plan &plan, std::string &text) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  auto status = google::protobuf::util::MessageToJsonString(plan, &text, options);
  return status.ok() ? Status()
                     : Status(Code::Internal, "the plan cannot be told as JSON: " + status.ToString());
}

} // namespace colossal::runtime
