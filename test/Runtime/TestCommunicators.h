// What tests make of the local communicator, to have the freedom that others take.
//
//   late      every transfer begins some time after its call has returned
//   any:SEED  every transfer begins and ends at times drawn from the seed, so that those of several queues
//   and ranks
//             come in any order that is legal; and what a message will be written to holds anything until it
//             is there
#ifndef COLOSSAL_TEST_RUNTIME_TESTCOMMUNICATORS_H
#define COLOSSAL_TEST_RUNTIME_TESTCOMMUNICATORS_H

#include <string>

namespace colossal::runtime {

/// Has `local` do as `kind` says, of those above; false where it is none of them. In test programs that link
/// this the environment's COLOSSAL_TEST_COMMUNICATOR is taken at the start.
bool wrapTransfers(const std::string &kind);

} // namespace colossal::runtime

#endif // COLOSSAL_TEST_RUNTIME_TESTCOMMUNICATORS_H
