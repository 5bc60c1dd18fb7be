// colossal-lsp-server: completion, hover and diagnostics of the project's dialects in editors.
#include "colossal/Compiler/Compiler.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "llvm/Support/CommandLine.h"

int main(int argc, char **argv) {
  llvm::cl::SetVersionPrinter(
      [](llvm::raw_ostream &out) { out << "colossal-lsp-server " COLOSSAL_VERSION "\n"; });
  mlir::DialectRegistry registry;
  colossal::registerDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
