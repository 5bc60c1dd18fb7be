// What the parts of the mpi communicator share: errors as statuses, long messages, and groups with their
// staging.
#ifndef COLOSSAL_RUNTIME_COMM_MPI_MPI_H
#define COLOSSAL_RUNTIME_COMM_MPI_MPI_H

#include "runtime/comm/Communicator.h"
#include "runtime/execute/Abort.h"

#include "colossal/Plan/Traffic.h"

#include <mpi.h>

#include <climits>

namespace colossal::runtime {

inline Status check(int code, const char *what) {
  if (code == MPI_SUCCESS)
    return {};
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {Code::RankFailed, std::string(what) + ": " + std::string(text, static_cast<size_t>(length))};
}

#define COLOSSAL_MPI(call) COLOSSAL_RETURN_IF_ERROR(check((call), #call))

/// What one queue's collectives pack into and unpack from, one after the other. It has its size when the plan
/// is loaded, by the plan's own formula (colossal/Plan/Traffic.h), and never more than plan::stagingLimit.
using StagingArea = std::vector<std::byte>;

struct MpiGroup : Group {
  ~MpiGroup() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!finalized && comm != MPI_COMM_NULL)
      MPI_Comm_free(&comm);
  }
  MPI_Comm comm = MPI_COMM_NULL;
  std::shared_ptr<StagingArea> staging; // shared by the groups of a channel
};

/// MPI counts are ints; bytes beyond that travel as elements of a wider type.
class Unit {
public:
  Status create(uint64_t bytes) {
    uint64_t width = 1;
    while (bytes / width > INT_MAX && bytes % (width * 2) == 0)
      width *= 2;
    if (bytes / width > INT_MAX)
      return {Code::Unsupported, "a message of " + std::to_string(bytes) + " bytes is too long for MPI"};
    count = static_cast<int>(bytes / width);
    if (width > 1) {
      COLOSSAL_MPI(MPI_Type_contiguous(static_cast<int>(width), MPI_BYTE, &type));
      COLOSSAL_MPI(MPI_Type_commit(&type));
    }
    return {};
  }
  ~Unit() {
    if (type != MPI_BYTE)
      MPI_Type_free(&type);
  }
  MPI_Datatype type = MPI_BYTE;
  int count = 0;
};

/// A communicator of all processes, of its own, whose errors come back as codes.
inline MPI_Comm everyone() {
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &made);
  MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
  return made;
}

/// How much of a call goes at once, by the plan's formula.
plan::Staging stagingOf(const CollectiveCall &call);
/// Does a collective on the calling thread; its group is an MpiGroup.
Status runCollective(const CollectiveCall &call);

/// Both live between MPI_Init and MPI_Finalize; the control's end finalizes MPI. `abort` outlives them.
std::unique_ptr<Control> createMpiControl();
std::unique_ptr<Transfers> createMpiTransfers(Abort &abort);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_COMM_MPI_MPI_H
