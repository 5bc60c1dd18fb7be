// Our declarations of cuBLASLt's functions and values against the vendor's header. All of it is seen when
// this is compiled.
#include "runtime/cuda/cublaslt/Abi.h"

#include <cublasLt.h>

#include <type_traits>

namespace colossal::cublaslt {

/// Whether two functions take arguments of the same sizes, in registers of the same kind.
template <class Ours, class Theirs>
struct SameArguments : std::false_type {};
template <class A, class... Ours, class B, class... Theirs>
struct SameArguments<A (*)(Ours...), B (*)(Theirs...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(Ours) != sizeof...(Theirs))
      return false;
    else
      return sizeof(A) == sizeof(B) && ((sizeof(Ours) == sizeof(Theirs)) && ...) &&
             ((std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>) && ...);
  }();
};
#define COLOSSAL_CUBLASLT_COMPARE(type, symbol, arguments)                                                   \
  static_assert(SameArguments<decltype(Functions::symbol), decltype(&::symbol)>::value, #symbol);
COLOSSAL_CUBLASLT(COLOSSAL_CUBLASLT_COMPARE)

#define COLOSSAL_CUBLASLT_VALUE(ours, theirs)                                                                \
  static_assert(static_cast<int>(ours) == static_cast<int>(theirs), #ours);
COLOSSAL_CUBLASLT_VALUE(Success, CUBLAS_STATUS_SUCCESS)
COLOSSAL_CUBLASLT_VALUE(NotInitialized, CUBLAS_STATUS_NOT_INITIALIZED)
COLOSSAL_CUBLASLT_VALUE(AllocFailed, CUBLAS_STATUS_ALLOC_FAILED)
COLOSSAL_CUBLASLT_VALUE(InvalidValue, CUBLAS_STATUS_INVALID_VALUE)
COLOSSAL_CUBLASLT_VALUE(ArchMismatch, CUBLAS_STATUS_ARCH_MISMATCH)
COLOSSAL_CUBLASLT_VALUE(MappingError, CUBLAS_STATUS_MAPPING_ERROR)
COLOSSAL_CUBLASLT_VALUE(ExecutionFailed, CUBLAS_STATUS_EXECUTION_FAILED)
COLOSSAL_CUBLASLT_VALUE(InternalError, CUBLAS_STATUS_INTERNAL_ERROR)
COLOSSAL_CUBLASLT_VALUE(NotSupported, CUBLAS_STATUS_NOT_SUPPORTED)
COLOSSAL_CUBLASLT_VALUE(LicenseError, CUBLAS_STATUS_LICENSE_ERROR)
COLOSSAL_CUBLASLT_VALUE(R32F, CUDA_R_32F)
COLOSSAL_CUBLASLT_VALUE(R64F, CUDA_R_64F)
COLOSSAL_CUBLASLT_VALUE(R16F, CUDA_R_16F)
COLOSSAL_CUBLASLT_VALUE(R16BF, CUDA_R_16BF)
COLOSSAL_CUBLASLT_VALUE(Compute32F, CUBLAS_COMPUTE_32F)
COLOSSAL_CUBLASLT_VALUE(Compute64F, CUBLAS_COMPUTE_64F)
COLOSSAL_CUBLASLT_VALUE(Compute32FFastTF32, CUBLAS_COMPUTE_32F_FAST_TF32)
COLOSSAL_CUBLASLT_VALUE(OperationN, CUBLAS_OP_N)
COLOSSAL_CUBLASLT_VALUE(OperationT, CUBLAS_OP_T)
COLOSSAL_CUBLASLT_VALUE(DescTransA, CUBLASLT_MATMUL_DESC_TRANSA)
COLOSSAL_CUBLASLT_VALUE(DescTransB, CUBLASLT_MATMUL_DESC_TRANSB)
COLOSSAL_CUBLASLT_VALUE(DescEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE)
COLOSSAL_CUBLASLT_VALUE(DescBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER)
COLOSSAL_CUBLASLT_VALUE(DescBiasDataType, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE)
COLOSSAL_CUBLASLT_VALUE(LayoutBatchCount, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
COLOSSAL_CUBLASLT_VALUE(LayoutStridedBatchOffset, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
COLOSSAL_CUBLASLT_VALUE(PreferenceMaxWorkspaceBytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
COLOSSAL_CUBLASLT_VALUE(PreferenceMinAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)
COLOSSAL_CUBLASLT_VALUE(PreferenceMinAlignmentB, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES)
COLOSSAL_CUBLASLT_VALUE(PreferenceMinAlignmentC, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES)
COLOSSAL_CUBLASLT_VALUE(PreferenceMinAlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
COLOSSAL_CUBLASLT_VALUE(EpilogueDefault, CUBLASLT_EPILOGUE_DEFAULT)
COLOSSAL_CUBLASLT_VALUE(EpilogueRelu, CUBLASLT_EPILOGUE_RELU)
COLOSSAL_CUBLASLT_VALUE(EpilogueBias, CUBLASLT_EPILOGUE_BIAS)
COLOSSAL_CUBLASLT_VALUE(EpilogueReluBias, CUBLASLT_EPILOGUE_RELU_BIAS)
COLOSSAL_CUBLASLT_VALUE(EpilogueGelu, CUBLASLT_EPILOGUE_GELU)
COLOSSAL_CUBLASLT_VALUE(EpilogueGeluBias, CUBLASLT_EPILOGUE_GELU_BIAS)

static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(HeuristicResult) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(HeuristicResult, workspaceBytes) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(HeuristicResult, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(offsetof(HeuristicResult, waves) == offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));

} // namespace colossal::cublaslt
