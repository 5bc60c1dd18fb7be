// Entry points: the driver, GPUs, contexts, memory.
#include "Entry.h"

namespace colossal::cuda {

Result cuInit(unsigned flags) {
  Call call("cuInit", Call::Nothing);
  if (!call)
    return call.refused;
  Machine::get().initialized = true;
  return flags == 0 ? Success : InvalidValue;
}

Result cuDriverGetVersion(int *version) {
  Call call("cuDriverGetVersion", Call::Nothing);
  if (!call || !version)
    return call ? InvalidValue : call.refused;
  *version = 13000;
  return Success;
}

namespace {

struct Words {
  Result code;
  const char *name, *text;
};
constexpr Words words[] = {
    {Success, "CUDA_SUCCESS", "no error"},
    {InvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {InvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {InvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {InvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {NoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for the GPU"},
    {InvalidPtx, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {InvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {IllegalState, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {NotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {IllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {LaunchOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {HostMemoryAlreadyRegistered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {HostMemoryNotRegistered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {MisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {LaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {NotPermitted, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {NotSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {StreamCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {StreamCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {StreamCaptureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not initiated in this stream"},
    {StreamCaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {StreamCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {CapturedEvent, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {StreamCaptureWrongThread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
};

Result find(Result code, const char **text, const char *Words::*field) {
  *text = nullptr;
  for (const Words &row : words)
    if (row.code == code)
      *text = row.*field;
  return *text ? Success : InvalidValue;
}

Result checkOrdinal(const Call &call, Ordinal ordinal) {
  if (!call)
    return call.refused;
  return ordinal >= 0 && ordinal < Machine::get().settings.gpus ? Success : InvalidDevice;
}

} // namespace

Result cuGetErrorName(Result code, const char **text) {
  return find(code, text, &Words::name);
}
Result cuGetErrorString(Result code, const char **text) {
  return find(code, text, &Words::text);
}

Result cuDeviceGetCount(int *count) {
  Call call("cuDeviceGetCount", Call::Initialized);
  if (call)
    *count = Machine::get().settings.gpus;
  return call.refused;
}

Result cuDeviceGet(Ordinal *ordinal, int number) {
  Call call("cuDeviceGet", Call::Initialized);
  const Result result = checkOrdinal(call, number);
  if (result == Success)
    *ordinal = number;
  return result;
}

Result cuDeviceGetName(char *name, int size, Ordinal ordinal) {
  Call call("cuDeviceGetName", Call::Initialized);
  const Result result = checkOrdinal(call, ordinal);
  if (result == Success && size > 0)
    std::snprintf(name, static_cast<std::size_t>(size), "executor of PTX on the host");
  return result;
}

Result cuDeviceGetAttribute(int *value, DeviceAttribute attribute, Ordinal ordinal) {
  Call call("cuDeviceGetAttribute", Call::Initialized);
  if (Result result = checkOrdinal(call, ordinal); result != Success)
    return result;
  switch (attribute) {
  case AttributeMaxThreadsPerBlock: *value = 1024; return Success;
  case AttributeMultiprocessorCount: *value = 4; return Success;
  case AttributeComputeCapabilityMajor: *value = Machine::get().settings.capability / 10; return Success;
  case AttributeComputeCapabilityMinor: *value = Machine::get().settings.capability % 10; return Success;
  case AttributeCanUse64BitStreamMemoryOperations: *value = 1; return Success;
  }
  return NotSupported;
}

Result cuDeviceTotalMem_v2(size_t *bytes, Ordinal ordinal) {
  Call call("cuDeviceTotalMem_v2", Call::Initialized);
  const Result result = checkOrdinal(call, ordinal);
  if (result == Success)
    *bytes = Machine::get().settings.memory;
  return result;
}

Result cuDevicePrimaryCtxRetain(Context *context, Ordinal ordinal) {
  Call call("cuDevicePrimaryCtxRetain", Call::Initialized);
  const Result result = checkOrdinal(call, ordinal);
  if (result == Success) {
    Gpu &gpu = *Machine::get().gpus[static_cast<std::size_t>(ordinal)];
    ++gpu.retained;
    *context = &gpu.context;
  }
  return result;
}

Result cuDevicePrimaryCtxRelease_v2(Ordinal ordinal) {
  Call call("cuDevicePrimaryCtxRelease_v2", Call::Initialized);
  if (Result result = checkOrdinal(call, ordinal); result != Success)
    return result;
  Gpu &gpu = *Machine::get().gpus[static_cast<std::size_t>(ordinal)];
  if (gpu.retained == 0)
    return InvalidContext;
  if (--gpu.retained == 0)
    gpu.error = Success; // the next one begins afresh
  return Success;
}

Result cuCtxSetCurrent(Context context) {
  Call call("cuCtxSetCurrent", Call::Initialized);
  if (call)
    setCurrentContext(context);
  return call.refused;
}

Result cuMemGetInfo_v2(size_t *available, size_t *total) {
  Call call("cuMemGetInfo_v2", Call::Context);
  if (call) {
    *available = call.gpu().memory.available();
    *total = call.gpu().memory.capacity();
  }
  return call.refused;
}

Result cuMemAlloc_v2(DevicePointer *pointer, size_t bytes) {
  Call call("cuMemAlloc_v2", Call::Context | Call::OutsideCapture);
  return call ? call.gpu().memory.allocate(bytes, *pointer) : call.refused;
}

Result cuMemFree_v2(DevicePointer pointer) {
  Call call("cuMemFree_v2", Call::Context | Call::OutsideCapture | Call::EvenAfterErrors);
  if (!call)
    return call.refused;
  Gpu &gpu = call.gpu();
  // As a driver does: what is under way may still use the memory.
  Machine::get().changed.wait(call.lock, [&] {
    return std::all_of(gpu.streams.begin(), gpu.streams.end(), [](Stream stream) { return stream->idle(); });
  });
  auto released = gpu.memory.release(pointer);
  if (!released)
    return InvalidValue;
  gpu.order.forget(pointer, pointer + released->bytes);
  return Success;
}

Result cuMemHostAlloc(void **pointer, size_t bytes, unsigned) {
  Call call("cuMemHostAlloc", Call::Context | Call::OutsideCapture);
  return call ? call.gpu().memory.allocatePinned(bytes, *pointer) : call.refused;
}

Result cuMemFreeHost(void *pointer) {
  Call call("cuMemFreeHost", Call::Context | Call::OutsideCapture | Call::EvenAfterErrors);
  return call ? call.gpu().memory.releasePinned(pointer) : call.refused;
}

Result cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned) {
  Call call("cuMemHostRegister_v2", Call::Context | Call::OutsideCapture);
  return call ? call.gpu().memory.registerHost(pointer, bytes) : call.refused;
}

Result cuMemHostUnregister(void *pointer) {
  Call call("cuMemHostUnregister", Call::Context | Call::OutsideCapture | Call::EvenAfterErrors);
  return call ? call.gpu().memory.unregisterHost(pointer) : call.refused;
}

Result cuMemHostGetDevicePointer_v2(DevicePointer *pointer, void *host, unsigned flags) {
  Call call("cuMemHostGetDevicePointer_v2", Call::Context);
  if (!call)
    return call.refused;
  if (flags != 0 || !call.gpu().memory.isPinned(host, 1))
    return InvalidValue;
  *pointer = reinterpret_cast<std::uintptr_t>(host);
  return Success;
}

unsigned long long colossalEmulatedInstructions() {
  return Machine::get().instructions;
}

} // namespace colossal::cuda
