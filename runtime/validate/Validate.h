// Judges a plan before anything of it is mapped or run. A plan is hostile until this accepts it.
//
// The rules are those of docs/PlanFormat.md, checked from the plan alone, independently of the compiler that
// wrote it: every index, size, alignment and bound for all ranks and all iterations; what an instruction
// writes against what it reads; events; the call graph; that all ranks meet in the same collectives; that
// what touches the same bytes is ordered, and that messages meet (Order.h). What a kernel does inside its
// buffers is machine code and beyond any check.
#ifndef COLOSSAL_RUNTIME_VALIDATE_VALIDATE_H
#define COLOSSAL_RUNTIME_VALIDATE_VALIDATE_H

#include "colossal/Plan/Container.h"
#include "colossal/Plan/Status.h"

#include <string>
#include <vector>

namespace colossal::runtime {

using plan::Code;
using plan::Status;

/// Checks everything but the target. `code` and `data` are the plan file's sections. The message of a failure
/// names the program, the instruction and its source. `messagesInOrder`: whether the ranks must come to their
/// ends also where no tag tells messages apart and every send to another rank waits for its receiver, as with
/// NCCL.
Status validatePlan(const plan::Plan &plan, plan::ByteView code, plan::ByteView data,
                    bool messagesInOrder = false);

/// How a program's instruction is named in messages: "program 'infer', instruction 3.1 (launch; from
/// /layer0/Add)". `call`: of the function that it stands in, where that is known.
std::string describeInstruction(const std::string &owner, const std::string &path,
                                const plan::Instruction &instruction, const plan::Call *call = nullptr);
/// "launch", "all_reduce", ...
std::string instructionKind(const plan::Instruction &instruction);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_VALIDATE_VALIDATE_H
