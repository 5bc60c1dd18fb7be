// A driver without a GPU: each function that cuDNN looks up says CUDA_ERROR_NO_DEVICE, but for those by which
// it loads kernels that it has compiled, before its plan is done. Nothing runs over it.
#define COLOSSAL_EXPORT extern "C" __attribute__((visibility("default"))) int
#define COLOSSAL_NO_DEVICE(symbol)                                                                           \
  COLOSSAL_EXPORT symbol() {                                                                                 \
    return 100;                                                                                              \
  }
COLOSSAL_NO_DEVICE(cuCtxGetCurrent)
COLOSSAL_NO_DEVICE(cuCtxGetLimit)
COLOSSAL_NO_DEVICE(cuCtxPopCurrent)
COLOSSAL_NO_DEVICE(cuCtxPushCurrent)
COLOSSAL_NO_DEVICE(cuDeviceGet)
COLOSSAL_NO_DEVICE(cuDeviceGetCount)
COLOSSAL_NO_DEVICE(cuDriverGetVersion)
COLOSSAL_NO_DEVICE(cuGetErrorName)
COLOSSAL_NO_DEVICE(cuGetErrorString)
COLOSSAL_NO_DEVICE(cuLaunchCooperativeKernel)
COLOSSAL_NO_DEVICE(cuLaunchKernel)
COLOSSAL_NO_DEVICE(cuLaunchKernelEx)
COLOSSAL_NO_DEVICE(cuLibraryLoadFromFile)
COLOSSAL_NO_DEVICE(cuLibraryUnload)
COLOSSAL_NO_DEVICE(cuLinkAddData)
COLOSSAL_NO_DEVICE(cuLinkComplete)
COLOSSAL_NO_DEVICE(cuLinkCreate)
COLOSSAL_NO_DEVICE(cuLinkDestroy)
COLOSSAL_NO_DEVICE(cuModuleGetFunction)
COLOSSAL_NO_DEVICE(cuModuleLoadData)
COLOSSAL_NO_DEVICE(cuModuleUnload)
COLOSSAL_NO_DEVICE(cuOccupancyMaxPotentialClusterSize)
COLOSSAL_NO_DEVICE(cuStreamGetCtx)
COLOSSAL_NO_DEVICE(cuTensorMapEncodeIm2col)
COLOSSAL_NO_DEVICE(cuTensorMapEncodeTiled)

namespace {
char anything;
} // namespace

COLOSSAL_EXPORT cuLibraryLoadData(void **library) {
  *library = &anything;
  return 0;
}
COLOSSAL_EXPORT cuLibraryGetKernel(void **kernel) {
  *kernel = &anything;
  return 0;
}
COLOSSAL_EXPORT cuKernelGetFunction(void **function) {
  *function = &anything;
  return 0;
}
COLOSSAL_EXPORT cuKernelGetAttribute(int *value) {
  *value = 0;
  return 0;
}
COLOSSAL_EXPORT cuKernelSetAttribute() {
  return 0;
}
