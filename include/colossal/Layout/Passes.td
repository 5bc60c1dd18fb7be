// Passes of the search phase.
#ifndef COLOSSAL_LAYOUT_PASSES_TD
#define COLOSSAL_LAYOUT_PASSES_TD

include "mlir/Pass/PassBase.td"

def SearchLayouts : Pass<"colossal-search-layouts", "::mlir::ModuleOp"> {
  let summary = "Choose which mesh axes split what";
  let description = [{
    Searches layouts for all functions over the module's `dist.mesh`, and writes them back as `dist.assignment` of ops and
    `dist.sharding` of parameters, function arguments and results.
  }];
  let options = [
    Option<"memory", "memory", "uint64_t", "0", "Bytes per device; 0: the machine's">,
    Option<"machine", "machine", "std::string", "\"\"", "Machine file or name">,
    Option<"recipe", "layout", "std::string", "\"\"", "A layout of the papers: 1d, 2d, 2.5d, 3d, sequence, ulysses">,
    ListOption<"pins", "pin", "std::string", "Layouts that are fixed: REGEX=LAYOUT">,
    Option<"explain", "explain", "bool", "false", "Print the chosen layouts, op by op">,
    Option<"asPins", "as-pins", "bool", "false", "Print the chosen layouts as pins">
  ];
  let dependentDialects = ["::colossal::dist::DistDialect"];
}

#endif // COLOSSAL_LAYOUT_PASSES_TD
