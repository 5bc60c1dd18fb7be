// Calls that fail because a test wants it: how the runtime takes an error of a vendor's library.
#ifndef COLOSSAL_EMULATION_PLANNEDFAILURES_H
#define COLOSSAL_EMULATION_PLANNEDFAILURES_H

#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>
#include <string>

namespace colossal::emulation {

class PlannedFailures {
public:
  /// `variable` of the environment lists them: "ncclSend@3=2,..." is error 2 at the third call.
  explicit PlannedFailures(const char *variable) : wanted(std::getenv(variable)) {}

  /// Counts a call; its error, or 0.
  unsigned long count(const char *symbol) {
    if (!wanted)
      return 0;
    std::lock_guard<std::mutex> lock(mutex);
    const std::string call = std::string(symbol) + "@" + std::to_string(++calls[symbol]) + "=";
    std::istringstream list(wanted);
    for (std::string entry; std::getline(list, entry, ',');)
      if (entry.compare(0, call.size(), call) == 0)
        return std::strtoul(entry.c_str() + call.size(), nullptr, 10);
    return 0;
  }

private:
  const char *const wanted;
  std::mutex mutex;
  std::map<std::string, unsigned> calls;
};

} // namespace colossal::emulation

#endif // COLOSSAL_EMULATION_PLANNEDFAILURES_H
