//===- CompileAhead.cpp - kernels before the search for layouts ends --------===//
#include "CompileAhead.h"

#include "colossal/Compiler/Passes.h"
#include "colossal/Schedule/KernelCache.h"
#include "colossal/Step/CutStages.h"
#include "dialects/Dist/Dist.h"

using namespace mlir;

namespace colossal {

namespace {
/// Gives all kernels ahead.
class AheadImages final : public codegen::ImageBuilder {
public:
  explicit AheadImages(codegen::ImageBuilder &images) : images(images) {}

  std::string add(ModuleOp module, StringRef name) override { return images.addAhead(module, name); }
  llvm::Expected<codegen::GeneratedCode> finish() override { return codegen::GeneratedCode(); }

private:
  codegen::ImageBuilder &images;
};
} // namespace

bool canCompileAhead(const CompileOptions &options) {
  return options.devices == 0 && options.microbatches <= 1;
}

std::shared_ptr<const schedule::KernelCache> compileAhead(ModuleOp shorter, const CompileOptions &options,
                                                          codegen::ImageBuilder &kernels) {
  CompileOptions own = options;
  own.schedule.generated = std::make_shared<schedule::KernelCache>();
  if (own.training && !own.training->recompute)
    own.training->recompute = Recompute::None; // as the whole is tried first
  FailureOr<dist::MeshAttr> mesh = makeMesh(shorter.getContext(), own);
  if (failed(mesh) || step::getStageMesh(*mesh))
    return nullptr;
  shorter->setAttr(dist::kMeshAttrName, *mesh);
  std::unique_ptr<codegen::ImageBuilder> images = std::make_unique<AheadImages>(kernels);
  PassManager manager(shorter.getContext());
  manager.enableVerifier(false);
  buildPhases(manager, own, Phase::Import, Phase::Schedule, nullptr, &images);
  (void)manager.run(shorter);
  return own.schedule.generated;
}

} // namespace colossal
