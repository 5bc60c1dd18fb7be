//===- PlanMemory.cpp - what a finished plan takes of a device --------------===//
#include "PlanMemory.h"

#include "colossal/Plan/Traffic.h"

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

static PlanMemory measureStage(const plan::StageView &stage, unsigned threads) {
  const plan::Plan &plan = *stage.plan;
  PlanMemory memory;
  for (const plan::Arena &arena : *stage.arenas) {
    if (arena.life() == plan::Arena::WEIGHTS || arena.life() == plan::Arena::STATE)
      memory.weights += arena.bytes();
    else if (arena.life() == plan::Arena::IO)
      memory.io += arena.bytes();
    else
      memory.activations += arena.bytes();
  }
  uint64_t scratch = 0;
  for (int program = 0; program < plan.programs_size(); ++program)
    scratch = std::max(scratch, largestScratch(stage.body(program)));
  const std::vector<bool> called = stage.functions();
  for (int function = 0; function < plan.functions_size(); ++function)
    if (called[static_cast<size_t>(function)])
      scratch = std::max(scratch, largestScratch(plan.functions(function).body()));
  memory.scratch = llvm::alignTo(scratch, kScratchAlignment) * threads;
  memory.staging = plan.staging_bytes();
  memory.messages = plan::waitingBytes(stage);
  return memory;
}

std::vector<PlanMemory> measureStages(const plan::Plan &plan, unsigned threads) {
  std::vector<PlanMemory> all;
  for (const plan::StageView &stage : plan::stagesOf(plan))
    all.push_back(measureStage(stage, threads));
  return all;
}

PlanMemory measurePlan(const plan::Plan &plan, unsigned threads) {
  std::vector<PlanMemory> all = measureStages(plan, threads);
  return *std::max_element(all.begin(), all.end(),
                           [](const PlanMemory &a, const PlanMemory &b) { return a.total() < b.total(); });
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
         (staging ? ", staging between processes " + text(staging) : "") +
         (messages ? ", messages between stages " + text(messages) : "") + ", total " + text(total()) + " (" +
         std::to_string(total()) + " bytes)";
}

} // namespace colossal
