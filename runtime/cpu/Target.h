// What this host's CPU can run.
#ifndef COLOSSAL_RUNTIME_CPU_TARGET_H
#define COLOSSAL_RUNTIME_CPU_TARGET_H

#include "colossal/Plan/Plan.pb.h"
#include "colossal/Plan/Status.h"

#include <string>
#include <vector>

namespace colossal::runtime {

/// Checks that this host can run code for `target`; the message lists all missing features.
plan::Status checkCpuTarget(const plan::Target &target);

/// The first part of this host's triple.
const char *hostArchitecture();

/// LLVM's name of the architecture and the features of this host, as far as the system tells.
std::vector<std::string> hostFeatures();

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_CPU_TARGET_H
