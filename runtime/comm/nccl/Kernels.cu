// What NCCL leaves to do on the GPU: reductions in the order of a group's members, with the bits of
// Reduce.cpp, also of types that NCCL does not know, and filling with a value.
//
// Kernels.ptx beside this is what nvcc makes of it, and what is built in. Its version is set to one that the
// drivers of CUDA 12 know:
//   nvcc -arch=compute_80 -ptx runtime/comm/nccl/Kernels.cu -o - | sed 's/^.version .*/.version 8.0/' > runtime/comm/nccl/Kernels.ptx
//
// Words as the device `cuda` launches kernels: buffers, parameters, and how many tiles there are.

typedef long long word;
typedef unsigned short half_bits;

enum Reduction { None, Sum, Max, Min, Prod, And, Or };

template <class T>
struct Plain {
  typedef T stored;
  typedef T wide;
  static __device__ T widen(T value) { return value; }
  static __device__ T narrow(T value) { return value; }
};
struct Half {
  typedef half_bits stored;
  typedef float wide;
  static __device__ float widen(half_bits bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
  static __device__ half_bits narrow(float value) {
    half_bits bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
  }
};
struct Bfloat {
  typedef half_bits stored;
  typedef float wide;
  static __device__ float widen(half_bits bits) { return __uint_as_float((unsigned)bits << 16); }
  static __device__ half_bits narrow(float value) {
    half_bits bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
  }
};

template <class T>
__device__ T combine(word op, T a, T b) {
  switch (op) {
  case Max: return a != a ? a : (b > a || b != b ? b : a);
  case Min: return a != a ? a : (b < a || b != b ? b : a);
  case And: return (T)(a != 0 && b != 0);
  case Or: return (T)(a != 0 || b != 0);
  case Prod: return (T)(a * b);
  default: return (T)(a + b);
  }
}

// out[e] = parts[e] op parts[count + e] op ..., over members. `out` may be `parts`.
template <class Format>
__device__ void reduce(const typename Format::stored *parts, typename Format::stored *out, word members,
                       word count, word op, word tiles) {
  for (word tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const word e = tile * blockDim.x + threadIdx.x;
    if (e >= count)
      continue;
    typename Format::wide total = Format::widen(parts[e]);
#pragma unroll 1
    for (word member = 1; member < members; ++member)
      total = combine(op, total, Format::widen(parts[member * count + e]));
    out[e] = Format::narrow(total);
  }
}

#define COLOSSAL_REDUCE(name, Format)                                                                        \
  extern "C" __global__ void __launch_bounds__(128) reduce_##name(                                           \
      const Format::stored *parts, Format::stored *out, word members, word count, word op, word tiles) {     \
    reduce<Format>(parts, out, members, count, op, tiles);                                                   \
  }
COLOSSAL_REDUCE(f32, Plain<float>)
COLOSSAL_REDUCE(f64, Plain<double>)
COLOSSAL_REDUCE(f16, Half)
COLOSSAL_REDUCE(bf16, Bfloat)
COLOSSAL_REDUCE(i8, Plain<signed char>)
COLOSSAL_REDUCE(i16, Plain<short>)
COLOSSAL_REDUCE(i32, Plain<int>)
COLOSSAL_REDUCE(i64, Plain<word>)
COLOSSAL_REDUCE(u8, Plain<unsigned char>)
COLOSSAL_REDUCE(u16, Plain<unsigned short>)
COLOSSAL_REDUCE(u32, Plain<unsigned>)
COLOSSAL_REDUCE(u64, Plain<unsigned long long>)

// `length` elements of each of `rows` rows, `stride` elements apart.
template <class T>
__device__ void fill(T *out, word pattern, word rows, word stride, word length, word tiles) {
  for (word tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const word e = tile * blockDim.x + threadIdx.x;
    if (e < rows * length)
      out[e / length * stride + e % length] = (T)pattern;
  }
}

#define COLOSSAL_FILL(bytes, T)                                                                              \
  extern "C" __global__ void __launch_bounds__(128)                                                          \
      fill_##bytes(T *out, word pattern, word rows, word stride, word length, word tiles) {                  \
    fill(out, pattern, rows, stride, length, tiles);                                                         \
  }
COLOSSAL_FILL(1, unsigned char)
COLOSSAL_FILL(2, unsigned short)
COLOSSAL_FILL(4, unsigned)
COLOSSAL_FILL(8, unsigned long long)
