//===- PlanMemory.cpp - what a finished plan takes of a device --------------===//
#include "PlanMemory.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

namespace colossal {

/// As the runtime lays the threads' scratch side by side.
static constexpr uint64_t kScratchAlignment = 128;

template <class Body>
static uint64_t largestScratch(const Body &body) {
  uint64_t largest = 0;
  for (const plan::Instruction &instruction : body) {
    largest = std::max<uint64_t>(largest, instruction.launch().tile_scratch());
    if (instruction.has_repeat())
      largest = std::max(largest, largestScratch(instruction.repeat().body()));
    if (instruction.has_predicate())
      largest = std::max(largest, largestScratch(instruction.predicate().body()));
  }
  return largest;
}

PlanMemory measurePlan(const plan::Plan &plan, unsigned threads) {
  PlanMemory memory;
  for (const plan::Arena &arena : plan.arenas()) {
    if (arena.life() == plan::Arena::WEIGHTS || arena.life() == plan::Arena::STATE)
      memory.weights += arena.bytes();
    else if (arena.life() == plan::Arena::IO)
      memory.io += arena.bytes();
    else
      memory.activations += arena.bytes();
  }
  uint64_t scratch = 0;
  for (const plan::Program &program : plan.programs())
    scratch = std::max(scratch, largestScratch(program.body()));
  for (const plan::Function &function : plan.functions())
    scratch = std::max(scratch, largestScratch(function.body()));
  memory.scratch = llvm::alignTo(scratch, kScratchAlignment) * threads;
  memory.staging = plan.staging_bytes();
  return memory;
}

std::string PlanMemory::describe() const {
  auto text = [](uint64_t bytes) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    unsigned unit = 0;
    double size = double(bytes) / 1024;
    for (; size >= 1024 && unit < 3; ++unit)
      size /= 1024;
    return llvm::formatv("{0:F1} {1}", size, units[unit]).str();
  };
  return "weights " + text(weights) + ", activations and workspace " + text(activations) +
         ", inputs and outputs " + text(io) + ", kernels' scratch " + text(scratch) +
         (staging ? ", staging between processes " + text(staging) : "") + ", total " + text(total()) + " (" +
         std::to_string(total()) + " bytes)";
}

} // namespace colossal
