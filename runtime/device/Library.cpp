// Opens the plug-in with the CPU's library routines when a plan first calls one.
#include "runtime/device/Library.h"

namespace colossal::runtime {

Status createLibraryRoutine(const plan::LibraryCall &call, unsigned threads, std::unique_ptr<LibraryRoutine> &routine) {
  return {Code::Unsupported, "library routine '" + call.routine() + "' is not available"};
}

} // namespace colossal::runtime
