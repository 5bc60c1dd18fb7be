// Whether this host has what a plan's machine code needs. Features are LLVM's names; the kernel's list of
// flags (which leaves out what the system does not enable) is the truth about the host.
#include "runtime/cpu/Target.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

namespace colossal::runtime {

using plan::Code;
using plan::Status;

const char *hostArchitecture() {
#if defined(__x86_64__)
  return "x86_64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "unknown";
#endif
}

namespace {

/// LLVM's name where it is not the kernel's with '-' and '.' as '_'.
const std::map<std::string, std::string> &kernelNames() {
  static const std::map<std::string, std::string> names = {{"64bit", "lm"},
                                                           {"x87", "fpu"},
                                                           {"sse3", "pni"},
                                                           {"crc32", "sse4_2"},
                                                           {"pclmul", "pclmulqdq"},
                                                           {"rdrnd", "rdrand"},
                                                           {"lzcnt", "abm"},
                                                           {"bmi", "bmi1"},
                                                           {"prfchw", "3dnowprefetch"},
                                                           {"sha", "sha_ni"},
                                                           {"sahf", "lahf_lm"},
                                                           {"avxvnni", "avx_vnni"},
                                                           {"avx512bf16", "avx512_bf16"},
                                                           {"avx512vnni", "avx512_vnni"},
                                                           {"avx512vbmi2", "avx512_vbmi2"},
                                                           {"avx512bitalg", "avx512_bitalg"},
                                                           {"avx512vpopcntdq", "avx512_vpopcntdq"},
                                                           {"avx512fp16", "avx512_fp16"},
                                                           {"avx512vp2intersect", "avx512_vp2intersect"},
                                                           {"evex512", "avx512f"},
                                                           {"shstk", "user_shstk"},
                                                           {"mwaitx", "mwaitx"},
                                                           {"neon", "asimd"},
                                                           {"fullfp16", "fphp"},
                                                           {"dotprod", "asimddp"},
                                                           {"bf16", "bf16"},
                                                           {"lse", "atomics"}};
  return names;
}

std::string kernelName(const std::string &feature) {
  auto found = kernelNames().find(feature);
  if (found != kernelNames().end())
    return found->second;
  std::string name = feature;
  std::replace(name.begin(), name.end(), '-', '_');
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

const std::set<std::string> &kernelFlags() {
  static const std::set<std::string> flags = [] {
    std::set<std::string> found;
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
      if (line.rfind("flags", 0) != 0 && line.rfind("Features", 0) != 0)
        continue;
      std::istringstream words(line.substr(line.find(':') + 1));
      for (std::string word; words >> word;)
        found.insert(word);
      break;
    }
    return found;
  }();
  return flags;
}

} // namespace

std::vector<std::string> hostFeatures() {
  std::vector<std::string> features = {hostArchitecture()};
  features.insert(features.end(), kernelFlags().begin(), kernelFlags().end());
  return features;
}

Status checkCpuTarget(const plan::Target &target) {
  std::string architecture = target.triple().substr(0, target.triple().find('-'));
  if (architecture != hostArchitecture())
    return {Code::Unsupported,
            "the plan's code is for " + target.triple() + "; this host is " + hostArchitecture()};
  std::string missing;
  for (const std::string &feature : target.features())
    if (kernelFlags().count(kernelName(feature)) == 0)
      missing += (missing.empty() ? "" : ", ") + feature;
  if (!missing.empty())
    return {Code::Unsupported, "the plan was compiled for " +
                                   (target.cpu().empty() ? "a CPU" : target.cpu()) +
                                   " with features that this host lacks: " + missing +
                                   "; compile it with --target-cpu of this host"};
  return {};
}

} // namespace colossal::runtime
