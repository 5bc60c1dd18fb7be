//===- CompileAhead.cpp - kernels before the search for layouts ends --------===//
#include "CompileAhead.h"

#include "colossal/Compiler/Passes.h"
#include "colossal/Step/CutStages.h"
#include "dialects/Dist/Dist.h"

using namespace mlir;

namespace colossal {

namespace {
/// Gives all kernels ahead.
class AheadImages final : public codegen::ImageBuilder {
public:
  explicit AheadImages(codegen::ImageBuilder &images) : images(images) {}

  std::string add(ModuleOp module, StringRef name) override {
    images.addAhead(module, name);
    return (name + "_" + Twine(count++)).str();
  }
  llvm::Expected<codegen::GeneratedCode> finish() override { return codegen::GeneratedCode(); }

private:
  codegen::ImageBuilder &images;
  unsigned count = 0;
};
} // namespace

bool canCompileAhead(const CompileOptions &options) {
  return !options.training && options.devices == 0 && options.microbatches <= 1;
}

void compileAhead(ModuleOp shorter, const CompileOptions &options, codegen::ImageBuilder &kernels) {
  FailureOr<dist::MeshAttr> mesh = makeMesh(shorter.getContext(), options);
  if (failed(mesh) || step::getStageMesh(*mesh))
    return;
  shorter->setAttr(dist::kMeshAttrName, *mesh);
  std::unique_ptr<codegen::ImageBuilder> images = std::make_unique<AheadImages>(kernels);
  PassManager manager(shorter.getContext());
  manager.enableVerifier(false);
  buildPhases(manager, options, Phase::Import, Phase::Schedule, nullptr, &images);
  (void)manager.run(shorter);
}

} // namespace colossal
