//===- Targets.cpp - targets by name ----------------------------------------===//
#include "colossal/Codegen/Target.h"
#include "lib/Codegen/CPU/Lowering/CpuTarget.h"

using namespace colossal;

llvm::Expected<std::unique_ptr<codegen::Target>> codegen::createTarget(llvm::StringRef name,
                                                                       const TargetOptions &options) {
  auto [kind, processor] = name.split(':');
  if (kind == "cpu") {
    llvm::Expected<cpu::Processor> found = cpu::Processor::create(processor.empty() ? "host" : processor);
    if (!found)
      return found.takeError();
    return std::make_unique<cpu::CpuTarget>(std::move(*found), options);
  }
  return llvm::createStringError("unknown target '" + name.str() +
                                 "'; known are cpu and cpu:NAME, LLVM's name of a processor");
}
