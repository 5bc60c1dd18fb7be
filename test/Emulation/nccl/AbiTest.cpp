// Our declarations of NCCL's functions and values against the vendor's header.
#include "runtime/comm/nccl/Abi.h"
#include "test/Emulation/AbiComparison.h"

#include <nccl.h>

namespace colossal::nccl {

#define COLOSSAL_NCCL_COMPARE(type, symbol, arguments)                                                       \
  static_assert(emulation::sameFunction<type arguments, decltype(::symbol)>, #symbol);
COLOSSAL_NCCL(COLOSSAL_NCCL_COMPARE)

#define COLOSSAL_NCCL_VALUE(ours, theirs)                                                                    \
  static_assert(static_cast<int>(ours) == static_cast<int>(theirs), #ours);
COLOSSAL_NCCL_VALUE(Success, ncclSuccess)
COLOSSAL_NCCL_VALUE(UnhandledCudaError, ncclUnhandledCudaError)
COLOSSAL_NCCL_VALUE(SystemError, ncclSystemError)
COLOSSAL_NCCL_VALUE(InternalError, ncclInternalError)
COLOSSAL_NCCL_VALUE(InvalidArgument, ncclInvalidArgument)
COLOSSAL_NCCL_VALUE(InvalidUsage, ncclInvalidUsage)
COLOSSAL_NCCL_VALUE(RemoteError, ncclRemoteError)
COLOSSAL_NCCL_VALUE(InProgress, ncclInProgress)
COLOSSAL_NCCL_VALUE(Int8, ncclInt8)
COLOSSAL_NCCL_VALUE(Uint8, ncclUint8)
COLOSSAL_NCCL_VALUE(Int32, ncclInt32)
COLOSSAL_NCCL_VALUE(Uint32, ncclUint32)
COLOSSAL_NCCL_VALUE(Int64, ncclInt64)
COLOSSAL_NCCL_VALUE(Uint64, ncclUint64)
COLOSSAL_NCCL_VALUE(Float16, ncclFloat16)
COLOSSAL_NCCL_VALUE(Float32, ncclFloat32)
COLOSSAL_NCCL_VALUE(Float64, ncclFloat64)
COLOSSAL_NCCL_VALUE(Bfloat16, ncclBfloat16)
COLOSSAL_NCCL_VALUE(Sum, ncclSum)
COLOSSAL_NCCL_VALUE(Prod, ncclProd)
COLOSSAL_NCCL_VALUE(Max, ncclMax)
COLOSSAL_NCCL_VALUE(Min, ncclMin)

static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));
// Later configurations are longer; ours is their beginning.
static_assert(sizeof(Config) <= sizeof(ncclConfig_t));
static_assert(offsetof(Config, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(Config, netName) == offsetof(ncclConfig_t, netName));
static_assert(offsetof(Config, splitShare) == offsetof(ncclConfig_t, splitShare));

} // namespace colossal::nccl
