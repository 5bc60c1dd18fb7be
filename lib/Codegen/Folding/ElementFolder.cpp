//===- ElementFolder.cpp ----------------------------------------------------===//
//
// From an op and its operands' values to the value of a result, through a ScalarProgram.
//
//===----------------------------------------------------------------------===//
#include "colossal/Codegen/ElementFolder.h"

#include "ScalarEmitter.h"
#include "dialects/Colossal/Colossal.h"
#include "dialects/Colossal/NarrowTypes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/DialectResourceBlobManager.h"

using namespace mlir;
using namespace colossal;

/// Numbers held as plain bytes, one after another, become a dense attribute that the emitter reads.
static Attribute asDense(Attribute value) {
  auto resource = dyn_cast_or_null<DenseResourceElementsAttr>(value);
  if (!resource)
    return value;
  AsmResourceBlob *blob = resource.getRawHandle().getBlob();
  ShapedType type = resource.getType();
  bool isSplat = false;
  if (!blob || type.getElementType().isInteger(1) ||
      !DenseElementsAttr::isValidRawBuffer(type, blob->getData(), isSplat))
    return {};
  return DenseElementsAttr::getFromRawBuffer(type, blob->getData());
}

static DenseElementsAttr makeElements(RankedTensorType type, ArrayRef<Cell> cells) {
  Type element = type.getElementType();
  if (auto floats = dyn_cast<FloatType>(element)) {
    SmallVector<APFloat> values;
    for (const Cell &cell : cells) {
      if (isNarrow(element)) {
        unsigned width = element.getIntOrFloatBitWidth();
        values.push_back(APFloat(floats.getFloatSemantics(), APInt(width, truncateTo(width, cell.integer))));
        continue;
      }
      APFloat value(cell.real);
      bool loses;
      value.convert(floats.getFloatSemantics(), APFloat::rmNearestTiesToEven, &loses);
      values.push_back(value);
    }
    return DenseElementsAttr::get(type, values);
  }
  SmallVector<APInt> values;
  unsigned width = element.getIntOrFloatBitWidth();
  for (const Cell &cell : cells)
    values.push_back(APInt(width, truncateTo(width, cell.integer)));
  return DenseElementsAttr::get(type, values);
}

FailureOr<DenseElementsAttr> colossal::foldElements(Operation *op, ArrayRef<Attribute> operands,
                                                    unsigned result, const FoldLimits &limits) {
  auto type = dyn_cast<RankedTensorType>(op->getResult(result).getType());
  if (!type || !type.hasStaticShape() || type.getNumElements() > limits.elements)
    return failure();
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    auto dense = dyn_cast_or_null<DenseElementsAttr>(asDense(constant.getValue()));
    if (!dense)
      return failure();
    return dense;
  }
  auto emission = dyn_cast<ElementEmissionOpInterface>(op);
  if (!emission || !type.getElementType().isIntOrFloat())
    return failure();
  if (type.getNumElements() == 0)
    return makeElements(type, {});

  op->getContext()->getOrLoadDialect<arith::ArithDialect>();
  op->getContext()->getOrLoadDialect<math::MathDialect>();
  SmallVector<Attribute> values = llvm::map_to_vector(operands, asDense);
  ScalarEmitter emitter(op, values, type.getRank());
  Value element = emission.emitElement(emitter, result, emitter.index());
  if (!element)
    return failure();
  FailureOr<ScalarProgram> program = emitter.finish(element);
  if (failed(program))
    return failure();

  ScalarInterpreter interpreter(*program, limits.instructions);
  std::vector<int64_t> index(type.getRank(), 0);
  SmallVector<Cell> cells(type.getNumElements());
  for (Cell &cell : cells) {
    if (!interpreter.run(index, cell))
      return failure();
    for (int64_t d = type.getRank() - 1; d >= 0 && ++index[d] == type.getDimSize(d); --d)
      index[d] = 0;
  }
  return makeElements(type, cells);
}
