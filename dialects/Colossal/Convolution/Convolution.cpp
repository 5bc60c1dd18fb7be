//===- Convolution.cpp ---------------------------------------------------===//
//
// Convolutions over 1 to 3 spatial dimensions. All that is known about these ops stands here: verification, folding, sharding rules,
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

LogicalResult ConvOp::verify() { return success(); }

LogicalResult ConvTransposeOp::verify() { return success(); }

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

FactorRule ConvOp::getFactorRule() { return FactorRule::makeWhole(*this); }

FactorRule ConvTransposeOp::getFactorRule() { return FactorRule::makeWhole(*this); }

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

Value ConvOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) { return {}; }

Value ConvTransposeOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) { return {}; }
