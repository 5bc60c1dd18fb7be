//===- Movement.cpp ------------------------------------------------------===//
//
// Ops that move elements and compute nothing. All that is known about these ops stands here: verification, folding, sharding rules,
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

LogicalResult ReshapeOp::verify() { return success(); }

LogicalResult TransposeOp::verify() { return success(); }

LogicalResult BroadcastOp::verify() { return success(); }

LogicalResult SliceOp::verify() { return success(); }

LogicalResult ConcatOp::verify() { return success(); }

LogicalResult PadOp::verify() { return success(); }

//===----------------------------------------------------------------------===//
// Folding
//===----------------------------------------------------------------------===//

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) { return {}; }

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) { return {}; }

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) { return {}; }

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) { return {}; }

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

FactorRule ReshapeOp::getFactorRule() { return FactorRule::makeWhole(*this); }

FactorRule TransposeOp::getFactorRule() { return FactorRule::makeWhole(*this); }

FactorRule BroadcastOp::getFactorRule() { return FactorRule::makeWhole(*this); }

FactorRule SliceOp::getFactorRule() { return FactorRule::makeWhole(*this); }

FactorRule ConcatOp::getFactorRule() { return FactorRule::makeWhole(*this); }

FactorRule PadOp::getFactorRule() { return FactorRule::makeWhole(*this); }

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

Value ReshapeOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) { return {}; }

Value TransposeOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) { return {}; }

Value BroadcastOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) { return {}; }

Value SliceOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) { return {}; }

Value ConcatOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) { return {}; }

Value PadOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) { return {}; }
