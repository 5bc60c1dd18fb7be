// colossal-lsp-server: completion, hover and diagnostics of the project's dialects in editors.
#include "colossal/Compiler/Compiler.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "llvm/Support/CommandLine.h"

int main(int argc, char **argv) {
  llvm::cl::SetVersionPrinter(
      [](llvm::raw_ostream &out) { out << "colossal-lsp-server " COLOSSAL_VERSION "\n"; });
  // What is registered by now is LLVM's, hundreds of options that this program has no use for; the server's
  // own follow.
  for (auto &[name, option] : llvm::cl::getRegisteredOptions())
    if (name != "help" && name != "version" && option->getOptionHiddenFlag() == llvm::cl::NotHidden)
      option->setHiddenFlag(llvm::cl::Hidden);
  mlir::DialectRegistry registry;
  colossal::registerDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
