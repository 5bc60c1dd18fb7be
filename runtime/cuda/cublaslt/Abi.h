// The part of cuBLASLt's ABI that the runtime calls, declared here so that it builds where the library is not
// installed. test/Emulation/cublaslt/AbiTest.cpp compares it with the vendor's header where that is found.
//
// Names are the vendor's without their prefix. Handles are distinct pointers.
#ifndef COLOSSAL_RUNTIME_CUDA_CUBLASLT_ABI_H
#define COLOSSAL_RUNTIME_CUDA_CUBLASLT_ABI_H

#include "runtime/cuda/Abi.h"

namespace colossal::cublaslt {

using cuda::Stream;
using Handle = struct CublasLtHandle *;
using MatmulDesc = struct MatmulDescHandle *;
using MatrixLayout = struct MatrixLayoutHandle *;
using Preference = struct PreferenceHandle *;

enum Result : unsigned {
  Success = 0,
  NotInitialized = 1,
  AllocFailed = 3,
  InvalidValue = 7,
  ArchMismatch = 8,
  MappingError = 11,
  ExecutionFailed = 13,
  InternalError = 14,
  NotSupported = 15,
  LicenseError = 16
};

enum DataType : unsigned { R32F = 0, R64F = 1, R16F = 2, R16BF = 14 };
enum ComputeType : unsigned { Compute32F = 68, Compute64F = 70, Compute32FFastTF32 = 77 };
enum Operation : int { OperationN = 0, OperationT = 1 };

enum MatmulDescAttribute : unsigned {
  DescTransA = 3,
  DescTransB = 4,
  DescEpilogue = 7,
  DescBiasPointer = 8,
  DescBiasDataType = 26
};
enum MatrixLayoutAttribute : unsigned { LayoutBatchCount = 5, LayoutStridedBatchOffset = 6 };
enum PreferenceAttribute : unsigned {
  PreferenceMaxWorkspaceBytes = 1,
  PreferenceMinAlignmentA = 5,
  PreferenceMinAlignmentB = 6,
  PreferenceMinAlignmentC = 7,
  PreferenceMinAlignmentD = 8
};
enum Epilogue : unsigned {
  EpilogueDefault = 1,
  EpilogueRelu = 2,
  EpilogueBias = 4,
  EpilogueReluBias = 6,
  EpilogueGelu = 32, // by tanh
  EpilogueGeluBias = 36
};

/// May be written down, and be used again with the same version of the library.
struct Algorithm {
  uint64_t data[8];
};

struct HeuristicResult {
  Algorithm algorithm;
  size_t workspaceBytes;
  Result state;
  float waves;
  int reserved[4];
};

/// What a workspace begins at multiples of.
constexpr uint64_t workspaceAlignment = 256;

// What is called, by the names under which the library exports it: X(return type, symbol, arguments).
#define COLOSSAL_CUBLASLT(X)                                                                                 \
  X(size_t, cublasLtGetVersion, ())                                                                          \
  X(const char *, cublasLtGetStatusName, (Result))                                                           \
  X(const char *, cublasLtGetStatusString, (Result))                                                         \
  X(Result, cublasLtCreate, (Handle *))                                                                      \
  X(Result, cublasLtDestroy, (Handle))                                                                       \
  X(Result, cublasLtMatmulDescCreate, (MatmulDesc *, ComputeType, DataType))                                 \
  X(Result, cublasLtMatmulDescDestroy, (MatmulDesc))                                                         \
  X(Result, cublasLtMatmulDescSetAttribute, (MatmulDesc, MatmulDescAttribute, const void *, size_t))         \
  X(Result, cublasLtMatrixLayoutCreate, (MatrixLayout *, DataType, uint64_t, uint64_t, int64_t))             \
  X(Result, cublasLtMatrixLayoutDestroy, (MatrixLayout))                                                     \
  X(Result, cublasLtMatrixLayoutSetAttribute, (MatrixLayout, MatrixLayoutAttribute, const void *, size_t))   \
  X(Result, cublasLtMatmulPreferenceCreate, (Preference *))                                                  \
  X(Result, cublasLtMatmulPreferenceDestroy, (Preference))                                                   \
  X(Result, cublasLtMatmulPreferenceSetAttribute, (Preference, PreferenceAttribute, const void *, size_t))   \
  X(Result, cublasLtMatmulAlgoGetHeuristic,                                                                  \
    (Handle, MatmulDesc, MatrixLayout, MatrixLayout, MatrixLayout, MatrixLayout, Preference, int,            \
     HeuristicResult *, int *))                                                                              \
  X(Result, cublasLtMatmulAlgoCheck,                                                                         \
    (Handle, MatmulDesc, MatrixLayout, MatrixLayout, MatrixLayout, MatrixLayout, const Algorithm *,          \
     HeuristicResult *))                                                                                     \
  X(Result, cublasLtMatmul,                                                                                  \
    (Handle, MatmulDesc, const void *, const void *, MatrixLayout, const void *, MatrixLayout, const void *, \
     const void *, MatrixLayout, void *, MatrixLayout, const Algorithm *, void *, size_t, Stream))

/// Addresses of the library's functions.
struct Functions {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration's parts
#define COLOSSAL_CUBLASLT_MEMBER(type, symbol, arguments) type(*symbol) arguments = nullptr;
  COLOSSAL_CUBLASLT(COLOSSAL_CUBLASLT_MEMBER)
#undef COLOSSAL_CUBLASLT_MEMBER
};

} // namespace colossal::cublaslt

#endif // COLOSSAL_RUNTIME_CUDA_CUBLASLT_ABI_H
