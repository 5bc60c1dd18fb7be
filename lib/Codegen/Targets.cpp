//===- Targets.cpp - targets by name ----------------------------------------===//
#include "colossal/Codegen/Targets.h"
#include "lib/Codegen/CPU/Lowering/CpuTarget.h"
#include "lib/Codegen/CUDA/CudaTarget.h"

using namespace colossal;

llvm::Expected<std::shared_ptr<const codegen::Target>> codegen::createTarget(llvm::StringRef name,
                                                                             llvm::StringRef processor) {
  auto [plain, library] = name.split('+');
  auto [kind, named] = plain.split(':');
  if ((kind != "cpu" && kind != "cuda") || name.ends_with(":") || name.ends_with("+"))
    return llvm::createStringError("unknown target '" + name.str() +
                                   "'; known are cpu, for this host, cpu:NAME, LLVM's name of a processor, "
                                   "such as cpu:x86-64-v3, cuda, for NVIDIA's GPUs of several generations, "
                                   "and cuda:NAME, for one, such as "
                                   "cuda:sm_90");
  nvidia::CudnnUse cudnn;
  if (!cudnn.parse(library) || (kind != "cuda" && !library.empty()))
    return llvm::createStringError(
        "target '" + name.str() +
        "': behind '+' there may be cudnn-convolution, cudnn-attention or cudnn-all, of a "
        "target cuda or cuda:NAME");
  if (!named.empty() && !processor.empty())
    return llvm::createStringError("target '" + name.str() + "' names a processor already; leave '" +
                                   processor.str() + "' out");
  if (named.empty())
    named = processor;
  if (kind == "cuda") {
    if (named.empty())
      return std::make_shared<const nvidia::CudaTarget>(nvidia::Chip::all(), cudnn);
    llvm::Expected<nvidia::Chip> chip = nvidia::Chip::create(named);
    if (!chip)
      return chip.takeError();
    return std::make_shared<const nvidia::CudaTarget>(std::vector{std::move(*chip)}, cudnn);
  }
  llvm::Expected<cpu::Processor> found = cpu::Processor::create(named.empty() ? "host" : named);
  if (!found)
    return found.takeError();
  return std::make_shared<const cpu::CpuTarget>(std::move(*found), named);
}

std::vector<std::string> codegen::listTargets() {
  std::vector<std::string> names{"cpu"};
  for (const std::string &processor : cpu::Processor::getNames())
    names.push_back("cpu:" + processor);
  names.push_back("cuda");
  for (const nvidia::Chip &chip : nvidia::Chip::all())
    names.push_back("cuda:" + chip.name);
  return names;
}

std::string codegen::machineOf(llvm::StringRef name) {
  auto [kind, named] = name.split('+').first.split(':');
  if (kind != "cuda")
    return {};
  return named == "sm_80" ? "a100-80-sxm" : "h100";
}
