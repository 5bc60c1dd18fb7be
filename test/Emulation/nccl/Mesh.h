// The members of a communicator, each connected with each, and what one hands another: frames in order, each
// seen by its sender to have been received.
#ifndef COLOSSAL_EMULATION_NCCL_MESH_H
#define COLOSSAL_EMULATION_NCCL_MESH_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace colossal::nccl {

/// What one member hands another in one operation. Both sides say what it is, and must agree.
struct Transfer {
  unsigned peer = 0;
  bool sends = false;
  std::uint64_t what = 0; ///< the operation, its type and so on, as one number
  std::byte *data = nullptr;
  std::uint64_t bytes = 0;
};

class Mesh {
public:
  /// Connects with the other members, who do the same with the id. False where `stop` was raised meanwhile.
  bool connect(const std::string &id, unsigned rank, unsigned size, const std::atomic<bool> &stop);
  ~Mesh();

  /// Does all transfers at once; those to one peer in order, and likewise those from one. A transfer that
  /// sends is done when its receiver has it. Returns what is wrong: empty if nothing is or `stop` was raised.
  /// Where a peer is gone it waits for `stop`, as hardware does, and `lost` is raised before.
  std::string exchange(const std::vector<Transfer> &transfers, const std::atomic<bool> &stop,
                       std::atomic<bool> &lost);

private:
  /// Of each peer: frames to it and its receipts, and frames from it and receipts for them.
  std::vector<int> to, from;
};

} // namespace colossal::nccl

#endif
