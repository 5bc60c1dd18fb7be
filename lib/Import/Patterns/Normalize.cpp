//===- Normalize.cpp - one form for what exporters write in many ------------===//
//
// Folding alone, so far.
//
//===----------------------------------------------------------------------===//
#include "Patterns.h"

void colossal::populateNormalizePatterns(mlir::RewritePatternSet &) {}
