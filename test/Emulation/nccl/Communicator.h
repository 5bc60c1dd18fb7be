// A communicator's state, and the operations of a group on it, as work of a stream.
#ifndef COLOSSAL_EMULATION_NCCL_COMMUNICATOR_H
#define COLOSSAL_EMULATION_NCCL_COMMUNICATOR_H

#include "Mesh.h"
#include "runtime/comm/nccl/Abi.h"
#include "test/Emulation/driver/Hooks.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

namespace colossal::nccl {

/// Shared by the handle and the work that is under way.
struct State {
  unsigned rank = 0, size = 1;
  bool blocking = true;
  Mesh mesh;
  std::atomic<bool> stop{false}; ///< it was aborted
  std::atomic<bool> lost{false}; ///< a peer is gone
  std::atomic<unsigned> result{InProgress};

  std::mutex mutex; ///< of what follows
  std::condition_variable changed;
  std::uint64_t issued = 0, done = 0; ///< groups: they run in the order in which they came
  unsigned busy = 0;                  ///< questions until the last call counts as ended
  std::string error;
  void fail(Result code, const std::string &why);
};

enum class Kind : std::uint64_t { AllReduce = 1, Broadcast, AllGather, ReduceScatter, Send, Receive };

struct Operation {
  Kind kind = Kind::Send;
  const void *source = nullptr;
  void *destination = nullptr;
  std::size_t count = 0;
  DataType type = Uint8;
  RedOp op = Sum;
  unsigned peer = 0; ///< or root
};

std::size_t elementBytes(DataType type);

/// Adds the operations as one work of the stream. What they use must be device memory.
Result enqueue(const std::shared_ptr<State> &state, Stream stream, std::vector<Operation> operations);

struct CommHandle {
  std::shared_ptr<State> state;
  std::thread starter;
};
} // namespace colossal::nccl

#endif
