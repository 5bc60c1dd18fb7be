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

FailureOr<OwningOpRef<ModuleOp>> colossal::importOnnx(MLIRContext *context, const ImportOptions &options) {
  context->loadDialect<ColossalDialect, func::FuncDialect>();
  auto file = onnx_import::ModelFile::open(options.modelPath);
  if (!file)
    return emitError(FileLineColLoc::get(context, options.modelPath, 0, 0)) << toString(file.takeError());
  (*file)->setAllowMissing(options.allowMissingWeights);
  onnx_import::Importer importer(context, options, **file);
  auto module = importer.run();
  if (failed(module))
    return failure();
  if (failed(normalizeModel(**module)) || (options.recognisePatterns && failed(recognisePatterns(**module))))
    return failure();
  importer.resolveLocations();
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
