//===- CudaTarget.cpp - the target `cuda` -----------------------------------===//
#include "CudaTarget.h"

#include "Contraction.h"
#include "LibraryContraction.h"
#include "PtxCompiler.h"

#include "colossal/Schedule/LoweringTable.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::nvidia;

namespace {

class CudaImages final : public codegen::ImageBuilder {
public:
  CudaImages(const Chip &chip, unsigned threads) : chip(chip), compiler(chip, threads) {}

  std::string add(ModuleOp module, StringRef name) override { return compiler.add(module, name); }
  llvm::Expected<codegen::GeneratedCode> finish() override {
    llvm::Expected<std::string> ptx = compiler.finish();
    if (!ptx)
      return ptx.takeError();
    codegen::GeneratedCode code{{}, nvidia::triple.str(), chip.name, {}, compiler.kernels()};
    if (ptx->empty())
      return code;
    llvm::Expected<std::string> cubin = assemble(*ptx, chip);
    if (!cubin)
      return cubin.takeError();
    if (!cubin->empty())
      code.images.push_back({codegen::CodeImage::Format::Cubin, chip.name, std::move(*cubin)});
    code.images.push_back({codegen::CodeImage::Format::Ptx, chip.name, *ptx + '\0'});
    return code;
  }

private:
  const Chip chip;
  PtxCompiler compiler;
};

} // namespace

codegen::Epilogue CudaTarget::epilogueOf(Operation *routine) const {
  auto contraction = dyn_cast<ContractOp>(routine);
  return contraction && isOfLibrary(contraction) ? codegen::Epilogue::Listed : codegen::Epilogue::None;
}

bool CudaTarget::fitsEpilogue(Operation *routine, ArrayRef<Operation *> ops) const {
  auto contraction = dyn_cast<ContractOp>(routine);
  return contraction && fitsLibrary(contraction, ops);
}

void CudaTarget::registerLowerings(schedule::LoweringTable &table) const {
  table.set(schedule::GroupKind::Contraction,
            [this](schedule::LoweringContext &context, schedule::FusionGroup &group) {
              return lowerContraction(block, context, group);
            });
}

std::unique_ptr<codegen::ImageBuilder> CudaTarget::createImages(MLIRContext &context,
                                                                unsigned threads) const {
  loadKernelDialects(context);
  return std::make_unique<CudaImages>(chip, threads);
}
