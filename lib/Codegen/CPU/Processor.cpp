// Processor: LLVM's subtarget tables give a CPU's features; the host's come from the processor itself.
#include "colossal/Codegen/CPU/Processor.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"
#include <mutex>

namespace colossal::cpu {

// Instruction sets that LLVM may use when it selects instructions for our kernels. The rest (system, string
// and cryptographic extensions) is switched off, so that a plan asks for nothing that it does not need.
static constexpr llvm::StringLiteral instructionSets[] = {
    "sse3",       "ssse3",      "sse4.1",      "sse4.2",     "popcnt",   "cx16",         "avx",
    "avx2",       "fma",        "f16c",        "bmi",        "bmi2",     "lzcnt",        "movbe",
    "avx512f",    "avx512cd",   "avx512bw",    "avx512dq",   "avx512vl", "avx512vnni",   "avx512bf16",
    "avx512fp16", "avx512vbmi", "avx512vbmi2", "avx512ifma", "avxvnni",  "avx512bitalg", "avx512vpopcntdq"};
static constexpr llvm::StringLiteral droppedSets[] = {
    "gfni",    "vaes",     "vpclmulqdq", "aes",          "pclmul",      "sha",
    "adx",     "amx-tile", "amx-int8",   "amx-bf16",     "amx-fp16",    "avx512vp2intersect",
    "xop",     "fma4",     "tbm",        "movdiri",      "movdir64b",   "prfchw",
    "avx10.1", "avx10.2",  "avxifma",    "avxneconvert", "avxvnniint8", "avxvnniint16",
    "sm3",     "sm4",      "sha512",     "apxf",         "egpr",        "ndd",
    "ccmp",    "nf",       "zu",         "cf",           "push2pop2",   "ppx"};

static void initializeTargets() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
}

static std::unique_ptr<llvm::MCSubtargetInfo> createSubtarget(const llvm::Triple &triple, llvm::StringRef cpu,
                                                              std::string &error) {
  initializeTargets();
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  return std::unique_ptr<llvm::MCSubtargetInfo>(target ? target->createMCSubtargetInfo(triple, cpu, "")
                                                       : nullptr);
}

static const llvm::Triple &hostTriple() {
  static const llvm::Triple triple("x86_64-unknown-linux-gnu");
  return triple;
}

std::vector<std::string> Processor::getNames() {
  std::vector<std::string> names;
  std::string error;
  if (auto baseline = createSubtarget(hostTriple(), "x86-64", error))
    for (const llvm::SubtargetSubTypeKV &kind : baseline->getAllProcessorDescriptions())
      if (createSubtarget(hostTriple(), kind.Key, error)->checkFeatures("+64bit"))
        names.push_back(kind.Key);
  llvm::sort(names);
  return names;
}

/// Those of all names that are spelled most like `name`, or else a few that are common.
static std::string suggestNames(llvm::StringRef name) {
  std::vector<std::pair<unsigned, std::string>> near;
  for (const std::string &known : Processor::getNames())
    if (unsigned distance = name.edit_distance(known, /*AllowReplacements=*/true); distance <= 2)
      near.push_back({distance, known});
  if (near.empty())
    return "common ones are x86-64-v3, x86-64-v4, znver4, sapphirerapids";
  llvm::sort(near);
  std::string names;
  for (const auto &[distance, known] : llvm::ArrayRef(near).take_front(5))
    names += (names.empty() ? "" : ", ") + known;
  return "near it are " + names;
}

llvm::Expected<Processor> Processor::create(llvm::StringRef cpu) {
  Processor result;
  result.tripleName = hostTriple().str();
  bool host = cpu.empty() || cpu == "host";
  if (host && llvm::Triple(llvm::sys::getProcessTriple()).getArch() != llvm::Triple::x86_64)
    return llvm::createStringError("kernels can be generated for x86-64 only, and this host is " +
                                   llvm::sys::getProcessTriple() + "; name a CPU with --target-cpu");
  result.cpuName = host ? llvm::sys::getHostCPUName().str() : cpu.str();
  if (result.cpuName == "generic" || (host && result.cpuName.empty()))
    result.cpuName = "x86-64";

  std::string error;
  auto baseline = createSubtarget(hostTriple(), "x86-64", error);
  if (!baseline)
    return llvm::createStringError("LLVM has no x86-64 processor: " + error);
  if (!baseline->isCPUStringValid(result.cpuName))
    return llvm::createStringError("unknown CPU '" + result.cpuName + "'; " + suggestNames(result.cpuName) +
                                   "; colossal-compile --list-targets names all");
  auto subtarget = createSubtarget(hostTriple(), result.cpuName, error);
  if (!subtarget->checkFeatures("+64bit"))
    return llvm::createStringError("CPU '" + result.cpuName + "' has no 64-bit mode");

  llvm::StringMap<bool> hostFeatures;
  if (host)
    hostFeatures = llvm::sys::getHostCPUFeatures();
  llvm::SmallVector<std::string> list;
  for (llvm::StringRef name : instructionSets) {
    bool on = host ? hostFeatures.lookup(name) : subtarget->checkFeatures(("+" + name).str());
    if (on) {
      result.enabled.insert(name);
      result.required.push_back(name.str());
    }
    list.push_back((on ? "+" : "-") + name.str());
  }
  llvm::StringSet<> known;
  for (const llvm::SubtargetFeatureKV &feature : subtarget->getAllProcessorFeatures())
    known.insert(feature.Key);
  for (llvm::StringRef name : droppedSets)
    if (known.contains(name))
      list.push_back("-" + name.str());
  list.push_back("-prefer-256-bit");
  result.features = llvm::join(list, ",");
  llvm::sort(result.required);

  result.fma = result.has("fma");
  result.halfConversions = result.has("f16c");
  result.bfloatConversion = result.has("avx512bf16") && result.has("avx512vl");
  if (result.has("avx512f") && result.has("avx512bw") && result.has("avx512dq") && result.has("avx512vl"))
    result.vectorSize = 64;
  else if (result.has("avx2") && result.has("fma"))
    result.vectorSize = 32;
  // Second-level cache of one core, from the makers' data sheets; 256 KiB is what the oldest have.
  llvm::StringRef name = result.cpuName;
  for (llvm::StringRef large : {"sapphirerapids", "emeraldrapids", "graniterapids", "diamondrapids"})
    if (name.starts_with(large))
      result.cacheSize = 2 << 20;
  for (llvm::StringRef large : {"skylake-avx512", "cascadelake", "cooperlake", "icelake-server", "znver4",
                                "znver5", "alderlake", "raptorlake", "x86-64-v4"})
    if (name == large)
      result.cacheSize = 1 << 20;
  for (llvm::StringRef medium : {"znver1", "znver2", "znver3", "icelake-client", "tigerlake", "x86-64-v3"})
    if (name == medium)
      result.cacheSize = 512 << 10;
  return result;
}

int64_t Processor::lanes(mlir::Type type) const {
  return lanes(type.isIntOrFloat() ? std::max(8u, type.getIntOrFloatBitWidth()) : 64);
}

} // namespace colossal::cpu
