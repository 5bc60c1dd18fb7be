// The rule of Deadline.h, and how it is spelled on a command line.
#include "runtime/execute/Deadline.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace colossal::runtime {

namespace {

constexpr double firstRunSlack = 5;

/// Reads a number from the beginning of `text`, and says where it ends.
bool readNumber(const char *text, double least, double greatest, double &number, const char *&end) {
  char *stop = nullptr;
  number = std::strtod(text, &stop);
  end = stop;
  return stop != text && number >= least && number <= greatest;
}

} // namespace

Deadline::Span Deadline::forPredicted(double seconds, bool firstRun) const {
  if (!followsPrediction())
    return span;
  const double slack = firstRun || seconds <= 0 ? firstRunSlack : 1;
  // What a plan says is not trusted: it may predict infinity, or no number.
  const double scaled = seconds > 0 ? factor * seconds : 0;
  const double allowed = slack * (scaled > floor ? scaled : floor);
  const auto most = static_cast<double>(longest.count());
  return Span(static_cast<Span::rep>(std::clamp(allowed * 1000, 1.0, most)));
}

Status Deadline::parse(const std::string &text, Deadline &deadline) {
  if (text == "never") {
    deadline = never();
    return {};
  }
  double number = 0, floor = 120;
  const char *rest = nullptr;
  if (readNumber(text.c_str(), 0.1, 1e7, number, rest) && *rest == '\0') {
    deadline = fixed(Span(static_cast<Span::rep>(number * 1000)));
    return {};
  }
  if (readNumber(text.c_str(), 1, 1e12, number, rest) && *rest == 'x') {
    ++rest;
    if (*rest == '\0' || (*rest == ',' && readNumber(rest + 1, 0.1, 1e7, floor, rest) && *rest == '\0')) {
      deadline = predicted(number, floor);
      return {};
    }
  }
  return {Code::InvalidArgument,
          "'" + text +
              "' is no deadline: give SECONDS (0.1 to 1e7), FACTORx for so many times (1 to 1e12) what the "
              "plan predicts, FACTORx,SECONDS for no less than that, or never"};
}

} // namespace colossal::runtime
