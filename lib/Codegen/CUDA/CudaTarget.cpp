//===- CudaTarget.cpp - the target `cuda` -----------------------------------===//
#include "CudaTarget.h"

#include "Attention.h"
#include "Contraction.h"
#include "Convolution.h"
#include "GroupedConvolution.h"
#include "LibraryContraction.h"
#include "LibraryConvolution.h"
#include "PtxCompiler.h"
#include "Toolkit.h"

#include "colossal/Schedule/LoweringTable.h"

#include <future>

using namespace mlir;
using namespace colossal;
using namespace colossal::nvidia;

namespace {

class CudaImages final : public codegen::ImageBuilder {
public:
  CudaImages(const std::vector<Chip> &chips, unsigned threads) : chips(chips), compiler(chips, threads) {}

  std::string add(ModuleOp module, StringRef name) override { return compiler.add(module, name); }
  llvm::Expected<codegen::GeneratedCode> finish() override;

private:
  const std::vector<Chip> chips;
  PtxCompiler compiler;
};

llvm::Expected<codegen::GeneratedCode> CudaImages::finish() {
  llvm::Expected<std::vector<std::string>> texts = compiler.finish();
  if (!texts)
    return texts.takeError();
  codegen::GeneratedCode code{{}, nvidia::triple.str(), "", {}, compiler.kernels(), ""};
  for (const Chip &chip : chips)
    code.cpu += (code.cpu.empty() ? "" : ", ") + chip.name;
  if (compiler.kernels() == 0)
    return code;
  std::vector<std::future<llvm::Expected<std::string>>> cubins;
  for (auto [chip, text] : llvm::zip_equal(chips, *texts))
    cubins.push_back(
        std::async(std::launch::async, [&chip = chip, &text = text] { return assemble(text, chip); }));
  llvm::Error error = llvm::Error::success();
  for (auto [chip, text, assembled] : llvm::zip_equal(chips, *texts, cubins)) {
    llvm::Expected<std::string> cubin = assembled.get();
    if (!cubin) {
      error = llvm::joinErrors(std::move(error), cubin.takeError());
      continue;
    }
    if (cubin->empty())
      code.note =
          std::string("PTX alone, which the driver compiles when the plan is opened: no ptxas is found; ") +
          installToolkit;
    else
      code.images.push_back({codegen::CodeImage::Format::Cubin, chip.name, std::move(*cubin)});
    code.images.push_back({codegen::CodeImage::Format::Ptx, chip.name, text + '\0'});
  }
  if (error)
    return error;
  return code;
}

} // namespace

bool CudnnUse::parse(StringRef text) {
  convolution = text == "cudnn-convolution" || text == "cudnn-all";
  attention = text == "cudnn-attention" || text == "cudnn-all";
  return convolution || attention || text.empty();
}

std::string CudnnUse::spelling() const {
  return convolution && attention ? "+cudnn-all"
         : convolution            ? "+cudnn-convolution"
         : attention              ? "+cudnn-attention"
                                  : "";
}

void CudaTarget::prepare(func::FuncOp function) const {
  prepareConvolutions(function, cudnn.convolution);
}

codegen::Epilogue CudaTarget::epilogueOf(Operation *routine) const {
  if (auto convolution = dyn_cast<ConvOp>(routine))
    return isOfLibrary(convolution) ? codegen::Epilogue::Listed
           : isGrouped(convolution) ? codegen::Epilogue::Any
                                    : codegen::Epilogue::None;
  auto contraction = dyn_cast<ContractOp>(routine);
  return contraction && isOfLibrary(contraction) ? codegen::Epilogue::Listed : codegen::Epilogue::None;
}

bool CudaTarget::fitsEpilogue(Operation *routine, ArrayRef<Operation *> ops) const {
  if (auto convolution = dyn_cast<ConvOp>(routine))
    return isOfLibrary(convolution) && fitsLibrary(convolution, ops);
  auto contraction = dyn_cast<ContractOp>(routine);
  return contraction && fitsLibrary(contraction, ops);
}

void CudaTarget::registerLowerings(schedule::LoweringTable &table) const {
  table.set(schedule::GroupKind::Contraction,
            [this](schedule::LoweringContext &context, schedule::FusionGroup &group) {
              return lowerContraction(block, context, group);
            });
  table.set(schedule::GroupKind::Convolution,
            [this](schedule::LoweringContext &context, schedule::FusionGroup &group) {
              return lowerConvolution(block, context, group);
            });
  table.set(schedule::GroupKind::Attention,
            [this](schedule::LoweringContext &context, schedule::FusionGroup &group) {
              return lowerAttention(block, context, group, cudnn.attention);
            });
}

std::unique_ptr<codegen::ImageBuilder> CudaTarget::createImages(MLIRContext &context,
                                                                unsigned threads) const {
  loadKernelDialects(context);
  return std::make_unique<CudaImages>(chips, threads);
}
