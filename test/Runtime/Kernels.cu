// The kernels of Kernels.c for GPUs, as the device `cuda` launches them: buffers, scratch if there is any,
// parameters, and how many tiles there are. Blocks take tiles in turn.
//
// Where there is no nvcc, Recorded/Kernels.ptx is taken, which it made of this:
//   nvcc -arch=compute_80 -ptx test/Runtime/Kernels.cu -o test/Runtime/Recorded/Kernels.ptx

#define COLOSSAL_KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)
typedef long long word;

COLOSSAL_KERNEL(16) scale(const float *x, float *out, word a, word b, word n, word tiles) {
  for (word tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const word i = tile * 16 + threadIdx.x;
    if (i < n)
      out[i] = x[i] * (float)a + (float)b;
  }
}

COLOSSAL_KERNEL(1) accumulate(const float *x, float *out, word tiles) {
  for (word tile = blockIdx.x; tile < tiles; tile += gridDim.x)
    out[tile] += x[tile];
}

// Scratch is a block's, at multiples of its size rounded up to 128 bytes; the size is n floats here.
COLOSSAL_KERNEL(1) useScratch(float *out, char *scratch, word n, word tiles) {
  volatile float *own = (volatile float *)(scratch + blockIdx.x * ((n * 4 + 127) / 128 * 128));
  for (word tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    for (word j = 0; j < n; ++j)
      own[j] = (float)tile;
    float sum = 0;
    for (word j = 0; j < n; ++j)
      sum += own[j];
    out[tile] = sum;
  }
}

COLOSSAL_KERNEL(1) nothing(word tiles) {}

// Does not end on the rank whose coordinate is given as `own` = `stuck`.
COLOSSAL_KERNEL(1) hang(word own, word stuck, word tiles) {
  while (own == stuck)
    __nanosleep(1000);
}

// out[i] = x[i + shift]: beyond the buffers where the shift leads there.
COLOSSAL_KERNEL(32) shifted(const float *x, float *out, word shift, word tiles) {
  out[threadIdx.x] = x[threadIdx.x + shift];
}
