//===- Targets.h - targets by name ------------------------------------------===//
//
// Where a program that was told a name finds the target. Phases do not look here: they are given a target.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_CODEGEN_TARGETS_H
#define COLOSSAL_CODEGEN_TARGETS_H

#include "colossal/Codegen/Target.h"

namespace colossal::codegen {

/// The target of a name KIND[:PROCESSOR]: `cpu` for this host, `cpu:NAME` for the processor of that name
/// (LLVM's). A `processor` that is given apart is that of a name without one. An unknown name is an error
/// that says which there are.
llvm::Expected<std::shared_ptr<const Target>> createTarget(llvm::StringRef name,
                                                           llvm::StringRef processor = {});
/// The machine (cost::loadMachine) that plans for a target of this name are made for where nobody says;
/// empty: this host.
std::string machineOf(llvm::StringRef name);
/// All names that createTarget takes.
std::vector<std::string> listTargets();

} // namespace colossal::codegen

#endif // COLOSSAL_CODEGEN_TARGETS_H
