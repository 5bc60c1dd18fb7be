// What processes say to each other over TCP: rank 0 listens, the others stay connected to it for as long as
// the plan is open. Connections are between those who know one token; what is said is not encrypted.
#ifndef COLOSSAL_RUNTIME_COMM_TCP_CONTROL_H
#define COLOSSAL_RUNTIME_COMM_TCP_CONTROL_H

#include "runtime/comm/Control.h"
#include "runtime/comm/Launch.h"
#include "runtime/execute/Abort.h"

#include <memory>

namespace colossal::runtime {

/// Small values by name, which all processes see.
class Store {
public:
  virtual ~Store() = default;
  virtual Status set(const std::string &key, const std::string &value) = 0;
  /// Waits until somebody has set it.
  virtual Status get(const std::string &key, std::string &value) = 0;
};

class TcpControl : public Control, public Store {};

/// Returns when all processes are connected. Waits look at `abort`, which outlives the control and is raised
/// when a process is gone. Control::abort tells the others, who have three seconds to end by themselves.
Status createTcpControl(const Launch &launch, Abort &abort, std::unique_ptr<TcpControl> &control);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_COMM_TCP_CONTROL_H
