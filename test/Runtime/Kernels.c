// Kernels of the test plans, with the signature of generated ones: tiles [begin, end) of a launch.
#include <stdint.h>

// out[i] = x[i] * params[0] + params[1]; a tile is 16 elements of params[2].
void scale(void *const *buffers, const int64_t *params, int64_t begin, int64_t end) {
  const float *x = buffers[0];
  float *out = buffers[1];
  int64_t stop = end * 16 < params[2] ? end * 16 : params[2];
  for (int64_t i = begin * 16; i < stop; ++i)
    out[i] = x[i] * (float)params[0] + (float)params[1];
}

// out[t] += x[t] for each tile t of one element.
void accumulate(void *const *buffers, const int64_t *params, int64_t begin, int64_t end) {
  const float *x = buffers[0];
  float *out = buffers[1];
  for (int64_t i = begin; i < end; ++i)
    out[i] += x[i];
}

// out[t] = t + the first bytes of scratch after writing them: fails if threads share scratch.
void useScratch(void *const *buffers, const int64_t *params, int64_t begin, int64_t end) {
  float *out = buffers[0];
  volatile float *scratch = buffers[1];
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t j = 0; j < params[0]; ++j)
      scratch[j] = (float)i;
    float sum = 0;
    for (int64_t j = 0; j < params[0]; ++j)
      sum += scratch[j];
    out[i] = sum;
  }
}

// Does not end on the rank whose coordinate is given as params[0] = params[1].
void hang(void *const *buffers, const int64_t *params, int64_t begin, int64_t end) {
  volatile int forever = params[0] == params[1];
  while (forever) {
  }
}

// Crashes on the rank whose coordinate is given as params[0] = params[1].
void crash(void *const *buffers, const int64_t *params, int64_t begin, int64_t end) {
  if (params[0] == params[1])
    *(volatile int *)params[1] = 1; // small numbers are no addresses
}

void nothing(void *const *buffers, const int64_t *params, int64_t begin, int64_t end) {}
