// Kernels whose results are known on the host, in the forms that nvcc makes of them. KernelTest.cpp runs them.
// Where nvcc is absent the text in Recorded/ is run instead:
//   nvcc -arch=compute_80 -ptx -O3 Kernels.cu -o Recorded/compute_80.ptx
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#define KERNEL extern "C" __global__ void

KERNEL saxpy(int n, float a, const float *__restrict__ x, float *__restrict__ y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    y[i] = a * x[i] + y[i];
}

__device__ float sumOfBlock(float value, float *shared) {
  for (int offset = 16; offset; offset /= 2)
    value += __shfl_xor_sync(0xffffffff, value, offset);
  __syncthreads();
  if (threadIdx.x % 32 == 0)
    shared[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x % 32 < blockDim.x / 32 ? shared[threadIdx.x % 32] : 0;
  for (int offset = 16; offset; offset /= 2)
    value += __shfl_xor_sync(0xffffffff, value, offset);
  return value;
}

/// Four values at a time; one block a row.
KERNEL softmax(const float4 *__restrict__ x, float *__restrict__ y, int n) {
  __shared__ float shared[32];
  const float4 *row = x + (size_t)blockIdx.x * n / 4;
  float highest = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < n / 4; i += blockDim.x) {
    float4 v = row[i];
    highest = fmaxf(highest, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
  }
  for (int offset = 16; offset; offset /= 2)
    highest = fmaxf(highest, __shfl_xor_sync(0xffffffff, highest, offset));
  if (threadIdx.x % 32 == 0)
    shared[threadIdx.x / 32] = highest;
  __syncthreads();
  for (int i = 0; i < blockDim.x / 32; ++i)
    highest = fmaxf(highest, shared[i]);
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    sum += __expf(((const float *)row)[i] - highest);
  sum = sumOfBlock(sum, shared);
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    y[(size_t)blockIdx.x * n + i] = expf(((const float *)row)[i] - highest) / sum;
}

/// One pass over a row that is kept in dynamic shared memory.
KERNEL normalize(const float *x, const float *scale, const float *bias, float *y, int n, float epsilon) {
  extern __shared__ float kept[];
  __shared__ float shared[32];
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    sum += kept[i] = x[blockIdx.x * n + i];
  float mean = sumOfBlock(sum, shared) / n;
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    squares += (kept[i] - mean) * (kept[i] - mean);
  float factor = rsqrtf(sumOfBlock(squares, shared) / n + epsilon);
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    y[blockIdx.x * n + i] = (kept[i] - mean) * factor * scale[i] + bias[i];
}

/// Tiles of 32 x 32 by 32 x 8 threads; any size.
KERNEL transpose(const float *x, float *y, int rows, int columns) {
  __shared__ float tile[32][33];
  int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8)
    if (row + i < rows && column < columns)
      tile[threadIdx.y + i][threadIdx.x] = x[(row + i) * columns + column];
  __syncthreads();
  column = blockIdx.y * 32 + threadIdx.x, row = blockIdx.x * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8)
    if (row + i < columns && column < rows)
      y[(row + i) * rows + column] = tile[threadIdx.x][threadIdx.y + i];
}

KERNEL histogram(const unsigned char *x, int n, unsigned *bins) {
  __shared__ unsigned local[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x)
    local[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&local[x[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x)
    atomicAdd(&bins[i], local[i]);
}

/// The last block to come adds up what the others left.
__device__ unsigned arrived;
KERNEL sumInOneLaunch(const float *x, int n, volatile float *partial, float *result) {
  __shared__ float shared[32];
  __shared__ bool last;
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    sum += x[i];
  sum = sumOfBlock(sum, shared);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
    __threadfence();
    last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last)
    return;
  __threadfence();
  sum = 0;
  for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x)
    sum += partial[i];
  sum = sumOfBlock(sum, shared);
  if (threadIdx.x == 0)
    *result = sum;
}

