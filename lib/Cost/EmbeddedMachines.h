// The files of lib/Cost/machines as strings in the program.
#ifndef COLOSSAL_COST_EMBEDDEDMACHINES_H
#define COLOSSAL_COST_EMBEDDEDMACHINES_H

namespace colossal::cost {

struct EmbeddedMachine {
  const char *name;
  const char *json;
};
extern const EmbeddedMachine embeddedMachines[];
extern const int embeddedMachineCount;

} // namespace colossal::cost

#endif // COLOSSAL_COST_EMBEDDEDMACHINES_H
