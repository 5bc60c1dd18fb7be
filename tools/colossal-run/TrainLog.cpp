// One line a step.
#include "TrainLog.h"

#include "colossal/Plan/OutputFile.h"
#include "runtime/io/MappedFile.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace colossal::runtime {

namespace {

using nlohmann::json;

std::string format(const char *pattern, double value) {
  if (std::isnan(value))
    return "nan"; // which has a sign, too, and a meaning that does not depend on it
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

std::string duration(double seconds) {
  const auto whole = static_cast<uint64_t>(std::llround(std::max(0.0, seconds)));
  char text[64];
  if (whole >= 3600)
    std::snprintf(text, sizeof text, "%llu:%02llu:%02llu", static_cast<unsigned long long>(whole / 3600),
                  static_cast<unsigned long long>(whole / 60 % 60),
                  static_cast<unsigned long long>(whole % 60));
  else
    std::snprintf(text, sizeof text, "%llu:%02llu", static_cast<unsigned long long>(whole / 60),
                  static_cast<unsigned long long>(whole % 60));
  return text;
}

/// The lines of whole objects up to a step.
std::string linesUpTo(const MappedFile &file, uint64_t step) {
  std::string kept;
  const char *at = reinterpret_cast<const char *>(file.data()), *end = at + file.size();
  while (at != end) {
    const char *newline = static_cast<const char *>(std::memchr(at, '\n', static_cast<size_t>(end - at)));
    if (!newline)
      break;
    const json line = json::parse(at, newline, nullptr, false);
    if (line.is_object() && line.contains("step") && line["step"].is_number_unsigned() &&
        line["step"].get<uint64_t>() <= step)
      kept.append(at, newline + 1);
    at = newline + 1;
  }
  return kept;
}

} // namespace

std::string stepLine(const StepReport &report) {
  std::string line = "step " + std::to_string(report.step) + "/" + std::to_string(report.steps) + "  loss " +
                     format("%.6g", report.loss) + "  grad norm " + format("%.4g", report.gradientNorm) +
                     "  lr " + format("%.4g", report.lr);
  line += report.tokens ? "  " + format("%.4g", report.tokensPerSecond) + " tokens/s"
                        : "  " + format("%.4g", report.samplesPerSecond) + " samples/s";
  if (report.shareOfPeak > 0)
    line += "  " + format("%.1f", 100 * report.shareOfPeak) + " % of peak";
  line += "  " + format("%.0f", static_cast<double>(report.memory) / 1e6) + " MB";
  if (report.lossScale != 1)
    line += "  scale " + format("%g", report.lossScale);
  if (report.skipped > 0)
    line += "  skipped " + std::to_string(report.skipped);
  if (report.evaluationLoss)
    line += "  evaluation loss " + format("%.6g", *report.evaluationLoss);
  return line + "  " + duration(report.secondsLeft) + " left";
}

TrainLog::~TrainLog() {
  if (descriptor >= 0)
    ::close(descriptor);
}

Status TrainLog::open(const std::string &file, const std::string &eventFolder, uint64_t resumedAt) {
  if (!eventFolder.empty())
    COLOSSAL_RETURN_IF_ERROR(events.open(eventFolder));
  if (file.empty())
    return {};
  path = file;
  const bool device = path.compare(0, 5, "/dev/") == 0;
  MappedFile before;
  if (!device && resumedAt > 0 && MappedFile::open(path, before).ok()) {
    COLOSSAL_RETURN_IF_ERROR(plan::writeFile(path, linesUpTo(before, resumedAt)));
  } else if (!device) {
    COLOSSAL_RETURN_IF_ERROR(plan::writeFile(path, ""));
  }
  descriptor = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  return descriptor >= 0 ? Status() : Status(Code::Io, "cannot write " + path + ": " + std::strerror(errno));
}

Status TrainLog::add(const StepReport &report) {
  if (events.isOpen()) {
    std::map<std::string, double> scalars = {{"loss", report.loss},
                                             {"grad_norm", report.gradientNorm},
                                             {"lr", report.lr},
                                             {"tokens_per_second", report.tokensPerSecond}};
    if (report.evaluationLoss)
      scalars["evaluation_loss"] = *report.evaluationLoss;
    COLOSSAL_RETURN_IF_ERROR(events.add(report.step, scalars));
  }
  if (descriptor < 0)
    return {};
  nlohmann::ordered_json line = {{"step", report.step},
                                 {"loss", report.loss},
                                 {"grad_norm", report.gradientNorm},
                                 {"lr", report.lr},
                                 {"loss_scale", report.lossScale},
                                 {"seconds", report.seconds},
                                 {"samples", report.samples},
                                 {"tokens_per_second", report.tokensPerSecond}};
  if (report.skipped > 0)
    line["skipped"] = report.skipped;
  if (report.evaluationLoss)
    line["evaluation_loss"] = *report.evaluationLoss;
  const std::string text = line.dump() + "\n";
  return plan::writeAll(descriptor, text.data(), text.size(), path);
}

} // namespace colossal::runtime
