//===- Indexing.cpp ------------------------------------------------------===//
//
// Reads and writes at computed places. All that is known about these ops stands here: verification, folding, sharding rules,
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

LogicalResult GatherOp::verify() { return success(); }

LogicalResult GatherElementsOp::verify() { return success(); }

LogicalResult GatherNDOp::verify() { return success(); }

LogicalResult ScatterElementsOp::verify() { return success(); }

LogicalResult ScatterNDOp::verify() { return success(); }

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

FactorRule GatherOp::getFactorRule() { return FactorRule::makeWhole(*this); }

FactorRule GatherElementsOp::getFactorRule() { return FactorRule::makeWhole(*this); }

FactorRule GatherNDOp::getFactorRule() { return FactorRule::makeWhole(*this); }

FactorRule ScatterElementsOp::getFactorRule() { return FactorRule::makeWhole(*this); }

FactorRule ScatterNDOp::getFactorRule() { return FactorRule::makeWhole(*this); }

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

Value GatherOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) { return {}; }

Value GatherElementsOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) { return {}; }

Value GatherNDOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) { return {}; }

Value ScatterElementsOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) { return {}; }

Value ScatterNDOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) { return {}; }
