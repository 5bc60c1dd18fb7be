//===- Targets.cpp - targets by name ----------------------------------------===//
#include "colossal/Codegen/Targets.h"
#include "lib/Codegen/CPU/Lowering/CpuTarget.h"

using namespace colossal;

llvm::Expected<std::shared_ptr<const codegen::Target>> codegen::createTarget(llvm::StringRef name,
                                                                             llvm::StringRef processor) {
  auto [kind, named] = name.split(':');
  if (kind != "cpu" || name.ends_with(":"))
    return llvm::createStringError("unknown target '" + name.str() +
                                   "'; known are cpu, for this host, and cpu:NAME, LLVM's name of a "
                                   "processor, such as cpu:x86-64-v3");
  if (!named.empty() && !processor.empty())
    return llvm::createStringError("target '" + name.str() + "' names a processor already; leave '" +
                                   processor.str() + "' out");
  if (named.empty())
    named = processor;
  llvm::Expected<cpu::Processor> found = cpu::Processor::create(named.empty() ? "host" : named);
  if (!found)
    return found.takeError();
  return std::make_shared<const cpu::CpuTarget>(std::move(*found), named);
}

std::vector<std::string> codegen::listTargets() {
  std::vector<std::string> names{"cpu"};
  for (const std::string &processor : cpu::Processor::getNames())
    names.push_back("cpu:" + processor);
  return names;
}
