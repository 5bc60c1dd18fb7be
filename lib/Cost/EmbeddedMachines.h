// The files of lib/Cost/machines as strings in the program. Neighbours: CMakeLists.txt makes the table,
// Machine.cpp parses it.
#pragma once

namespace colossal::cost {

struct EmbeddedMachine {
  const char *name;
  const char *json;
};
extern const EmbeddedMachine embeddedMachines[];
extern const int embeddedMachineCount;

} // namespace colossal::cost
