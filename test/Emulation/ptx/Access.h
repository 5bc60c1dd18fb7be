// What instructions that touch memory share.
#ifndef COLOSSAL_EMULATION_PTX_ACCESS_H
#define COLOSSAL_EMULATION_PTX_ACCESS_H

#include "Block.h"

namespace colossal::ptx {

class Selection;

/// The lanes' addresses of an instruction's memory operand, with its space and line.
void findAddresses(const Warp &warp, const Instruction &instruction, Access &access);
/// Takes the state space away from an opcode; Generic if it names none.
Space takeSpace(Selection &selection);

} // namespace colossal::ptx

#endif
