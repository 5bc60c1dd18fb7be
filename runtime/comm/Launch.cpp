// What each launcher tells, and where rank 0 can be found.
#include "runtime/comm/Launch.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdlib>
#include <optional>
#include <vector>

namespace colossal::runtime {

namespace {

using Variable = std::function<const char *(const char *)>;

/// The variables of one launcher.
struct Launcher {
  const char *name, *rank, *size, *localRank, *localSize;
};
constexpr Launcher launchers[] = {
    {"Colossal", "COLOSSAL_RANK", "COLOSSAL_SIZE", "COLOSSAL_LOCAL_RANK", "COLOSSAL_LOCAL_SIZE"},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_TASKS_PER_NODE"},
};
// What tells one job from another, where nobody gave a token.
constexpr const char *jobs[] = {"TORCHELASTIC_RUN_ID", "OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE",
                                "SLURM_JOB_ID",        "SLURM_STEP_ID",           "PMI_ID"};

std::optional<uint32_t> number(const Variable &variable, const char *name) {
  const char *text = variable(name);
  if (!text || *text < '0' || *text > '9')
    return std::nullopt;
  // Slurm writes "4(x2)": four on each of two nodes.
  return static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
}

Status readLauncher(const Launcher &launcher, const Variable &variable, std::optional<Launch> &found) {
  const auto rank = number(variable, launcher.rank), size = number(variable, launcher.size);
  if (!rank && !size)
    return {};
  if (!rank || !size || *rank >= *size)
    return {Code::InvalidArgument, std::string(launcher.name) +
                                       "'s variables do not say which process this is: " + launcher.rank +
                                       "=" + (rank ? std::to_string(*rank) : "?") + ", " + launcher.size +
                                       "=" + (size ? std::to_string(*size) : "?")};
  Launch launch;
  launch.rank = *rank, launch.size = *size;
  launch.by = std::string(launcher.name) + " (" + launcher.rank + "=" + std::to_string(*rank) + ", " +
              launcher.size + "=" + std::to_string(*size) + ")";
  launch.localRank = number(variable, launcher.localRank).value_or(launch.rank);
  launch.localSize = number(variable, launcher.localSize).value_or(launch.size);
  found = std::move(launch);
  return {};
}

/// "node[03-07,12]" is "node03" first.
std::string firstHost(const std::string &list) {
  const size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket)
    return list.substr(0, comma);
  const size_t end = list.find_first_of(",-]", bracket + 1);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

Status findStore(const Variable &variable, Launch &launch) {
  std::string job;
  for (const char *name : jobs)
    if (const char *value = variable(name))
      job += std::string(name) + "=" + value + ";";
  const char *token = variable("COLOSSAL_TOKEN");
  launch.token = token ? token : job;
  // Below those that systems hand out by themselves.
  const auto ownPort = static_cast<uint16_t>(20000 + XXH3_64bits(job.data(), job.size()) % 12000);
  if (const char *store = variable("COLOSSAL_STORE")) {
    const std::string text = store;
    const size_t colon = text.rfind(':');
    const unsigned long port = colon == std::string::npos ? 0 : std::strtoul(store + colon + 1, nullptr, 10);
    if (port == 0 || port > 65535)
      return {Code::InvalidArgument, "COLOSSAL_STORE=" + text + ": expected HOST:PORT, where rank 0 listens"};
    launch.host = text.substr(0, colon), launch.port = static_cast<uint16_t>(port);
    return {};
  }
  const char *host = variable("MASTER_ADDR");
  if (const auto port = number(variable, "MASTER_PORT"); host && port && *port > 0 && *port < 65535) {
    // torchrun's own store listens there.
    const char *taken = variable("TORCHELASTIC_USE_AGENT_STORE");
    launch.host = host;
    launch.port = static_cast<uint16_t>(*port + (taken && std::string(taken) == "True" ? 1 : 0));
    return {};
  }
  if (launch.localSize >= launch.size) {
    launch.host = "127.0.0.1", launch.port = ownPort;
  } else if (const char *nodes = variable("SLURM_STEP_NODELIST")) {
    launch.host = firstHost(nodes), launch.port = ownPort;
  }
  return {};
}

} // namespace

Status findLaunch(Launch &launch, const Variable &variable) {
  launch = Launch();
  std::vector<Launch> all;
  for (const Launcher &launcher : launchers) {
    std::optional<Launch> found;
    COLOSSAL_RETURN_IF_ERROR(readLauncher(launcher, variable, found));
    if (found)
      all.push_back(std::move(*found));
  }
  if (all.empty())
    return {};
  for (size_t i = 1; i < all.size(); ++i) {
    // One that started more processes than another was started by it.
    const bool outer = all[0].size > all[i].size;
    if (!outer && (all[0].size != all[i].size || all[0].rank != all[i].rank))
      return {Code::InvalidArgument, "launchers contradict each other: " + all[0].by + ", and " + all[i].by +
                                         "; COLOSSAL_RANK and COLOSSAL_SIZE say who is who"};
  }
  launch = std::move(all[0]);
  return findStore(variable, launch);
}

Status findLaunch(Launch &launch) {
  return findLaunch(launch, [](const char *name) -> const char * {
    const char *value = std::getenv(name);
    return value && *value ? value : nullptr;
  });
}

} // namespace colossal::runtime
