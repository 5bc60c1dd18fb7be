// colossal-lsp-server: completion, hover and diagnostics of the project's dialects in editors.
#include "colossal/Compiler/Compiler.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "tools/manual/Manual.h"
#include "llvm/Support/CommandLine.h"

/// The server's own options are made, and gone again, in MlirLspServerMain: they stand here once more.
static colossal::tool::Manual describe() {
  colossal::tool::Manual manual;
  manual.name = "colossal-lsp-server";
  manual.version = COLOSSAL_VERSION;
  manual.summary = "Completion, hover and diagnostics of Colossal's dialects in editors";
  manual.description = manual.summary +
                       R"(.

A language server for .mlir files: an editor starts it and speaks the Language Server Protocol with it over standard input and
output. What colossal-opt prints can be read with it. Point the editor's MLIR client at it, as

  "mlir.server_path": "colossal-lsp-server"

for the MLIR extension of Visual Studio Code.)";
  manual.groups = {
      {"Options",
       {{{"--log"}, "LEVEL", "verbosity of the messages on standard error", {"error", "info", "verbose"}},
        {{"--pretty"}, "", "print JSON for people", {}},
        {{"--lit-test"}, "", "short for -input-style=delimited -pretty -log=verbose, for tests", {}},
        {{"--help"}, "", "display the options", {}},
        {{"--version"}, "", "display the version", {}}}}};
  return manual;
}

int main(int argc, char **argv) {
  if (argc == 3 && llvm::StringRef(argv[1]) == "--write-manual") {
    std::string wrong = colossal::tool::writeManual(describe(), argv[2]);
    if (!wrong.empty())
      llvm::errs() << "colossal-lsp-server: " << wrong << "\n";
    return wrong.empty() ? 0 : 3;
  }
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
