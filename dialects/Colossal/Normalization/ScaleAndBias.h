//===- ScaleAndBias.h - the text of a normalization's optional operands -----===//
//
// `, scale %s` and `, bias %b`, each or both: two optional groups that begin alike, which a declarative
// format cannot tell apart.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_COLOSSAL_NORMALIZATION_SCALEANDBIAS_H
#define COLOSSAL_DIALECTS_COLOSSAL_NORMALIZATION_SCALEANDBIAS_H

#include "mlir/IR/OpImplementation.h"

namespace colossal {

using OptionalOperand = std::optional<mlir::OpAsmParser::UnresolvedOperand>;

inline mlir::ParseResult parseScaleAndBias(mlir::OpAsmParser &parser, OptionalOperand &scale,
                                           OptionalOperand &bias) {
  while (mlir::succeeded(parser.parseOptionalComma())) {
    bool isScale = !scale && !bias && mlir::succeeded(parser.parseOptionalKeyword("scale"));
    if (!isScale && (bias || parser.parseKeyword("bias")))
      return parser.emitError(parser.getCurrentLocation(), "at most a scale and then a bias are expected");
    if (parser.parseOperand((isScale ? scale : bias).emplace()))
      return mlir::failure();
  }
  return mlir::success();
}

inline void printScaleAndBias(mlir::OpAsmPrinter &printer, mlir::Operation *, mlir::Value scale,
                              mlir::Value bias) {
  if (scale)
    printer << ", scale " << scale;
  if (bias)
    printer << ", bias " << bias;
}

} // namespace colossal

#endif // COLOSSAL_DIALECTS_COLOSSAL_NORMALIZATION_SCALEANDBIAS_H
