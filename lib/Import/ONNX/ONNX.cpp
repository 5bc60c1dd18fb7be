//===- ONNX.cpp - the import phase ------------------------------------------===//
//
// File to ops, then normalization, recognition of patterns, and the removal of what is not used.
//
//===----------------------------------------------------------------------===//
#include "colossal/Import/ONNX.h"

#include "../IndexChecks.h"
#include "../Patterns/Patterns.h"
#include "../StoredSizes.h"
#include "Importer.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

/// Ops of the nodes that `importer` has ordered, as they are once patterns are recognised.
static FailureOr<OwningOpRef<ModuleOp>> makeModule(colossal::onnx_import::Importer &importer,
                                                   const colossal::ImportOptions &options) {
  auto module = importer.run();
  if (failed(module) || failed(colossal::normalizeModel(**module)) ||
      (options.recognisePatterns && failed(colossal::recognisePatterns(**module))))
    return failure();
  importer.resolveLocations();
  return module;
}

FailureOr<OwningOpRef<ModuleOp>> colossal::importOnnx(MLIRContext *context, const ImportOptions &options,
                                                      const ImportHooks &hooks) {
  context->loadDialect<ColossalDialect, func::FuncDialect>();
  auto opened = onnx_import::ModelFile::open(options.modelPath);
  if (!opened)
    return emitError(FileLineColLoc::get(context, options.modelPath, 0, 0)) << toString(opened.takeError());
  std::shared_ptr<onnx_import::ModelFile> file = std::move(*opened);
  if (hooks.source)
    *hooks.source = file;
  file->setAllowMissing(options.allowMissingWeights);
  onnx_import::Importer importer(context, options, *file);
  if (failed(importer.orderNodes()))
    return failure();
  if (hooks.shorter) {
    ScopedDiagnosticHandler quiet(context, [](Diagnostic &) { return success(); });
    onnx_import::Importer shorter(context, options, *file);
    if (shorter.orderShorter(importer))
      if (auto module = makeModule(shorter, options); succeeded(module))
        hooks.shorter(std::move(*module));
  }
  auto module = makeModule(importer, options);
  if (failed(module))
    return failure();
  for (auto function : (*module)->getOps<func::FuncOp>())
    if (failed(checkStoredSizes(function)))
      return failure();
  if (options.checkIndices)
    for (auto function : (*module)->getOps<func::FuncOp>())
      if (failed(checkIndices(function)))
        return failure();
  if (failed(verify(**module)))
    return failure();
  return module;
}
