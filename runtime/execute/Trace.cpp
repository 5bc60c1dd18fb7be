// Trace events in the Chrome trace format: complete events ("X"), microseconds, one process per rank, one
// thread per queue.
#include "runtime/execute/Trace.h"

#include "runtime/validate/Validate.h"

#include <nlohmann/json.hpp>

namespace colossal::runtime {

std::string Trace::json(const plan::Plan &plan, uint32_t rank, uint32_t queue) const {
  using nlohmann::json;
  auto text = [](const json &value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); };
  std::string list;
  list += text({{"ph", "M"},
                {"name", "process_name"},
                {"pid", rank},
                {"args", {{"name", "rank " + std::to_string(rank)}}}});
  list += ",\n" + text({{"ph", "M"},
                        {"name", "thread_name"},
                        {"pid", rank},
                        {"tid", queue},
                        {"args", {{"name", queue == 0 ? "compute" : "communicate"}}}});
  for (const Span &span : spans) {
    std::string name = instructionKind(*span.instruction);
    if (span.instruction->has_launch())
      name = plan.kernels(static_cast<int>(span.instruction->launch().kernel())).symbol();
    list += ",\n" + text({{"ph", "X"},
                          {"name", name},
                          {"cat", instructionKind(*span.instruction)},
                          {"pid", rank},
                          {"tid", queue},
                          {"ts", static_cast<double>(span.begin) / 1000},
                          {"dur", static_cast<double>(span.end - span.begin) / 1000},
                          {"args", {{"from", span.instruction->source()}}}});
  }
  return list;
}

std::string traceFile(const std::vector<std::string> &lists) {
  std::string text = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  bool first = true;
  for (const std::string &list : lists) {
    if (list.empty())
      continue;
    text += (first ? "" : ",\n") + list;
    first = false;
  }
  return text + "\n]}\n";
}

} // namespace colossal::runtime
