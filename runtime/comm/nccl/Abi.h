// The part of NCCL's ABI that the runtime calls, declared here so that it builds where NCCL is not installed.
// test/Emulation/nccl/AbiTest.cpp compares it with the vendor's header where that is found.
//
// Names are the vendor's without their prefix. The configuration is that of 2.18, which later versions take.
#ifndef COLOSSAL_RUNTIME_COMM_NCCL_ABI_H
#define COLOSSAL_RUNTIME_COMM_NCCL_ABI_H

#include "runtime/cuda/Abi.h"

#include <climits>

namespace colossal::nccl {

using Comm = struct CommHandle *;
using cuda::Stream;

struct UniqueId {
  char internal[128];
};

enum Result : unsigned {
  Success = 0,
  UnhandledCudaError = 1,
  SystemError = 2,
  InternalError = 3,
  InvalidArgument = 4,
  InvalidUsage = 5,
  RemoteError = 6,
  InProgress = 7
};

enum DataType : unsigned {
  Int8 = 0,
  Uint8 = 1,
  Int32 = 2,
  Uint32 = 3,
  Int64 = 4,
  Uint64 = 5,
  Float16 = 6,
  Float32 = 7,
  Float64 = 8,
  Bfloat16 = 9
};

enum RedOp : unsigned { Sum = 0, Prod = 1, Max = 2, Min = 3 };

struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef, version = 21800;
  int blocking = INT_MIN, cgaClusterSize = INT_MIN, minCTAs = INT_MIN, maxCTAs = INT_MIN;
  const char *netName = nullptr;
  int splitShare = INT_MIN;
};

constexpr int leastVersion = 21800;

// What is called, by the names under which the library exports it: X(return type, symbol, arguments).
#define COLOSSAL_NCCL(X)                                                                                     \
  X(Result, ncclGetVersion, (int *))                                                                         \
  X(Result, ncclGetUniqueId, (UniqueId *))                                                                   \
  X(Result, ncclCommInitRankConfig, (Comm *, int, UniqueId, int, Config *))                                  \
  X(Result, ncclCommFinalize, (Comm))                                                                        \
  X(Result, ncclCommDestroy, (Comm))                                                                         \
  X(Result, ncclCommAbort, (Comm))                                                                           \
  X(Result, ncclCommGetAsyncError, (Comm, Result *))                                                         \
  X(const char *, ncclGetErrorString, (Result))                                                              \
  X(const char *, ncclGetLastError, (Comm))                                                                  \
  X(Result, ncclAllReduce, (const void *, void *, size_t, DataType, RedOp, Comm, Stream))                    \
  X(Result, ncclBroadcast, (const void *, void *, size_t, DataType, int, Comm, Stream))                      \
  X(Result, ncclAllGather, (const void *, void *, size_t, DataType, Comm, Stream))                           \
  X(Result, ncclReduceScatter, (const void *, void *, size_t, DataType, RedOp, Comm, Stream))                \
  X(Result, ncclSend, (const void *, size_t, DataType, int, Comm, Stream))                                   \
  X(Result, ncclRecv, (void *, size_t, DataType, int, Comm, Stream))                                         \
  X(Result, ncclGroupStart, ())                                                                              \
  X(Result, ncclGroupEnd, ())

/// Addresses of the library's functions.
struct Functions {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration's parts
#define COLOSSAL_NCCL_MEMBER(type, symbol, arguments) type(*symbol) arguments = nullptr;
  COLOSSAL_NCCL(COLOSSAL_NCCL_MEMBER)
#undef COLOSSAL_NCCL_MEMBER
};

} // namespace colossal::nccl

#endif // COLOSSAL_RUNTIME_COMM_NCCL_ABI_H
