// Passes of the search phase, and what prepares a model for it.
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

def SplitFusedContractions : Pass<"colossal-split-fused-contractions", "::mlir::func::FuncOp"> {
  let summary = "Compute unequal parts of a contraction's columns one by one";
  let description = [{
    Cuts each contraction with weights whose columns are read by slices of different sizes only (also behind elementwise ops with
    parameters, such as a bias) into one for each slice, with its columns of the weights. An axis can then split each part by its own
    heads. Before `colossal-differentiate`, so that gradients are those of the parts. The pipeline has it where `--layout` is given: one
    contraction is faster than several where no axis splits its columns.

    With `reads-parts` each part of a parameter that nothing else reads becomes a parameter of its own (`dist.part_of`), which ranks store and read
    as others. Without, parts are slices: what is trained stays one tensor.
  }];
  let options = [Option<"readsParts", "reads-parts", "bool", "false", "Read each part of a parameter by itself">];
}

#endif // COLOSSAL_LAYOUT_PASSES_TD
