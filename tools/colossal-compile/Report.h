//===- Report.h - what colossal-compile prints, as JSON ---------------------===//
//
// One object on standard output for each thing that is asked for. Sizes are bytes, times are seconds; keys
// stay, new ones may come.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_TOOLS_COLOSSAL_COMPILE_REPORT_H
#define COLOSSAL_TOOLS_COLOSSAL_COMPILE_REPORT_H

#include "Options.h"

#include "colossal/Compiler/Compiler.h"
#include "colossal/Import/ONNX.h"

#include <string>
#include <vector>

/// {"inputs": [{"name", "type", "shape": [8, "seq", null]}]}: a dimension is its size, or its name, or null
/// where it has neither; the shape is null where the model gives none.
std::string printInputsJson(const std::vector<colossal::ModelInput> &inputs);

/// {"operators": [{"domain", "name", "first", "last"}]}: versions of the domain's operator set; `last` is
/// null where it is still current.
std::string printParametersJson(const std::vector<colossal::training::ParameterInfo> &parameters);
std::string printOperatorsJson(const std::vector<colossal::SupportedOperator> &operators);

/// {"pins": ["REGEX=LAYOUT", ...], "predicted_s", "gap", "phases"}: the layout as pins, and what the search
/// made of it.
std::string printPinsJson(const colossal::CompileResult &result);

/// Of a plan that is written: where it is and how large, its programs with what each takes and gives and is
/// predicted to take, memory of a rank, collectives, layouts, and how long each phase took.
std::string printResultJson(const Options &options, const colossal::CompileResult &result, double seconds);

/// For --verbose: what was compiled for what, and how long each phase took; several lines.
std::string describePhases(const Options &options, const colossal::CompileResult &result);

#endif // COLOSSAL_TOOLS_COLOSSAL_COMPILE_REPORT_H
