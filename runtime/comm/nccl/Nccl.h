// What the parts of the nccl communicator share.
#ifndef COLOSSAL_RUNTIME_COMM_NCCL_NCCL_H
#define COLOSSAL_RUNTIME_COMM_NCCL_NCCL_H

#include "runtime/comm/Communicator.h"
#include "runtime/comm/nccl/Library.h"
#include "runtime/comm/tcp/Control.h"
#include "runtime/cuda/Queue.h"

#include <list>
#include <thread>

namespace colossal::runtime {

/// Communicators of NCCL, made without blocking, watched, and aborted when the run is: a thread of its own
/// asks for errors that come late. Who calls one, another thread than that, holds a Use.
class NcclConnections {
public:
  NcclConnections(const NcclLibrary &library, Abort &abort);
  ~NcclConnections();

  /// While it lives no communicator is aborted, which would take it away under its caller.
  using Use = std::unique_lock<std::mutex>;
  /// Fails where they have been aborted.
  Status use(Use &use);

  // With a Use:
  /// One of `size` members, who all call this with one id. The calling thread has the GPU's context.
  Status create(const nccl::UniqueId &id, uint32_t size, uint32_t rank, nccl::Comm &made);
  /// Returns when the communicator is ready for its next call.
  Status await(nccl::Comm communicator) const;
  const NcclLibrary &nccl() const { return library; }

private:
  void watch();

  const NcclLibrary &library;
  Abort &abort;
  std::mutex mutex;
  std::list<nccl::Comm> all;
  bool stopping = false, aborted = false;
  std::condition_variable changed;
  std::thread watcher; // last
};

/// What one queue's collectives pack into and unpack from, in the device's memory.
struct NcclStaging {
  std::unique_ptr<Allocation> memory;
};

struct NcclGroup : Group {
  nccl::Comm communicator = nullptr; ///< null where there is one member
  std::shared_ptr<NcclStaging> staging;
};

/// The kernels of Kernels.cu on one device.
class NcclKernels {
public:
  Status load(Device &device);
  /// out[e] = reduction over members of parts[member * count + e].
  Status reduce(ElementType type, Reduction op, std::byte *parts, uint32_t members, uint64_t count,
                std::byte *out, Queue &queue) const;
  /// `length` elements of each of `rows` rows, `stride` elements apart.
  Status fill(ElementType type, double value, std::byte *out, uint64_t rows, uint64_t stride, uint64_t length,
              Queue &queue) const;

private:
  std::shared_ptr<Image> image;
  Kernel reductions[16] = {};
  Kernel fills[9] = {}; // by the element's bytes
};

/// Enqueues a collective, whose group is an NcclGroup. `ordered`: in the order of the members.
Status enqueueNccl(const CollectiveCall &call, bool ordered, NcclConnections &connections,
                   const NcclKernels &kernels, CudaQueue &queue);
/// Bytes of staging that it takes.
uint64_t ncclStagingOf(const CollectiveCall &call, bool ordered);

/// Ranks are processes, each with a GPU of its own. `control` and `abort` outlive what comes back.
std::unique_ptr<Transfers> createNcclTransfers(const NcclLibrary &library, bool ordered, Control &control,
                                               Store &store, Abort &abort);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_COMM_NCCL_NCCL_H
