//===- Reduction.cpp -----------------------------------------------------===//
//
// Reductions and scans. All that is known about these ops stands here: verification, folding, sharding rules,
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

LogicalResult ReduceOp::verify() { return success(); }

LogicalResult ArgReduceOp::verify() { return success(); }

LogicalResult CumulateOp::verify() { return success(); }

LogicalResult TopKOp::verify() { return success(); }

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

FactorRule ReduceOp::getFactorRule() { return FactorRule::makeWhole(*this); }

FactorRule ArgReduceOp::getFactorRule() { return FactorRule::makeWhole(*this); }

FactorRule CumulateOp::getFactorRule() { return FactorRule::makeWhole(*this); }

FactorRule TopKOp::getFactorRule() { return FactorRule::makeWhole(*this); }

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

Value ReduceOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) { return {}; }

Value ArgReduceOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) { return {}; }

Value CumulateOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) { return {}; }

Value TopKOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) { return {}; }
