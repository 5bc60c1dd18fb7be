//===- ONNX.cpp - the import phase ------------------------------------------===//
//
// File to ops, then normalization, recognition of patterns, and the removal of what is not used.
//
//===----------------------------------------------------------------------===//
#include "colossal/Import/ONNX.h"

#include "../IndexChecks.h"
#include "../Patterns/Patterns.h"
#include "../StoredSizes.h"
#include "Lengthening.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

FailureOr<OwningOpRef<ModuleOp>> colossal::onnx_import::makeModule(Importer &importer,
                                                                   const ImportOptions &options) {
  auto module = importer.run();
  if (failed(module) || failed(colossal::normalizeModel(**module, options.isTrained)) ||
      (options.recognisePatterns && failed(colossal::recognisePatterns(**module, options.isTrained))))
    return failure();
  return module;
}

OwningOpRef<ModuleOp> colossal::onnx_import::makeByCopies(MLIRContext *context, const ImportOptions &options,
                                                          const ImportHooks &hooks, const Importer &whole,
                                                          ModelFile &file) {
  Importer shorter(context, options, file);
  if (!shorter.orderShorter(whole))
    return nullptr;
  const bool isAsked = hooks.shorter && shorter.isMuchShorter(), copies = shorter.canBeLengthened();
  if (!isAsked && !copies)
    return nullptr;
  std::vector<Diagnostic> said; // about inputs, as the import of the whole would
  bool isSilent = true;
  OwningOpRef<ModuleOp> copied;
  {
    ScopedDiagnosticHandler quiet(context, [&](Diagnostic &diagnostic) {
      if (shorter.areInputsBound())
        isSilent = false;
      else
        said.push_back(std::move(diagnostic));
      return success();
    });
    auto module = makeModule(shorter, options);
    if (failed(module))
      return nullptr;
    Lengthening lengthening(shorter, whole);
    const bool isEqual = copies && isSilent && lengthening.match();
    shorter.resolveLocations();
    if (isAsked)
      hooks.shorter(isEqual ? OwningOpRef<ModuleOp>((*module)->clone()) : std::move(*module));
    if (isEqual && lengthening.apply())
      copied = std::move(*module);
  }
  for (Diagnostic &diagnostic : said)
    if (copied)
      context->getDiagEngine().emit(std::move(diagnostic));
  return copied;
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
  OwningOpRef<ModuleOp> module = onnx_import::makeByCopies(context, options, hooks, importer, *file);
  const bool isCopied = static_cast<bool>(module);
  if (!isCopied) {
    auto made = onnx_import::makeModule(importer, options);
    if (failed(made))
      return failure();
    importer.resolveLocations();
    module = std::move(*made);
  }
  for (auto function : module->getOps<func::FuncOp>())
    if (failed(checkStoredSizes(function)))
      return failure();
  if (options.checkIndices)
    for (auto function : module->getOps<func::FuncOp>())
      if (failed(checkIndices(function)))
        return failure();
  // Copies of ops that were verified, in an order that was compared, are as valid as these.
  if (!isCopied && failed(verify(*module)))
    return failure();
  return module;
}
