// The CPU that kernels are generated for.
//
// A Processor is plain data: LLVM's names of triple, CPU and features, and what the generators need to know
// of them. Every generator takes the same Processor, so that all kernels of a plan agree on the vector width.
// The runtime refuses a plan where one of `requiredFeatures()` is missing.
#ifndef COLOSSAL_CODEGEN_CPU_PROCESSOR_H
#define COLOSSAL_CODEGEN_CPU_PROCESSOR_H

#include "colossal/Codegen/Kernel/Instructions.h"
#include "mlir/IR/Types.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace colossal::cpu {

// Kernels of CPUs are made of the parts that all kernels are made of.
using namespace kernel;

class Processor : public Instructions {
public:
  /// The processor of an x86-64 CPU by LLVM's name ("skylake-avx512", "haswell", "x86-64"), or of this host
  /// by "" or "host". The host's features are those that the processor reports, which a hypervisor may have
  /// cut down. An unknown name is an error that names those that are spelled much like it.
  static llvm::Expected<Processor> create(llvm::StringRef cpu = "host");
  /// The names that `create` takes beside "host", sorted.
  static std::vector<std::string> getNames();

  const std::string &triple() const { return tripleName; }
  const std::string &cpu() const { return cpuName; }
  /// LLVM's feature string, "+avx2,-amx-tile,...".
  const std::string &featureString() const { return features; }
  bool has(llvm::StringRef feature) const { return enabled.contains(feature); }
  /// Features that generated code may use, LLVM's names, sorted: what the plan records.
  const std::vector<std::string> &requiredFeatures() const { return required; }

  /// Bytes of the widest vector that has full arithmetic: 64 (AVX-512 F, BW, DQ and VL), 32 (AVX2 and FMA),
  /// else 16.
  int64_t vectorBytes() const { return vectorSize; }
  /// Architectural vector registers: 32 with AVX-512, else 16.
  int64_t vectorRegisters() const { return vectorSize == 64 ? 32 : 16; }
  /// Lanes of a native vector of an element type of `bits` bits (8 for bool).
  int64_t lanes(int64_t bits) const { return vectorSize * 8 / bits; }
  int64_t lanes(mlir::Type type) const;

  /// Bytes of the second-level cache that the blockings assume one core to have.
  int64_t cacheBytes() const { return cacheSize; }

private:
  std::string tripleName, cpuName, features;
  llvm::StringSet<> enabled;
  std::vector<std::string> required;
  int64_t vectorSize = 16, cacheSize = 256 << 10;
};

} // namespace colossal::cpu

#endif // COLOSSAL_CODEGEN_CPU_PROCESSOR_H
