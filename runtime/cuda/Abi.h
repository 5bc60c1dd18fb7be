// The part of the CUDA driver's ABI that the runtime calls, declared here so that it builds where no toolkit
// is. test/Emulation/driver/AbiTest.cpp compares it with the vendor's header where that is installed.
//
// Names are the vendor's without their prefix. Handles are distinct pointers; enumerations are integers, and
// of their values those stand here that somebody uses.
#ifndef COLOSSAL_RUNTIME_CUDA_ABI_H
#define COLOSSAL_RUNTIME_CUDA_ABI_H

#include <cstddef>
#include <cstdint>

namespace colossal::cuda {

using Ordinal = int; // CUdevice
using DevicePointer = unsigned long long;
using Context = struct ContextHandle *;
using Stream = struct StreamHandle *;
using Event = struct EventHandle *;
using Module = struct ModuleHandle *;
using Function = struct FunctionHandle *;
using Graph = struct GraphHandle *;
using GraphExec = struct GraphExecHandle *;
using HostFunction = void (*)(void *);

enum Result : unsigned {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  NotInitialized = 3,
  NoDevice = 100,
  InvalidDevice = 101,
  InvalidImage = 200,
  InvalidContext = 201,
  NoBinaryForGpu = 209,
  InvalidPtx = 218,
  InvalidHandle = 400,
  IllegalState = 401,
  NotFound = 500,
  NotReady = 600,
  IllegalAddress = 700,
  LaunchOutOfResources = 701,
  HostMemoryAlreadyRegistered = 712,
  HostMemoryNotRegistered = 713,
  MisalignedAddress = 716,
  LaunchFailed = 719,
  NotPermitted = 800,
  NotSupported = 801,
  StreamCaptureUnsupported = 900,
  StreamCaptureInvalidated = 901,
  StreamCaptureUnmatched = 903,
  StreamCaptureUnjoined = 904,
  StreamCaptureIsolation = 905,
  CapturedEvent = 907,
  StreamCaptureWrongThread = 908
};

enum DeviceAttribute : unsigned {
  AttributeMaxThreadsPerBlock = 1,
  AttributeMultiprocessorCount = 16,
  AttributeComputeCapabilityMajor = 75,
  AttributeComputeCapabilityMinor = 76,
  AttributeCanUse64BitStreamMemoryOperations = 122
};

enum FunctionAttribute : unsigned { FunctionMaxThreadsPerBlock = 0 };
enum JitOption : unsigned { JitErrorLogBuffer = 5, JitErrorLogBufferSizeBytes = 6 };
enum CaptureMode : unsigned { CaptureModeGlobal = 0, CaptureModeThreadLocal = 1, CaptureModeRelaxed = 2 };

constexpr unsigned StreamNonBlocking = 1;
constexpr unsigned EventDefault = 0, EventDisableTiming = 2;
constexpr unsigned HostAllocPortable = 1, HostAllocDeviceMap = 2;
constexpr unsigned HostRegisterPortable = 1, HostRegisterDeviceMap = 2;
constexpr unsigned StreamWaitValueGreaterOrEqual = 0;

// What is called, by the names under which the driver exports it: X(symbol, arguments). Each returns Result.
#define COLOSSAL_CUDA_DRIVER(X)                                                                              \
  X(cuInit, (unsigned))                                                                                      \
  X(cuDriverGetVersion, (int *))                                                                             \
  X(cuGetErrorName, (Result, const char **))                                                                 \
  X(cuGetErrorString, (Result, const char **))                                                               \
  X(cuDeviceGetCount, (int *))                                                                               \
  X(cuDeviceGet, (Ordinal *, int))                                                                           \
  X(cuDeviceGetName, (char *, int, Ordinal))                                                                 \
  X(cuDeviceGetAttribute, (int *, DeviceAttribute, Ordinal))                                                 \
  X(cuDeviceTotalMem_v2, (size_t *, Ordinal))                                                                \
  X(cuDevicePrimaryCtxRetain, (Context *, Ordinal))                                                          \
  X(cuDevicePrimaryCtxRelease_v2, (Ordinal))                                                                 \
  X(cuCtxSetCurrent, (Context))                                                                              \
  X(cuMemGetInfo_v2, (size_t *, size_t *))                                                                   \
  X(cuMemAlloc_v2, (DevicePointer *, size_t))                                                                \
  X(cuMemFree_v2, (DevicePointer))                                                                           \
  X(cuMemHostAlloc, (void **, size_t, unsigned))                                                             \
  X(cuMemFreeHost, (void *))                                                                                 \
  X(cuMemHostRegister_v2, (void *, size_t, unsigned))                                                        \
  X(cuMemHostUnregister, (void *))                                                                           \
  X(cuMemHostGetDevicePointer_v2, (DevicePointer *, void *, unsigned))                                       \
  X(cuMemcpyHtoDAsync_v2, (DevicePointer, const void *, size_t, Stream))                                     \
  X(cuMemcpyDtoHAsync_v2, (void *, DevicePointer, size_t, Stream))                                           \
  X(cuMemcpyDtoDAsync_v2, (DevicePointer, DevicePointer, size_t, Stream))                                    \
  X(cuMemsetD8Async, (DevicePointer, unsigned char, size_t, Stream))                                         \
  X(cuModuleLoadDataEx, (Module *, const void *, unsigned, JitOption *, void **))                            \
  X(cuModuleUnload, (Module))                                                                                \
  X(cuModuleGetFunction, (Function *, Module, const char *))                                                 \
  X(cuFuncGetAttribute, (int *, FunctionAttribute, Function))                                                \
  X(cuLaunchKernel, (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, \
                     void **, void **))                                                                      \
  X(cuLaunchHostFunc, (Stream, HostFunction, void *))                                                        \
  X(cuStreamCreate, (Stream *, unsigned))                                                                    \
  X(cuStreamDestroy_v2, (Stream))                                                                            \
  X(cuStreamQuery, (Stream))                                                                                 \
  X(cuStreamSynchronize, (Stream))                                                                           \
  X(cuStreamWaitEvent, (Stream, Event, unsigned))                                                            \
  X(cuStreamWaitValue32_v2, (Stream, DevicePointer, uint32_t, unsigned))                                     \
  X(cuStreamWriteValue64_v2, (Stream, DevicePointer, uint64_t, unsigned))                                    \
  X(cuStreamBeginCapture_v2, (Stream, CaptureMode))                                                          \
  X(cuStreamEndCapture, (Stream, Graph *))                                                                   \
  X(cuEventCreate, (Event *, unsigned))                                                                      \
  X(cuEventDestroy_v2, (Event))                                                                              \
  X(cuEventRecord, (Event, Stream))                                                                          \
  X(cuEventQuery, (Event))                                                                                   \
  X(cuEventSynchronize, (Event))                                                                             \
  X(cuEventElapsedTime, (float *, Event, Event))                                                             \
  X(cuGraphInstantiateWithFlags, (GraphExec *, Graph, unsigned long long))                                   \
  X(cuGraphLaunch, (GraphExec, Stream))                                                                      \
  X(cuGraphExecDestroy, (GraphExec))                                                                         \
  X(cuGraphDestroy, (Graph))

/// Addresses of the driver's functions.
struct Functions {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration's parts
#define COLOSSAL_CUDA_MEMBER(symbol, arguments) Result(*symbol) arguments = nullptr;
  COLOSSAL_CUDA_DRIVER(COLOSSAL_CUDA_MEMBER)
#undef COLOSSAL_CUDA_MEMBER
};

// What stands in for a driver exports these besides; a driver does not.
/// Instructions of PTX that this process's GPUs have executed, a lane each.
using EmulatedInstructions = unsigned long long (*)();
constexpr const char *emulatedInstructionsName = "colossalEmulatedInstructions";

} // namespace colossal::cuda

#endif // COLOSSAL_RUNTIME_CUDA_ABI_H