/// Branches of many ways, loops of different length in each lane, calls that call themselves, and local arrays.
__device__ __noinline__ unsigned ackermannLike(unsigned m, unsigned n) {
  if (m == 0)
    return n + 1;
  if (n == 0)
    return ackermannLike(m - 1, 1);
  return ackermannLike(m - 1, ackermannLike(m, n - 1));
}
KERNEL control(unsigned *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  unsigned v = x[i], steps = 0, digits[16];
  while (v > 1 && steps < 500) {
    v = v & 1 ? 3 * v + 1 : v / 2;
    ++steps;
  }
  for (int j = 0; j < 16; ++j)
    digits[j] = x[i] >> (2 * j) & 3;
  unsigned code = 0;
  for (int j = 0; j < 16; ++j)
    code = code * 5 + digits[(j * 7 + steps) & 15];
  switch (x[i] % 9) {
  case 0: code += steps; break;
  case 1: code ^= steps * 3; break;
  case 2: code = __popc(code); break;
  case 3: code = __clz(code) + 100; break;
  case 4: code = __brev(code); break;
  case 5: code = __funnelshift_l(code, steps, 5); break;
  case 6: code = code / (steps + 1); break;
  case 7: code = ackermannLike(2, x[i] % 5); break;
  default: code = __byte_perm(code, steps, 0x5140);
  }
  x[i] = code;
}

/// Functions of the library: their forms use most of the instructions for bits and numbers.
KERNEL functions(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  float v = x[i];
  y[i] = expf(v);
  y[n + i] = erff(v);
  y[2 * n + i] = tanhf(v);
  y[3 * n + i] = sinf(v);
  y[4 * n + i] = logf(fabsf(v) + 1e-3f);
  y[5 * n + i] = fmodf(v, 0.7f);
  y[6 * n + i] = powf(fabsf(v), 1.3f);
  y[7 * n + i] = (float)exp((double)v);
  y[8 * n + i] = rintf(v) + floorf(v) + ceilf(v) + truncf(v) + roundf(v);
  y[9 * n + i] = sqrtf(fabsf(v)) + 1 / v + v / 3.1f;
}

/// Conversions of all narrow types, there and back.
KERNEL narrow(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  y[i] = __half2float(__float2half(x[i]));
  y[n + i] = __bfloat162float(__float2bfloat16(x[i]));
  y[2 * n + i] = float(__nv_fp8_e4m3(x[i]));
  y[3 * n + i] = float(__nv_fp8_e5m2(x[i]));
  __half2 h = __floats2half2_rn(x[i], -x[i]);
  h = __hfma2(h, h, h);
  y[4 * n + i] = __low2float(h) + __high2float(h);
  __nv_bfloat162 b = __floats2bfloat162_rn(x[i], -x[i]);
  b = __hadd2(__hmul2(b, b), b);
  y[5 * n + i] = __low2float(b) + __high2float(b);
  y[6 * n + i] = __half2float(__float2half_rz(x[i]));
  y[7 * n + i] = __fadd_rd(x[i], 0.1f) + __fmul_ru(x[i], 0.1f);
}

/// What lanes do together.
KERNEL lanes(const int *x, int *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int v = x[i], lane = threadIdx.x % 32;
  y[i] = __ballot_sync(0xffffffff, v & 1);
  y[n + i] = __any_sync(0xffffffff, v > 90) + 2 * __all_sync(0xffffffff, v > 5);
  y[2 * n + i] = __match_any_sync(0xffffffff, v % 4);
  y[3 * n + i] = __reduce_add_sync(0xffffffff, v) + __reduce_max_sync(0xffffffff, v);
  int sum = v;
  for (int offset = 1; offset < 32; offset *= 2) {
    int below = __shfl_up_sync(0xffffffff, sum, offset);
    if (lane >= offset)
      sum += below;
  }
  y[4 * n + i] = sum;
  y[5 * n + i] = __shfl_down_sync(0xffffffff, v, 3, 8) + __shfl_sync(0xffffffff, v, v & 31);
  if (v & 1)
    y[6 * n + i] = __popc(__activemask());
  else
    y[6 * n + i] = -__popc(__activemask());
}

