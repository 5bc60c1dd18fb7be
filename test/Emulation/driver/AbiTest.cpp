// The runtime's declarations of the driver's ABI against the vendor's header: functions argument by argument,
// and the values of enumerations. All of it is seen when this is compiled.
#include "runtime/cuda/Abi.h"
#include "test/Emulation/AbiComparison.h"

#include <cuda.h>

namespace colossal::cuda {

// Newer headers rename this one; a driver exports both, with the same arguments.
#ifdef cuEventElapsedTime
#undef cuEventElapsedTime
#define COLOSSAL_HEADER_NAME_cuEventElapsedTime cuEventElapsedTime_v2
#else
#define COLOSSAL_HEADER_NAME_cuEventElapsedTime cuEventElapsedTime
#endif

#define COLOSSAL_CUDA_COMPARE(symbol, arguments)                                                             \
  static_assert(emulation::sameFunction<Result arguments, decltype(::symbol)>,                               \
                #symbol " is declared otherwise");
// All but that one.
#define cuEventElapsedTime COLOSSAL_HEADER_NAME_cuEventElapsedTime
COLOSSAL_CUDA_DRIVER(COLOSSAL_CUDA_COMPARE)
#undef cuEventElapsedTime

static_assert(sizeof(DevicePointer) == sizeof(::CUdeviceptr));

#define COLOSSAL_CUDA_VALUE(own, theirs)                                                                     \
  static_assert(static_cast<unsigned>(own) == static_cast<unsigned>(::theirs), #own)
COLOSSAL_CUDA_VALUE(Success, CUDA_SUCCESS);
COLOSSAL_CUDA_VALUE(InvalidValue, CUDA_ERROR_INVALID_VALUE);
COLOSSAL_CUDA_VALUE(OutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
COLOSSAL_CUDA_VALUE(NotInitialized, CUDA_ERROR_NOT_INITIALIZED);
COLOSSAL_CUDA_VALUE(NoDevice, CUDA_ERROR_NO_DEVICE);
COLOSSAL_CUDA_VALUE(InvalidDevice, CUDA_ERROR_INVALID_DEVICE);
COLOSSAL_CUDA_VALUE(InvalidImage, CUDA_ERROR_INVALID_IMAGE);
COLOSSAL_CUDA_VALUE(InvalidContext, CUDA_ERROR_INVALID_CONTEXT);
COLOSSAL_CUDA_VALUE(NoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
COLOSSAL_CUDA_VALUE(InvalidPtx, CUDA_ERROR_INVALID_PTX);
COLOSSAL_CUDA_VALUE(InvalidHandle, CUDA_ERROR_INVALID_HANDLE);
COLOSSAL_CUDA_VALUE(IllegalState, CUDA_ERROR_ILLEGAL_STATE);
COLOSSAL_CUDA_VALUE(NotFound, CUDA_ERROR_NOT_FOUND);
COLOSSAL_CUDA_VALUE(NotReady, CUDA_ERROR_NOT_READY);
COLOSSAL_CUDA_VALUE(IllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
COLOSSAL_CUDA_VALUE(LaunchOutOfResources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
COLOSSAL_CUDA_VALUE(HostMemoryAlreadyRegistered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
COLOSSAL_CUDA_VALUE(HostMemoryNotRegistered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
COLOSSAL_CUDA_VALUE(MisalignedAddress, CUDA_ERROR_MISALIGNED_ADDRESS);
COLOSSAL_CUDA_VALUE(LaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
COLOSSAL_CUDA_VALUE(NotPermitted, CUDA_ERROR_NOT_PERMITTED);
COLOSSAL_CUDA_VALUE(NotSupported, CUDA_ERROR_NOT_SUPPORTED);
COLOSSAL_CUDA_VALUE(StreamCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
COLOSSAL_CUDA_VALUE(StreamCaptureInvalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
COLOSSAL_CUDA_VALUE(StreamCaptureUnmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
COLOSSAL_CUDA_VALUE(StreamCaptureUnjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
COLOSSAL_CUDA_VALUE(StreamCaptureIsolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
COLOSSAL_CUDA_VALUE(CapturedEvent, CUDA_ERROR_CAPTURED_EVENT);
COLOSSAL_CUDA_VALUE(StreamCaptureWrongThread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
COLOSSAL_CUDA_VALUE(AttributeMaxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
COLOSSAL_CUDA_VALUE(AttributeMultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
COLOSSAL_CUDA_VALUE(AttributeComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
COLOSSAL_CUDA_VALUE(AttributeComputeCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
COLOSSAL_CUDA_VALUE(AttributeCanUse64BitStreamMemoryOperations,
                    CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
COLOSSAL_CUDA_VALUE(FunctionMaxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
COLOSSAL_CUDA_VALUE(JitErrorLogBuffer, CU_JIT_ERROR_LOG_BUFFER);
COLOSSAL_CUDA_VALUE(JitErrorLogBufferSizeBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
COLOSSAL_CUDA_VALUE(CaptureModeGlobal, CU_STREAM_CAPTURE_MODE_GLOBAL);
COLOSSAL_CUDA_VALUE(CaptureModeThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
COLOSSAL_CUDA_VALUE(CaptureModeRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
COLOSSAL_CUDA_VALUE(StreamNonBlocking, CU_STREAM_NON_BLOCKING);
COLOSSAL_CUDA_VALUE(EventDefault, CU_EVENT_DEFAULT);
COLOSSAL_CUDA_VALUE(EventDisableTiming, CU_EVENT_DISABLE_TIMING);
COLOSSAL_CUDA_VALUE(StreamWaitValueGreaterOrEqual, CU_STREAM_WAIT_VALUE_GEQ);
static_assert(HostAllocPortable == CU_MEMHOSTALLOC_PORTABLE &&
              HostAllocDeviceMap == CU_MEMHOSTALLOC_DEVICEMAP);
static_assert(HostRegisterPortable == CU_MEMHOSTREGISTER_PORTABLE &&
              HostRegisterDeviceMap == CU_MEMHOSTREGISTER_DEVICEMAP);

} // namespace colossal::cuda
