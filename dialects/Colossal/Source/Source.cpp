//===- Source.cpp --------------------------------------------------------===//
//
// Tensors that come from nowhere: parameters, constants, ranges, random values. All that is known about these ops stands here: verification, folding, sharding rules,
// emission.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/Colossal.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

LogicalResult ParameterOp::verify() { return success(); }

LogicalResult ConstantOp::verify() { return success(); }

LogicalResult IotaOp::verify() { return success(); }

LogicalResult RandomOp::verify() { return success(); }

//===----------------------------------------------------------------------===//
// Folding
//===----------------------------------------------------------------------===//

OpFoldResult ConstantOp::fold(FoldAdaptor adaptor) { return getValue(); }

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

FactorRule ParameterOp::getFactorRule() { return FactorRule::makeWhole(*this); }

FactorRule ConstantOp::getFactorRule() { return FactorRule::makeWhole(*this); }

FactorRule IotaOp::getFactorRule() { return FactorRule::makeWhole(*this); }

FactorRule RandomOp::getFactorRule() { return FactorRule::makeWhole(*this); }

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

Value ParameterOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) { return {}; }

Value ConstantOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) { return {}; }

Value IotaOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) { return {}; }

Value RandomOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) { return {}; }