/// A lock that the lanes of a warp fight for: one has to get on while others spin.
KERNEL locked(int *lock, int *counter) {
  while (atomicCAS(lock, 0, 1) != 0) {
  }
  __threadfence();
  atomicExch(counter, *(volatile int *)counter + 1);
  __threadfence();
  atomicExch(lock, 0);
}

KERNEL addBFloat(__nv_bfloat162 *b) {
  atomicAdd(b, __floats2bfloat162_rn(1, 2));
}
KERNEL addNarrow(__half2 *h, float *f, double *d) {
  atomicAdd(h, __floats2half2_rn(1, 0.5f));
  atomicAdd(f, 0.25f);
  atomicAdd(d, 0.125);
}

__constant__ float table[8] = {1, 2, 4, 8, 16, 32, 64, 128};
KERNEL lookUp(float *y) {
  y[threadIdx.x] = table[threadIdx.x % 8];
}

/// Warps of two kinds, and a barrier of their own for each direction.
KERNEL handOver(const int *x, int *y, int rounds) {
  __shared__ int box[32];
  int lane = threadIdx.x % 32;
  for (int round = 0; round < rounds; ++round) {
    if (threadIdx.x < 32) {
      box[lane] = x[round * 32 + lane];
      asm volatile("bar.arrive 1, 64;" ::: "memory");
      asm volatile("bar.sync 2, 64;" ::: "memory");
    } else {
      asm volatile("bar.sync 1, 64;" ::: "memory");
      y[round * 32 + lane] = box[31 - lane];
      asm volatile("bar.arrive 2, 64;" ::: "memory");
    }
  }
}

// Contraction of A [m, k] and B [k, n], both row after row, by tensor cores; 32 x 32 a block of 4 warps, 16 of k at a time in
// two buffers that cp.async fills.
__device__ unsigned addressOf(const void *p) {
  return (unsigned)__cvta_generic_to_shared(p);
}
__device__ void copyTile(__nv_bfloat16 *to, const __nv_bfloat16 *from, int rows, int columns, int stride) {
  for (int i = threadIdx.x; i < rows * columns / 8; i += blockDim.x) {
    int row = i / (columns / 8), column = i % (columns / 8) * 8;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(addressOf(to + row * (columns + 8) + column)),
                 "l"(from + row * stride + column));
  }
}
KERNEL contract(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, int m, int n, int k) {
  __shared__ __align__(16) __nv_bfloat16 tileA[2][32 * 24], tileB[2][16 * 40];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = warp / 2 * 16, column = warp % 2 * 16;
  float sum[2][4] = {};
  a += blockIdx.y * 32 * k;
  b += blockIdx.x * 32;
  copyTile(tileA[0], a, 32, 16, k);
  copyTile(tileB[0], b, 16, 32, n);
  asm volatile("cp.async.commit_group;");
  for (int step = 0; step < k / 16; ++step) {
    if (step + 1 < k / 16) {
      copyTile(tileA[(step + 1) % 2], a + (step + 1) * 16, 32, 16, k);
      copyTile(tileB[(step + 1) % 2], b + (step + 1) * 16 * n, 16, 32, n);
    }
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    unsigned fa[4], fb[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3])
                 : "r"(addressOf(&tileA[step % 2][(row + lane % 16) * 24 + lane / 16 * 8])) : "memory");
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fb[0]), "=r"(fb[1]), "=r"(fb[2]), "=r"(fb[3])
                 : "r"(addressOf(&tileB[step % 2][lane % 16 * 40 + column + lane / 16 * 8])) : "memory");
    for (int half = 0; half < 2; ++half)
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                   "{%0, %1, %2, %3};"
                   : "+f"(sum[half][0]), "+f"(sum[half][1]), "+f"(sum[half][2]), "+f"(sum[half][3])
                   : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[2 * half]), "r"(fb[2 * half + 1]));
    __syncthreads();
  }
  c += (blockIdx.y * 32 + row) * n + blockIdx.x * 32 + column;
  for (int half = 0; half < 2; ++half)
    for (int v = 0; v < 4; ++v)
      c[(lane / 4 + 8 * (v / 2)) * n + half * 8 + lane % 4 * 2 + v % 2] = sum[half][v];
}
