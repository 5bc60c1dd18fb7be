// A process that is one of several, and does not know.
#include "Launchers.h"

#include "colossal/Plan/Container.h"
#include "runtime/comm/Open.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <optional>

namespace colossal::runtime {

/// A number of the environment; nothing where it is none.
static std::optional<unsigned> numberOf(const char *text) {
  unsigned value = 0;
  if (!text || std::from_chars(text, text + std::strlen(text), value).ec != std::errc())
    return std::nullopt;
  return value;
}

void warnOfCopies(const std::string &communicator, const std::string &path) {
  struct Launcher {
    const char *size, *rank;
  };
  constexpr Launcher launchers[] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                    {"PMI_SIZE", "PMI_RANK"},
                                    {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},
                                    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}};
  for (const Launcher &launcher : launchers) {
    const char *size = std::getenv(launcher.size), *rank = std::getenv(launcher.rank);
    if (numberOf(size).value_or(0) < 2)
      continue;
    // A plan that cannot be opened is reported by who opens it.
    if (plan::PlanFile file; communicator.empty() && plan::PlanFile::open(path, false, file).ok() &&
                             defaultCommunicator(file.plan().target().device()) != "local")
      return;
    if (numberOf(rank).value_or(0) == 0)
      std::cerr
          << std::string("colossal-run: warning: ") + size + " processes were started (" + launcher.size +
                 "), and each runs the whole plan by itself, with all its ranks; add --comm mpi for one "
                 "rank of the plan in each process\n"
          << std::flush;
    return;
  }
}

} // namespace colossal::runtime
