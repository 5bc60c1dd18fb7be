//===- CpuTarget.cpp - the target `cpu` -------------------------------------===//
#include "CpuTarget.h"
#include "Lowerings.h"

#include "colossal/Codegen/CPU/KernelCompiler.h"
#include "colossal/Codegen/CPU/KernelFunction.h"
#include "colossal/Schedule/LoweringTable.h"
#include "llvm/TargetParser/Triple.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::cpu;

namespace {
class CpuImages final : public codegen::ImageBuilder {
public:
  CpuImages(const Processor &processor, unsigned threads) : compiler(processor, threads) {}

  std::string add(ModuleOp module, StringRef name) override { return compiler.add(module, name); }
  bool compilesAhead() const override { return compiler.compilesAhead(); }
  std::string addAhead(ModuleOp module, StringRef name) override { return compiler.addAhead(module, name); }
  std::optional<std::string> addAgain(StringRef mark, StringRef name) override {
    return compiler.addAgain(mark, name);
  }
  llvm::Expected<codegen::GeneratedCode> finish() override {
    llvm::Expected<std::string> image = compiler.finish();
    if (!image)
      return image.takeError();
    const Processor &processor = compiler.processor();
    codegen::GeneratedCode code{{},
                                processor.triple(),
                                processor.cpu(),
                                processor.requiredFeatures(),
                                compiler.statistics().compiled};
    if (!image->empty())
      code.images.push_back({codegen::CodeImage::Format::Elf,
                             llvm::Triple(processor.triple()).getArchName().str(), std::move(*image)});
    return code;
  }

private:
  KernelCompiler compiler;
};
} // namespace

void CpuTarget::prepare(func::FuncOp function) const {
  prepareConvolutions(function);
}

codegen::Epilogue CpuTarget::epilogueOf(Operation *routine) const {
  if (isContraction(routine))
    return codegen::Epilogue::Any;
  return isa<ConvOp, ConvTransposeOp>(routine) ? codegen::Epilogue::Listed : codegen::Epilogue::None;
}

bool CpuTarget::fitsEpilogue(Operation *routine, ArrayRef<Operation *> ops) const {
  return fitsLibrary(routine, ops);
}

void CpuTarget::registerLowerings(schedule::LoweringTable &table) const {
  using schedule::GroupKind;
  table.set(GroupKind::Contraction, [this](LoweringContext &context, FusionGroup &group) {
    return lowerContraction(*this, context, group);
  });
  table.set(GroupKind::Convolution, [this](LoweringContext &context, FusionGroup &group) {
    return isContraction(group.routine) ? lowerContraction(*this, context, group)
                                        : lowerConvolution(context, group);
  });
  table.set(GroupKind::Attention, [this](LoweringContext &context, FusionGroup &group) {
    return lowerAttention(*this, context, group);
  });
}

std::unique_ptr<codegen::ImageBuilder> CpuTarget::createImages(MLIRContext &context, unsigned threads) const {
  KernelFunction::loadDialects(context);
  return std::make_unique<CpuImages>(machine, threads);
}
