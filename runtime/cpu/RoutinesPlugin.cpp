// What libcolossal-cpu-routines.so exports: plain names, looked up after dlopen.
#include "runtime/cpu/Convolution.h"

extern "C" {

__attribute__((visibility("default"))) bool
colossalCreateConvolution(const colossal::runtime::ConvolutionDescriptor &descriptor, unsigned threads,
                          std::unique_ptr<colossal::runtime::ConvolutionRoutine> &routine,
                          colossal::plan::Status &status) {
  status = colossal::runtime::createConvolution(descriptor, threads, routine);
  return status.ok();
}

__attribute__((visibility("default"))) void
colossalRunOnLibraryThreads(unsigned threads, int64_t tiles, void (*body)(void *, unsigned, int64_t, int64_t),
                            void *context) {
  colossal::runtime::runOnLibraryThreads(threads, tiles, body, context);
}
}
